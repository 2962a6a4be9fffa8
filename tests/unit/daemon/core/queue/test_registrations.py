"""Which events wake pods: what a plugin registers, of this package or another, for its profile."""

from typing import Any, ClassVar

import pytest

from daemon.core.cache import Cache
from daemon.core.queue.wakeups import Wakeups
from shared.errors import ConfigurationError
from shared.framework.cluster_event import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    Resource,
    actions_of,
)
from shared.framework.profiles import ProfileConfig
from shared.framework.queueing_hints import (
    Change,
    ClusterEventWithHint,
    QueueingHint,
    registrations_of,
)
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node
from tests.support.wakeups import registrations_with, wakeups_of
from tests.unit.daemon.core.queue.builders import Bench


class Silent:
    NAME: ClassVar[str] = "Silent"


class Says:
    NAME: ClassVar[str] = "Says"

    def __init__(self, *events: tuple[Resource, Action]) -> None:
        self._events = events

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(resource, (action,)) for resource, action in self._events]


def wakeups(*plugins: Any) -> Wakeups:
    return wakeups_of(registrations_of(plugins))


def test_a_plugin_that_names_no_events_is_woken_by_every_one_but_those_of_two_resources() -> None:
    table = wakeups(Silent())
    left_out = {Resource.VOLUME_ATTACHMENT, Resource.RESOURCE_SLICE}
    for resource in set(Resource) - {Resource.POD, Resource.WILDCARD}:
        for action in actions_of(resource):
            interested = table.interested.get(ClusterEvent(resource, action), ())
            assert ("Silent" in interested) is (resource not in left_out)


def test_a_plugin_is_woken_by_the_events_that_it_names_and_no_others() -> None:
    table = wakeups(Says((Resource.NODE, Action.ADD)))
    assert "Says" in table.interested.get(NODE_ADD, ())
    assert "Says" not in table.interested.get(NODE_DELETE, ())
    assert "Says" not in table.interested.get(ASSIGNED_POD_DELETE, ())
    assert "Says" not in wakeups(Says()).interested.get(NODE_ADD, ())


@pytest.mark.parametrize(
    "event",
    [(Resource.NODE, Action.UPDATE_POD_LABEL), (Resource.PERSISTENT_VOLUME, Action.FORCE_ACTIVATE)],
)
def test_what_can_never_happen_is_refused_with_the_plugins_name(
    event: tuple[Resource, Action],
) -> None:
    with pytest.raises(ConfigurationError, match=r"plugin Says.*there is no"):
        registrations_of([Says(event)])


def test_only_plugins_that_may_reject_a_pod_are_asked() -> None:
    built = InTreeRegistry(entry_points=()).build(ProfileConfig())
    names = [plugin.NAME for plugin in built.rejecting]
    assert len(names) == len(set(names))
    assert {"SchedulingGates", "NodeResourcesFit", "DynamicResources"} <= set(names)
    assert not {"ImageLocality", "DefaultBinder", "PrioritySort"} & set(names)


def test_hints_are_those_of_the_pods_own_profile() -> None:
    exists = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [exists]}}
    choosy = registrations_with(NodeAffinity={"addedAffinity": required})
    table = Wakeups({"choosy": choosy, "plain": registrations_with()}, Cache().view)

    def said(profile: str, **labels: str) -> QueueingHint | None:
        pod = Bench().add("p", spec={"schedulerName": profile})
        return table.hint_of(
            "NodeAffinity", pod, Change(NODE_ADD, None, make_node("n", labels=labels))
        )

    assert said("choosy") is QueueingHint.SKIP
    assert said("choosy", pool="a") is QueueingHint.QUEUE
    assert said("plain") is QueueingHint.QUEUE
    assert said("unknown") is None
