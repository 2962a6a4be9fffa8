"""The corpus, replayed on the engine alone."""

from pathlib import Path

import pytest

from bench.conformance.engine_evaluator import EngineEvaluator
from bench.conformance.runner import Filters, run

CORPUS = Path(__file__).parent

FAMILIES = {
    "resources-fit": 100,
    "resources-strategy": 100,
    "resources-balanced": 100,
    "resources-aggregate": 99,
    "node-affinity": 100,
    "taints": 100,
    "ports": 100,
    "image-locality": 100,
    "gates-misc": 100,
    "topology-spread": 100,
    "topology-default": 100,
    "interpod": 100,
    "volume-binding": 100,
    "volume-zone": 100,
    "volume-restrictions": 100,
    "volume-limits": 100,
    "gate-storage-scoring": 60,
    "gate-taint-comparison": 60,
    "corner": 72,
    "found": 30,
    "dra": 100,
    "dra-advanced": 100,
    "mixed": 100,
    "nominated": 100,
    "preemption": 100,
    "preemption-found": 5,
    "preemption-pdb": 100,
    "changes": 150,
    "claims": 148,
    "profiles": 150,
}
"""Families with the number of their scenarios; `long` has a test of its own."""

LONG = [
    *(f"long-{kind}-a{number}" for kind in ("basic", "heterogeneous", "fills-up", "binpack")
      for number in (1, 2, 3)),
    "long-openb-first",
]  # fmt: skip


@pytest.mark.conformance
@pytest.mark.parametrize("family", FAMILIES)
def test_every_scenario_of_the_family_comes_out_as_in_kube_scheduler(family: str) -> None:
    report = run([CORPUS / f"{family}.jsonl.gz"], EngineEvaluator(), Filters())
    (result,) = report.families
    assert [(failure.name, failure.details[:3]) for failure in result.failures] == []
    assert result.passed == FAMILIES[family]


@pytest.mark.conformance
def test_long_runs_stay_exact_from_one_placement_to_the_next() -> None:
    filters = Filters(scenarios=frozenset(LONG))
    report = run([CORPUS / "long.jsonl.gz"], EngineEvaluator(), filters)
    (result,) = report.families
    assert [(failure.name, failure.details[:3]) for failure in result.failures] == []
    assert result.passed == len(LONG)
