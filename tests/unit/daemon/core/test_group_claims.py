"""Pods of a group that name the same resource claim: what one of them is given, the others have too.

The first part mirrors testPodGroup in test/integration/dra/pod_group.go, v1.36.2: the same groups, with
the owner's core and a scorer in one process.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from bench.conformance.claims import written_claim
from daemon.core.cluster_changes import LATE_S
from daemon.core.events import Effect
from shared.dra.device_index import CLAIMS, CLASSES, SLICES
from shared.kube.api.core_v1 import Node
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api.resource_v1_devices import DeviceClass, ResourceSlice
from shared.kube.pod_record import PodRecord
from shared.messages.to_binder import BindPod
from shared.messages.to_owner import ObjectChanged
from tests.support.binding_work import claim_work
from tests.support.builders import make_node, make_pod
from tests.support.devices import device, make_claim, make_class, make_slice
from tests.unit.daemon.core.test_pod_groups import Gangs, encoded, member

CLAIM = "default/claim"
NAMED = {"resourceClaims": [{"name": "c", "resourceClaimName": "claim"}]}
IN_PROCESS = "resource claim default/claim is in the process of being allocated"


class SharedClaim(Gangs):
    """One device on one of the nodes, and one claim for it."""

    def __init__(self, *slices: ResourceSlice, nodes: Sequence[Node] = (), **more: Any) -> None:
        self.ordered: list[BindPod] = []
        three = [make_node(f"worker-{i}", cpu="64") for i in range(3)]
        super().__init__([*(nodes or three)], **more)
        for each in (make_class(), *(slices or [make_slice("worker-0", [device("device-0")])])):
            self.show(each)
        self.show(make_claim())
        self.run_until_quiet()

    def show(self, each: ResourceClaim | ResourceSlice | DeviceClass) -> None:
        kinds = {ResourceClaim: CLAIMS, ResourceSlice: SLICES, DeviceClass: CLASSES}
        key = "/".join(filter(None, (each.metadata.namespace, each.metadata.name)))
        self.tell(ObjectChanged(kinds[type(each)], key, encoded(each)))

    def _carry_out(self, effect: Effect) -> None:
        count = len(self.orders)
        super()._carry_out(effect)
        self.ordered += list(self.orders)[count:]

    def step_binder(self, *, fails: bool = False) -> bool:
        """The claims are told before the pod is bound; a binding that fails tells nothing."""
        if self.orders and not fails:
            order = self.orders[0]
            for work in claim_work(order):
                held = self.state.cache.objects.get(CLAIMS, CLAIM)
                self.show(written_claim(work, held, sharing(order.name)))
        return super().step_binder(fails=fails)

    def until_ordered(self) -> None:
        while self.step_owner() or self.step_scorer(0):
            pass

    @property
    def holders(self) -> tuple[str, ...]:
        assumed = self.state.cache.objects.assumed(CLAIMS).get(CLAIM)
        return () if assumed is None else assumed.pod_uids


def sharing(name: str, group: str = "podgroup") -> PodRecord:
    if not group:
        return make_pod(name, uid=f"uid-{name}", cpu="1", memory=None, spec=NAMED)
    return member(name, group, uid=f"uid-{name}", spec=NAMED)


# Upstream's cases --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod_count", "min_count"),
    [
        pytest.param(2, 2, id="gang-2-pods-mincount-2"),
        pytest.param(20, 20, id="gang-20-pods-mincount-20"),
        pytest.param(5, 2, id="gang-5-pods-mincount-2"),
        pytest.param(2, 0, id="basic-2-pods"),
        pytest.param(20, 0, id="basic-20-pods"),
    ],
)
def test_pods_of_a_group_share_a_claim(pod_count: int, min_count: int) -> None:
    berth = SharedClaim()
    berth.add_group("podgroup", min_count)
    pods = [sharing(f"p{i}") for i in range(pod_count)]
    for pod in pods:
        berth.add(pod)
    assert berth.bound_names() == {pod.name for pod in pods}
    assert {node for nodes in berth.bound.values() for node in nodes} == {"worker-0"}
    assert [o.name for o in berth.ordered for work in claim_work(o) if work.is_new] == ["p0"]


# Berth's own -------------------------------------------------------------------------------------


def tried_at_once(berth: SharedClaim, *names: str) -> None:
    """Their group comes last, so that all of them are tried together."""
    for name in names:
        berth.add_pod(sharing(name))
    berth.tell_group("podgroup", len(names))
    berth.until_ordered()


def test_what_one_was_given_is_allocated_once_and_held_for_all() -> None:
    berth = SharedClaim(*(make_slice(f"worker-{i}", [device("a"), device("b")]) for i in range(3)))
    tried_at_once(berth, "p0", "p1", "p2")
    ordered = [work for order in berth.orders for work in claim_work(order)]
    assert [work.is_new for work in ordered] == [True, False, False]
    assert len({str(work.allocation) for work in ordered}) == 1
    assert len({order.node_name for order in berth.orders}) == 1, "where the device is"
    assert berth.holders == ("uid-p0", "uid-p1", "uid-p2")
    worker = berth.scorers[0].replica.objects.assumed(CLAIMS)
    berth.advance(LATE_S)
    while berth.scorers[0].inbox:
        berth.step_scorer(0)
    assert worker[CLAIM].pod_uids == berth.holders


def test_the_device_is_held_until_the_last_has_failed() -> None:
    berth = SharedClaim()
    tried_at_once(berth, "p0", "p1")
    for left in (("uid-p1",), ()):
        berth.step_binder(fails=True)
        berth.step_owner()
        assert berth.holders == left


def test_pods_beside_the_group_do_not_share_its_claim() -> None:
    berth = SharedClaim()
    tried_at_once(berth, "p0", "p1")
    berth.add_pod(sharing("lone", group=""))
    berth.until_ordered()
    assert IN_PROCESS in berth.told("lone")
    berth.settle()
    berth.wait()
    assert berth.bound_names() == {"p0", "p1", "lone"}


def test_nothing_is_held_for_a_group_that_cannot_be_placed() -> None:
    berth = SharedClaim()
    tried_at_once(berth, *(f"p{i}" for i in range(65)))
    assert not berth.orders
    assert not berth.holders
    assert not berth.scorers[0].replica.objects.assumed(CLAIMS)


def test_nobody_goes_for_two_members_that_want_the_last_device() -> None:
    """What is found for the first, which others have to go for, is not there for the second."""
    berth = SharedClaim()
    berth.show(make_claim("other"))
    low = make_pod("low", uid="uid-low", cpu="64", memory=None)
    berth.add(msgspec.structs.replace(low, node_name="worker-0"))
    other = {"resourceClaims": [{"name": "c", "resourceClaimName": "other"}]}
    berth.add_group("podgroup", 2)
    berth.add(
        member("p0", "podgroup", priority=10, spec=NAMED),
        member("p1", "podgroup", priority=10, spec=other),
    )
    assert not berth.evicted
    assert berth.waiting() == {"p0", "p1"}
    assert not berth.holders


def test_others_go_for_two_members_that_share_a_device() -> None:
    berth = SharedClaim()
    low = make_pod("low", uid="uid-low", cpu="64", memory=None)
    berth.add(msgspec.structs.replace(low, node_name="worker-0"))
    berth.add_group("podgroup", 2)
    berth.add(*(member(f"p{i}", "podgroup", priority=10, spec=NAMED) for i in range(2)))
    berth.wait()
    assert berth.evicted == {"uid-low"}
    assert berth.bound_names() == {"default-p0", "default-p1"}
