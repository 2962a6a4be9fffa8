"""Whose cluster a question is about: that of a berth that runs here."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from daemon.adapter.listing import list_cluster
from daemon.commands.check_config import check
from daemon.supervisor.plan import FLAGZ_NAME, read_access
from daemon.supervisor.process_list import read_list
from shared.config import SchedulerConfiguration
from shared.errors import OperationalError
from shared.faults import UNDECODABLE
from shared.framework.feature_gates import FeatureGates, parse_feature_gates
from shared.kube.kubeconfig import find_access
from shared.messages.to_owner import AdapterMessage
from trial.trial import Trial


class Subject(NamedTuple):
    """A cluster, and how it is scheduled."""

    config: SchedulerConfiguration
    gates: FeatureGates
    messages: list[AdapterMessage]

    def trial(self, *, decides: bool, config: SchedulerConfiguration | None = None) -> Trial:
        """The cluster in a trial of its own; with another configuration, if one is given."""
        trial = Trial(config or self.config, self.gates, decides=decides)
        # Of its own, too: what is taken in becomes part of the cache.
        trial.tell(self.messages, 0.0)
        return trial


def running_subject(runtime_dir: str) -> Subject:
    """What the berth that runs there sees; NotRunningError if none does. The objects are listed from the
    API server: the berth has its own work to do."""
    read_list(Path(runtime_dir))
    try:
        files = read_access(Path(runtime_dir))
        flags = msgspec.json.decode((Path(runtime_dir) / FLAGZ_NAME).read_bytes())
    except (OSError, *UNDECODABLE) as error:
        raise OperationalError(
            f"{runtime_dir}: how berth was started is not known: {error}"
        ) from error
    access = find_access(server=files.server, kubeconfig=files.kubeconfig)
    gates = str(flags.get("feature-gates", ""))
    return Subject(
        check(files.config, gates).configuration, parse_feature_gates(gates), list_cluster(access)
    )
