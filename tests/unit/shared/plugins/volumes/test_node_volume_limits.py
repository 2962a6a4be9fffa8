"""NodeVolumeLimits: what a pod attaches, what is attached, and what cannot be told."""

from typing import Any

import msgspec

from daemon.core.cache import Cache
from shared.columns.nomination_columns import Nomination
from shared.feature_gates import VOLUME_LIMIT_SCALING, FeatureGates
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code
from shared.kube.api.storage_v1 import CsiDriver
from shared.plugins.volumes.node_volume_limits import NodeVolumeLimits
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, filtered, pod_info, pod_with, rows_of
from tests.support.volumes import claim_volumes, put_claim, put_class, put_csi_node, put_volume

FULL = "node(s) exceed max volume count"
EBS = "ebs.csi.aws.com"


def ebs(*volume_ids: str) -> dict[str, Any]:
    return {
        "volumes": [
            {"name": f"v{i}", "awsElasticBlockStore": {"volumeID": volume_id}}
            for i, volume_id in enumerate(volume_ids)
        ]
    }


def cluster(limit: int = 1) -> Cache:
    """n0 states a limit, n1 has no CSINode object."""
    cache = cluster_of([make_node("n0"), make_node("n1")])
    put_csi_node(cache, "n0", {EBS: limit})
    return cache


def reasons(cache: Cache, pod: PodInfo) -> list[tuple[Code, tuple[str, ...]]]:
    verdicts = filtered(NodeVolumeLimits(), pod, cache.view, rows_of(0, 1))
    return [(s.code, s.reasons) for s in (verdicts.status(i, "x") for i in range(2))]


OK = (Code.SUCCESS, ())


def test_only_pods_that_could_attach_something_are_looked_at() -> None:
    cache = cluster()
    for volume, is_skipped in (
        ({"image": {"reference": "i"}}, True),
        ({"rbd": {"image": "i"}}, True),
        ({"csi": {"driver": EBS}}, True),
        ({"vsphereVolume": {}}, False),
        ({"awsElasticBlockStore": {"volumeID": "a"}}, False),
        ({"persistentVolumeClaim": {"claimName": "c"}}, False),
        ({"ephemeral": {}}, False),
    ):
        pod = pod_info(make_pod("p", spec={"volumes": [{"name": "v", **volume}]}))
        result = NodeVolumeLimits().pre_filter(pod, cache.view)
        assert result.is_final is is_skipped, volume
        assert result.status.is_success is not is_skipped


def test_a_node_takes_as_many_as_it_says() -> None:
    cache = cluster(limit=2)
    assert reasons(cache, pod_with(ebs("a", "b"))) == [OK, OK]
    full = (Code.UNSCHEDULABLE, (FULL,))
    assert reasons(cache, pod_with(ebs("a", "b", "c"))) == [full, OK]
    cache.add_pod(make_pod("p", node_name="n0", spec=ebs("a")))
    assert reasons(cache, pod_with(ebs("a", "b"))) == [OK, OK]
    assert reasons(cache, pod_with(ebs("b", "c"))) == [full, OK]


def test_a_driver_may_ask_that_its_volumes_go_only_where_it_is() -> None:
    cache = cluster()
    put_class(cache)
    put_claim(cache, "c")
    new, migrated = pod_info(make_pod("p", claim="c")), pod_with(ebs("a"))
    for driver in ("csi.example.com", EBS):
        body = {"metadata": {"name": driver}, "spec": {"preventPodSchedulingIfMissing": True}}
        cache.objects.put("csidrivers", driver, msgspec.convert(body, CsiDriver))
    assert reasons(cache, new) == [OK, OK]
    cache.view.gates = FeatureGates({VOLUME_LIMIT_SCALING: True})
    lacking = (Code.UNSCHEDULABLE, ("csi.example.com CSI driver is not installed on the node",))
    assert reasons(cache, new) == [lacking, lacking]
    assert reasons(cache, migrated) == [OK, OK]
    put_csi_node(cache, "n1", {"csi.example.com": 1})
    assert reasons(cache, new) == [lacking, OK]
    gone = (Code.UNSCHEDULABLE, (f"{EBS} CSI driver is not installed on the node",))
    assert reasons(cache, migrated) == [OK, gone]


def test_the_same_volume_by_another_name_is_the_same_volume() -> None:
    cache = cluster()
    put_class(cache)
    source = {"csi": {"driver": EBS, "volumeHandle": "vol-1"}}
    put_volume(cache, "pv", source=source, claim="c")
    put_claim(cache, "c", volume="pv")
    cache.add_pod(make_pod("p", node_name="n0", claim="c"))
    assert reasons(cache, pod_with(ebs("aws://zone/vol-1"))) == [OK, OK]
    assert reasons(cache, pod_with(ebs("vol-2")))[0][0] is Code.UNSCHEDULABLE


def test_a_claim_to_be_provisioned_counts_for_its_driver() -> None:
    cache = cluster(limit=0)
    put_class(cache, provisioner="kubernetes.io/aws-ebs")
    put_claim(cache, "c")
    assert reasons(cache, pod_with(claim_volumes("c")))[0][0] is Code.UNSCHEDULABLE
    put_class(cache, provisioner="kubernetes.io/vsphere-volume")
    assert reasons(cache, pod_with(claim_volumes("c"))) == [OK, OK]


def test_a_claim_that_is_not_there_is_nowhere() -> None:
    told = 'looking up PVC default/c: persistentvolumeclaim "c" not found'
    missing = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (told,))
    assert reasons(cluster(), pod_with(claim_volumes("c"))) == [missing, missing]


def test_a_strangers_ephemeral_claim_is_an_error() -> None:
    cache = cluster()
    put_claim(cache, "p-tmp", owner="stranger")
    record = make_pod("p", spec={"volumes": [{"name": "tmp", "ephemeral": {}}]})
    told = "PVC default/p-tmp was not created for pod default/p (pod is not owner)"
    wrong = (Code.ERROR, (told,))
    assert reasons(cache, pod_info(record)) == [wrong, wrong]
    # On its node, it makes counting an error for others, where there is something to count.
    placed = make_pod("p", node_name="n0", spec={"volumes": [{"name": "tmp", "ephemeral": {}}]})
    cache.add_pod(placed)
    assert reasons(cache, pod_with(ebs("vol-1"))) == [wrong, OK]
    put_claim(cache, "p-tmp", owner=placed.uid)
    assert reasons(cache, pod_with(ebs("vol-1"))) == [OK, OK]


def test_a_nominated_pods_volumes_may_make_counting_an_error() -> None:
    """Nodes are asked about with the pods that are nominated to them, and Filter may end there."""
    cache = cluster()
    put_claim(cache, "p-tmp", owner="stranger")
    ephemeral: dict[str, Any] = {"ephemeral": {}}
    for volume in (ephemeral, *ebs("aws://x")["volumes"]):
        waiting = make_pod("p", spec={"volumes": [{**volume, "name": "tmp"}]})
        state = NodeVolumeLimits().pre_filter(pod_with(ebs("vol-1")), cache.view).state
        assert not state.has_failed
        class_id = cache.classes.acquire(waiting).class_id
        cache.view.nominations.put(Nomination(waiting.uid, class_id, 0, 0))
        assert state.has_failed
        cache.view.nominations.remove(waiting.uid)


def test_an_unreadable_volume_is_an_error_where_csi_would_read_it() -> None:
    (first, second) = reasons(cluster(), pod_with(ebs("aws://x")))
    assert first[0] is Code.ERROR
    assert "Invalid format for AWS volume (aws://x)" in first[1][0]
    assert second == OK
