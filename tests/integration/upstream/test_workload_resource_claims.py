"""Claims of pod groups through real processes; the test is the controller that makes and frees claims.

The first mirrors test/integration/dra/workload_resource_claims.go, v1.36.2.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.test_devices_live import CLAIMS, GROUP, forget_claims
from tests.integration.upstream.test_pod_groups import GROUPS, add_group
from tests.support.live import LiveBerth, configuration
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.integration

GATES = "GenericWorkload=true,GangScheduling=true,DRAWorkloadResourceClaims=true"
FABRIC = {"name": "fabric", "resourceClaimName": "fabric"}
TEMPLATE = {"name": "fabric", "resourceClaimTemplateName": "fabric"}
OWN = {"name": "own", "resourceClaimName": "own"}


def start_berth() -> LiveBerth:
    config = configuration(podMaxBackoffSeconds=1)
    return LiveBerth(config, feature_gates=GATES, before=_prepare)


def _prepare(cluster: LiveCluster) -> None:
    cluster.create(
        f"{GROUP}/deviceclasses", "DeviceClass", {"metadata": {"name": "any"}, "spec": {}}
    )


@pytest.fixture
def live(live: LiveBerth) -> Iterator[LiveBerth]:
    for name in ("n1", "n2"):
        live.add_node(name, cpu=512, pods=512)
        spec = {
            "driver": "d.example.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "a"}, {"name": "b"}] if name == "n1" else [],
        }
        live.create(
            f"{GROUP}/resourceslices", "ResourceSlice", {"metadata": {"name": name}, "spec": spec}
        )
    yield live
    forget_claims(live)


def add_claim(live: LiveBerth, name: str, **meta: Any) -> None:
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    live.ask("POST", CLAIMS, {**body, "metadata": {"name": name, **meta}, "spec": spec})


def add_member(live: LiveBerth, name: str, *claims: dict[str, str]) -> str:
    spec = {"schedulingGroup": {"podGroupName": "pg"}, "resourceClaims": list(claims)}
    uid: str = live.add_pod(name, cpu="1", spec=spec)["metadata"]["uid"]
    return uid


def users(live: LiveBerth, name: str) -> list[str]:
    claim = live.ask("GET", f"{CLAIMS}/{name}")
    return [user["uid"] for user in claim["status"]["reservedFor"]]


def as_user(uid: str) -> dict[str, str]:
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "pg", "uid": uid}


def uid_of_group(live: LiveBerth) -> str:
    uid: str = live.ask("GET", f"{GROUPS}/pg")["metadata"]["uid"]
    return uid


def test_a_claim_of_the_group_is_reserved_for_it_and_one_of_pods_for_each(live: LiveBerth) -> None:
    add_claim(live, "fabric")
    add_claim(live, "own")
    add_group(live, "pg", 1, resourceClaims=[FABRIC])
    uids = []
    for name in ("p1", "p2"):
        uids.append(add_member(live, name, OWN, FABRIC))
        assert live.bound(name) == "n1"
        assert users(live, "own") == uids
        held = live.ask("GET", f"{CLAIMS}/fabric")
        assert held["status"]["reservedFor"] == [as_user(uid_of_group(live))]


def test_more_pods_than_a_claim_may_have_users_share_that_of_the_groups_template(
    live: LiveBerth,
) -> None:
    names = [f"p{number}" for number in range(260)]
    add_group(live, "pg", len(names), resourceClaims=[TEMPLATE])
    for name in names:
        add_member(live, name, TEMPLATE)
    owner = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "name": "pg",
        "uid": uid_of_group(live),
        "controller": True,
    }
    add_claim(live, "pg-fabric", ownerReferences=[owner])
    statuses = {"resourceClaimStatuses": [{"name": "fabric", "resourceClaimName": "pg-fabric"}]}
    for path in [f"{GROUPS}/pg", *(f"/api/v1/namespaces/default/pods/{name}" for name in names)]:
        live.update(path, lambda each: each["status"].update(statuses), "status")
    assert {live.bound(name) for name in names} == {"n1"}
    assert users(live, "pg-fabric") == [uid_of_group(live)]


def test_a_group_gives_back_what_it_cannot_use(live: LiveBerth) -> None:
    """An earlier attempt was given a device that is on no node any more."""
    add_claim(live, "fabric")
    add_group(live, "pg", 2, resourceClaims=[FABRIC])
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
    device = {"request": "r", "driver": "d.example.com", "pool": "gone", "device": "a"}
    status = {
        "allocation": {
            "devices": {"results": [device]},
            "nodeSelector": {"nodeSelectorTerms": [term]},
        },
        "reservedFor": [as_user(uid_of_group(live))],
    }
    live.update(f"{CLAIMS}/fabric", lambda claim: claim.update(status=status), "status")
    add_member(live, "p1", FABRIC)
    add_member(live, "p2", FABRIC)
    assert {live.bound(name) for name in ("p1", "p2")} == {"n1"}
    assert users(live, "fabric") == [uid_of_group(live)]
