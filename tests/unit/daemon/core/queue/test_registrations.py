"""Which events wake pods: what a plugin registers, of this package or another, for its profile."""

from typing import Any, ClassVar

import pytest

from bench.conformance.queue_replay import hint_of
from daemon.core.cache import Cache
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.wakeups import Strategy, Wakeups
from shared.errors import ConfigurationError
from shared.feature_gates import DEFAULT_GATES
from shared.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    EventResource,
    Resource,
    actions_of,
)
from shared.framework.queueing_hints import Change, ClusterEventWithHint, registrations_of
from shared.framework.runtime.profiles import ProfileConfig
from shared.framework.runtime.registry import rejecting
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.wakeups import registrations_with, wakeups_of
from tests.unit.daemon.core.queue.builders import Bench, view_of


class Silent:
    NAME: ClassVar[str] = "Silent"


class Says:
    NAME: ClassVar[str] = "Says"

    def __init__(self, *events: tuple[EventResource, Action]) -> None:
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


def test_a_resource_that_berth_does_not_know_wakes_whom_its_name_was_said_by() -> None:
    foos = "foos.v1.example.com"
    table = wakeups(Says((foos, Action.UPDATE)), Silent())
    event = ClusterEvent(foos, Action.UPDATE)
    assert event.label == "foos.v1.example.comUpdate"
    assert table.interested[event] == ("Says",)
    assert ClusterEvent(foos, Action.ADD) not in table.interested


@pytest.mark.parametrize("name", ["foos.v1", "Pod", "foo", "foos/v1.example.com"])
def test_a_resource_without_version_or_group_is_refused_with_the_remedy(name: str) -> None:
    told = rf"plugin Says: events_to_register: '{name}' is no resource; .*foos.v1.example.com"
    with pytest.raises(ConfigurationError, match=told):
        registrations_of([Says((name, Action.ADD))])


def test_only_plugins_that_may_reject_a_pod_are_asked() -> None:
    built = InTreeRegistry(entry_points=()).build(ProfileConfig())
    names = [plugin.NAME for plugin in rejecting(built.plugins_at)]
    assert len(names) == len(set(names))
    assert {"SchedulingGates", "NodeResourcesFit", "DynamicResources"} <= set(names)
    assert not {"ImageLocality", "DefaultBinder", "PrioritySort"} & set(names)


def test_hints_are_those_of_the_pods_own_profile() -> None:
    exists = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [exists]}}
    choosy = registrations_with(NodeAffinity={"addedAffinity": required})
    table = Wakeups({"choosy": choosy, "plain": registrations_with()}, Cache(DEFAULT_GATES).view)

    def said(profile: str, **labels: str) -> bool:
        pod = Bench().add("p", spec={"schedulerName": profile})
        change = Change(NODE_ADD, None, make_node("n", labels=labels))
        return hint_of(table, "NodeAffinity", pod, change)

    assert said("choosy") is False
    assert said("choosy", pool="a") is True
    assert said("plain") is True
    assert said("unknown") is False


def test_only_pods_with_terms_about_the_pod_that_came_are_asked_about_it() -> None:
    def near(color: str) -> dict[str, Any]:
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"color": color}}}
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return {"affinity": {"podAffinity": terms}}

    bench = Bench()
    colors = [f"color-{i}" for i in range(20)]
    for color in colors:
        bench.park(color, ["InterPodAffinity"], spec=near(color))
    unreadable = {"matchExpressions": [{"key": "color", "operator": "Odd"}]}
    spec = near("no")
    spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0][
        "labelSelector"
    ] = unreadable
    bench.park("unreadable", ["InterPodAffinity"], spec=spec)
    bench.park("apart", ["InterPodAffinity"], labels={"app": "x"})
    asked: list[str] = []
    strategy = bench.wakeups.strategy

    def note(pod: QueuedPod, change: Change) -> Strategy:
        asked.append(pod.record.name)
        return strategy(pod, change)

    bench.wakeups.strategy = note
    came = view_of(make_pod("came", node_name="n", labels={"color": "color-3"}))
    bench.queue.move_all_to_active_or_backoff(ASSIGNED_POD_ADD, None, came, 1.0)
    assert sorted(asked) == ["color-3", "unreadable"]
    assert bench.places()["color-3"] == "backoff"
    for selector in ({"matchLabels": {"app": "x"}}, unreadable):
        term = {"topologyKey": "zone", "labelSelector": selector}
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        shuns = {"affinity": {"podAntiAffinity": terms}}
        went = view_of(make_pod("went", node_name="n", spec=shuns))
        asked.clear()
        waiting = [name for name, place in bench.places().items() if place == "unschedulable"]
        bench.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, went, None, 2.0)
        assert sorted(asked) == sorted(waiting), "it may have been in anybody's way"
        assert asked
        assert bench.places()["apart"] == "active"


def test_one_queue_orders_and_wakes_pods_of_several_profiles_each_by_its_own_plugins() -> None:
    """As upstream: one QueueSort for all profiles, and a map of hints for each (isPodWorthRequeuing in
    pkg/scheduler/backend/queue/scheduling_queue.go, v1.36.2)."""

    def of(profile: str, **pod: Any) -> dict[str, Any]:
        return {"spec": {"schedulerName": profile, **pod}}

    bench = Bench()
    bench.wakeups = bench.queue.wakeups = Wakeups(
        {
            "by-node": registrations_of([Says((Resource.NODE, Action.ADD))]),
            "by-pod": registrations_of([Says((Resource.ASSIGNED_POD, Action.DELETE))]),
            "by-none": registrations_of([Says()]),
        },
        Cache(DEFAULT_GATES).view,
    )
    bench.add("low", 1.0, **of("by-node", priority=1))
    bench.add("high", 2.0, **of("by-pod", priority=5))
    bench.add("middle", 3.0, **of("by-none", priority=3))
    assert bench.pop(4.0) == ["high", "middle", "low"], "whatever their profiles"
    for name in ("high", "middle", "low"):
        bench.queue.requeue_unschedulable(name, ["Says"], (), 4.0)
    assert set(bench.places().values()) == {"unschedulable"}
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node("n"), 14.0)
    assert bench.places() == {"low": "active", "high": "unschedulable", "middle": "unschedulable"}
    gone = view_of(make_pod("gone", node_name="n"))
    bench.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, gone, None, 14.5)
    assert bench.places() == {"low": "active", "high": "active", "middle": "unschedulable"}
    assert bench.pop(15.0) == ["high", "low"]
