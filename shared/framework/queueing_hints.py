"""Queueing hints: which changes of the cluster may turn a plugin's "no" into a "yes".

A plugin registers events, each perhaps with a hint: a pure function of the pod that it rejected and of
the changed object. A hint errs on the side of yes, and what it raises counts as that: a pod tried in
vain costs an attempt, a pod forgotten costs its owner.

Rules: EnqueueExtensions and QueueingHintFn in staging/src/k8s.io/kube-scheduler/framework/interface.go,
v1.36.2.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

from shared.errors import ConfigurationError
from shared.framework.cluster_event import Action, ClusterEvent, EventResource, Resource, actions_of
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.kube.pod_record import PodRecord
from shared.kube.resources import is_custom_name


class PodView(NamedTuple):
    """A pod as an event shows it: what is its own, and its class's decoded template."""

    record: PodRecord
    info: PodInfo

    @property
    def holds_node(self) -> bool:
        """Whether the pod counts on a node: bound, or nominated and counted as if it were."""
        return bool(self.record.node_name or self.record.nominated_node_name)


ChangedObject = PodView | msgspec.Struct
"""The object of an event, before or after the change: pods as `PodView`, others as they are decoded."""
T = TypeVar("T", bound=ChangedObject)


class Change(NamedTuple):
    """An event with its object before and after; an addition has no `old`, a deletion no `new`."""

    event: ClusterEvent
    old: ChangedObject | None
    new: ChangedObject | None

    def both(self, kind: type[T]) -> tuple[T | None, T | None]:
        """The object before and after, of the kind that the event is about."""
        return as_kind(kind, self.old), as_kind(kind, self.new)

    def is_of(self, pod: PodView) -> bool:
        """Whether the event is an update of this very pod."""
        now = as_kind(PodView, self.new)
        return now is not None and now.record.uid == pod.record.uid


def as_kind(kind: type[T], changed: ChangedObject | None) -> T | None:
    """The object of an event as the kind that the event is about."""
    assert changed is None or isinstance(changed, kind), f"{type(changed)} is not a {kind}"
    return changed


QueueingHintFn = Callable[[PodView, Change, ClusterView], bool]
"""Whether the change may help the pod: Queue upstream, or QueueSkip. It changes nothing."""

ClassesFn = Callable[[Change, ClusterView], Collection[int] | None]
"""Ids of the only classes of which pods may be helped by the change; None: all."""


class ClusterEventWithHint(NamedTuple):
    """One line of a plugin's registrations."""

    resource: EventResource
    actions: tuple[Action, ...]
    hint: QueueingHintFn | None = None
    """None: the event always may help."""
    reads_identity: bool = False
    """The hint reads the pod's own name or uid, so pods of a class have to be asked one by one."""
    classes: ClassesFn | None = None
    """Asked once for all pods: of others the hint says no."""


@runtime_checkable
class EnqueueExtensions(Protocol):
    """A plugin that says which events help; without it, every event wakes the pods that it rejected."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """With none, nothing but `activate` and the flush after five minutes helps."""


Registrations = Mapping[str, tuple[ClusterEventWithHint, ...]]
"""Plugin -> what it registers. A plugin that is missing here is woken by the leftover flush only."""

ANY_EVENT: Final = tuple(
    ClusterEventWithHint(resource, tuple(sorted(actions_of(resource))))
    for resource in Resource
    if resource
    not in (Resource.POD, Resource.WILDCARD, Resource.VOLUME_ATTACHMENT, Resource.RESOURCE_SLICE)
)
"""For a plugin that does not say which events help it: every one does, but those of two resources
(UnrollWildCardResource in pkg/scheduler/framework/types.go, v1.36)."""


def registrations_of(plugins: Iterable[Any]) -> Registrations:
    """What plugins register, in their order. ConfigurationError for what can never happen."""
    found: dict[str, tuple[ClusterEventWithHint, ...]] = {}
    for plugin in plugins:
        lines = ANY_EVENT
        if isinstance(plugin, EnqueueExtensions):
            lines = tuple(plugin.events_to_register())
        problems = [
            f"events_to_register: {problem}" for line in lines for problem in _line_problems(line)
        ]
        if problems:
            raise ConfigurationError(f"plugin {plugin.NAME}", problems)
        found[plugin.NAME] = lines
    return found


def _line_problems(line: ClusterEventWithHint) -> list[str]:
    if not isinstance(line.resource, Resource) and not is_custom_name(line.resource):
        return [
            f"{line.resource!r} is no resource; name a member of Resource,"
            " or plural.version.group as in foos.v1.example.com"
        ]
    return [
        f"there is no {line.resource} {action}"
        for action in line.actions
        if action not in actions_of(line.resource)
    ]


def custom_resources(profiles: Iterable[Registrations]) -> tuple[str, ...]:
    """The resources that are listed and watched for plugins' sake, sorted."""
    each = (line.resource for plugins in profiles for lines in plugins.values() for line in lines)
    return tuple(sorted({resource for resource in each if not isinstance(resource, Resource)}))
