"""What the owner's core goes by, as profiles say."""

import pytest

from daemon.core.pod_groups import GroupSettings
from daemon.owner.owner_assembly import make_state
from shared.config import SchedulerConfiguration
from shared.feature_gates import parse_feature_gates
from shared.framework.runtime.profiles import PluginSet, ProfileConfig
from shared.plugin_names import DEFAULT_PREEMPTION, GANG_SCHEDULING
from shared.plugins.in_tree import InTreeRegistry
from shared.runtime_options import RuntimeOptions

NAME = "default-scheduler"


def groups(**disabled: str) -> GroupSettings:
    """Of a profile with a plugin off at extension points."""
    gates = parse_feature_gates(
        "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
    )
    plugins = {point: PluginSet(disabled=[name]) for point, name in disabled.items()}
    config = SchedulerConfiguration(profiles=(ProfileConfig(NAME, plugins),))
    registry = InTreeRegistry(gates, entry_points=())
    return make_state(config, gates, registry, RuntimeOptions(), 7, 0.0).settings.groups


@pytest.mark.parametrize(
    ("disabled", "is_preempting"),
    [
        ({}, True),
        ({"postFilter": DEFAULT_PREEMPTION}, True),
        ({"postFilter": DEFAULT_PREEMPTION, "preEnqueue": DEFAULT_PREEMPTION}, True),
        ({"multiPoint": DEFAULT_PREEMPTION}, False),
    ],
)
def test_room_is_made_for_groups_where_default_preemption_is_enabled_anywhere(
    disabled: dict[str, str], is_preempting: bool
) -> None:
    preempting = groups(**disabled).preempting_profiles
    assert preempting is not None
    assert (NAME in preempting) == is_preempting


@pytest.mark.parametrize("point", ["preEnqueue", "permit"])
def test_each_half_of_gang_scheduling_is_switched_off_alone(point: str) -> None:
    settings = groups(**{point: GANG_SCHEDULING})
    assert (NAME in settings.gating_profiles) == (point == "permit")
    assert (NAME in settings.gang_profiles) == (point == "preEnqueue")
