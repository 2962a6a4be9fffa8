"""What was reserved is what is ordered, whatever becomes of claims and volumes while a pod waits for a
Permit plugin: the binder finds out, and the binding fails."""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
import pytest

from shared.dra.device_index import CLAIMS, CLASSES, SLICES
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import WaitingPod
from shared.framework.pod_info import PodInfo
from shared.framework.status import SUCCESS, Status
from shared.kube.binding_work import ClaimWork, TakeVolume, VolumeWork
from shared.kube.pod_record import PodRecord
from shared.messages.to_binder import BindPod
from shared.messages.to_owner import ObjectChanged, ObjectDeleted
from tests.support.binding_work import claim_work, volume_work
from tests.support.builders import make_node, make_pod
from tests.support.devices import device, make_claim, make_class, make_slice
from tests.support.pipeline import Pipeline
from tests.unit.daemon.core.test_placed_volumes import CLAIMS as VOLUME_CLAIMS
from tests.unit.daemon.core.test_placed_volumes import VOLUMES, put_claim, put_class, put_volume
from tests.unit.daemon.core.test_waiting_pods import Asks


class Permitted(Pipeline):
    """A pipeline in which every pod waits until it is allowed."""

    def __init__(self) -> None:
        self.gate = Asks("A")
        super().__init__(permit=[self.gate])
        self.sync([make_node("n0"), make_node("n1")], [])

    def show(self, kind: str, each: Any) -> None:
        key = "/".join(filter(None, (each.metadata.namespace, each.metadata.name)))
        self.tell(ObjectChanged(kind, key, msgspec.Raw(msgspec.msgpack.encode(each))))

    def placed(self, pod: PodRecord) -> WaitingPod:
        self.add_pod(pod)
        self.run_until_quiet()
        waiting = self.gate.handle.waiting_pod(pod.uid)
        assert waiting is not None, "it waits"
        return waiting

    def order_of(self, waiting: WaitingPod) -> BindPod:
        waiting.allow("A")
        self.handle()
        (order,) = self.orders
        return order


def claim_with(uid: str, **meta: Any) -> Any:
    claim = make_claim()
    fields = {"uid": uid, "resource_version": "9", **meta}
    return msgspec.structs.replace(
        claim, metadata=msgspec.structs.replace(claim.metadata, **fields)
    )


Change = Callable[[Permitted], None]

CLAIM_CHANGES: dict[str, Change] = {
    "nothing": lambda world: None,
    "deleted": lambda world: world.tell(ObjectDeleted(CLAIMS, "default/claim")),
    "being deleted": lambda world: world.show(
        CLAIMS, claim_with("first", deletion_timestamp="2026-01-01T00:00:00Z")
    ),
    "replaced": lambda world: world.show(CLAIMS, claim_with("second")),
}

VOLUME_CHANGES: dict[str, Change] = {
    "nothing": lambda world: None,
    "volume deleted": lambda world: world.tell(ObjectDeleted(VOLUMES, "pv")),
    "claim deleted": lambda world: world.tell(ObjectDeleted(VOLUME_CLAIMS, "default/c0")),
    "node relabelled": lambda world: world.add_node(
        make_node("n0", labels={"kubernetes.io/hostname": "x"})
    ),
    "node deleted": lambda world: world.remove_node("n0"),
    "volume given to another": lambda world: put_volume(world, "pv", "n0", phase="Bound"),
}


def with_claim() -> tuple[Permitted, WaitingPod]:
    world = Permitted()
    world.show(CLASSES, make_class())
    world.show(SLICES, make_slice("n0", [device("a")]))
    world.show(CLAIMS, claim_with("first"))
    claims = [{"name": "c", "resourceClaimName": "claim"}]
    return world, world.placed(make_pod("p", spec={"resourceClaims": claims}))


def with_volume() -> tuple[Permitted, WaitingPod]:
    world = Permitted()
    put_class(world, "kubernetes.io/no-provisioner")
    put_volume(world, "pv", "n0")
    put_claim(world, "c0")
    return world, world.placed(make_pod("p", claim="c0"))


@pytest.mark.parametrize("change", CLAIM_CHANGES)
def test_the_claim_that_was_reserved_is_ordered(change: str) -> None:
    world, waiting = with_claim()
    CLAIM_CHANGES[change](world)
    order = world.order_of(waiting)
    work: list[ClaimWork] = claim_work(order)
    assert [(each.name, each.uid, each.is_new) for each in work] == [("claim", "first", True)]
    assert [each.device for each in work[0].allocation.devices.results or ()] == ["a"]


@pytest.mark.parametrize("change", VOLUME_CHANGES)
def test_the_volume_that_was_reserved_is_ordered(change: str) -> None:
    world, waiting = with_volume()
    VOLUME_CHANGES[change](world)
    take = TakeVolume("pv", "1", True, "default", "c0", "1", "uid-c0")
    assert volume_work(world.order_of(waiting)) == VolumeWork([take], [], 600.0)


@pytest.mark.parametrize(
    ("made", "change"),
    [
        *((with_claim, change) for change in CLAIM_CHANGES.values()),
        *((with_volume, change) for change in VOLUME_CHANGES.values()),
    ],
)
def test_a_pod_that_is_refused_then_gives_back_what_there_is(
    made: Callable[[], tuple[Permitted, WaitingPod]], change: Change
) -> None:
    world, waiting = made()
    change(world)
    waiting.reject("A", "no")
    world.handle()
    objects = world.state.cache.objects
    assert not objects.assumed(CLAIMS)
    assert not objects.assumed(VOLUMES)
    world.run_until_quiet()
    world.check()


class Stamps:
    """A Reserve plugin of somebody else, with work for its PreBind."""

    NAME: ClassVar[str] = "Stamps"

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        return SUCCESS

    def unreserve(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> None: ...

    def pre_bind_work(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> bytes:
        return b"" if record.name == "p1" else f"{record.name} on {row}".encode()


def test_any_plugin_may_tell_its_prebind_what_it_reserved() -> None:
    world = Pipeline(reserve=[Stamps()])
    world.sync([make_node("n0")], [make_pod(f"p{i}") for i in range(3)])
    while world.step_owner() or world.step_scorer(0):
        pass
    assert {order.name: order.work for order in world.orders} == {
        "p0": {"Stamps": b"p0 on 0"},
        "p1": {},
        "p2": {"Stamps": b"p2 on 0"},
    }
