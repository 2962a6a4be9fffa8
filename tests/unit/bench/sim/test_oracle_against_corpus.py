"""The oracle says what kube-scheduler said: of each node, and of each preemption, in the corpus.

The decisions of a scenario are taken as recorded, one after the other; the oracle is asked about each on
the state that came of those before. Scenarios with a configuration of their own are left out, and what
follows a pod whose volumes or claims the recorded scheduler chose.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.conformance.scenario import read_plain
from bench.conformance.shapes import object_kind
from bench.sim.oracle import OracleCluster, OraclePod, cluster_of, pod_of, why_not
from bench.sim.slow_pods import CannotTell
from bench.sim.slow_preemption import best_of, candidates, may_preempt

Json = dict[str, Any]
CORPUS = Path(__file__).parents[3] / "conformance"
EACH = 4
"""Of so many scenarios one is asked about, to save time; all of them agreed once."""
FAMILIES = {
    "resources-fit": 0, "resources-aggregate": 0, "node-affinity": 0, "taints": 0, "ports": 0,
    "topology-spread": 0, "interpod": 0, "gates-misc": 0, "volume-binding": 0, "volume-zone": 0,
    "volume-restrictions": 0, "volume-limits": 0, "dra": 0.75, "mixed": 0, "nominated": 0,
    "preemption": 0, "preemption-pdb": 0, "preemption-found": 0, "corner": 0,
}  # fmt: skip
"""Family -> the share of questions, at most, of which the oracle says that it does not know."""
NOT_OBJECTS = ("nodes", "pods", "namespaces", "priorityclasses")


class Replay:
    """One scenario, decision by decision."""

    def __init__(self, scenario: Json) -> None:
        objects = scenario["objects"]
        told: dict[str, Json] = {}
        for field, found in objects.items():
            if field not in NOT_OBJECTS:
                told[object_kind(field)] = {_key(each): each for each in found}
        self.cluster: OracleCluster = cluster_of(
            objects.get("nodes", []), objects.get("pods", []), objects.get("namespaces", []), told
        )
        self._mode = scenario.get("preemption_mode", "nominate")
        self._pending = {_key(pod): pod for pod in scenario["pending"]}
        self._bound_count = 0

    def begin(self, key: str) -> tuple[OraclePod, str]:
        """The pod of the next decision, and the node that it is nominated to."""
        nominated = [
            pod_of(pod).on(pod["status"]["nominatedNodeName"])
            for pod in self._pending.values()
            if _nominated_to(pod) and not pod["spec"].get("nodeName")
        ]
        self.cluster = replace(self.cluster, nominated=nominated)
        return pod_of(self._pending[key]), _nominated_to(self._pending[key])

    def take(self, decision: Json) -> bool:
        """What came of it. False: what follows is not known."""
        pod = self._pending[decision["pod"]]
        if decision["result"] == "scheduled":
            pod["spec"]["nodeName"] = decision["node"]
            pod.setdefault("status", {})["startTime"] = f"2026-01-01T00:{self._bound_count:02}:00Z"
            self._bound_count += 1
            self.cluster = self.cluster.beside([pod_of(pod)])
            return not (pod["spec"].get("volumes") or pod["spec"].get("resourceClaims"))
        if "nominated_node" in decision:
            pod.setdefault("status", {})["nominatedNodeName"] = decision["nominated_node"]
        found = decision.get("post_filter") or {}
        if found.get("nominated_node") and self._mode != "none":
            self._evict(found)
        return True

    def _evict(self, found: Json) -> None:
        node = found["nominated_node"]
        victims = next(each["victims"] for each in found["candidates"] if each["node"] == node)
        there = self.cluster.node(node)
        assert there is not None
        gone = [pod for pod in self.cluster.on(there) if f"{pod.namespace}/{pod.name}" in victims]
        going = [replace(pod, is_terminating=True, is_preempted=True) for pod in gone]
        self.cluster = self.cluster.without(gone).beside(() if self._mode == "evict" else going)
        for key in found.get("nominations_cleared", []):
            self._pending[key]["status"]["nominatedNodeName"] = ""


def _key(found: Json) -> str:
    meta = found["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _nominated_to(pod: Json) -> str:
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def _filter_answers(decision: Json, pod: OraclePod, cluster: OracleCluster) -> Iterator[str | None]:
    """For each node a difference, nothing, or None where the oracle does not know."""
    for name, status in decision.get("filter", {}).items():
        node = cluster.node(name)
        assert node is not None
        try:
            verdict = why_not(pod, node, cluster)
        except CannotTell:
            yield None
            continue
        told = (status.get("plugin"), status["code"])
        mine: tuple[str | None, str] = (None, "Success")
        if verdict is not None:
            code = "UnschedulableAndUnresolvable" if verdict.is_final else "Unschedulable"
            mine = (verdict.plugin, code)
        yield "" if told == mine else f"{pod.name} on {name}: {verdict}, not {status}"


def _preemption_answer(
    decision: Json, pod: OraclePod, nominated_to: str, cluster: OracleCluster
) -> str | None:
    told = decision.get("post_filter")
    if not told or "filter" not in decision:
        return ""
    try:
        found = candidates(pod, cluster) if may_preempt(pod, nominated_to, cluster) else []
    except CannotTell:
        return None
    mine = {
        each.node: ([f"{pod.namespace}/{pod.name}" for pod in each.victims], each.violations)
        for each in found
    }
    theirs = {
        each["node"]: (each["victims"], each.get("pdb_violations", 0))
        for each in told.get("candidates", [])
    }
    best = {each.node for each in best_of(found)} if found else set()
    chosen = {*(told.get("tied_nodes") or [told.get("nominated_node")])} - {None}
    is_same = mine == theirs and best == chosen
    return "" if is_same else f"{pod.name} preempts {mine}, best {best}; not {theirs}, {chosen}"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_oracle_agrees_with_kube_scheduler(family: str) -> None:
    answers: list[str | None] = []
    for number, line in read_plain(CORPUS / f"{family}.jsonl.gz"):
        scenario = line["scenario"]
        if number % EACH or scenario.get("config") or scenario.get("feature_gates"):
            continue
        replay = Replay(scenario)
        for decision in line["expected"]["decisions"]:
            pod, nominated_to = replay.begin(decision["pod"])
            told = [*_filter_answers(decision, pod, replay.cluster)]
            told.append(_preemption_answer(decision, pod, nominated_to, replay.cluster))
            answers += [each and f"{scenario['name']}: {each}" for each in told]
            if not replay.take(decision):
                break
    differences = [each for each in answers if each]
    assert not differences, "\n".join(differences[:10])
    unknown = sum(each is None for each in answers)
    assert unknown <= FAMILIES[family] * len(answers)
