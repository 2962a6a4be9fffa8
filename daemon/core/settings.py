"""What the owner must know from the configuration."""

import msgspec

from daemon.core.pod_groups import NO_GROUPS, GroupSettings
from daemon.core.queue.scheduling_queue import QueueSettings
from shared.extenders.extender_config import ExtenderConfig
from shared.feature_gates import FeatureGates


class Settings(msgspec.Struct, frozen=True):
    """They do not change during the owner's life."""

    gates: FeatureGates
    binder_count: int = 1
    is_candidate: bool = False
    """There is leader election: nothing is scheduled before `LeaseTaken`."""
    assumed_pod_ttl_s: float = 0.0
    queue: QueueSettings = QueueSettings()
    extenders: tuple[ExtenderConfig, ...] = ()
    annotates_decisions: bool = False
    """Bound pods say how their placement came about."""
    announces_nodes: bool = False
    """Pods whose binding takes time say where they are going (the feature gate
    NominatedNodeNameForExpectation)."""
    preempts_async: bool = True
    """The feature gate SchedulerAsyncPreemption. What is left of it here, where preemption never keeps
    anybody waiting: with it nothing at all is done where all victims are going already."""
    groups: GroupSettings = NO_GROUPS
    logs_attempts: bool = False
    """Each step of each attempt is a line of the log."""
    custom_kinds: tuple[str, ...] = ()
    """As in the runtime options."""
    configuration: str = ""
    """What scorers of other hosts must have too (`shared/config.py`)."""
