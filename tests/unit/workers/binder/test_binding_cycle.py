"""Plugins around a binding: order, refusals, time limits."""

import asyncio

import pytest

from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod
from tests.unit.workers.binder.fake_api import make_order
from workers.binder.bind_call import BOUND, NotBound, Outcome
from workers.binder.binding_cycle import (
    ALLOWED,
    SKIPPED,
    Allowed,
    BindingCycle,
    BindingPlugins,
    Refused,
    Skipped,
)


class Plugin:
    """Takes part everywhere, as told."""

    def __init__(
        self,
        name: str,
        calls: list[str],
        *,
        permit: Allowed | Refused = ALLOWED,
        pre_bind: Allowed | Refused = ALLOWED,
        outcome: Outcome | Skipped = BOUND,
        is_stuck: bool = False,
    ) -> None:
        self.NAME = name
        self._calls = calls
        self._permit = permit
        self._pre_bind = pre_bind
        self._outcome = outcome
        self._is_stuck = is_stuck

    async def permit(self, order: BindPod) -> Allowed | Refused:
        self._calls.append(f"{self.NAME}.permit")
        if self._is_stuck:
            await asyncio.get_running_loop().create_future()
        return self._permit

    async def pre_bind(self, order: BindPod) -> Allowed | Refused:
        self._calls.append(f"{self.NAME}.pre_bind")
        return self._pre_bind

    async def bind(self, order: BindPod) -> Outcome | Skipped:
        self._calls.append(f"{self.NAME}.bind")
        return self._outcome

    async def post_bind(self, order: BindPod) -> None:
        self._calls.append(f"{self.NAME}.post_bind")


def run(*plugins: Plugin, timeout_s: float = 600.0) -> Outcome:
    everywhere = BindingPlugins(plugins, plugins, plugins, plugins)
    nothing = BindingPlugins(())
    cycle = BindingCycle(nothing, {"default-scheduler": everywhere}, timeout_s)
    return asyncio.run(cycle.run(make_order()))


def test_points_run_in_order_and_the_first_binder_that_does_not_skip_binds() -> None:
    calls: list[str] = []
    assert run(Plugin("A", calls, outcome=SKIPPED), Plugin("B", calls)) == BOUND
    assert calls == [
        *("A.permit", "B.permit", "A.pre_bind", "B.pre_bind", "A.bind", "B.bind"),
        *("A.post_bind", "B.post_bind"),
    ]


@pytest.mark.parametrize("point", ["permit", "pre_bind"])
def test_a_refusal_ends_it_and_names_the_plugin(point: str) -> None:
    calls: list[str] = []
    refusing = Plugin("B", calls, **{point: Refused("not now")})
    outcome = run(Plugin("A", calls), refusing, Plugin("C", calls))
    words = {"permit": "Permit", "pre_bind": "PreBind"}[point]
    told = f'{words} plugin "B": not now'
    assert outcome == NotBound(BindFailureReason.REJECTED, told)
    assert calls[-1] == f"B.{point}"


def test_a_plugin_that_never_answers_is_a_refusal_after_its_time() -> None:
    outcome = run(Plugin("A", [], is_stuck=True), timeout_s=0.001)
    told = 'Permit plugin "A": timed out after 0.001 s'
    assert outcome == NotBound(BindFailureReason.REJECTED, told)


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
    default = BindingPlugins(binds=(Plugin("D", calls),))
    assert (
        asyncio.run(BindingCycle(default, {"other": BindingPlugins(())}).run(make_order())) == BOUND
    )
    assert calls == ["D.bind"]
