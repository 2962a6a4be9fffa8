"""What the oracle takes for granted, where scenarios of whole decisions do not ask."""

from typing import Any

import pytest

from bench.sim import states
from bench.sim.oracle import cluster_of, pod_of, where_it_fits
from bench.sim.slow_pods import CannotTell, amount
from bench.sim.slow_preemption import candidates
from bench.sim.slow_storage import VolumePod, claim_names
from tests.support.builders import make_pod

Json = dict[str, Any]

NODE: Json = {
    "metadata": {"name": "n0", "labels": {}},
    "spec": {},
    "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
}
CLAIM: Json = {
    "metadata": {
        "namespace": "default",
        "name": "disk",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"},
}
VOLUME: Json = {"metadata": {"name": "v"}, "spec": {}}


def pod(name: str, cpu: str = "1", node: str = "", **more: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {"containers": [container], "nodeName": node, **more.get("spec", {})},
        "status": more.get("status", {}),
    }


def test_room_is_kept_for_who_is_nominated_and_matters_as_much() -> None:
    waiting = pod("waiting")
    nominated = pod("nominated", status={"nominatedNodeName": "n0"})
    assert where_it_fits(pod_of(waiting), cluster_of([NODE], [waiting], [])) == ["n0"]
    assert where_it_fits(pod_of(waiting), cluster_of([NODE], [waiting, nominated], [])) == []
    lower = pod("lower", status={"nominatedNodeName": "n0"}, spec={"priority": -1})
    assert where_it_fits(pod_of(waiting), cluster_of([NODE], [waiting, lower], [])) == ["n0"]


def test_a_claim_for_one_pod_is_in_use_by_pods_of_nodes_that_are_there() -> None:
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "disk"}}]
    waiting = pod("waiting", "100m", spec={"volumes": volumes})
    told = {"persistentvolumeclaims": {"default/disk": CLAIM}, "persistentvolumes": {"v": VOLUME}}
    for node, fits in (("n0", []), ("gone", ["n0"])):
        holder = pod("holder", "100m", node, spec={"volumes": volumes})
        cluster = cluster_of([NODE], [waiting, holder], [], told)
        assert where_it_fits(pod_of(waiting), cluster) == fits


def test_an_amount_is_no_more_than_what_is_counted_in_holds() -> None:
    assert amount("memory", "9" * 400) == amount("memory", "1e300") == 2**63 - 1
    assert amount("cpu", "1e300") * 1000 == 2**63 - 1
    assert amount("cpu", "100m") * 10 == amount("memory", "0.5") == 1


@pytest.mark.parametrize(
    ("taint", "toleration", "fits"),
    [
        ({}, None, True),
        ({"key": "t", "value": "v"}, None, True),
        ({"key": "t", "effect": "PreferNoSchedule"}, None, True),
        ({"effect": "NoSchedule"}, None, False),
        ({"effect": "NoExecute"}, {"operator": "Exists"}, True),
        ({"effect": "NoSchedule"}, {"key": "t", "operator": "Exists"}, False),
        ({"effect": "NoSchedule"}, {"effect": "NoExecute", "operator": "Exists"}, False),
        ({"effect": "NoSchedule"}, {}, True),
        ({"effect": "NoSchedule", "value": "v"}, {}, False),
        ({"key": "t", "effect": "NoSchedule"}, {"key": "t"}, True),
        ({"key": "t", "effect": "NoSchedule"}, {"key": "t", "value": "v"}, False),
    ],
)
def test_of_a_taint_and_of_a_toleration_anything_may_be_left_out(
    taint: Json, toleration: Json | None, fits: bool
) -> None:
    """What is not there is the empty text (`ToleratesTaint` in api/core/v1/toleration.go, v1.36.2), and
    no effect that keeps anybody away."""
    node = {**NODE, "spec": {"taints": [taint]}}
    waiting = pod("waiting", spec={"tolerations": [] if toleration is None else [toleration]})
    found = where_it_fits(pod_of(waiting), cluster_of([node], [waiting], []))
    assert found == (["n0"] if fits else [])


def test_a_budget_that_cannot_be_read_is_for_nobody() -> None:
    meta = {"namespace": "default", "name": "poison-1"}
    selector = {"matchExpressions": [{"key": "app", "operator": "nonsense"}]}
    told = {
        "poddisruptionbudgets": {
            "default/poison-1": {"metadata": meta, "spec": {"selector": selector}}
        }
    }
    there, urgent = pod("there", node="n0"), pod("urgent", spec={"priority": 1})
    there["metadata"]["labels"] = {"app": "a"}
    (found,) = candidates(pod_of(urgent), cluster_of([NODE], [there], [], told))
    assert found.violations == 0


def test_devices_that_share_a_counter_are_had_together_where_it_suffices() -> None:
    def card(**what: Any) -> Json:
        pool = {"name": "card", "generation": 1, "resourceSliceCount": 2}
        return {"spec": {"driver": "d", "nodeName": "n0", "pool": pool, **what}}

    def part(name: str, size: int) -> Json:
        counters = [{"counterSet": "c", "counters": {"memory": {"value": f"{size}Gi"}}}]
        return {"name": name, "consumesCounters": counters}

    def claim(name: str, count: int, *devices: str) -> Json:
        exactly = {"deviceClassName": "part", "count": count}
        results = [{"driver": "d", "pool": "card", "device": device} for device in devices]
        allocation = {"allocation": {"devices": {"results": results}}} if devices else {}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        meta = {"namespace": "default", "name": name}
        return {"metadata": meta, "spec": spec, "status": allocation}

    counters = [{"name": "c", "counters": {"memory": {"value": "4Gi"}}}]
    told = {
        "deviceclasses": {"part": {"spec": {}}},
        "resourceslices": {
            "counters": card(sharedCounters=counters),
            "parts": card(devices=[part("whole", 4), part("half", 2), part("other", 2)]),
        },
    }
    reference = [{"name": "own", "resourceClaimName": "mine"}]
    waiting = pod("waiting", "100m", spec={"resourceClaims": reference})
    for count, held, fits in (
        (1, (), ["n0"]), (2, (), ["n0"]), (3, (), []), (1, ("half",), ["n0"]), (2, ("half",), []),
        (1, ("whole",), []),
    ):  # fmt: skip
        claims = {
            "default/mine": claim("mine", count),
            "default/other": claim("other", 1, *held),
        }
        cluster = cluster_of([NODE], [waiting], [], {**told, "resourceclaims": claims})
        assert where_it_fits(pod_of(waiting), cluster) == fits, (count, held)


def given_to_disk(name: str, node_name: str) -> Json:
    """A volume on a node that is meant for the claim."""
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [host]}]}
    claim = {"namespace": "default", "name": "disk"}
    spec = {"storageClassName": "late", "claimRef": claim, "nodeAffinity": {"required": terms}}
    return {"metadata": {"name": name}, "spec": spec}


def test_of_two_volumes_that_are_meant_for_one_claim_nobody_knows_which_it_gets() -> None:
    node = NODE | {"metadata": {"name": "n0", "labels": {"kubernetes.io/hostname": "n0"}}}
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "disk"}}]
    waiting = pod("waiting", spec={"volumes": volumes})
    claim: Json = {"metadata": {"namespace": "default", "name": "disk"}}
    claim["spec"] = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    told: dict[str, dict[str, Json]] = {
        "persistentvolumeclaims": {"default/disk": claim},
        "storageclasses": {"late": {"volumeBindingMode": "WaitForFirstConsumer"}},
        "persistentvolumes": {"here": given_to_disk("here", "n0")},
    }
    assert where_it_fits(pod_of(waiting), cluster_of([node], [waiting], [], told)) == ["n0"]
    told["persistentvolumes"]["there"] = given_to_disk("there", "n1")
    with pytest.raises(CannotTell):
        where_it_fits(pod_of(waiting), cluster_of([node], [waiting], [], told))


def test_the_claim_of_an_ephemeral_volume_is_its_pods_though_nobody_reads_its_template() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"]}}
    volumes = [{"name": "own", "ephemeral": {"volumeClaimTemplate": template}}]
    held = states.waiting(make_pod("p", spec={"volumes": volumes}))
    mine = VolumePod(held.uid, held.name, held.namespace, held.spec)
    assert list(claim_names(mine)) == [("p-own", True)]
