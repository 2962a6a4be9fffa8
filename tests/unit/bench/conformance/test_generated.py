"""Clusters made up at random: what they are, and that a difference is found, told and made small."""

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.conformance import runner
from bench.conformance.engine_evaluator import EngineEvaluator
from bench.conformance.generate import FAMILIES, scenario
from bench.conformance.generated import Found, decided, differing, shrink
from bench.conformance.scenario import Scenario, read
from shared.columns.schema import Rows
from shared.engine import families
from shared.engine.evaluation import DryRuns
from shared.framework.post_filter import Candidates
from workers.scorer.evaluator import CandidateSearch

Json = dict[str, Any]
SEED = 1
FAULTY = 60
"""So many clusters are enough to meet a planted fault."""
FAMILY_FAULTY = 400
"""And so many to meet one that takes two pods of a family in the right order."""


def test_a_number_always_makes_the_same_cluster_and_another_one_another() -> None:
    assert scenario(SEED, 3) == scenario(SEED, 3)
    assert scenario(SEED, 3)["objects"] != scenario(SEED, 4)["objects"]
    assert scenario(SEED, 3)["objects"] != scenario(SEED + 1, 3)["objects"]


def test_every_family_leaves_its_trace() -> None:
    text = [msgspec.json.encode(scenario(SEED, number)).decode() for number in range(200)]
    traces = {
        "affinity": "nodeAffinity", "aggregates": "initContainers", "budgets": "minAvailable",
        "changes": '"before"', "devices": "resourceClaimName", "extended": "example.com/device",
        "gates": "schedulingGates", "huge": "9Ei", "images": "sizeBytes", "interpod": "podAffinity",
        "namespaces": "namespaceSelector", "nominated": "nominatedNodeName", "ports": "hostPort",
        "preemption": "priority", "profiles": '"second"', "services": '"services"',
        "spread": "topologySpreadConstraints", "taints": "taints",
        "terminating": "deletionTimestamp", "volumes": "persistentVolumeClaim",
    }  # fmt: skip
    assert set(traces) == set(FAMILIES)
    count = {family: sum(trace in each for each in text) for family, trace in traces.items()}
    assert min(count.values()) >= 5, count


def test_what_is_decided_is_of_every_kind() -> None:
    evaluator = EngineEvaluator()
    met: Counter[str] = Counter()
    for number in range(60):
        outcome = evaluator.run(read(scenario(SEED, number), Scenario), is_compact=False)
        for decision in outcome.decisions:
            met[decision["result"]] += 1
            met["scores"] += "scores" in decision
            met["victims"] += bool(decision.get("post_filter", {}).get("candidates"))
            met["own node"] += decision.get("used_nominated_node", False)
    assert min(met[each] for each in ("scheduled", "unschedulable", "gated", "scores")) >= 10, met
    assert met["victims"] >= 5, met
    assert met["own node"] >= 1, met


def forgets_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants a fault that only the engine has, which keeps what dry runs came to."""
    whole = CandidateSearch.run

    def partly(
        self: CandidateSearch, potential: Rows, dry_runs: DryRuns | None = None
    ) -> Candidates:
        return whole(self, potential if dry_runs is None else potential[:1], dry_runs)

    monkeypatch.setattr(CandidateSearch, "run", partly)


@cache
def found_with_a_fault() -> Found:
    """The first, which takes the longest to be made small."""
    with pytest.MonkeyPatch.context() as patch:
        forgets_nodes(patch)
        return next(differing(SEED, range(FAULTY)))


def number_of(found: Found) -> int:
    return int(found.document["name"].rpartition("-")[2])


def test_a_fault_of_one_way_is_found_and_made_small() -> None:
    found = found_with_a_fault()
    assert found.differences
    whole = scenario(SEED, number_of(found))
    assert len(json.dumps(found.document)) < len(json.dumps(whole)) / 2
    assert len(found.document["attempts"]) < len(whole["attempts"])


def test_a_fault_in_what_pods_without_their_like_share_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Images that are mounted are left out of the key of a family."""
    monkeypatch.setattr(families, "_images", lambda _: [])
    found = next(differing(SEED, range(FAMILY_FAULTY)))
    assert any("without its like" in each for each in found.differences)


def test_what_was_found_is_replayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "found.jsonl.gz"
    where = ("--seed", f"{SEED}", "--first", f"{number_of(found_with_a_fault())}")
    with monkeypatch.context() as patch:
        forgets_nodes(patch)
        assert runner.main(["--generate", "1", *where]) == runner.EXIT_FAILED
        line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("{"))
        saved.write_bytes(gzip.compress(line.encode()))
        assert runner.main([f"{saved}"]) == runner.EXIT_FAILED
        assert capsys.readouterr().out.endswith("0 passed, 1 failed\n")
    assert runner.main([f"{saved}"]) == 0


def test_a_way_that_breaks_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(CandidateSearch, "run", breaks)
    found = [decided(EngineEvaluator(), scenario(SEED, number)) for number in range(FAULTY)]
    assert any("planted" in each for one in found for each in one.differences)


def test_attempts_that_are_left_out_take_nothing_else_with_them() -> None:
    """A change stays before the attempt that it came before, or the next one that is left."""
    document: Json = {
        "objects": {},
        "pending": [{"metadata": {"namespace": "d", "name": n}, "spec": {}} for n in "ab"],
        "attempts": ["d/a", "d/b", "d/a", "d/b"],
        "changes": [{"before": 3, "kind": "nodes", "key": "n"}],
    }

    def still_differs(smaller: Json) -> bool:
        is_last = smaller["attempts"][-1] == "d/b"
        before = [change["before"] for change in smaller.get("changes", ())]
        return is_last and before == [len(smaller["attempts"]) - 1]

    smallest = shrink(document, still_differs)
    assert smallest["attempts"] == ["d/b"]
    assert [pod["metadata"]["name"] for pod in smallest["pending"]] == ["b"]


@pytest.mark.parametrize("arguments", [[], ["--generate", "0"], ["--generate", "1", "a.jsonl"]])
def test_what_makes_no_sense_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        runner.main(arguments)
    assert refused.value.code == runner.EXIT_UNUSABLE
