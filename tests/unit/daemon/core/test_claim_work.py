"""The claims of a pod from Reserve to the watch's word: ordered once, held until it is told, given back,
found again by an owner that starts anew, and freed for pods that fit nowhere."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from bench.conformance.claims import written_claim
from bench.sim.leaks import holders
from daemon.core.events import Effect, Tell
from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import Place
from shared.dra.device_index import CLAIMS, CLASSES, SLICES
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api.resource_v1_devices import DeviceClass, ResourceSlice
from shared.kube.pod_record import PodRecord
from shared.messages.from_scorer import Placements, Proposals
from shared.messages.to_binder import BindPod, PreemptPods, ReleaseClaim
from shared.messages.to_owner import (
    ObjectChanged,
    ObjectDeleted,
    PodChanged,
    PodDeleted,
    SyncFinished,
    SyncStarted,
)
from shared.transport.heard import Said
from tests.support.binding_work import claim_work
from tests.support.builders import make_node, make_pod
from tests.support.devices import allocated, device, make_claim, make_class, make_slice
from tests.support.pipeline import EPOCH, Pipeline
from tests.support.tasks import tasks_of

GPU = "example.com/gpu"
USER = {"resource": "pods", "name": "p", "uid": "uid-default-p"}


class Cluster(Pipeline):
    """A pipeline that keeps what is to be freed, and shows claims as a watch would."""

    def __init__(
        self,
        *objects: ResourceClaim | ResourceSlice | DeviceClass,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        self.releases: deque[ReleaseClaim] = deque()
        super().__init__(more_gates=gates)
        self.sync([make_node("n0"), make_node("n1")], [])
        for each in (make_class(extendedResourceName=GPU), *objects):
            self.show(each)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Tell) and isinstance(effect.message, PreemptPods):
            self.releases.extend(effect.message.releases)
        super()._carry_out(effect)

    def show(self, each: ResourceClaim | ResourceSlice | DeviceClass) -> None:
        kinds = {ResourceClaim: CLAIMS, ResourceSlice: SLICES, DeviceClass: CLASSES}
        key = "/".join(filter(None, (each.metadata.namespace, each.metadata.name)))
        body = msgspec.Raw(msgspec.msgpack.encode(each))
        self.tell(ObjectChanged(kinds[type(each)], key, body))

    def order_of(self, pod: PodRecord) -> BindPod | None:
        """What the binder is told about a new pod; None: the pod fits nowhere."""
        self.add_pod(pod)
        return self.next_order()

    def next_order(self) -> BindPod | None:
        while not self.orders and (self.step_owner() or self.step_scorer(0)):
            pass
        return self.orders[0] if self.orders else None

    def write(self, order: BindPod, pod: PodRecord) -> list[ResourceClaim]:
        """What the API server shows when the binder has written the order's claims."""
        written = []
        for work in claim_work(order):
            held = self.held(f"{work.namespace}/{work.name}")
            written.append(written_claim(work, held, pod))
            self.show(written[-1])
        return written

    def held(self, key: str) -> ResourceClaim | None:
        return self.state.cache.objects.get(CLAIMS, key)

    @property
    def assumed(self) -> list[str]:
        return sorted(self.state.cache.objects.assumed(CLAIMS))


def claim_pod(name: str, *claims: str) -> PodRecord:
    named = [{"name": each, "resourceClaimName": each} for each in claims]
    return make_pod(name, spec={"resourceClaims": named})


def gpu_pod(name: str) -> PodRecord:
    resources = {"requests": {GPU: "1"}}
    return make_pod(name, spec={"containers": [{"name": "c", "resources": resources}]})


def one_gpu(**fields: Any) -> ResourceSlice:
    return make_slice("n0", [device("a", **fields)])


def ordered(order: BindPod | None) -> BindPod:
    assert order is not None, "the pod fits nowhere"
    return order


def test_a_device_is_held_from_the_order_until_the_watch_tells_of_it() -> None:
    cluster = Cluster(one_gpu(), make_claim("c"), make_claim("d"))
    first, second = claim_pod("p", "c"), claim_pod("q", "d")
    order = ordered(cluster.order_of(first))
    (work,) = claim_work(order)
    assert (work.name, work.uid, work.is_new, work.generated) == ("c", "uid-c", True, None)
    assert work.allocation.devices.results
    (given,) = work.allocation.devices.results
    assert (given.pool, given.device) == ("n0", "a")
    assert work.ready_timeout_s == 600
    assert cluster.assumed == ["default/c"]
    cluster.write(order, first)
    assert cluster.assumed == []
    cluster.step_binder()
    assert cluster.order_of(second) is None, "the only device is taken"
    cluster.check()


def test_a_claim_that_was_freed_while_nobody_watched_is_not_held_for_ever() -> None:
    cluster = Cluster(one_gpu(), make_claim("c"), make_claim("d"))
    pod = claim_pod("p", "c")
    assert cluster.order_of(pod)
    freed = make_claim("c")
    freed.metadata.resource_version = "9"
    cluster.tell(SyncStarted(CLAIMS))
    cluster.show(freed)
    cluster.show(make_claim("d"))
    cluster.tell(SyncFinished(CLAIMS, "9"))
    assert cluster.assumed == ["default/c"], "its binder is at it: the list may be older"
    cluster.step_binder()
    cluster.step_owner()
    cluster.tell(SyncStarted(CLAIMS))
    cluster.show(freed)
    cluster.show(make_claim("d"))
    cluster.tell(SyncFinished(CLAIMS, "10"))
    assert cluster.assumed == []
    assert claim_work(ordered(cluster.order_of(claim_pod("q", "d"))))
    cluster.check()
    cluster.tell(PodDeleted(pod))
    found = holders(cluster.state, [pod.uid])
    assert not [each for each in found if "_written_claims" in each], "the list is over"


def test_a_binding_that_failed_gives_the_device_back() -> None:
    cluster = Cluster(one_gpu(), make_claim("c"), make_claim("d"))
    assert cluster.order_of(claim_pod("p", "c"))
    cluster.step_binder(fails=True)
    cluster.step_owner()
    assert cluster.assumed == []
    order = ordered(cluster.order_of(claim_pod("q", "d")))
    assert [work.name for work in claim_work(order)] == ["d"]
    cluster.check()


def test_an_owner_that_starts_anew_orders_nothing_that_is_written() -> None:
    status = {**allocated("a", pool="n0"), "reservedFor": [USER]}
    cluster = Cluster(one_gpu(), make_claim("c", status=status))
    assert not claim_work(ordered(cluster.order_of(claim_pod("p", "c"))))


def test_devices_that_a_driver_prepares_are_waited_for_by_every_attempt() -> None:
    told = allocated("a", pool="n0", bindingConditions=["Ready"])
    status = {**told, "reservedFor": [USER]}
    cluster = Cluster(one_gpu(), make_claim("c", status=status))
    (work,) = claim_work(ordered(cluster.order_of(claim_pod("p", "c"))))
    assert not work.is_new


def test_a_shared_claim_is_reserved_for_each_of_its_pods() -> None:
    cluster = Cluster(one_gpu(), make_claim("c", status=allocated("a", pool="n0")))
    for name in ("p", "q"):
        (work,) = claim_work(ordered(cluster.order_of(claim_pod(name, "c"))))
        assert not work.is_new
        cluster.step_binder()


# Extended resources -----------------------------------------------------------------------------------


def test_the_claim_for_extended_resources_is_held_until_it_is_made_and_allocated() -> None:
    cluster = Cluster(one_gpu())
    pod = gpu_pod("p")
    order = ordered(cluster.order_of(pod))
    (work,) = claim_work(order)
    assert work.name.startswith("p-extended-resources-")
    assert work.is_new
    assert work.generated is not None
    (mapping,) = work.generated.mappings
    assert (mapping.container_name, mapping.resource_name) == ("c", GPU)
    assert [r.name for r in work.generated.spec.devices.requests or ()] == [mapping.request_name]
    assert cluster.assumed == [f"default/{work.name}"]
    written = written_claim(work, None, pod)
    bare = msgspec.structs.replace(written, status=make_claim().status)
    cluster.show(bare)
    assert cluster.assumed, "made, and not allocated yet"
    cluster.write(order, pod)
    assert cluster.assumed == []
    cluster.step_binder()
    assert cluster.order_of(gpu_pod("q")) is None


def test_what_an_earlier_owner_left_for_a_pod_is_freed_and_the_pod_tried_again() -> None:
    before = Cluster(one_gpu())
    pod = gpu_pod("p")
    (left,) = before.write(ordered(before.order_of(pod)), pod)
    cluster = Cluster(one_gpu(), left)
    assert cluster.order_of(pod) is None, "the device is taken by what was left"
    (release,) = cluster.releases
    assert (release.name, release.pod_uid) == (left.metadata.name, pod.uid)
    assert release.is_generated
    meta = msgspec.structs.replace(left.metadata, resource_version="later")
    empty = make_claim().status
    cluster.show(msgspec.structs.replace(left, metadata=meta, status=empty))
    cluster.tell(ObjectDeleted(CLAIMS, f"default/{left.metadata.name}"))
    cluster.advance(60)
    assert claim_work(ordered(cluster.next_order()))


def test_a_claim_that_was_made_for_a_pod_and_never_allocated_is_left_over_as_well() -> None:
    before = Cluster(one_gpu())
    pod = gpu_pod("p")
    (work,) = claim_work(ordered(before.order_of(pod)))
    left = msgspec.structs.replace(written_claim(work, None, pod), status=make_claim().status)
    left.metadata.name = "p-extended-resources-abcde"
    cluster = Cluster(one_gpu(), left)
    assert claim_work(ordered(cluster.order_of(pod)))
    (release,) = cluster.releases
    assert (release.name, release.pod_uid) == (left.metadata.name, pod.uid)
    assert release.is_generated


# Claims that keep their pod from fitting --------------------------------------------------------------


def unusable(*users: dict[str, str]) -> ResourceClaim:
    """Allocated for a node that is not there."""
    status = allocated("a", pool="n9")
    on_n9 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}
    status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [on_n9]}
    return make_claim("c", status={**status, "reservedFor": list(users)})


def test_a_claim_that_nobody_uses_and_that_keeps_its_pod_from_fitting_is_freed() -> None:
    for users in ((), (USER,)):
        cluster = Cluster(one_gpu(), unusable(*users))
        assert cluster.order_of(claim_pod("p", "c")) is None
        expected = ReleaseClaim(
            "default", "c", "uid-c", "uid-default-p", is_generated=False, ticket=1
        )
        assert list(cluster.releases) == [expected]


def test_a_claim_that_another_pod_uses_stays() -> None:
    cluster = Cluster(one_gpu(), unusable({**USER, "uid": "other"}))
    assert cluster.order_of(claim_pod("p", "c")) is None
    assert not cluster.releases


def test_a_claim_that_somebody_has_taken_since_stays() -> None:
    cluster = Cluster(one_gpu(), unusable())
    cluster.run_until_quiet()
    cluster.add_pod(claim_pod("p", "c"))
    while not cluster.to_owner:
        assert cluster.step_scorer(0), "the scorer has nothing to do"
    taken = unusable({**USER, "uid": "other"})
    taken.metadata.resource_version = "2"
    cluster.show(taken)
    cluster.run_until_quiet()
    assert not cluster.releases


def test_pods_without_claims_are_ordered_without() -> None:
    cluster = Cluster(one_gpu())
    cluster.tell(PodChanged(make_pod("p")))
    assert claim_work(ordered(cluster.next_order())) == []


def test_pods_of_one_batch_do_not_count_on_the_same_devices() -> None:
    """Each node has devices for two; a worker that forgets what it has just given away would propose
    the first node for all."""
    cluster = Cluster(*(make_slice(f"n{i}", [device("a"), device("b")]) for i in range(2)))
    for i in range(5):
        cluster.add_pod(gpu_pod(f"p{i}"))
    while cluster.step_owner() or cluster.step_scorer(0):
        pass
    given = [work.allocation.devices.results for o in cluster.orders for work in claim_work(o)]
    taken = {(each.pool, each.device) for results in given for each in results or ()}
    assert taken == {("n0", "a"), ("n0", "b"), ("n1", "a"), ("n1", "b")}
    assert cluster.state.counters[Count.PROPOSALS_REJECTED] == 0
    cluster.check()


@pytest.mark.parametrize("kind", ["claim", "extended resource"])
def test_of_two_pods_on_the_row_of_one_device_the_first_has_it(kind: str) -> None:
    """Devices are asked about in Reserve alone; the second is tried again as where room is short."""
    cluster = Cluster(*(make_slice(f"n{i}", [device("a")]) for i in range(2)))
    for name in ("c0", "c1"):
        cluster.show(make_claim(name))
        cluster.add_pod(claim_pod(f"p-{name}", name) if kind == "claim" else gpu_pod(f"p-{name}"))
    scorer = cluster.scorers[0]
    while not scorer.work:
        assert cluster.step_owner() or cluster.step_scorer(0), "they are handed out"
    tickets = [task.ticket for work in scorer.work for task in tasks_of(work)]
    generation = scorer.replica.generation
    told = Proposals(EPOCH, 1, 1, generation, Placements(tickets, [0, 0]), [], [])
    cluster.handle(Said(scorer.peer, told))
    assert [order.node_name for order in cluster.orders] == ["n0"]
    assert cluster.state.counters[Count.PROPOSALS_REJECTED] == 1
    (place,) = [pod.place for pod in cluster.state.queue if pod.record.name == "p-c1"]
    assert place is Place.IN_FLIGHT, "handed out again at once"
    cluster.check()


def test_pods_that_name_one_claim_are_known_by_it_wherever_they_are() -> None:
    cluster = Cluster(one_gpu())
    cluster.show(make_claim("c"))
    first, second = claim_pod("p", "c"), claim_pod("q", "missing", "c")
    named = cluster.state.shared_claim_of
    assert named(first.uid) == ""
    assert cluster.order_of(first) is not None
    cluster.add_pod(second)
    cluster.run_until_quiet()
    cluster.add_pod(make_pod("plain"))
    assert [named(pod.uid) for pod in (first, second)] == ["default/c", "default/missing"]
    assert named("uid-default-plain") == ""
