"""A gate of devices reaches every process that asks it."""

import pytest

from tests.support.live import LiveBerth, configuration
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.integration

GATES = "DRAExtendedResource=false,DRADeviceTaints=false"
OF_CLASS = "deviceclass.resource.kubernetes.io/gpu"


def start_berth() -> LiveBerth:
    return LiveBerth(configuration(), feature_gates=GATES, before=_prepare)


def _prepare(cluster: LiveCluster) -> None:
    group = "/apis/resource.k8s.io/v1"
    cluster.create(f"{group}/deviceclasses", "DeviceClass", {"metadata": {"name": "gpu"}})
    spec = {
        "driver": "d.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "a", "taints": [{"key": "k", "effect": "NoSchedule"}]}],
    }
    body = {"metadata": {"name": "n1"}, "spec": spec}
    cluster.create(f"{group}/resourceslices", "ResourceSlice", body)


def test_a_class_stands_for_no_resource(live: LiveBerth) -> None:
    """TestDRA/GA/ImplicitExtendedResource of test/integration/dra/extendedresource.go, v1.36.2."""
    live.add_nodes("n1")
    resources = {"requests": {OF_CLASS: "1"}, "limits": {OF_CLASS: "1"}}
    live.add_pod("p", spec={"containers": [{"name": "c", "image": "i", "resources": resources}]})
    live.unschedulable(
        "p",
        contains=f"0/1 nodes are available: 1 Insufficient {OF_CLASS}. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )


def test_a_taint_keeps_nobody_away(live: LiveBerth) -> None:
    """Owner and scorer have to see the same device."""
    live.add_nodes("n1")
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    live.create(claims, "ResourceClaim", {"metadata": {"name": "one"}, "spec": spec})
    named = [{"name": "c", "resourceClaimName": "one"}]
    live.add_pod("p", spec={"resourceClaims": named})
    assert live.bound("p") == "n1"
