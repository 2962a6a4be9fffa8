"""What devices take of their node, from Reserve on: counted there, ordered to be told, found again
in what the watch says, and given back."""

from typing import Any

import msgspec
import pytest

from daemon.core.owner_counts import Count
from shared.feature_gates import DRA_NODE_ALLOCATABLE_RESOURCES
from shared.kube.api.core_v1 import PodStatus
from shared.kube.api.core_v1_parts import NodeAllocatableResourceClaimStatus
from shared.kube.pod_record import PodRecord, with_status
from shared.messages.to_owner import PodChanged, PodDeleted
from tests.support.binding_work import claim_work
from tests.support.builders import make_pod
from tests.support.devices import device, make_claim, make_slice
from tests.support.pipeline import Pipeline
from tests.unit.daemon.core.test_claim_work import Cluster, ordered
from tests.unit.daemon.core.test_group_claims import NAMED, SharedClaim
from tests.unit.daemon.core.test_pod_groups import member

GATE = {DRA_NODE_ALLOCATABLE_RESOURCES: True}
TAKEN = NodeAllocatableResourceClaimStatus("c", ["main"], {"cpu": "3"})


def core(name: str) -> dict[str, Any]:
    """A device that takes three cpus of its node."""
    return device(name, nodeAllocatableResourceMappings={"cpu": {"allocationMultiplier": "3"}})


def core_pod(name: str, claim: str = "c") -> PodRecord:
    claims = {"claims": [{"name": "mine"}]}
    return make_pod(
        name,
        spec={
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}, **claims}}],
            "resourceClaims": [{"name": "mine", "resourceClaimName": claim}],
        },
    )


def requested_cpu(cluster: Pipeline, node_name: str) -> int:
    nodes = cluster.state.cache.nodes
    return nodes.requested.item(nodes.resources.find("cpu"), nodes.row_of(node_name))


class Cores(Cluster):
    """Two devices on n0, whose four cpus are enough for one of them."""

    def __init__(self) -> None:
        slices = make_slice("n0", [core("a"), core("b")])
        super().__init__(slices, make_claim("c"), make_claim("d"), gates=GATE)

    @property
    def requested_cpu(self) -> int:
        return requested_cpu(self, "n0")


def test_what_a_pods_devices_take_counts_from_its_order_until_it_goes() -> None:
    cluster, pod = Cores(), core_pod("p")
    order = ordered(cluster.order_of(pod))
    (work,) = claim_work(order)
    assert work.pod_statuses == [TAKEN]
    assert cluster.requested_cpu == 3500
    told = PodStatus(node_allocatable_resource_claim_statuses=[TAKEN])
    pending = msgspec.structs.replace(with_status(pod, told), resource_version="2")
    cluster.tell(PodChanged(pending))
    assert cluster.requested_cpu == 3500, "the pod's status is told before it is bound"
    cluster.write(order, pod)
    cluster.step_binder()
    bound = msgspec.structs.replace(pending, node_name="n0", resource_version="3")
    cluster.tell(PodChanged(bound))
    assert cluster.requested_cpu == 3500
    cluster.check()
    cluster.tell(PodDeleted(bound))
    assert cluster.requested_cpu == 0


def test_a_binding_that_failed_gives_back_what_its_devices_took() -> None:
    cluster = Cores()
    assert cluster.order_of(core_pod("p"))
    cluster.step_binder(fails=True)
    cluster.step_owner()
    assert cluster.requested_cpu == 0
    assert claim_work(ordered(cluster.order_of(core_pod("q", "d"))))[0].pod_statuses
    cluster.check()


ON_N0 = {"nodeSelector": {"kubernetes.io/hostname": "n0"}}


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(core_pod("q", "d"), id="with-a-device"),
        pytest.param(make_pod("q", cpu="1", spec=ON_N0), id="without"),
    ],
)
def test_a_scorer_counts_them_for_the_pods_that_follow(second: PodRecord) -> None:
    cluster = Cores()
    cluster.tell(PodChanged(core_pod("p")), PodChanged(second))
    cluster.run_until_quiet()
    assert list(cluster.bound) == ["uid-default-p"]
    assert cluster.state.counters[Count.PROPOSALS_REJECTED] == 0
    assert "Insufficient cpu" in cluster.verdicts[-1].message
    cluster.check()


def test_what_a_group_is_given_together_counts_once() -> None:
    berth = SharedClaim(make_slice("worker-0", [core("device-0")]), more_gates=GATE)
    berth.add_group("pg", 2)
    resources = {"requests": {"cpu": "500m"}, "claims": [{"name": "c"}]}
    spec = {**NAMED, "containers": [{"name": "main", "resources": resources}]}
    berth.add(member("p0", "pg", spec=spec), member("p1", "pg", spec=spec))
    assert len(berth.bound) == 2
    assert requested_cpu(berth, "worker-0") == 4000
    stated = [work.pod_statuses for order in berth.ordered for work in claim_work(order)]
    assert [len(each) for each in stated] == [1, 0]
