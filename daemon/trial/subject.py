"""Whose cluster a question is about: that of a berth that runs here."""

from pathlib import Path
from typing import NamedTuple

from daemon.adapter.api_source import watched_kinds
from daemon.adapter.listing import list_cluster
from daemon.commands.check_config import check
from daemon.supervisor.process_list import read_list
from daemon.trial.trial import Trial
from shared.child_plan import PLAN_NAME, read_plan
from shared.config import SchedulerConfiguration
from shared.kube.find_access import find_access
from shared.messages.to_owner import AdapterMessage
from shared.runtime_options import RuntimeOptions


class Subject(NamedTuple):
    """A cluster, and how it is scheduled."""

    config: SchedulerConfiguration
    options: RuntimeOptions
    messages: list[AdapterMessage]

    def trial(self, *, decides: bool, config: SchedulerConfiguration | None = None) -> Trial:
        """The cluster in a trial of its own; with another configuration, if one is given."""
        trial = Trial(config or self.config, self.options, decides=decides)
        trial.tell(self.messages, 0.0)
        return trial


def running_subject(runtime_dir: str) -> Subject:
    """What the berth that runs there sees; NotRunningError if none does. The objects are listed from the
    API server: the berth has its own work to do."""
    read_list(Path(runtime_dir))
    options = read_plan(Path(runtime_dir) / PLAN_NAME).options
    access = find_access(server=options.server, kubeconfig=options.kubeconfig)
    config = check(options.config, options.feature_gates).configuration
    return Subject(config, options, list_cluster(access, watched_kinds(options)))
