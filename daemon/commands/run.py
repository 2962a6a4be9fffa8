"""`berth run`: checks everything that can be checked first, then hands over to the supervisor."""

import ssl
from pathlib import Path
from typing import Final

import msgspec

from daemon.commands.check_config import check, effective_document, notes_of
from daemon.supervisor import run as supervisor
from daemon.supervisor.plan import Plan
from shared.config import (
    LeaderElection,
    RuntimeOptions,
    SchedulerConfiguration,
    parse_configuration,
)
from shared.errors import ConfigurationError
from shared.framework.profiles import DEFAULT_SCHEDULER_NAME
from shared.kube.kubeconfig import find_access
from shared.telemetry.log import EventLog, start_logging
from shared.transport.remote import WorkersEntrance

log: Final = EventLog("supervisor")


def run_berth(options: RuntimeOptions) -> int:
    """Runs until told to stop; ConfigurationError before anything was started."""
    if not __debug__:
        problem = "assertions are switched off (-O or PYTHONOPTIMIZE); berth relies on them"
        raise ConfigurationError("Python", [problem])
    problems = options.problems()
    if problems:
        raise ConfigurationError("command line", problems)
    plan, configuration = make_plan(options)
    effective = plan.options
    access = find_access(server=effective.server, kubeconfig=effective.kubeconfig)
    check_endpoints(effective)
    start_logging("supervisor", effective.log_level)
    for note in notes_of(configuration, options.feature_gates):
        log.warning("setting_without_effect", setting=note)
    if effective.workers < options.workers:
        log.warning("workers_limited", asked=options.workers, parallelism=effective.workers)
    log.info(
        "starting",
        server=access.url,
        runtime_dir=effective.runtime_dir,
        workers=effective.workers,
        binders=effective.binders,
    )
    if not plan.election.leader_elect:
        log.info("no_leader_election", remedy="run one berth only, or set leaderElect: true")
    elif shares_foreign_lease(plan.election, configuration):
        log.warning(
            "lease_of_kube_scheduler",
            lease=f"{plan.election.resource_namespace}/{plan.election.resource_name}",
            remedy="set leaderElection.resourceName, or berth waits while a kube-scheduler runs",
        )
    return supervisor.run(plan, lambda: make_plan(options)[0])


def shares_foreign_lease(election: LeaderElection, configuration: SchedulerConfiguration) -> bool:
    """berth waits for kube-scheduler's lease though it schedules under other names."""
    names = [profile.scheduler_name for profile in configuration.profiles]
    is_default = election.resource_name == LeaderElection().resource_name
    return is_default and DEFAULT_SCHEDULER_NAME not in names


def make_plan(options: RuntimeOptions) -> tuple[Plan, SchedulerConfiguration]:
    """Everything that the configuration comes to, read anew; ConfigurationError with all problems."""
    configuration, built = check(options.config, options.feature_gates)
    refuse_foreign_name(options, configuration)
    effective = with_configuration(options, configuration)
    # Children that cannot use it would end berth as a whole.
    find_access(server=effective.server, kubeconfig=effective.kubeconfig)
    if options.workers_address:
        WorkersEntrance.read(
            options.workers_address, options.workers_key_file, options.workers_allowed_file
        )
    election = configuration.leader_election
    if options.leader_elect:
        is_wanted = options.leader_elect == "true"
        election = msgspec.structs.replace(election, leader_elect=is_wanted)
    # Read again: what is checked and what is copied may differ by a write in between; the copy is
    # what the children read, so the copy is checked.
    text = ""
    if options.config:
        text = Path(options.config).read_text(encoding="utf-8")
        if parse_configuration(text, options.config) != configuration:
            raise ConfigurationError(options.config, ["changed while it was read; try again"])
    document = effective_document(configuration, built)
    document["leaderElection"]["leaderElect"] = election.leader_elect
    configz = msgspec.json.encode({"componentconfig": document})
    return Plan(effective, election, text, configz), configuration


def refuse_foreign_name(options: RuntimeOptions, configuration: SchedulerConfiguration) -> None:
    """`default-scheduler` is kube-scheduler's: two schedulers of one name fight for every pod."""
    names = [profile.scheduler_name for profile in configuration.profiles]
    if options.as_default_scheduler or DEFAULT_SCHEDULER_NAME not in names:
        return
    problem = (
        f"a profile has the schedulerName {DEFAULT_SCHEDULER_NAME}, which is kube-scheduler's (and what"
        " a profile is called that states no name); give it a name of its own in --config, or say"
        " --as-default-scheduler where no kube-scheduler runs or both share a lease"
    )
    raise ConfigurationError(options.config or "the default configuration", [problem])


def check_endpoints(options: RuntimeOptions) -> None:
    """The files that the endpoints need can be used."""
    if not options.secure_port:
        return
    if options.tls_cert_file:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                options.tls_cert_file, options.tls_private_key_file
            )
        except OSError as error:  # ssl.SSLError is one.
            problem = f"--tls-cert-file, --tls-private-key-file: {error}"
            raise ConfigurationError("command line", [problem]) from error
    if options.endpoints_token_file:
        try:
            token = Path(options.endpoints_token_file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            problem = f"--endpoints-token-file: {error}"
            raise ConfigurationError("command line", [problem]) from error
        if not token:
            raise ConfigurationError(options.endpoints_token_file, ["holds no token"])


def with_configuration(
    options: RuntimeOptions, configuration: SchedulerConfiguration
) -> RuntimeOptions:
    """The options, completed by what the configuration file says of the same things."""
    kubeconfig = options.kubeconfig
    if not options.server and not kubeconfig:
        kubeconfig = configuration.client_connection.kubeconfig
    return msgspec.structs.replace(
        options,
        kubeconfig=kubeconfig,
        workers=min(options.workers, configuration.parallelism),
    )
