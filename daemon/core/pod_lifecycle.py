"""The life of a pod in the cache: phases, what moves a pod between them, and nothing else.

    +------------------------------------------------+  +------+
    |                               Add              |  |      | Update
    |                                                v  v      |
    +      Assume              Add                  +------------+
 Initial +--------> Assumed +-------------------->  |   Added    |
    ^               |   ^  |                        +------------+
    |    Forget     |   |  | FinishBinding            ^     |
    +---------------+   +--+                      Add |     | Remove
                    |                                 |     v
                    |  Expire                    Expired   Deleted
                    +-------------------------------^       ^
                    |              Remove                   |
                    +---------------------------------------+

Assumptions (pkg/scheduler/backend/cache/interface.go, v1.36.2): no pod is assumed twice; a pod may be
added without having been assumed; an update or a removal of a pod that was never added is an error of
the source; an assumed pod expires only after FinishBinding, and only where a time to live is set.
"""

import enum
from collections import deque
from typing import Final

import msgspec

from daemon.core.pod_classes import PodClass
from shared.kube.pod_record import PodRecord


class PodPhase(enum.Enum):
    """Where a pod is in the cache."""

    # Members are singletons. Enum's own is a function in Python, asked several times for each pod.
    __hash__ = object.__hash__

    INITIAL = "initial"
    """Not in the cache."""
    ASSUMED = "assumed"
    """Counted on its node before the API server has said so."""
    ADDED = "added"
    """On its node by the API server's word."""
    EXPIRED = "expired"
    """Was assumed, and the word never came. Not counted any more."""
    DELETED = "deleted"


class Cause(enum.Enum):
    """What happened to the pod."""

    __hash__ = object.__hash__

    ASSUME = "assume"
    FINISH_BINDING = "finish binding"
    FORGET = "forget"
    EXPIRE = "expire"
    ADD = "add"
    UPDATE = "update"
    REMOVE = "remove"


TRANSITIONS: Final[dict[tuple[PodPhase, Cause], PodPhase]] = {
    (PodPhase.INITIAL, Cause.ASSUME): PodPhase.ASSUMED,
    (PodPhase.INITIAL, Cause.ADD): PodPhase.ADDED,
    (PodPhase.ASSUMED, Cause.FINISH_BINDING): PodPhase.ASSUMED,
    (PodPhase.ASSUMED, Cause.FORGET): PodPhase.INITIAL,
    (PodPhase.ASSUMED, Cause.EXPIRE): PodPhase.EXPIRED,
    (PodPhase.ASSUMED, Cause.ADD): PodPhase.ADDED,
    (PodPhase.ASSUMED, Cause.REMOVE): PodPhase.DELETED,
    (PodPhase.EXPIRED, Cause.ADD): PodPhase.ADDED,
    (PodPhase.ADDED, Cause.UPDATE): PodPhase.ADDED,
    (PodPhase.ADDED, Cause.REMOVE): PodPhase.DELETED,
}


NEVER: Final = float("inf")


class CachedPod(msgspec.Struct, eq=False, gc=False):
    """A pod that counts on a node. Nothing that it holds leads back to it, so no collector has to
    look through all of them."""

    record: PodRecord
    pod_class: PodClass
    node_name: str
    phase: PodPhase = PodPhase.INITIAL
    row: int = -1
    """Of the pod table."""
    attached_at: int = 0
    """Generation at which it took that row."""
    is_binding_finished: bool = False
    is_evicted: bool = False
    """Ordered to go by preemption; the API server may not have heard yet."""
    deadline_s: float = NEVER


class InvalidTransitionError(AssertionError):
    """A step that the table does not have: a bug of ours. Carries the pod's latest steps."""


STORY_STEPS_MAX: Final = 32


class Story:
    """Takes pods from phase to phase, and keeps the last steps of all of them together, bounded, for the
    message of an invalid one."""

    def __init__(self) -> None:
        self._steps: deque[tuple[PodRecord, Cause, PodPhase]] = deque(maxlen=4096)

    def step(self, pod: CachedPod, cause: Cause) -> None:
        """InvalidTransitionError where the table has no such step."""
        found = TRANSITIONS.get((pod.phase, cause))
        if found is None:
            key = pod.record.key
            told = f"pod {key}: {cause.value} while {pod.phase.value}; {self.steps_of(key)}"
            raise InvalidTransitionError(told)
        pod.phase = found
        self._steps.append((pod.record, cause, found))

    def steps_of(self, key: str) -> str:
        """The steps of one pod, oldest first, at most STORY_STEPS_MAX."""
        steps = [
            f"{cause.value} -> {phase.value}" for pod, cause, phase in self._steps if pod.key == key
        ]
        return "; ".join(steps[-STORY_STEPS_MAX:]) or "no steps remembered"
