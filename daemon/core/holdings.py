"""Everything that the owner holds, for the parts that change it.

The owner is one state, and a placement touches most of it: the cache, the queue, a binder's orders,
a nomination, a counter. Each part (`scorer_links.py`, `foresight.py`, `committer.py`, `permit_stage.py`,
`outcomes.py`, `binder_links.py`, `administration.py`) is one thing that happens to that state, and is
given all of it.
"""

from typing import NamedTuple

from daemon.core.attempt_times import AttemptTimes
from daemon.core.bindings import BinderPool
from daemon.core.cache import Cache
from daemon.core.cluster_changes import ClusterChanges
from daemon.core.counters import Counters
from daemon.core.dispatch import ScorerFleet
from daemon.core.effects import Effect
from daemon.core.nominations import NominationBook
from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.queue.scheduling_queue import SchedulingQueue
from daemon.core.settings import Settings
from daemon.core.snapshot_log import SnapshotLog
from daemon.core.suspects import Suspects
from daemon.core.verdicts import Verdicts
from daemon.core.waiting_pods import WaitingPods
from shared.engine.checker import Checker
from shared.framework.runtime import Framework


class Holdings(NamedTuple):
    """One owner's."""

    epoch: int
    settings: Settings
    frameworks: dict[str, Framework]
    plugins: OwnerPlugins
    counters: Counters
    times: AttemptTimes
    cache: Cache
    queue: SchedulingQueue
    changes: ClusterChanges
    snapshots: SnapshotLog
    checker: Checker
    nominations: NominationBook
    waiting: WaitingPods
    scorers: ScorerFleet
    binders: BinderPool
    verdicts: Verdicts
    """Of pods that were not placed, until a binder is told."""
    suspects: Suspects
    effects: list[Effect]
    """What is to be done, in order; whoever changes something adds to it."""
