"""`berth run`: checks everything that can be checked first, then hands over to the supervisor."""

from typing import Final

import msgspec

from daemon.commands.check_config import check, missing_plugins
from daemon.supervisor import run as supervisor
from shared.config import RuntimeOptions, SchedulerConfiguration
from shared.errors import ConfigurationError
from shared.kube.kubeconfig import find_access
from shared.telemetry.log import EventLog, start_logging

log: Final = EventLog("supervisor")


def run_berth(options: RuntimeOptions) -> int:
    """Runs until told to stop; ConfigurationError before anything was started."""
    if not __debug__:
        problem = "assertions are switched off (-O or PYTHONOPTIMIZE); berth relies on them"
        raise ConfigurationError("Python", [problem])
    problems = options.problems()
    if problems:
        raise ConfigurationError("command line", problems)
    configuration, profiles = check(options.config)
    effective = with_configuration(options, configuration)
    access = find_access(server=effective.server, kubeconfig=effective.kubeconfig)
    start_logging("supervisor", effective.log_level)
    for note in configuration.notes:
        log.warning("setting_without_effect", setting=note)
    for profile, names in missing_plugins(profiles).items():
        log.warning("plugins_not_built_yet", profile=profile, plugins=names)
    if effective.workers < options.workers:
        log.warning("workers_limited", asked=options.workers, parallelism=effective.workers)
    log.info(
        "starting",
        server=access.url,
        runtime_dir=effective.runtime_dir,
        workers=effective.workers,
        binders=effective.binders,
    )
    return supervisor.run(effective)


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
