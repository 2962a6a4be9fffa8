"""Clusters to ask about, without an API server: as an adapter would tell them."""

from collections.abc import Iterable, Sequence

import orjson

from bench.demo.workload import openb_workload
from daemon.adapter.kind_feed import KindFeed
from daemon.trial.trial import Subject, Trial
from shared.config import SchedulerConfiguration
from shared.kube.api.core_v1 import Node
from shared.kube.pod_record import PodRecord
from shared.kube.resources import ALL_KINDS, NODES, PODS, ResourceKind
from shared.messages.admin import PodAnswer, PodRequest, QueueFacts
from shared.messages.to_owner import (
    AdapterMessage,
    NodeChanged,
    PodChanged,
    SyncFinished,
    SyncStarted,
)
from shared.runtime_options import RuntimeOptions

PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
"""
"""A configuration that fills nodes up."""


def subject_with(
    nodes: Sequence[Node], pods: Sequence[PodRecord], config: SchedulerConfiguration | None = None
) -> Subject:
    """These nodes and pods, and nothing else."""
    return _subject(
        [NodeChanged(node) for node in nodes], [PodChanged(pod) for pod in pods], config
    )


def openb_subject(pod_count: int | None = None) -> Subject:
    """The nodes and pods of the demo (the first, or all), none of them placed."""
    workload = openb_workload()
    pods = (pod.body for pod in workload.pods[:pod_count])
    return _subject(_read(NODES, workload.nodes), _read(PODS, pods), None)


def queue_facts_of(trial: Trial, key: str, now_s: float) -> QueueFacts:
    """What a trial's owner says of a pod that waits."""
    answer = trial.ask(PodRequest(key), now_s)
    assert isinstance(answer, PodAnswer)
    assert answer.facts is not None, f"{key} does not wait"
    return answer.facts


def _subject(
    nodes: list[AdapterMessage], pods: list[AdapterMessage], config: SchedulerConfiguration | None
) -> Subject:
    messages: list[AdapterMessage] = []
    for kind in ALL_KINDS:
        objects = {NODES.plural: nodes, PODS.plural: pods}.get(kind.plural, [])
        messages += [SyncStarted(kind.plural), *objects, SyncFinished(kind.plural, "1")]
    return Subject(config or SchedulerConfiguration(), RuntimeOptions(), messages)


def _read(kind: ResourceKind, bodies: Iterable[bytes]) -> list[AdapterMessage]:
    messages: list[AdapterMessage] = []
    feed = KindFeed(kind, lambda message, _: messages.append(message))
    for number, body in enumerate(bodies):
        item = orjson.loads(body)
        item["metadata"] |= {"uid": f"{kind.plural}-{number}", "resourceVersion": f"{number + 1}"}
        if kind is PODS:
            item["metadata"]["namespace"] = "default"
        feed.line(orjson.dumps({"type": "ADDED", "object": item}))
    return messages
