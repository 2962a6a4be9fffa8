"""Which event may help which parked pod: the registrations of each profile's plugins, by event.

A pod is woken when one of the plugins that rejected it says so; nobody else is asked. Apart from the
queue so that the queue knows nothing of plugins. A hint that cannot read an object counts as "it may
help".

Rules: pkg/scheduler/backend/queue/scheduling_queue.go isPodWorthRequeuing and
pkg/scheduler/scheduler.go buildQueueingHintMap, v1.36.
"""

import enum
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.unschedulable import UnschedulablePods
from shared.faults import OURS
from shared.framework.cluster_event import Action, ClusterEvent, Resource, covered
from shared.framework.cluster_view import ClusterView
from shared.framework.queueing_hints import (
    Change,
    ClassesFn,
    ClusterEventWithHint,
    QueueingHintFn,
    Registrations,
)


class Strategy(enum.IntEnum):
    """What the queue does with a pod after an event; the higher number wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


OnHint = Callable[[tuple[str, str, str], float, int], None]
"""(plugin, event, what it said), how long that took, and for how many calls it stands."""
HINTS_A_SAMPLE: Final = 16
_HINT_LABELS: Final = {False: "QueueSkip", True: "Queue", None: "Error"}
"""In kube-scheduler's words (queueingHintToLabel in
pkg/scheduler/backend/queue/scheduling_queue.go, v1.36.2)."""


class _Interest(NamedTuple):
    """A line of a plugin in a profile, for one of the events that it is about."""

    profile: str
    plugin: str
    hint: QueueingHintFn | None
    """What the plugin is asked."""
    reads_identity: bool
    classes: ClassesFn | None


class Wakeups:
    """The registrations of all enabled plugins, by profile and event."""

    def __init__(
        self,
        registrations: Mapping[str, Registrations],
        cluster: ClusterView,
        stopwatch: Callable[[], float] = lambda: 0.0,
        on_hint: OnHint = lambda *_: None,
    ) -> None:
        """`registrations` by profile (schedulerName); hints look at `cluster` as it is when they are
        asked. `on_hint` is told how long they take."""
        self._cluster = cluster
        self._stopwatch, self._on_hint = stopwatch, on_hint
        self._asked_count = 0
        self.hint_error_count = 0
        """Hints that could not read an object, and so counted as Queue."""
        self._by_event: dict[ClusterEvent, list[_Interest]] = defaultdict(list)
        for profile, by_plugin in registrations.items():
            for plugin, lines in by_plugin.items():
                for line in with_implied_taint(lines):
                    about = _Interest(profile, plugin, line.hint, line.reads_identity, line.classes)
                    for event in chain(*(covered(line.resource, each) for each in line.actions)):
                        self._by_event[event].append(about)
        self.interested = {
            event: tuple(dict.fromkeys(each.plugin for each in several))
            for event, several in self._by_event.items()
        }
        """The plugins of any profile that registered the event, in the order of the registrations."""

    def events_of(self, plugins: frozenset[str]) -> list[str]:
        """Labels of the events that any of the plugins registered, sorted."""
        interested = self.interested.items()
        return sorted(event.label for event, some in interested if not plugins.isdisjoint(some))

    def reads_identity(self, plugins: frozenset[str], event: ClusterEvent) -> bool:
        """Whether a hint of these plugins for this event tells pods of one class apart."""
        several = self._by_event.get(event, ())
        return any(each.reads_identity and each.plugin in plugins for each in several)

    def woken(self, change: Change, parked: UnschedulablePods) -> list[tuple[QueuedPod, Strategy]]:
        """The parked pods that the change may help, with what to do with them."""
        woken: list[tuple[QueuedPod, Strategy]] = []
        interested = self.interested.get(change.event, ())
        groups = parked.groups_rejected_by(interested, partial(self._concerned, change))
        for group in groups.values():
            first = next(iter(group.values()))
            if len(group) > 1 and self.reads_identity(first.rejected_by, change.event):
                each = ((pod, self.strategy(pod, change)) for pod in group.values())
                woken.extend(one for one in each if one[1] is not Strategy.SKIP)
                continue
            # The hints say the same of each pod of the group.
            strategy = self.strategy(first, change)
            if strategy is not Strategy.SKIP:
                woken.extend((pod, strategy) for pod in group.values())
        return woken

    def concerns_any(self, change: Change) -> bool:
        """Whether there can be pods that it may help; who is asked says no of all classes, mostly."""
        interested = self.interested.get(change.event, ())
        classes = (self._concerned(change, plugin) for plugin in interested)
        return any(ids is None or len(ids) > 0 for ids in classes)

    def _concerned(self, change: Change, plugin: str) -> Collection[int] | None:
        """The only classes whose pods the plugin may let go; None: they may be of any, as soon as one of
        its registrations is about all."""
        several = self._by_event.get(change.event, ())
        first, *others = {each.classes for each in several if each.plugin == plugin}
        return None if first is None or others else first(change, self._cluster)

    def strategy(self, pod: QueuedPod, change: Change) -> Strategy:
        """What to do with a rejected pod now that this happened. A plugin that said Pending only waited
        for the event: the pod has done nothing wrong and skips the back-off."""
        if pod.is_error or change.event.is_wildcard:
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        profile = pod.info.spec.scheduler_name
        for interest in self._by_event.get(change.event, ()):
            plugin = interest.plugin
            if interest.profile != profile:
                continue
            is_pending = plugin in pod.pending_plugins
            may_help = best is Strategy.SKIP and plugin in pod.unschedulable_plugins
            if not (is_pending or may_help) or not self._ask(interest, pod, change):
                continue
            if is_pending:
                return Strategy.IMMEDIATELY
            best = Strategy.AFTER_BACKOFF
            if not pod.pending_plugins:
                return best
        return best

    def _ask(self, interest: _Interest, pod: QueuedPod, change: Change) -> bool:
        plugin, hint = interest.plugin, interest.hint
        self._asked_count += 1
        is_sample = not self._asked_count % HINTS_A_SAMPLE
        begun_s = self._stopwatch() if is_sample else 0.0
        said: bool | None = True
        if hint is not None:
            try:
                said = hint(pod.view, change, self._cluster)
            except Exception as error:  # Of a pod or an object; nothing was changed.
                if isinstance(error, OURS):
                    raise
                self.hint_error_count += 1
                said = None
        if is_sample:
            told = (plugin, change.event.label, _HINT_LABELS[said])
            self._on_hint(told, self._stopwatch() - begun_s, HINTS_A_SAMPLE)
        return said is None or said


def with_implied_taint(lines: tuple[ClusterEventWithHint, ...]) -> tuple[ClusterEventWithHint, ...]:
    """The lines, with UpdateNodeTaint where a plugin registers Node Add without it. A new node often
    comes tainted; the plugin may then never be asked about it until the taint goes, and that must wake
    the pod as the node's arrival would have (pkg/scheduler/scheduler.go, v1.36)."""
    of_nodes = (line.actions for line in lines if line.resource is Resource.NODE)
    actions = set(chain.from_iterable(of_nodes))
    if Action.ADD not in actions or actions & _TAINT_UPDATES:
        return lines
    return (*lines, ClusterEventWithHint(Resource.NODE, (Action.UPDATE_NODE_TAINT,)))


GATED_BY_EVICTIONS: Final = (
    ClusterEventWithHint(Resource.POD, (Action.DELETE,), lambda *_: False),
)
"""For DefaultPreemption, so that pods that it gates are looked at: whoever else rejected the pod says
whether the change helps it (EventsToRegister in default_preemption.go, v1.36.2)."""

_TAINT_UPDATES: Final = frozenset({Action.UPDATE, Action.UPDATE_NODE_TAINT})
