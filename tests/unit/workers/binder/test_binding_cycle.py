"""Plugins around a binding: order, refusals, time limits."""

import asyncio
from typing import Any, ClassVar

import msgspec
import pytest

from shared.framework.binding_api import ALLOWED, SKIPPED, Allowed, Binding, Refused, Skipped
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod
from tests.unit.workers.binder.fake_api import at_once, make_order
from tests.unit.workers.binder.virtual_time import run_virtual
from workers.binder.bind_call import BOUND, Bound, NotBound, Outcome
from workers.binder.binding_cycle import BindingCycle, BindingPlugins
from workers.binder.fences import Fence, Fences
from workers.binder.foreign_plugins import CustomBind


class Plugin:
    """Takes part everywhere, as told."""

    def __init__(
        self,
        name: str,
        calls: list[str],
        *,
        pre_bind: Allowed | Refused = ALLOWED,
        outcome: Outcome | Skipped = BOUND,
        is_stuck: bool = False,
        fails: str = "",
    ) -> None:
        self.NAME = name
        self._calls = calls
        self._pre_bind = pre_bind
        self._outcome = outcome
        self._is_stuck = is_stuck
        self._fails = fails

    def _note(self, point: str) -> None:
        self._calls.append(f"{self.NAME}.{point}")
        if self._fails == point:
            raise RuntimeError("a bug")

    async def pre_bind(self, order: BindPod) -> Allowed | Refused:
        self._note("pre_bind")
        if self._is_stuck:
            await asyncio.get_running_loop().create_future()
        return self._pre_bind

    async def bind(self, order: BindPod) -> Outcome | Skipped:
        self._note("bind")
        return self._outcome

    async def post_bind(self, order: BindPod) -> None:
        self._note("post_bind")


class Idle(Plugin):
    def pre_flight(self, order: BindPod) -> bool:
        return False


async def bound(cycle: BindingCycle) -> Outcome:
    """A pod's way, as the binder's loop has it."""
    order = make_order()
    if cycle.must_wait(order):
        prepared = await cycle.prepare(order)
        if isinstance(prepared, NotBound):
            return prepared
    outcome = await cycle.bind(order)
    if isinstance(outcome, Bound):
        await cycle.post_bind(order)
    return outcome


def run(*plugins: Plugin, timeout_s: float = 600.0) -> Outcome:
    everywhere = BindingPlugins(plugins, plugins, plugins)  # type: ignore[arg-type]  # Names differ.
    nothing = BindingPlugins(())
    cycle = BindingCycle(nothing, at_once, {"default-scheduler": everywhere}, timeout_s)
    return asyncio.run(bound(cycle))


def test_points_run_in_order_and_the_first_binder_that_does_not_skip_binds() -> None:
    calls: list[str] = []
    assert run(Plugin("A", calls, outcome=SKIPPED), Plugin("B", calls)) == BOUND
    assert calls == [
        *("A.pre_bind", "B.pre_bind", "A.bind", "B.bind"),
        *("A.post_bind", "B.post_bind"),
    ]


def test_a_refusal_ends_it_and_names_the_plugin() -> None:
    calls: list[str] = []
    refusing = Plugin("B", calls, pre_bind=Refused("not now"))
    outcome = run(Plugin("A", calls), refusing, Plugin("C", calls))
    told = 'running PreBind plugin "B": not now'
    assert outcome == NotBound(BindFailureReason.REJECTED, told)
    assert calls[-1] == "B.pre_bind"


def test_a_plugin_that_raises_refuses_and_says_what_went_wrong() -> None:
    outcome = run(Plugin("A", [], fails="pre_bind"))
    told = 'running PreBind plugin "A": internal error: RuntimeError: a bug'
    assert outcome == NotBound(BindFailureReason.REJECTED, told)


def test_a_pod_stays_bound_when_a_plugin_fails_afterwards() -> None:
    calls: list[str] = []
    assert run(Plugin("A", calls, fails="post_bind"), Plugin("B", calls)) == BOUND
    assert calls[-1] == "B.post_bind"


def test_a_plugin_that_has_nothing_to_do_is_not_asked() -> None:
    calls: list[str] = []
    assert run(Idle("A", calls)) == BOUND
    assert calls == ["A.bind", "A.post_bind"]
    plugins = BindingPlugins((), (Idle("A", []),))
    assert not BindingCycle(plugins, at_once).must_wait(make_order())


def test_a_plugin_that_never_answers_is_a_refusal_after_its_time() -> None:
    outcome = run(Plugin("A", [], is_stuck=True), timeout_s=0.001)
    told = 'running PreBind plugin "A": timed out after 0.001 s'
    assert outcome == NotBound(BindFailureReason.REJECTED, told)


class Undoing(Plugin):
    pre_bind_timeout_s: ClassVar[float | None] = 0.001

    async def undo(self, order: BindPod) -> list[str]:
        self._note("undo")
        return [f"{self.NAME}/claim"]


def test_a_plugin_may_have_its_own_time_and_take_back_what_it_wrote() -> None:
    calls: list[str] = []
    outcome = run(Undoing("A", calls), Undoing("B", calls, is_stuck=True), Undoing("C", calls))
    told = 'running PreBind plugin "B": timed out after 0.001 s'
    left = ("A/claim", "B/claim", "C/claim")
    assert outcome == NotBound(BindFailureReason.REJECTED, told, claims_left=left)
    assert calls == ["A.pre_bind", "B.pre_bind", "A.undo", "B.undo", "C.undo"]


def test_what_a_plugin_fails_to_take_back_keeps_no_other_from_it() -> None:
    failed = NotBound(BindFailureReason.CONFLICT, "taken")
    outcome = run(Undoing("A", [], outcome=failed, fails="undo"), Undoing("B", []))
    assert outcome == failed._replace(claims_left=("B/claim",))


def test_where_a_pod_may_be_bound_nothing_is_taken_back() -> None:
    calls: list[str] = []
    unknown = NotBound(BindFailureReason.UNREACHABLE, "no answer")
    assert run(Undoing("A", calls, outcome=unknown)) == unknown
    assert calls == ["A.pre_bind", "A.bind"]


def test_nothing_follows_a_binding_that_failed() -> None:
    calls: list[str] = []
    failed = NotBound(BindFailureReason.CONFLICT, "taken")
    assert run(Plugin("A", calls, outcome=failed), Plugin("B", calls)) == failed
    assert calls[-1] == "A.bind"


def test_a_pod_that_no_binder_takes_is_refused() -> None:
    outcome = run(Plugin("A", [], outcome=SKIPPED))
    told = "no Bind plugin of profile default-scheduler takes the pod"
    assert outcome == NotBound(BindFailureReason.REJECTED, told)


def test_profiles_that_are_not_named_use_the_default() -> None:
    calls: list[str] = []
    default = BindingPlugins((Plugin("D", calls),))
    assert (
        asyncio.run(bound(BindingCycle(default, at_once, {"other": BindingPlugins(())}))) == BOUND
    )
    assert calls == ["D.bind"]


# Bind plugins of other packages -------------------------------------------------------------------


class Own:
    """Somebody's Bind plugin."""

    NAME: ClassVar[str] = "Own"

    def __init__(self, answer: Allowed | Refused | Skipped | None) -> None:
        self._answer = answer
        self.calls = 0

    async def bind(self, order: Binding) -> Allowed | Refused | Skipped:
        self.calls += 1
        if self._answer is None:
            raise RuntimeError("a bug")
        return self._answer


class Seen:
    """What the API server shows."""

    def __init__(self, outcome: Outcome | None) -> None:
        self._outcome = outcome

    async def look(self, order: BindPod) -> Outcome | None:
        return self._outcome


def bind(plugin: Own, seen: Outcome | None = None, *, again: bool = False) -> Outcome | Skipped:
    order = msgspec.structs.replace(make_order(), look_first=again)
    return asyncio.run(CustomBind(plugin, Seen(seen).look).bind(order))


def test_what_a_bind_plugin_answers_is_what_became_of_the_pod() -> None:
    assert bind(Own(ALLOWED)) == BOUND
    assert bind(Own(SKIPPED)) == SKIPPED
    told = 'running Bind plugin "Own": no room'
    assert bind(Own(Refused("no room"))) == NotBound(BindFailureReason.REJECTED, told)


def test_after_a_bind_plugin_raised_the_api_server_is_asked_what_became_of_the_pod() -> None:
    assert bind(Own(None), BOUND) == BOUND
    told = 'running Bind plugin "Own": internal error: RuntimeError: a bug'
    assert bind(Own(None)) == NotBound(BindFailureReason.REJECTED, told)


def test_a_pod_that_a_lost_binder_has_bound_is_not_bound_again() -> None:
    plugin = Own(ALLOWED)
    assert bind(plugin, BOUND, again=True) == BOUND
    assert bind(plugin, NotBound(BindFailureReason.GONE, "no such pod"), again=True) != BOUND
    assert plugin.calls == 0
    assert bind(plugin, again=True) == BOUND
    assert plugin.calls == 1


class Beside(Plugin):
    """May run beside its neighbours; notes its end, too."""

    ALLOWS_PARALLEL = True

    def __init__(self, name: str, calls: list[str], took_s: float, **told: Any) -> None:
        super().__init__(name, calls, **told)
        self._took_s = took_s

    async def pre_bind(self, order: BindPod) -> Allowed | Refused:
        self._note("pre_bind")
        try:
            await asyncio.sleep(self._took_s)
        except asyncio.CancelledError:
            self._note("cut")
            raise
        self._note("prepared")
        return self._pre_bind


def prepared(*plugins: Plugin) -> Allowed | NotBound:
    cycle = BindingCycle(BindingPlugins((), plugins), at_once)
    return run_virtual(cycle.prepare(make_order()))


def test_neighbours_that_allow_it_are_prepared_side_by_side() -> None:
    calls: list[str] = []
    assert prepared(Beside("A", calls, 2), Beside("B", calls, 1), Plugin("C", calls)) == ALLOWED
    together = ["A.pre_bind", "B.pre_bind", "B.prepared", "A.prepared"]
    assert calls == [*together, "C.pre_bind"]
    calls.clear()
    assert prepared(Beside("A", calls, 2), Idle("I", calls), Beside("B", calls, 1)) == ALLOWED
    assert calls == ["A.pre_bind", "A.prepared", "B.pre_bind", "B.prepared"]


def test_the_first_refusal_of_neighbours_ends_the_others() -> None:
    calls: list[str] = []
    refusing = Beside("B", calls, 1, pre_bind=Refused("not now"))
    told = 'running PreBind plugin "B": not now'
    outcome = prepared(Beside("A", calls, 2), refusing, Beside("C", calls, 3))
    assert outcome == NotBound(BindFailureReason.REJECTED, told)
    assert sorted(calls[3:]) == ["A.cut", "B.prepared", "C.cut"]


class Timed:
    """Takes a second and notes when it began. `kind`: P may run beside its neighbours, S may not; in
    lower case it has nothing to do."""

    def __init__(self, name: str, kind: str, began: dict[float, str]) -> None:
        self.NAME = name
        self.ALLOWS_PARALLEL = kind in "Pp"
        self._has_work = kind in "PS"
        self._began = began

    def pre_flight(self, order: BindPod) -> bool:
        return self._has_work

    async def pre_bind(self, order: BindPod) -> Allowed:
        now_s = asyncio.get_running_loop().time()
        self._began[now_s] = self._began.get(now_s, "") + self.NAME
        await asyncio.sleep(1)
        return ALLOWED


@pytest.mark.parametrize(
    ("kinds", "groups"),
    [
        ("", []),
        ("S", ["1"]),
        ("s", []),
        ("P", ["1"]),
        ("p", []),
        ("SS", ["1", "2"]),
        ("PP", ["12"]),
        ("SPPS", ["1", "23", "4"]),
        ("PSP", ["1", "2", "3"]),
        ("SsS", ["1", "3"]),
        ("PpP", ["13"]),
        ("PsP", ["1", "3"]),
        ("SPsPpPSS", ["1", "2", "46", "7", "8"]),
    ],
)
def test_get_pre_bind_plugin_groups(kinds: str, groups: list[str]) -> None:
    """The cases of TestGetPreBindPluginGroups (pkg/scheduler/framework/runtime, v1.36.2)."""
    began: dict[float, str] = {}
    plugins = tuple(Timed(f"{at}", kind, began) for at, kind in enumerate(kinds, 1))
    assert prepared(*plugins) == ALLOWED  # type: ignore[arg-type]  # As good as one.
    assert list(began.values()) == groups


def test_neighbours_are_fenced_together() -> None:
    calls: list[str] = []

    async def scene() -> None:
        fences = Fences()
        plugins = (Beside("A", calls, 20), Beside("B", calls, 30))
        default = BindingPlugins((), plugins)
        cycle = BindingCycle(default, at_once, spawn=fences.spawn)
        task = fences.start(cycle.prepare(make_order()), Fence())
        await asyncio.sleep(1)
        fences.void_all()
        assert fences.void_count == 3
        with pytest.raises(asyncio.CancelledError):
            await task
        assert fences.void_count == 0

    run_virtual(scene())
    assert sorted(calls) == ["A.cut", "A.pre_bind", "B.cut", "B.pre_bind"]
