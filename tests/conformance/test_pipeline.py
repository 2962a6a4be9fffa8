"""Scenarios through owner, scoring worker and null binder as real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.conformance.pipeline_evaluator import PipelineEvaluator
from bench.conformance.pipeline_profiles import ProfileBook
from bench.conformance.runner import Filters, run
from bench.conformance.scenario import Configuration, Entry, read_entries

pytestmark = [pytest.mark.conformance, pytest.mark.integration]

CORPUS = Path(__file__).parent
SAMPLE = 4
"""Scenarios of each family; `berth conformance --pipeline` runs them all."""

FAMILIES = [
    "changes",
    "claims",
    "corner",
    "dra",
    "dra-advanced",
    "extenders",
    "gates-misc",
    "image-locality",
    "interpod",
    "node-affinity",
    "nominated",
    "ports",
    "preemption",
    "preemption-found",
    "found",
    "preemption-pdb",
    "profiles",
    "resources-aggregate",
    "resources-balanced",
    "resources-fit",
    "resources-strategy",
    "taints",
    "topology-default",
    "topology-spread",
    "volume-binding",
    "volume-zone",
]


def sample(family: str) -> list[Entry]:
    entries = read_entries(CORPUS / f"{family}.jsonl.gz")
    return [entry for entry, _ in zip(entries, range(SAMPLE), strict=False)]


@pytest.fixture(scope="module")
def evaluator() -> Iterator[PipelineEvaluator]:
    scenarios = [entry.scenario for family in FAMILIES for entry in sample(family)]
    book = ProfileBook(Configuration(s.config, s.feature_gates) for s in scenarios)
    pipeline = PipelineEvaluator(book, lane_count=1)
    yield pipeline
    pipeline.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_processes_decide_as_kube_scheduler_does(
    family: str, evaluator: PipelineEvaluator
) -> None:
    names = frozenset(entry.scenario.name for entry in sample(family))
    report = run([CORPUS / f"{family}.jsonl.gz"], evaluator, Filters(scenarios=names))
    (result,) = report.families
    assert [(failure.name, failure.details[:3]) for failure in result.failures] == []
    assert result.passed == len(names) > 0


def test_a_decision_that_is_not_that_of_the_corpus_is_noticed(
    evaluator: PipelineEvaluator,
) -> None:
    entry = next(e for e in sample("taints") if len(e.expected.nodes) > 1)
    outcome = evaluator.run(entry.scenario, is_compact=False)
    placed = [d["node"] for d in outcome.decisions if d["result"] == "scheduled"]
    assert placed == [d["node"] for d in entry.expected.decisions if d["result"] == "scheduled"]
    bound = {pod for node in outcome.nodes.values() for pod in node["pods"]}
    assert {d["pod"] for d in outcome.decisions if d["result"] == "scheduled"} <= bound
