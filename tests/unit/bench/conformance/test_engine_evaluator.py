"""Scenarios decided by the engine in this process."""

from typing import Any, Final

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


def test_a_pod_with_claims_is_bound_where_the_node_itself_has_the_resource_of_a_class() -> None:
    own = node("a")
    own["status"] = {"allocatable": {**ALLOCATABLE, "example.com/gpu": "1"}}
    request = {"name": "r", "exactly": {"deviceClassName": "gpus", "count": 1}}
    resources = {"requests": {"example.com/gpu": "1"}}
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {
            "containers": [{"name": "c", "resources": resources}],
            "resourceClaims": [{"name": "c", "resourceClaimName": "one"}],
        },
    }
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    pieces = {"driver": "d", "pool": pool, "nodeName": "a", "devices": [{"name": "d0"}]}
    document = {
        "name": "s",
        "objects": {
            "nodes": [own],
            "deviceclasses": [
                {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "example.com/gpu"}}
            ],
            "resourceclaims": [
                {
                    "metadata": {"name": "one", "namespace": "default", "uid": "one"},
                    "spec": {"devices": {"requests": [request]}},
                }
            ],
            "resourceslices": [{"metadata": {"name": "s"}, "spec": pieces}],
        },
        "pending": [pod],
    }
    outcome = EngineEvaluator().run(msgspec.convert(document, Scenario), is_compact=False)
    (decision,) = outcome.decisions
    assert decision["result"] == "scheduled"
    assert decision["claims"]["one"][0]["device"] == "d0"


OWN_CLAIM: Final = {
    "metadata": {
        "name": "own", "namespace": "default", "uid": "own",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {"volumeName": "pv"},
}  # fmt: skip
POD_WITH_CLAIM: Final = {
    "metadata": {"name": "p", "namespace": "default", "uid": "p"},
    "spec": {
        "containers": [{"name": "c"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "own"}}],
    },
}


def test_a_node_whose_volumes_cannot_be_counted_fails_the_attempt() -> None:
    claim = {
        "metadata": {"name": "broken-v", "namespace": "default", "uid": "broken-v"},
        "spec": {"volumeName": "pv"},
    }
    driver = {"name": "d", "nodeID": "x", "allocatable": {"count": 3}}
    broken = {
        "metadata": {"name": "broken", "namespace": "default", "uid": "broken"},
        "spec": {
            "nodeName": "a",
            "containers": [{"name": "c"}],
            "volumes": [{"name": "v", "ephemeral": {}}],
        },
    }
    volume = {"metadata": {"name": "pv"}, "spec": {"csi": {"driver": "d", "volumeHandle": "h"}}}
    document = {
        "name": "s",
        "objects": {
            "nodes": [node("a"), node("b")],
            "pods": [broken],
            "pvs": [volume],
            "pvcs": [claim, OWN_CLAIM],
            "csinodes": [
                {"metadata": {"name": name}, "spec": {"drivers": [driver]}} for name in "ab"
            ],
        },
        "pending": [POD_WITH_CLAIM],
    }
    outcome = EngineEvaluator().run(msgspec.convert(document, Scenario), is_compact=False)
    (decision,) = outcome.decisions
    assert decision["result"] == "error"
    assert decision["message"] == (
        'running "NodeVolumeLimits" filter plugin: '
        "PVC default/broken-v was not created for pod default/broken (pod is not owner)"
    )


def test_a_node_where_a_volume_cannot_be_translated_fails_the_attempt() -> None:
    volume = {
        "metadata": {"name": "pv"},
        "spec": {"awsElasticBlockStore": {"volumeID": "aws://x"}},
    }
    taken_over = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
    document = {
        "name": "s",
        "objects": {
            "nodes": [node("a"), node("b"), node("c")],
            "pvs": [volume],
            "pvcs": [OWN_CLAIM],
            "csinodes": [{"metadata": {"name": "b", "annotations": taken_over}, "spec": {}}],
        },
        "pending": [POD_WITH_CLAIM],
    }
    outcome = EngineEvaluator().run(msgspec.convert(document, Scenario), is_compact=False)
    (decision,) = outcome.decisions
    assert decision["result"] == "error"
    assert decision["message"].startswith('running "VolumeBinding" filter plugin: could not tran')
