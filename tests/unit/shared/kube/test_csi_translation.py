"""In-tree volumes as CSI volumes: handles and topologies as csi-translation-lib makes them."""

from typing import Any

import msgspec
import pytest

from shared.kube.api.core_v1 import Volume
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.csi_translation import (
    Untranslatable,
    in_tree_plugin_named,
    inline_handle,
    translated_affinity,
    volume_handle,
)
from shared.kube.in_tree_plugins import in_tree_plugin

ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"


def volume(
    source: dict[str, Any], labels: dict[str, str] | None = None, affinity: Any = None
) -> PersistentVolume:
    spec = dict(source)
    if affinity is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": affinity}}
    body = {"metadata": {"name": "pv", "labels": labels or {}}, "spec": spec}
    return msgspec.convert(body, PersistentVolume)


def gce(labels: dict[str, str] | None = None) -> PersistentVolume:
    return volume({"gcePersistentDisk": {"pdName": "disk"}}, labels)


@pytest.mark.parametrize(
    ("volume_id", "handle"),
    [
        ("vol-1", "vol-1"),
        ("anything", "anything"),
        ("aws://us-east-1a/vol-1", "vol-1"),
        ("aws:///vol-1", "vol-1"),
        ("aws://us-east-1a/vol-1/", "vol-1"),
    ],
)
def test_an_ebs_volume_goes_by_its_id(volume_id: str, handle: str) -> None:
    source = {"awsElasticBlockStore": {"volumeID": volume_id}}
    assert volume_handle(volume(source)) == handle
    inline = msgspec.convert({"name": "v", **source}, Volume)
    assert inline_handle(inline) == handle


@pytest.mark.parametrize("volume_id", ["aws://us-east-1a/", "aws://vol-1", "aws:///a/vol-1"])
def test_an_ebs_address_without_a_volume_cannot_be_translated(volume_id: str) -> None:
    found = volume_handle(volume({"awsElasticBlockStore": {"volumeID": volume_id}}))
    assert isinstance(found, Untranslatable)
    assert found.problem.endswith(f"Invalid format for AWS volume ({volume_id})")


@pytest.mark.parametrize("kind", [{}, {"kind": "Managed"}, {"kind": "managed"}])
def test_a_managed_azure_disk_goes_by_its_address(kind: dict[str, str]) -> None:
    source = {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/d", **kind}}
    assert volume_handle(volume(source)) == "/subscriptions/d"


@pytest.mark.parametrize("kind", ["Shared", "Dedicated"])
def test_a_blob_of_azure_cannot_be_translated(kind: str) -> None:
    source = {"azureDisk": {"diskName": "d", "diskURI": "https://d.vhd", "kind": kind}}
    told = Untranslatable(f"kind({kind}) is not supported in csi migration")
    assert volume_handle(volume(source)) == told
    assert inline_handle(msgspec.convert({"name": "v", **source}, Volume)) == told


@pytest.mark.parametrize(
    ("labels", "handle"),
    [
        ({}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"),
        ({ZONE: "us-east1-b"}, "projects/UNSPECIFIED/zones/us-east1-b/disks/disk"),
        ({BETA_ZONE: "z1", ZONE: "z2"}, "projects/UNSPECIFIED/zones/z1/disks/disk"),
        (
            {ZONE: "us-east1-b__us-east1-c"},
            "projects/UNSPECIFIED/regions/us-east1/disks/disk",
        ),
    ],
)
def test_a_gce_disk_goes_by_its_zones(labels: dict[str, str], handle: str) -> None:
    assert volume_handle(gce(labels)) == handle


@pytest.mark.parametrize(
    ("zones", "problem"),
    [
        (
            "us-east1-b__west",
            "zone in unexpected format, expected: {locale}-{region}-{zone}, got: west",
        ),
        (
            "us-east1-b__us-west1-b",
            "multiple or no regions gotten from zones, got: map[us-east1:{} us-west1:{}]",
        ),
    ],
)
def test_a_gce_disk_in_two_regions_cannot_be_translated(zones: str, problem: str) -> None:
    found = translated_affinity(gce({ZONE: zones}))
    assert found == Untranslatable(f"failed to get region from zones: {problem}")


def test_an_inline_gce_disk_has_no_zone() -> None:
    inline = msgspec.convert({"name": "v", "gcePersistentDisk": {"pdName": "disk"}}, Volume)
    assert inline_handle(inline) == "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"


def test_what_csi_has_taken_over_and_what_it_only_could() -> None:
    fields = {
        "awsElasticBlockStore": ("ebs.csi.aws.com", True),
        "gcePersistentDisk": ("pd.csi.storage.gke.io", True),
        "azureDisk": ("disk.csi.azure.com", True),
        "cinder": ("cinder.csi.openstack.org", True),
        "portworxVolume": ("pxd.portworx.com", True),
        "azureFile": ("file.csi.azure.com", False),
        "vsphereVolume": ("csi.vsphere.vmware.com", False),
    }
    for name, (driver, is_migrated) in fields.items():
        plugin = in_tree_plugin(msgspec.convert({"name": "v", name: {}}, Volume))
        assert plugin is not None
        assert (plugin.driver, plugin.is_migrated) == (driver, is_migrated)
        assert in_tree_plugin_named(plugin.name) is plugin
    assert in_tree_plugin(msgspec.convert({"name": "v", "rbd": {}}, Volume)) is None
    assert in_tree_plugin_named("ebs.csi.aws.com") is None


# Topology -------------------------------------------------------------------------------------------

EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def requirements(found: Any) -> list[list[tuple[str, list[str] | None]]]:
    assert not isinstance(found, Untranslatable)
    return [
        [(r.key, r.values) for r in term.match_expressions or ()]
        for term in found.node_selector_terms
    ]


def expression(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def test_a_zone_requirement_becomes_the_drivers() -> None:
    affinity = [{"matchExpressions": [expression(ZONE, "a"), expression("other", "b")]}]
    found = translated_affinity(volume(EBS, {ZONE: "ignored"}, affinity))
    assert requirements(found) == [[(EBS_ZONE, ["a"]), ("other", ["b"])]]


def test_a_zone_label_becomes_a_requirement_of_every_term() -> None:
    affinity = [{"matchExpressions": [expression("x", "1")]}, {}]
    found = translated_affinity(volume(EBS, {ZONE: "b__ a__"}, affinity))
    more = (EBS_ZONE, ["a", "b"])
    assert requirements(found) == [[("x", ["1"]), more], [more]]


def test_without_zone_and_affinity_a_volume_goes_anywhere() -> None:
    assert translated_affinity(volume(EBS)) is None


def test_beta_labels_become_general_ones() -> None:
    terms = [expression(BETA_ZONE, "a"), expression(BETA_REGION, "r")]
    found = translated_affinity(volume(EBS, affinity=[{"matchExpressions": terms}]))
    assert requirements(found) == [[(EBS_ZONE, ["a"]), ("topology.kubernetes.io/region", ["r"])]]


def test_drivers_without_a_topology_leave_the_affinity_as_it_is() -> None:
    affinity = [{"matchExpressions": [expression(ZONE, "a")]}]
    source = {"azureDisk": {"diskURI": "uri"}}
    found = translated_affinity(volume(source, {ZONE: "b"}, affinity))
    assert requirements(found) == [[(ZONE, ["a"])]]
