"""`berth run`: checks everything that can be checked first, then hands over to the supervisor."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import msgspec

from daemon.commands.check_config import Checked, check_text, effective_document, notes_of, shown
from daemon.commands.option_problems import blamed, option_problems
from daemon.commands.run_flags import WINS_OVER_FILE
from daemon.endpoints.tls import is_spoken, server_context
from daemon.supervisor import supervise as supervisor
from daemon.supervisor.plan import Plan, binding_plan
from shared.child_plan import ChildPlan
from shared.config import SchedulerConfiguration, overridden
from shared.durations import parse_duration
from shared.errors import ConfigurationError, FileError
from shared.extenders.extender_client import extender_access
from shared.framework.queueing_hints import custom_resources
from shared.framework.runtime.profiles import DEFAULT_SCHEDULER_NAME
from shared.go_yaml import YAML_FAULTS
from shared.kube.find_access import find_access
from shared.runtime_options import EndpointOptions, LeaderElection, RuntimeOptions
from shared.telemetry.log import FORMAT_VARIABLE, EventLog, start_logging
from shared.transport.remote import WorkersEntrance
from shared.trust import trusting_context
from shared.yaml_fields import key_of, read_text

log: Final = EventLog("supervisor")


def run_berth(options: RuntimeOptions) -> int:
    """Runs until told to stop; ConfigurationError before anything was started."""
    if not __debug__:
        problem = "assertions are switched off (-O or PYTHONOPTIMIZE); berth relies on them"
        raise ConfigurationError("Python", [problem])
    problems = option_problems(options)
    if problems:
        raise ConfigurationError("command line", problems)
    if options.logging_format:
        os.environ[FORMAT_VARIABLE] = options.logging_format  # The children's, too.
    start_logging("supervisor", options.log_level)
    plan = make_plan(options)
    effective = plan.children.options
    check_endpoints(effective.endpoints)
    check_recording(effective.record)
    for note in options.notes:
        log.warning("setting_noted", note=note)
    if effective.workers < options.workers:
        log.warning("workers_limited", asked=options.workers, parallelism=effective.workers)
    log.info(
        "starting",
        runtime_dir=effective.runtime_dir,
        workers=effective.workers,
        binders=effective.binders,
    )
    if not plan.children.is_candidate:
        log.info("no_leader_election", remedy="run one berth only, or set leaderElect: true")
    return supervisor.run(plan, lambda: make_plan(options))


def make_plan(options: RuntimeOptions) -> Plan:
    """Everything that the configuration comes to, read anew; ConfigurationError with all problems.
    What whoever wrote it should know is logged."""
    text, checked = read_configuration(options)
    configuration, built, _ = checked
    refuse_foreign_name(options, configuration)
    effective = msgspec.structs.replace(
        with_configuration(options, configuration),
        custom_kinds=custom_resources(profile.registrations for profile in built),
    )
    # Children would wait for what they cannot use.
    with _files_of_others():
        find_access(server=effective.server, kubeconfig=effective.kubeconfig)
        for extender in configuration.extenders:
            if extender.url_prefix:
                extender_access(extender)
        if options.workers_address:
            WorkersEntrance.read(
                options.workers_address, options.workers_key_file, options.workers_allowed_file
            )
    for note in notes_of(checked):
        log.warning("setting_noted", note=note)
    configz = msgspec.json.encode({"componentconfig": effective_document(checked)})
    election = configuration.leader_election if configuration.leader_election.leader_elect else None
    binding = binding_plan(configuration, built)
    return Plan(ChildPlan(options=effective, binding=binding, election=election), text, configz)


def read_configuration(options: RuntimeOptions) -> tuple[str, Checked]:
    """The file with what the command line says of the same things, and what that comes to: it need be
    right with that alone (`ApplyTo` in cmd/kube-scheduler/app/options/options.go, v1.36.2)."""
    # What is checked here is what the children read, whatever becomes of the file.
    text = read_text(options.config)
    if not options.overrides:
        return text, check_text(text, options.config, options.feature_gates)
    try:
        changed = overridden(text, options.overrides)
        checked = check_text(changed, "command line", options.feature_gates)
    except (ConfigurationError, *YAML_FAULTS):
        # What is wrong with the file is told by its own lines.
        check_text(text, options.config, options.feature_gates)
        raise
    _refuse_nothing(options.overrides, checked.configuration.leader_election)
    return changed, checked


def _refuse_nothing(overrides: Mapping[str, object], election: LeaderElection) -> None:
    """In a file zero and empty texts are the default, as a flag they are themselves."""
    problems = []
    for info in msgspec.structs.fields(LeaderElection):
        path = f"{WINS_OVER_FILE}{key_of(info.name)}"
        given = overrides.get(path)
        if info.type is str and given == "":
            problems.append(f"{path}: must not be empty")
        elif info.type is float and isinstance(given, str) and not parse_duration(given):
            problems.append(f"{path}: must be longer than zero")
    if problems and election.leader_elect:
        raise ConfigurationError("command line", problems)


def write_configuration(options: RuntimeOptions, path: Path) -> None:
    """What the configuration comes to, as a file."""
    text = shown(read_configuration(options)[1])
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(str(path), [f"cannot be written: {error.strerror}"]) from error


def refuse_foreign_name(options: RuntimeOptions, configuration: SchedulerConfiguration) -> None:
    """`default-scheduler` is kube-scheduler's: two schedulers of one name fight for every pod, unless
    they take turns by its lease."""
    names = [profile.scheduler_name for profile in configuration.profiles]
    if options.as_default_scheduler or options.observe or DEFAULT_SCHEDULER_NAME not in names:
        return
    if configuration.leader_election.is_kube_schedulers:
        return  # It is shared with a kube-scheduler that runs as kubeadm and others set it up.
    problem = (
        f"a profile has the schedulerName {DEFAULT_SCHEDULER_NAME}, which is kube-scheduler's (and what"
        " a profile is called that states no name), without kube-scheduler's lease; turn leader"
        " election on with its resourceName, give the profile a name of its own in --config, or say"
        " --as-default-scheduler where no kube-scheduler runs"
    )
    raise ConfigurationError(options.config or "the default configuration", [problem])


def check_endpoints(options: EndpointOptions) -> None:
    """The files that the endpoints need can be used; ciphers that cannot are logged."""
    if not options.secure_port:
        return
    for suite in options.tls_cipher_suites:
        if not is_spoken(suite):
            note = f"--tls-cipher-suites {suite}: no effect; OpenSSL does not speak it here"
            log.warning("setting_noted", note=note)
    if options.tls_cert_file:
        with blamed("--tls-cert-file, --tls-private-key-file"):
            server_context(options, (options.tls_cert_file, options.tls_private_key_file))
    if options.endpoints_token_file:
        with blamed("--endpoints-token-file"):
            token = Path(options.endpoints_token_file).read_text(encoding="ascii").strip()
        if not token:
            raise ConfigurationError(options.endpoints_token_file, ["holds no token"])
    for path in (options.authentication_kubeconfig, options.authorization_kubeconfig):
        if path:
            with _files_of_others():
                find_access(kubeconfig=path)
    if options.client_ca_file:
        with blamed(f"--client-ca-file {options.client_ca_file}"):
            trusting_context(ca_file=options.client_ca_file)


def check_recording(folder: str) -> None:
    """A file can be made there; the folder is, where it is missing."""
    if folder:
        with blamed("--record"):
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            NamedTemporaryFile(dir=folder).close()


@contextmanager
def _files_of_others() -> Iterator[None]:
    """Around what others write, and may be writing just now: whoever starts berth tries again then."""
    try:
        yield
    except ConfigurationError as error:
        raise FileError(error.source, error.problems) from error


def with_configuration(
    options: RuntimeOptions, configuration: SchedulerConfiguration
) -> RuntimeOptions:
    """The options, completed by what the configuration file says of the same things."""
    kubeconfig = options.kubeconfig
    if not options.server and not kubeconfig:
        kubeconfig = configuration.client_connection.kubeconfig
    return msgspec.structs.replace(
        options, kubeconfig=kubeconfig, workers=min(options.workers, configuration.parallelism)
    )
