"""Everything that the owner holds, for the parts that change it.

A placement touches most of it: the cache, the queue, a nomination, a binder's orders, a counter. So each
part (`adapter_links.py`, `scorer_links.py`, `foresight.py`, `committer.py`, `permit_stage.py`,
`attempt_ends.py`, `binder_links.py`, `administration.py`) is one thing that happens, and is given both:
what is so, and what others are to do about it.
"""

from typing import NamedTuple

from daemon.core.attempt_times import AttemptTimes
from daemon.core.bindings import BinderPool
from daemon.core.cache import Cache
from daemon.core.cluster_changes import ClusterChanges
from daemon.core.counters import Counters
from daemon.core.dispatch import ScorerFleet
from daemon.core.effects import Effect, Note
from daemon.core.nominations import NominationBook
from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.pod_groups import PodGroups
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.scheduling_queue import SchedulingQueue
from daemon.core.settings import Settings
from daemon.core.snapshot_log import SnapshotLog
from daemon.core.status_patches import StatusPatches
from daemon.core.suspects import Suspects
from daemon.core.syncs import Syncs
from daemon.core.waiting_pods import WaitingPods
from shared.engine.checker import Checker
from shared.framework.runtime.framework import Framework


class ClusterFacts(NamedTuple):
    """The cluster as it is known, and by what it is judged."""

    settings: Settings
    frameworks: dict[str, Framework]
    plugins: OwnerPlugins
    cache: Cache
    queue: SchedulingQueue
    syncs: Syncs
    changes: ClusterChanges
    checker: Checker
    nominations: NominationBook
    waiting: WaitingPods
    groups: PodGroups


class OutgoingWork(NamedTuple):
    """What other processes have in hand, and what they and people are to be told."""

    epoch: int
    snapshots: SnapshotLog
    scorers: ScorerFleet
    suspects: Suspects
    binders: BinderPool
    patches: StatusPatches
    """Of pending pods' statuses, until a binder is told."""
    counters: Counters
    times: AttemptTimes
    logs_steps: bool
    """Each step of each attempt is a line of the log (`--log-level debug`)."""
    effects: list[Effect]
    """What is to be done, in order; whoever changes something adds to it."""

    def note(self, event: str, **fields: object) -> None:
        """A line of the log."""
        self.effects.append(Note(event, fields))

    def log_step(self, event: str, pod: QueuedPod, **fields: object) -> None:
        """A step of an attempt, for people who ask for them. It has the pod and its ticket, as have the
        lines of scorer and binder: one `grep` for the pod tells its story over all processes, one for
        a ticket that of the attempt."""
        if self.logs_steps:
            said: dict[str, object] = {"pod": pod.key, "ticket": pod.ticket, **fields}
            self.effects.append(Note(event, said, is_detail=True))

    def warn(self, event: str, **fields: object) -> None:
        """The same of what should not be so."""
        self.effects.append(Note(event, fields, is_warning=True))
