"""One `grep` over the logs of all processes tells what became of a pod, attempt by attempt."""

import json
from collections.abc import Mapping
from typing import Any

from bench.apiserver.fault_plan import Rule, RulePlan
from daemon.core.owner_counts import Count
from tests.support.live import LiveBerth, configuration, profile

Line = Mapping[str, Any]


def started(rule: Rule) -> LiveBerth:
    config = configuration(profile("mine"), podInitialBackoffSeconds=1)
    return LiveBerth(config, faults=RulePlan([rule]), log_level="debug")


def steps(lines: list[Line], ticket: int) -> set[tuple[str, str]]:
    """(process, event) of an attempt, whoever tells it."""
    return {(line["process"], line["event"]) for line in lines if line["ticket"] == ticket}


def test_a_pod_that_is_refused_tried_again_and_bound_is_told_by_one_grep() -> None:
    conflict = Rule(
        at="request", do="refuse", method="POST", path="*/binding", code=409, reason="Conflict"
    )
    with started(conflict) as live:
        live.add_node("n1")
        live.add_node("n2")
        live.add_pod("p", scheduler="mine")
        live.add_pod("other", scheduler="mine")
        live.bound("p")
        live.bound("other")
        live.until(lambda s: s.counters[Count.BOUND.key] == 2, "both are known to be bound")
        refused = "p" if "binding_failed" in " ".join(live.grep("default/p")) else "other"
        lines = [json.loads(line) for line in live.grep(f"default/{refused}")]
    first, second = sorted({line["ticket"] for line in lines})
    assert all(line["pod"] == f"default/{refused}" for line in lines)
    ended = {("owner", "binding_failed"), ("owner", "attempt_failed")}
    assert steps(lines, first) >= ended | {("owner", "binding_ordered")}
    assert steps(lines, first) >= {("binder-0", "binding_begun"), ("binder-0", "binding_refused")}
    bound = {("owner", "binding_ordered"), ("owner", "pod_bound")}
    assert steps(lines, second) >= bound
    assert steps(lines, second) >= {("binder-0", "binding_begun"), ("binder-0", "binding_done")}
    for ticket in (first, second):
        # What a scorer foresaw it need not be asked.
        said = steps(lines, ticket)
        is_asked = {("owner", "handed_out"), ("scorer-0", "placement_proposed")} <= said
        assert is_asked is not (("owner", "placed_as_foreseen") in said)
