"""Which event may help which parked pod: the registrations of the plugins, and their hints.

A plugin registers the events that could turn its "no" into a "yes"; for each it may have a hint, a
pure function that looks at the changed object and says whether this change can help this pod. A pod
is woken when one of the plugins that rejected it says so; nobody else is asked.

Apart from the queue so that the queue knows nothing of plugins, and apart from the hints so that each
of them is a function of its own. A hint that cannot read an object counts as "it may help": a pod
tried in vain costs an attempt, a pod forgotten costs its owner.

Rules: pkg/scheduler/backend/queue/scheduling_queue.go isPodWorthRequeuing and
pkg/scheduler/scheduler.go buildQueueingHintMap, v1.36.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from daemon.core.queue.cluster_event import (
    Action,
    ClusterEvent,
    Registration,
    Resource,
    actions_of,
)
from daemon.core.queue.queued_pod import PodView, QueuedPod
from shared.faults import OURS
from shared.kube.objects import Node
from shared.messages.to_owner import OtherObject

ChangedObject = PodView | Node | OtherObject
"""The object of an event, before or after the change."""


T = TypeVar("T", bound=ChangedObject)


class Change(NamedTuple):
    """An event with its object before and after; an addition has no `old`, a deletion no `new`."""

    event: ClusterEvent
    old: ChangedObject | None
    new: ChangedObject | None


def as_kind(kind: type[T], changed: ChangedObject | None) -> T | None:
    """The object of an event as the kind that the event is about."""
    assert changed is None or isinstance(changed, kind), f"{type(changed)} is not a {kind}"
    return changed


class Hint(enum.Enum):
    """What a plugin says about an event and a pod that it rejected."""

    SKIP = "Skip"
    QUEUE = "Queue"


class Strategy(enum.IntEnum):
    """What the queue does with a pod after an event; the higher number wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


HintFunction = Callable[[QueuedPod, Change], Hint]
"""Whether the change may help the pod. What it raises about one of the two counts as Queue, as in
isPodWorthRequeuing; it changes nothing."""


class Registered(NamedTuple):
    """One line of a plugin's registrations."""

    resource: Resource
    actions: tuple[Action, ...]
    hint: HintFunction | None = None
    """None: the event always may help."""
    reads_identity: bool = False
    """The hint reads the pod's own name or uid, so pods of a class have to be asked one by one."""


Registrations = Mapping[str, tuple[Registered, ...]]
"""Plugin -> what it registers. A plugin that is missing here is woken by the leftover flush only;
give one that says nothing `ANY_EVENT`."""


OnHint = Callable[[tuple[str, str, str], float, int], None]
"""(plugin, event, what it said), how long that took, and for how many calls it stands."""
HINTS_A_SAMPLE: Final = 16
_HINT_LABELS: Final = {Hint.SKIP: "QueueSkip", Hint.QUEUE: "Queue", None: "Error"}
"""In kube-scheduler's words (queueingHintToLabel in
pkg/scheduler/backend/queue/scheduling_queue.go, v1.36.2)."""


class _Interest(NamedTuple):
    plugin: str
    hint: HintFunction | None
    reads_identity: bool


class Wakeups:
    """The registrations of all enabled plugins, by event."""

    def __init__(self, registrations: Registrations) -> None:
        self._by_event: dict[ClusterEvent, tuple[_Interest, ...]] = {}
        self._plugins: dict[ClusterEvent, tuple[str, ...]] = {}
        self._identity_readers: set[str] = set()
        self._readers_by_event: dict[ClusterEvent, set[str]] = {}
        self._asked_count = 0
        self._on_hint: OnHint | None = None
        self._stopwatch: Callable[[], float] = lambda: 0.0
        self.hint_error_count = 0
        """Hints that could not read an object, and so counted as Queue."""
        for plugin, lines in registrations.items():
            self._register(plugin, lines)

    def plugins_interested_in(self, event: ClusterEvent) -> tuple[str, ...]:
        """The plugins that registered the event, in the order of the registrations."""
        return self._plugins.get(event, ())

    def reads_identity(self, plugins: frozenset[str], event: ClusterEvent | None = None) -> bool:
        """Whether a hint of these plugins (for this event) tells pods of one class apart."""
        if event is None:
            return not plugins.isdisjoint(self._identity_readers)
        readers = self._readers_by_event.get(event)
        return readers is not None and not plugins.isdisjoint(readers)

    def strategy(self, pod: QueuedPod, change: Change) -> Strategy:
        """What to do with a rejected pod now that this happened.

        A plugin that said Pending only waited for the event: the pod has done nothing wrong and skips
        the back-off.
        """
        if pod.is_error or change.event.is_wildcard:
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        for interest in self._by_event.get(change.event, ()):
            is_pending = interest.plugin in pod.pending_plugins
            if not is_pending and (
                best is not Strategy.SKIP or interest.plugin not in pod.unschedulable_plugins
            ):
                continue
            if self._ask(interest, pod, change) is Hint.SKIP:
                continue
            if is_pending:
                return Strategy.IMMEDIATELY
            best = Strategy.AFTER_BACKOFF
            if not pod.pending_plugins:
                return best
        return best

    def hint_of(self, plugin: str, pod: QueuedPod, change: Change) -> Hint | None:
        """What one plugin says of an event; None if it did not register it. For explanations."""
        said = [
            self._ask(interest, pod, change)
            for interest in self._by_event.get(change.event, ())
            if interest.plugin == plugin
        ]
        if not said:
            return None
        return Hint.QUEUE if Hint.QUEUE in said else Hint.SKIP

    def time_hints(self, stopwatch: Callable[[], float], on_hint: OnHint) -> None:
        """From now on `on_hint` is told how long hints take."""
        self._stopwatch, self._on_hint = stopwatch, on_hint

    def _ask(self, interest: _Interest, pod: QueuedPod, change: Change) -> Hint:
        self._asked_count += 1
        if self._asked_count % HINTS_A_SAMPLE or self._on_hint is None:
            return self._said(interest.hint, pod, change) or Hint.QUEUE
        begun_s = self._stopwatch()
        said = self._said(interest.hint, pod, change)
        label = _HINT_LABELS[said]
        self._on_hint(
            (interest.plugin, change.event.label, label),
            self._stopwatch() - begun_s,
            HINTS_A_SAMPLE,
        )
        return said or Hint.QUEUE

    def _said(self, hint: HintFunction | None, pod: QueuedPod, change: Change) -> Hint | None:
        """None: it could not read an object."""
        if hint is None:
            return Hint.QUEUE
        try:
            return hint(pod, change)
        except Exception as error:  # Of a pod or an object; nothing was changed.
            if isinstance(error, OURS):
                raise
            self.hint_error_count += 1
            return None

    def _register(self, plugin: str, lines: tuple[Registered, ...]) -> None:
        for line in with_implied_taint(lines):
            interest = _Interest(plugin, line.hint, line.reads_identity)
            if line.reads_identity:
                self._identity_readers.add(plugin)
            for action in line.actions:
                for event in Registration(line.resource, action).covers():
                    self._by_event[event] = (*self._by_event.get(event, ()), interest)
                    if line.reads_identity:
                        self._readers_by_event.setdefault(event, set()).add(plugin)
                    known = self._plugins.get(event, ())
                    if plugin not in known:
                        self._plugins[event] = (*known, plugin)


def with_implied_taint(lines: tuple[Registered, ...]) -> tuple[Registered, ...]:
    """The lines, with UpdateNodeTaint where a plugin registers Node Add without it.

    A new node often comes tainted; the plugin may then never be asked about it until the taint goes,
    and that must wake the pod as the node's arrival would have (pkg/scheduler/scheduler.go, v1.36).
    """
    actions = {
        action for line in lines if line.resource is Resource.NODE for action in line.actions
    }
    if Action.ADD not in actions or actions & _TAINT_UPDATES:
        return lines
    return (*lines, Registered(Resource.NODE, (Action.UPDATE_NODE_TAINT,)))


ANY_EVENT: Final = tuple(
    Registered(resource, tuple(sorted(actions_of(resource))))
    for resource in Resource
    if resource
    not in (Resource.POD, Resource.WILDCARD, Resource.VOLUME_ATTACHMENT, Resource.RESOURCE_SLICE)
)
"""For a plugin that does not say which events help it: every one does, but those of two resources
(UnrollWildCardResource in pkg/scheduler/framework/types.go, v1.36)."""

GATED_BY_EVICTIONS: Final = (
    Registered(Resource.POD, (Action.DELETE,), lambda _pod, _change: Hint.SKIP),
)
"""For DefaultPreemption, so that pods that it gates are looked at: whoever else rejected the pod says
whether the change helps it (EventsToRegister in default_preemption.go, v1.36.2)."""

_TAINT_UPDATES: Final = frozenset({Action.UPDATE, Action.UPDATE_NODE_TAINT})
