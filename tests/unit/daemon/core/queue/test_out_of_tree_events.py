"""Which events wake pods that a plugin of another package rejected."""

from typing import Any, ClassVar

import pytest

from daemon.core.queue.cluster_event import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    ClusterEvent,
    Resource,
    actions_of,
)
from daemon.core.queue.hints import HintSettings, default_registrations, registrations_of
from daemon.core.queue.wakeups import Wakeups
from daemon.owner.assembly import hint_settings
from shared.errors import ConfigurationError
from shared.framework.cluster_view import ObjectStore
from shared.framework.feature_gates import TAINT_TOLERATION_COMPARISON_OPERATORS, FeatureGates
from shared.framework.profiles import ProfileConfig
from shared.framework.registry import Registry


class Silent:
    NAME: ClassVar[str] = "Silent"


class Says:
    NAME: ClassVar[str] = "Says"

    def __init__(self, *events: tuple[str, str]) -> None:
        self.events = events


def wakeups(*plugins: Any) -> Wakeups:
    settings = HintSettings(out_of_tree=registrations_of(plugins))
    return Wakeups(default_registrations(ObjectStore(), settings))


def test_a_plugin_that_names_no_events_is_woken_by_every_one_but_those_of_two_resources() -> None:
    table = wakeups(Silent())
    left_out = {Resource.VOLUME_ATTACHMENT, Resource.RESOURCE_SLICE}
    for resource in set(Resource) - {Resource.POD, Resource.WILDCARD}:
        for action in actions_of(resource):
            interested = table.plugins_interested_in(ClusterEvent(resource, action))
            assert ("Silent" in interested) is (resource not in left_out)


def test_a_plugin_is_woken_by_the_events_that_it_names_and_no_others() -> None:
    table = wakeups(Says(("Node", "Add")))
    assert "Says" in table.plugins_interested_in(NODE_ADD)
    assert "Says" not in table.plugins_interested_in(NODE_DELETE)
    assert "Says" not in table.plugins_interested_in(ASSIGNED_POD_DELETE)
    assert "Says" not in wakeups(Says()).plugins_interested_in(NODE_ADD)


@pytest.mark.parametrize("event", [("Nodes", "Add"), ("Node", "Grow"), ("PersistentVolume", "")])
def test_what_is_no_event_is_refused_with_the_plugins_name(event: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"plugin Says.*there is no"):
        registrations_of([Says(event)])


def test_hints_know_the_default_constraints_and_gates_of_the_profiles() -> None:
    def settings(args: dict[str, Any], gates: FeatureGates | None = None) -> HintSettings:
        profile = ProfileConfig(plugin_config={"PodTopologySpread": args})
        gates = gates or FeatureGates()
        built = Registry(gates, entry_points=()).build(profile)
        return hint_settings(
            [Registry(gates, entry_points=()).build(ProfileConfig()), built], gates
        )

    hard = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    soft = {**hard, "whenUnsatisfiable": "ScheduleAnyway"}
    listed = {"defaultingType": "List"}
    assert settings({**listed, "defaultConstraints": [soft, hard]}).has_hard_default_constraints
    assert not settings({**listed, "defaultConstraints": [soft]}).has_hard_default_constraints
    assert not settings({}).has_hard_default_constraints
    assert not settings({}).has_toleration_comparison
    gates = FeatureGates({TAINT_TOLERATION_COMPARISON_OPERATORS: True})
    assert settings({}, gates).has_toleration_comparison
