"""What a pod's volumes are: claims, disks that are not to be shared, attachable volumes."""

from itertools import product
from typing import Any

import msgspec
import pytest

from shared.framework.pod_info import PodInfo
from shared.kube.api.core_v1 import PersistentVolumeClaim, Volume
from shared.kube.csi_translation import Untranslatable
from shared.kube.pod_record import PodTemplate, decode_template
from shared.kube.pod_volumes import (
    Attachable,
    claim_uses,
    disks,
    disks_conflict,
    inline_attachable,
    ownership_problem,
)
from tests.support.builders import make_pod


def template(*volumes: dict[str, Any], name: str = "pod") -> PodTemplate:
    named = [{"name": f"v{i}", **volume} for i, volume in enumerate(volumes)]
    return decode_template(make_pod(name, spec={"volumes": named}).template)


def rbd(monitors: list[str], *, read_only: bool = False, image: str = "i") -> dict[str, Any]:
    return {"rbd": {"monitors": monitors, "image": image, "readOnly": read_only}}


def conflict(mine: dict[str, Any], other: dict[str, Any]) -> bool:
    (my_disk,), (other_disk,) = disks(template(mine)), disks(template(other))
    both = disks_conflict(my_disk, other_disk), disks_conflict(other_disk, my_disk)
    assert both[0] is both[1]
    return both[0]


@pytest.mark.parametrize("source", ["gcePersistentDisk", "iscsi"])
def test_a_disk_is_shared_only_for_reading(source: str) -> None:
    identity = {"pdName": "d"} if source == "gcePersistentDisk" else {"iqn": "d"}
    for mine, other in product((False, True), repeat=2):
        first = {source: {**identity, "readOnly": mine}}
        second = {source: {**identity, "readOnly": other}}
        assert conflict(first, second) is not (mine and other)
    stranger = {source: dict.fromkeys(identity, "e")}
    assert not conflict({source: identity}, stranger)


def test_an_ebs_disk_is_not_shared_at_all() -> None:
    disk = {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}}
    assert conflict(disk, disk)


def test_an_rbd_image_is_the_same_where_a_monitor_is() -> None:
    assert conflict(rbd(["a", "b"]), rbd(["b", "c"]))
    assert not conflict(rbd(["a"]), rbd(["b"]))
    assert not conflict(rbd(["a"]), rbd(["a"], image="other"))
    assert not conflict(rbd(["a"], read_only=True), rbd(["a"], read_only=True))
    assert conflict(rbd(["a"], read_only=True), rbd(["a"]))


def test_disks_of_different_kinds_never_conflict() -> None:
    assert not conflict({"iscsi": {"iqn": "d"}}, {"gcePersistentDisk": {"pdName": "d"}})


def test_pods_with_ephemeral_volumes_are_classes_of_their_own() -> None:
    volume: dict[str, Any] = {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    first, second = template(volume, name="a"), template(volume, name="b")
    assert first != second
    assert [use.key for use in claim_uses("ns", first)] == ["ns/a-v0"]
    plain = {"persistentVolumeClaim": {"claimName": "c"}}
    assert template(plain, name="a") == template(plain, name="b")


def test_a_claim_is_named_outright_or_after_pod_and_volume() -> None:
    named = {"persistentVolumeClaim": {"claimName": "disk"}}
    others: list[dict[str, Any]] = [{"ephemeral": {}}, {"configMap": {"name": "x"}}]
    pod = PodInfo("ns", template(named, named, *others, name="web-0"))
    assert [use.key for use in pod.claim_uses] == ["ns/disk", "ns/disk", "ns/web-0-v2"]
    assert pod.claim_keys == ("ns/disk", "ns/disk")


def test_an_ephemeral_claim_must_belong_to_the_pod() -> None:
    pod = template({"ephemeral": {}})
    assert pod.own is not None
    told = "PVC ns/pod-v0 was not created for pod ns/pod (pod is not owner)"
    for owners, problem in (
        ([], told),
        ([{"uid": pod.own.uid}], told),
        ([{"uid": "other", "controller": True}], told),
        ([{"uid": pod.own.uid, "controller": True}], None),
    ):
        meta = {"name": "pod-v0", "namespace": "ns", "ownerReferences": owners}
        claim = msgspec.convert({"metadata": meta}, PersistentVolumeClaim)
        assert ownership_problem("ns", pod, claim) == problem


def test_inline_volumes_attach_under_their_csi_driver() -> None:
    def attached(**source: Any) -> Attachable | Untranslatable | None:
        return inline_attachable(msgspec.convert({"name": "v", **source}, Volume))

    assert attached(cinder={"volumeID": "x"}) == Attachable(
        "cinder.csi.openstack.org", "cinder.csi.openstack.org/x", is_migrated=True
    )
    assert attached(vsphereVolume={}) is None
    assert attached(csi={"driver": "d"}) is None
    bad = attached(awsElasticBlockStore={"volumeID": "aws://x"})
    assert isinstance(bad, Untranslatable)
    assert bad.problem.startswith("converting volume(v) from inline to csi: ")
