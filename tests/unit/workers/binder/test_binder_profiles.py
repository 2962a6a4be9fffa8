"""Which plugins bind a profile's pods."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from bench.manual_clock import ManualClock
from daemon.commands.check_config import check
from daemon.supervisor.plan import binding_plan
from shared.child_plan import BindingPlan, ChildPlan, ProfileBinding, read_plan
from shared.clock import SystemClock
from shared.config import load_configuration
from shared.errors import ConfigurationError
from shared.framework.out_of_tree import ENTRY_POINT_GROUP
from shared.plugins.in_tree import InTreeRegistry
from shared.runtime_options import RuntimeOptions
from tests.unit.workers.binder.fake_api import FakeApi
from workers.binder import foreign_plugins
from workers.binder.bind_call import DefaultBinder
from workers.binder.binder_assembly import plugins_by_profile
from workers.binder.binding_cycle import BindingPlugins
from workers.binder.claim_bind import ClaimBinder
from workers.binder.claim_free import ClaimLines
from workers.binder.foreign_plugins import CustomBind
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
    plan = binding_plan(*check(str(path))[:2])
    pre_binders = (VolumeBinder(api), claims)
    return plugins_by_profile(plan, None, api, binder, pre_binders)


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
    assert isinstance(foreign_plugins._way(custom, binder), CustomBind)
    assert foreign_plugins._way(ByName("DefaultBinder"), binder) is binder


def test_an_unknown_way_of_binding_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"plugin ByName: binder_name\(\) is 'Teleport'"):
        foreign_plugins._way(ByName("Teleport"), DefaultBinder(FakeApi(), ManualClock()))


def listening(args: str) -> str:
    """A profile with a plugin of another package that is told of what was bound."""
    head = CONFIG.partition("profiles:")[0]
    point = "postBind: {enabled: [{name: Listener}]}"
    plugins = f"{{preBind: {{disabled: [{{name: '*'}}]}}, {point}}}"
    config = f"pluginConfig: [{{name: Listener, args: {args}}}]"
    return f"{head}profiles:\n- plugins: {plugins}\n  {config}\n"


class Listener:
    NAME = "Listener"

    def __init__(self, args: dict[str, object]) -> None:
        self.args = args
        self.api: object = None

    def use_api(self, api: object) -> None:
        self.api = api

    async def post_bind(self, order: object) -> None: ...


LISTENER = EntryPoint("Listener", f"{__name__}:Listener", ENTRY_POINT_GROUP)


def test_a_plugin_of_another_package_is_made_with_its_arguments_and_may_use_the_api(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(listening("{limit: 1.5, by: {1: a}}"))
    configuration = load_configuration(str(path))
    registry = InTreeRegistry(entry_points=[LISTENER])
    plan = binding_plan(configuration, map(registry.build, configuration.profiles))
    written = tmp_path / "plan"
    written.write_bytes(ChildPlan(options=RuntimeOptions(), binding=plan).encoded())
    told, api = read_plan(written).binding, FakeApi()
    assert told == plan
    found = plugins_by_profile(told, None, api, DefaultBinder(api, ManualClock()), (), [LISTENER])
    (listener,) = found["default-scheduler"].post_binds
    assert isinstance(listener, Listener)
    assert (listener.args, listener.api) == ({"limit": 1.5, "by": {"1": "a"}}, api)


def test_a_package_that_is_gone_meanwhile_is_named() -> None:
    binding = ProfileBinding(pre_bind=(), bind=(), post_bind=("Gone",), arguments={"Gone": {}})
    api = FakeApi()
    with pytest.raises(ConfigurationError, match="plugin Gone: is not installed any more"):
        plugins_by_profile(
            BindingPlan(profiles={"p": binding}),
            None,
            api,
            DefaultBinder(api, ManualClock()),
            (),
            [],
        )
