"""Devices from end to end: a whole berth at the simulated API server, a user, and a driver."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.live import EVENTS, LiveBerth, configuration
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.integration

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
GPU = "example.com/gpu"


def start_berth() -> LiveBerth:
    return LiveBerth(configuration(), before=_prepare)


def _prepare(cluster: LiveCluster) -> None:
    body = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}}
    cluster.create(f"{GROUP}/deviceclasses", "DeviceClass", body)


@pytest.fixture
def live(live: LiveBerth) -> Iterator[LiveBerth]:
    live.add_nodes("n1", "n2")
    yield live
    forget_claims(live)


def forget_claims(live: LiveBerth) -> None:
    live.delete_all_pods()
    for claim in live.ask("GET", CLAIMS)["items"]:
        name = claim["metadata"]["name"]
        claim["metadata"].pop("finalizers", None)
        live.ask("PUT", f"{CLAIMS}/{name}", claim)
        live.ask("DELETE", f"{CLAIMS}/{name}")


def add_slice(live: LiveBerth, node: str, **device: Any) -> None:
    spec = {
        "driver": "d.example.com",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "a", **device}],
    }
    body = {"metadata": {"name": node}, "spec": spec}
    live.create(f"{GROUP}/resourceslices", "ResourceSlice", body)


def add_claim(live: LiveBerth, name: str) -> None:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    live.ask("POST", CLAIMS, {**body, "metadata": {"name": name}, "spec": spec})


def named(claim: str) -> list[dict[str, str]]:
    return [{"name": "c", "resourceClaimName": claim}]


def asking() -> list[dict[str, Any]]:
    amounts = {GPU: "1"}
    return [{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]


def users(claim: dict[str, Any]) -> list[str]:
    return [user["name"] for user in claim["status"].get("reservedFor", ())]


def test_a_claim_is_allocated_where_the_device_is(live: LiveBerth) -> None:
    add_slice(live, "n2")
    add_claim(live, "one")
    live.add_pod("p", spec={"resourceClaims": named("one")})
    assert live.bound("p") == "n2"
    claim = live.ask("GET", f"{CLAIMS}/one")
    assert users(claim) == ["p"]
    (device,) = claim["status"]["allocation"]["devices"]["results"]
    assert (device["pool"], device["device"]) == ("n2", "a")
    add_claim(live, "two")
    live.add_pod("q", spec={"resourceClaims": named("two")})
    live.unschedulable("q", contains="cannot allocate all claims")
    # Its claim is freed, as kube-controller-manager would do: the other pod takes the device.
    live.delete_pod("p")
    claim["status"] = {}
    del claim["metadata"]["resourceVersion"]
    live.ask("PUT", f"{CLAIMS}/one/status", claim)
    assert live.bound("q") == "n2"


def test_an_extended_resource_comes_from_a_claim_that_berth_makes(live: LiveBerth) -> None:
    add_slice(live, "n1")
    live.add_pod("p", spec={"containers": asking()})
    assert live.bound("p") == "n1"
    (claim,) = live.ask("GET", CLAIMS)["items"]
    assert users(claim) == ["p"]
    told = live.ask("GET", "/api/v1/namespaces/default/pods/p")["status"]
    assert told["extendedResourceClaimStatus"]["resourceClaimName"] == claim["metadata"]["name"]
    live.add_pod("q", spec={"containers": asking()})
    live.unschedulable("q", contains="cannot allocate all claims")


def test_an_owner_that_starts_anew_knows_what_is_taken(live: LiveBerth) -> None:
    add_slice(live, "n1")
    live.add_pod("p", spec={"containers": asking()})
    assert live.bound("p") == "n1"
    live.restart("owner")
    live.add_pod("q", spec={"containers": asking()})
    live.unschedulable("q", contains="cannot allocate all claims")
    add_slice(live, "n2")
    assert live.bound("q") == "n2"


def test_a_pod_is_bound_once_its_driver_has_prepared_the_device(live: LiveBerth) -> None:
    add_slice(live, "n1", bindingConditions=["Ready"], bindingFailureConditions=["Broken"])
    add_claim(live, "one")
    live.add_pod("p", spec={"resourceClaims": named("one")})
    claim = live.wait(f"{CLAIMS}/one", lambda c: c["status"]["allocation"], "is allocated")
    live.wait(
        EVENTS,
        lambda events: "BindingConditionsPending" in {e["reason"] for e in events["items"]},
        "tell that the pod waits",
    )
    assert not live.pod("p")["spec"]["nodeName"]
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Done",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    said = {"driver": "d.example.com", "pool": "n1", "device": "a", "conditions": [condition]}
    claim["status"]["devices"] = [said]
    live.ask("PUT", f"{CLAIMS}/one/status", claim)
    assert live.bound("p") == "n1"
