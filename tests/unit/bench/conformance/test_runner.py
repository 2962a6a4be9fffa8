"""The conformance runner: what it reports, what it leaves out, what it refuses."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.conformance import compare_decisions as compare
from bench.conformance import runner
from bench.conformance.corpus_evaluator import Outcome
from bench.conformance.scenario import Expected, Scenario

FIT = "NodeResourcesFit"
REQUESTS = {"milli_cpu": 100}
PATH = "s"
NO_EVENTS: dict[str, Any] = {"name": "h", "objects": {}, "pending": [], "events": []}


class Recorded:
    """An evaluator that says what it was given to say."""

    asks_extenders = True
    observes = frozenset({"pod", "requests", "result", "node", "scores", "pre_filter", "message",
                          "message_without_preemption"})  # fmt: skip

    def __init__(self, decisions: list[dict[str, Any]]) -> None:
        self.decisions = decisions

    def run(self, scenario: Scenario, *, is_compact: bool) -> Outcome:
        return Outcome(self.decisions, {}, {FIT: 1})


def decision(**fields: Any) -> dict[str, Any]:
    return {"pod": "default/p", "requests": REQUESTS, "result": "scheduled", **fields}


def entry(*decisions: dict[str, Any], weights: dict[str, int] | None = None) -> dict[str, Any]:
    return {
        "scenario": {"name": "s", "objects": {}, "pending": []},
        "expected": {"decisions": list(decisions), "nodes": {}, "weights": weights or {FIT: 1}},
    }


def compared(expected: dict[str, Any], got: dict[str, Any]) -> tuple[list[str], compare.LeftOut]:
    left_out: compare.LeftOut = Counter()
    outcome = Outcome([got], {}, {FIT: 1})
    wanted = Expected([expected], {}, {FIT: 1})
    found = compare.differences(wanted, outcome, Recorded.observes, left_out)
    return [str(difference) for difference in found], left_out


# Comparing ----------------------------------------------------------------------------------------


def test_differences_name_the_field() -> None:
    found, _ = compared(decision(node="n1"), decision(node="n2", message="x"))
    assert found == [
        "decisions[0] default/p.message: expected nothing, got 'x'",
        "decisions[0] default/p.node: expected 'n1', got 'n2'",
    ]


def test_a_pre_filter_that_only_skips_is_compared_too() -> None:
    wanted = decision(pre_filter={"VolumeZone": {"code": "Skip"}, FIT: {"code": "Success"}})
    got = decision(pre_filter={FIT: {"code": "Success"}, "TaintToleration": {"code": "Success"}})
    found, left_out = compared(wanted, got)
    assert found == [
        "decisions[0] default/p.pre_filter.VolumeZone: expected {'code': 'Skip'}, got nothing"
    ]
    assert not left_out


def test_a_pre_filter_that_upstreams_plugin_does_not_have_is_no_difference() -> None:
    wanted = decision(pre_filter={FIT: {"code": "Success"}})
    got = decision(pre_filter={FIT: {"code": "Success"}, "TaintToleration": {"code": "Success"}})
    assert compared(wanted, got)[0] == []


def test_scores_of_0_are_compared_too() -> None:
    score = {"weight": 2, "raw": {"n": 0}, "normalized": {"n": 0}}
    wanted = decision(scores={"plugins": {"DynamicResources": score}, "skipped": ["VolumeBinding"]})
    found, _ = compared(wanted, decision(scores={"plugins": {}, "skipped": []}))
    assert len(found) == 2


def test_a_message_is_compared_to_its_end() -> None:
    whole = "0/1 nodes are available: 1 Too many pods. preemption: ..."
    assert compared(decision(message=whole), decision(message=whole))[0] == []
    assert len(compared(decision(message=whole), decision(message=whole[:-1]))[0]) == 1


def test_what_the_evaluator_cannot_see_is_counted() -> None:
    found, left_out = compared(decision(filter_each={}), decision())
    assert found == []
    assert left_out == {"filter_each: not seen by this evaluator": 1}


def test_a_missing_decision_is_a_difference() -> None:
    outcome = Outcome([], {}, {})
    found = compare.differences(Expected([decision()], {}, {}), outcome, frozenset(), Counter())
    assert [d.path for d in found] == ["decisions"]


def test_a_node_that_ends_up_otherwise_is_a_difference() -> None:
    amounts = {"milli_cpu": 1, "scalar": {"a.io/x": 0}}
    expected = Expected([], {"n": {"requested": amounts, "pods": ["a"]}}, {})
    same = Outcome([], {"n": {"requested": {"milli_cpu": 1}, "pods": ["a"]}}, {})
    assert compare.differences(expected, same, frozenset(), Counter()) == []
    other = Outcome([], {"n": {"requested": {"milli_cpu": 2}, "pods": []}}, {})
    found = compare.differences(expected, other, frozenset(), Counter())
    assert [d.path for d in found] == ["nodes.n.pods", "nodes.n.requested.milli_cpu"]


# Running ------------------------------------------------------------------------------------------


def write(path: Path, *lines: object) -> Path:
    content = b"\n".join(x if isinstance(x, bytes) else msgspec.json.encode(x) for x in lines)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_families_are_counted_and_the_last_line_sums_up(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl.gz", entry(decision(node="n")), entry(decision(node="m")))
    write(tmp_path / "hints.jsonl", {"scenario": NO_EVENTS, "expected": {"events": []}})
    files = sorted(tmp_path.iterdir())
    evaluator = Recorded([decision(node="n")])
    lines = runner.report_lines(runner.run(files, evaluator, runner.Filters()), show=5)
    assert lines == [
        "a     1/2",
        "hints 1/1",
        "a/s: 1 differences",
        "  decisions[0] default/p.node: expected 'm', got 'n'",
        "2 passed, 1 failed",
    ]


def test_main_runs_a_folder_and_fails_when_a_scenario_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "quantities.jsonl", {"text": "1k", "canonical": "1k", "value": 1000})
    assert runner.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"
    write(tmp_path / "quantities.jsonl", {"text": "1k", "canonical": "1k", "value": 999})
    assert runner.main([str(tmp_path), "--show", "1"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert "  '1k'.value: expected 999, got 1000" in out
    assert out[-1] == "0 passed, 1 failed"


@pytest.mark.parametrize("option", ["--family", "--scenario"])
def test_a_name_that_matches_nothing_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    write(tmp_path / "quantities.jsonl", {"text": "1k", "canonical": "1k", "value": 1000})
    assert runner.main([str(tmp_path), option, "typo"]) == 2
    assert "nothing to run" in capsys.readouterr().err


def test_a_scenario_is_decided_from_its_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1", "cpu": "1"}}}
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"},
           "spec": {"containers": [{"name": "c"}]}}  # fmt: skip
    line = entry({"pod": "default/p", "result": "scheduled", "node": "n", "feasible_count": 1})
    line["scenario"].update(objects={"nodes": [node]}, pending=[pod])
    line["expected"]["weights"] = {"TaintToleration": 3, "NodeAffinity": 2, FIT: 1,
                                   "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1}  # fmt: skip
    write(tmp_path / "own.jsonl", line)
    assert runner.main([str(tmp_path / "own.jsonl"), "--show", "9"]) == 1
    out = capsys.readouterr().out
    assert "nodes.n: expected nothing" in out
    assert "decisions[0]" not in out


def test_a_profile_that_cannot_be_built_fails_its_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = entry(decision())
    line["scenario"]["feature_gates"] = {"NoSuchGate": True}
    write(tmp_path / "own.jsonl", line)
    assert runner.main([str(tmp_path), "--show", "3"]) == 1
    assert "ConfigurationError: featureGates: NoSuchGate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"scenario": {}}', "line 2: Object missing required field `name`"),
        (b"{not json", "line 2: JSON is malformed"),
        (b'{"scenario": {"name": "s", "objects": {"node": []}, "pending": []}}', "line 2: "),
    ],
)
def test_a_line_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, problem: str
) -> None:
    path = write(tmp_path / "x.jsonl.gz", b"", content)
    assert runner.main([str(path)]) == 2
    assert f"{path}, {problem}" in capsys.readouterr().err


def test_files_that_are_not_there_or_not_whole_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.main([str(tmp_path / "none")]) == 2
    assert "no such file or folder" in capsys.readouterr().err
    assert runner.main([str(tmp_path / ("9" * 5000))]) == 2
    assert "too long" in capsys.readouterr().err
    assert runner.main([str(tmp_path)]) == 2
    assert "holds no .jsonl.gz or .jsonl file" in capsys.readouterr().err
    cut = write(tmp_path / "x.jsonl.gz", entry(decision()))
    cut.write_bytes(cut.read_bytes()[:-9])
    assert runner.main([str(cut)]) == 2
    assert f"{cut}, after line" in capsys.readouterr().err
    other = write(tmp_path / "x.txt", b"")
    assert runner.main([str(other)]) == 2
    assert "is neither .jsonl.gz nor .jsonl" in capsys.readouterr().err
