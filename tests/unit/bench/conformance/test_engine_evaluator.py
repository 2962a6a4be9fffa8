"""Scenarios decided by the engine in this process."""

from typing import Any

import msgspec

from bench.conformance.engine_evaluator import EngineEvaluator
from bench.conformance.scenario import Scenario

ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": ALLOCATABLE}}


def test_a_plugin_that_is_enabled_for_score_alone_prepares_its_score() -> None:
    plugin = {"name": "TaintToleration"}
    scoring = {"disabled": [plugin], "enabled": [{**plugin, "weight": 7}]}
    plugins = {"multiPoint": {"disabled": [plugin]}, "score": scoring}
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"containers": [{"name": "c"}]},
    }
    document = {
        "name": "s",
        "objects": {"nodes": [node("a"), node("b")]},
        "pending": [pod],
        "config": {"profiles": [{"plugins": plugins}]},
    }
    outcome = EngineEvaluator().run(msgspec.convert(document, Scenario), is_compact=False)
    (decision,) = outcome.decisions
    assert decision["result"] == "scheduled"
    assert decision["scores"]["plugins"]["TaintToleration"]["weight"] == 7
