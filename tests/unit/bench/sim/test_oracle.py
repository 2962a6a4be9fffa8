"""What the oracle takes for granted, where scenarios of whole decisions do not ask."""

from typing import Any

from bench.sim.oracle import cluster_of, pod_of, where_it_fits

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
