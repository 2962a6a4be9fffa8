"""Which plugins bind a profile's pods."""

from pathlib import Path

import pytest

from bench.manual_clock import ManualClock
from shared.clock import SystemClock
from shared.config import load_configuration
from shared.errors import ConfigurationError
from shared.plugins.in_tree import IN_TREE
from tests.unit.workers.binder.fake_api import FakeApi
from workers.binder import binding_profiles
from workers.binder.bind_call import DefaultBinder
from workers.binder.binding_cycle import BindingPlugins
from workers.binder.binding_profiles import plugins_by_profile
from workers.binder.claim_bind import ClaimBinder
from workers.binder.claim_lines import ClaimLines
from workers.binder.custom_bind import CustomBind
from workers.binder.volume_bind import VolumeBinder

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: batch
"""


class Custom:
    NAME = "Custom"

    async def bind(self, order: object) -> None: ...


class ByName:
    def __init__(self, way: str) -> None:
        self.NAME = "ByName"
        self._way = way

    def binder_name(self) -> str:
        return self._way


def made(path: Path, binder: DefaultBinder) -> dict[str, BindingPlugins]:
    api = FakeApi()
    claims = ClaimBinder(api, lambda _: None, ClaimLines(), SystemClock())
    configuration = load_configuration(str(path))
    pre_binders = (VolumeBinder(api), claims)
    return plugins_by_profile(configuration, None, api, binder, pre_binders)  # type: ignore[arg-type]  # A fake.


def test_a_binder_knows_every_in_tree_plugin_by_name() -> None:
    assert set(binding_profiles._IN_TREE) == set(IN_TREE)


def test_profiles_bind_with_the_default_binder_unless_they_say_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    binder = DefaultBinder(FakeApi(), ManualClock())
    found = made(path, binder)
    assert set(found) == {"default-scheduler", "batch"}
    assert all(plugins.binds == (binder,) for plugins in found.values())
    for plugins in found.values():
        assert [each.NAME for each in plugins.pre_binds] == ["VolumeBinding", "DynamicResources"]


@pytest.mark.parametrize("order", [["DynamicResources", "VolumeBinding"], ["VolumeBinding"], []])
def test_what_prepares_a_binding_follows_the_profile(tmp_path: Path, order: list[str]) -> None:
    path = tmp_path / "config.yaml"
    enabled = ", ".join(f"{{name: {name}}}" for name in order)
    pre_bind = f"{{enabled: [{enabled}], disabled: [{{name: '*'}}]}}"
    head = CONFIG.partition("profiles:")[0]
    path.write_text(f"{head}profiles:\n- plugins: {{preBind: {pre_bind}}}\n")
    (plugins,) = made(path, DefaultBinder(FakeApi(), ManualClock())).values()
    assert [each.NAME for each in plugins.pre_binds] == order


def test_a_plugin_with_a_bind_method_binds_itself_and_a_known_way_is_ours() -> None:
    binder, custom = DefaultBinder(FakeApi(), ManualClock()), Custom()
    assert isinstance(binding_profiles._bind_plugin(custom, binder), CustomBind)
    assert binding_profiles._bind_plugin(ByName("DefaultBinder"), binder) is binder


def test_an_unknown_way_of_binding_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"plugin ByName: binder_name\(\) is 'Teleport'"):
        binding_profiles._bind_plugin(ByName("Teleport"), DefaultBinder(FakeApi(), ManualClock()))


def test_a_configuration_that_cannot_be_used_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("kind: Nonsense\n")
    with pytest.raises(ConfigurationError, match=r"config\.yaml"):
        made(path, DefaultBinder(FakeApi(), ManualClock()))
