"""Fault plans: which rule decides, how often, and what a wrong one is told."""

from pathlib import Path
from typing import Any

import pytest

from bench.apiserver.api_faults import Delay, Disconnect, Refuse
from bench.apiserver.fault_plan import Rule, RulePlan, read_plan
from bench.apiserver.router import Request

BINDING = "/api/v1/namespaces/ns/pods/p/binding"


def request(method: str = "POST", target: str = BINDING, token: str = "") -> Request:
    return Request(method, target, "", "", f"Bearer {token}", b"", True)


def test_a_rule_lets_some_pass_then_interferes_then_is_spent() -> None:
    plan = RulePlan([Rule(at="request", do="refuse", code=429, retry_after_s=2, skip=1, times=2)])
    faults = [plan.before_request(request()) for _ in range(4)]
    assert [fault is not None for fault in faults] == [False, True, True, False]
    assert isinstance(faults[1], Refuse)
    error = faults[1].error
    assert (error.code, error.reason, error.retry_after_s) == (429, "TooManyRequests", 2)
    assert not plan.is_active
    assert plan.ordered_counts == [2]


@pytest.mark.parametrize(
    ("rule", "is_hit"),
    [
        ({}, True),
        ({"method": "GET"}, False),
        ({"path": "*/binding"}, True),
        ({"path": "*/status"}, False),
        ({"query": "watch=1"}, True),
        ({"query": "limit="}, False),
        ({"token": "old"}, True),
        ({"token": "new"}, False),
    ],
)
def test_rules_choose_by_method_path_query_and_token(rule: dict[str, Any], is_hit: bool) -> None:
    plan = RulePlan([Rule(at="answer", do="disconnect", **rule)])
    asked = request(target=f"{BINDING}?watch=1", token="old")
    assert plan.before_request(asked) is None
    assert plan.before_answer(asked, 200) == (Disconnect() if is_hit else None)


def test_the_first_rule_that_is_due_decides() -> None:
    plan = RulePlan(
        [Rule(at="request", do="disconnect"), Rule(at="request", do="delay", delay_s=2, times=0)]
    )
    decided = [plan.before_request(request()) for _ in range(3)]
    assert decided == [Disconnect(), Delay(2), Delay(2)]
    assert plan.is_active


def test_chance_follows_the_seed() -> None:
    def hits(seed: int) -> list[bool]:
        plan = RulePlan([Rule(at="request", do="hang", chance=0.5, times=0)], seed)
        return [plan.before_request(request()) is not None for _ in range(64)]

    assert hits(1) == hits(1)
    assert hits(1) != hits(2)
    assert 10 < sum(hits(1)) < 54


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(
        """
        faults:
        - {at: request, do: reset, path: /api/v1/nodes}
        - at: watch
          do: repeat
          back: 3
          times: 0
        """
    )
    plan = read_plan(file, seed=0)
    assert plan.before_request(request("GET", "/api/v1/nodes")) == Disconnect(is_reset=True)
    assert plan.is_active


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("faults: [{at: noon, do: refuse}]", r"\$.faults\[0\].at"),
        ("faults: [{at: watch, do: refuse}]", r"faults\[0\].do: 'refuse' cannot be done at watch"),
        ("faults: [{at: request, do: hang, chance: 2}]", "chance"),
        ("faults: [{at: request, do: hang, after: 2}]", "after"),
        ("{", "--faults"),
        ("rules: []", "faults"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=told):
        read_plan(file, seed=0)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_plan(tmp_path / "none", seed=0)
