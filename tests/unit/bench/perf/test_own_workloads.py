"""The workloads that come with berth: they are scheduler_perf's, and each case runs from end to end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.perf.config_file import OUR_FILES, Case, Plan, Workload, chosen, plan_of, topic_of
from bench.perf.operations import CreatePods
from tests.support.perf_simulation import Mode, play
from tests.support.workload_facts import digest_of, facts_of

DIGEST = "eb1fe3f6cbc822b1"
"""Of upstream's own files at v1.36.2 (`facts_of` reads them as it reads ours)."""
SCHEDULER_PERFS = [file for file in OUR_FILES if topic_of(file) != "berth"]
SMALL = 500
"""Nodes, pods and objects of a workload that are few enough."""


def test_they_are_scheduler_perfs_cases_workloads_operations_and_numbers() -> None:
    assert digest_of(facts_of(SCHEDULER_PERFS)) == DIGEST


def size_of(workload: Workload) -> float:
    numbers = [value for value in workload.params.values() if isinstance(value, int | float)]
    return sum(numbers)


def smallest_of_each_case() -> Iterator[tuple[str, Plan]]:
    cases: dict[str, list[tuple[Path, Case, Workload]]] = {}
    for file, case, workload in chosen(SCHEDULER_PERFS, "", ""):
        cases.setdefault(case.name, []).append((file, case, workload))
    for name, found in cases.items():
        file, case, workload = min(found, key=lambda one: size_of(one[2]))
        if size_of(workload) > SMALL or workload.params.get("duration", "0s") != "0s":
            workload = smaller(workload)
        yield name, plan_of(file, case, workload)


def smaller(workload: Workload) -> Workload:
    """With numbers of a twentieth, so that the case is run at all."""

    def less(key: str, value: Any) -> Any:
        if isinstance(value, bool) or key in ("classes", "maxClaimsPerNode"):
            return value
        if isinstance(value, int):
            return -(-value // 20)
        return "250ms" if key == "duration" else value

    params = {key: less(key, value) for key, value in workload.params.items()}
    return Workload(name=workload.name, params=params, feature_gates=workload.feature_gates)


PLANS = dict(smallest_of_each_case())


@pytest.mark.parametrize("mode", ["decisions", "http"])
@pytest.mark.parametrize("name", PLANS)
def test_the_smallest_workload_of_each_case_runs(name: str, mode: Mode) -> None:
    plan = PLANS[name]
    played = play(plan, mode)
    book = played.cluster.book
    assert book.double_binds == []
    (interval,) = played.executor.intervals
    wanted = sum(
        each.count
        for each in plan.operations
        if isinstance(each, CreatePods) and each.collect_metrics and not each.steady_state
    )
    if wanted:
        assert interval.pod_count == wanted
    elif name != "PublishResourceSlices":
        assert interval.pod_count >= 10, "all that were in one another's way"
