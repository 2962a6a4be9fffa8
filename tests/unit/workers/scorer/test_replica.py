"""The worker's copy: gaps, epochs, and own placements that are not settled yet."""

import numpy as np
import pytest

from daemon.core.cache import Cache
from daemon.core.events import Publish
from daemon.core.snapshot_log import SnapshotLog
from shared.columns.nomination_columns import Nomination
from shared.feature_gates import DEFAULT_GATES
from shared.framework.class_index import EXTRA_COLUMNS
from shared.framework.cluster_view import Follower
from shared.kube.pod_record import PodRecord
from tests.support.builders import make_node, make_pod
from workers.scorer.replica import Replica


class Owner:
    """A cache and its snapshots."""

    def __init__(self, epoch: int = 1) -> None:
        self.cache = Cache(DEFAULT_GATES)
        self.log = SnapshotLog(self.cache, epoch)
        self.settled: dict[int, int] = {0: 0}

    def delta(self) -> Publish:
        snapshot = self.log.delta(self.settled, next_ticket=1)
        assert snapshot is not None
        return snapshot

    def assume(self, record: PodRecord, node: str) -> int:
        pod_class = self.cache.classes.acquire(record)
        self.cache.assume_pod(record, node, pod_class)
        return pod_class.class_id


def started(owner: Owner) -> Replica:
    replica = Replica(0, DEFAULT_GATES)
    owner.log.skip(owner.settled)
    full, buffers = owner.log.full(owner.settled, next_ticket=1)
    replica.apply_full(full, buffers)
    return replica


def cpu_of(replica: Replica, node: str) -> int:
    return int(replica.nodes.requested[0, replica.nodes.row_of(node)])


def test_a_missed_delta_is_noticed_and_a_full_snapshot_heals_it() -> None:
    owner = Owner()
    owner.cache.add_node(make_node("n0"))
    replica = started(owner)
    owner.cache.add_node(make_node("n1"))
    owner.delta()  # Lost.
    owner.cache.add_node(make_node("n2"))
    later = owner.delta()
    assert not replica.apply_delta(later.message, later.buffers)
    assert not replica.is_whole
    full, buffers = owner.log.full(owner.settled, next_ticket=1)
    replica.apply_full(full, buffers)
    assert replica.is_whole
    assert {replica.nodes.name_of(row) for row in replica.nodes.order.tolist()} == {
        "n0",
        "n1",
        "n2",
    }


def test_a_delta_that_the_full_snapshot_contains_is_passed_over() -> None:
    owner = Owner()
    owner.cache.add_node(make_node("n0"))
    old = owner.delta()
    replica = started(owner)
    assert replica.apply_delta(old.message, old.buffers)
    assert replica.sequence == old.message.sequence


def test_a_delta_of_another_epoch_is_a_hole() -> None:
    replica = started(Owner(epoch=1))
    other = Owner(epoch=2)
    other.cache.add_node(make_node("n0"))
    snapshot = other.delta()
    assert not replica.apply_delta(snapshot.message, snapshot.buffers)
    assert not replica.is_whole


def test_an_unsettled_placement_survives_a_delta_of_its_row() -> None:
    owner = Owner()
    owner.cache.add_node(make_node("n0"))
    class_id = owner.cache.classes.acquire(make_pod("p", cpu="1")).class_id
    replica = started(owner)
    row = replica.nodes.row_of("n0")
    replica.place(class_id, row)
    assert cpu_of(replica, "n0") == 1000
    # Somebody else's pod lands on the node before the owner has seen the proposal.
    owner.cache.add_pod(make_pod("other", cpu="500m", node_name="n0"))
    snapshot = owner.delta()
    assert replica.apply_delta(snapshot.message, snapshot.buffers)
    assert cpu_of(replica, "n0") == 1500


def test_a_settled_placement_counts_once() -> None:
    owner = Owner()
    owner.cache.add_node(make_node("n0"))
    pod = make_pod("p", cpu="1", host_port=80)
    class_id = owner.cache.classes.acquire(pod).class_id
    replica = started(owner)
    replica.place(class_id, replica.nodes.row_of("n0"))
    follower = Follower(replica.view)
    follower.note()
    owner.assume(pod, "n0")
    owner.settled = {0: 1}
    snapshot = owner.delta()
    replica.apply_delta(snapshot.message, snapshot.buffers)
    assert cpu_of(replica, "n0") == 1000
    assert len(replica.view.pods.used_rows()) == 1
    assert len(replica.view.tentative.used_rows()) == 0
    # The owner told nothing new: no class need be evaluated again.
    usage_rows = follower.usage_rows()
    assert usage_rows is not None
    assert usage_rows.tolist() == []


def test_a_rejected_placement_is_taken_off_when_it_is_settled() -> None:
    owner = Owner()
    owner.cache.add_node(make_node("n0"))
    class_id = owner.cache.classes.acquire(make_pod("p", cpu="1")).class_id
    replica = started(owner)
    row = replica.nodes.row_of("n0")
    replica.place(class_id, row)
    owner.cache.touch_row(row)
    owner.settled = {0: 1}
    snapshot = owner.delta()
    replica.apply_delta(snapshot.message, snapshot.buffers)
    assert cpu_of(replica, "n0") == 0


def test_a_full_snapshot_keeps_what_is_not_settled() -> None:
    owner = Owner()
    owner.cache.add_node(make_node("n0"))
    class_id = owner.cache.classes.acquire(make_pod("p", cpu="1")).class_id
    replica = started(owner)
    replica.place(class_id, replica.nodes.row_of("n0"))
    full, buffers = owner.log.full(owner.settled, next_ticket=1)
    replica.apply_full(full, buffers)
    assert cpu_of(replica, "n0") == 1000
    owner.settled = {0: 1}
    owner.log.skip(owner.settled)
    full, buffers = owner.log.full(owner.settled, next_ticket=1)
    replica.apply_full(full, buffers)
    assert cpu_of(replica, "n0") == 0


def with_a_pod_that_is_deleted(owner: Owner) -> tuple[Replica, int]:
    """Placed by the worker, the only one of its class; the owner learns of neither before the next
    snapshot."""
    owner.cache.add_node(make_node("n0"))
    pod_class = owner.cache.classes.acquire(make_pod("p", cpu="1", priority=7))
    replica = started(owner)
    replica.place(pod_class.class_id, replica.nodes.row_of("n0"))
    owner.cache.classes.release(pod_class)
    return replica, pod_class.class_id


def priorities_of_own(replica: Replica) -> list[int]:
    """As preemption asks for them."""
    own = replica.view.tentative.used_rows()
    found = replica.view.usages.priorities(replica.view.tentative.class_id[own])
    return [int(priority) for priority in found]


@pytest.mark.usefixtures("classes_go_with_their_pods")
def test_a_class_lives_as_long_as_a_placement_of_it_is_not_settled() -> None:
    owner = Owner()
    replica, class_id = with_a_pod_that_is_deleted(owner)
    snapshot = owner.delta()
    replica.apply_delta(snapshot.message, snapshot.buffers)
    assert class_id not in replica.classes, "nothing more of it is placed"
    assert replica.newly_retired == [class_id]
    assert priorities_of_own(replica) == [7]
    owner.settled = {0: 1}
    snapshot = owner.delta()
    replica.apply_delta(snapshot.message, snapshot.buffers)
    assert priorities_of_own(replica) == []
    assert class_id not in replica.view.classes


@pytest.mark.usefixtures("classes_go_with_their_pods")
def test_a_class_of_an_unsettled_placement_outlives_a_full_snapshot() -> None:
    owner = Owner()
    replica, class_id = with_a_pod_that_is_deleted(owner)
    owner.log.skip(owner.settled)
    full, buffers = owner.log.full(owner.settled, next_ticket=1)
    replica.apply_full(full, buffers)
    assert priorities_of_own(replica) == [7]
    assert cpu_of(replica, "n0") == 1000
    replica.drop_tentative()
    assert class_id not in replica.view.classes


@pytest.mark.usefixtures("classes_go_with_their_pods")
def test_a_class_lives_as_long_as_a_nomination_of_it_is_not_settled() -> None:
    owner = Owner()
    owner.cache.add_node(make_node("n0"))
    pod_class = owner.cache.classes.acquire(make_pod("p", cpu="1", priority=7))
    class_id = pod_class.class_id
    replica = started(owner)
    replica.nominate(Nomination("ticket 1", class_id, 7, replica.nodes.row_of("n0")))
    owner.cache.classes.release(pod_class)
    snapshot = owner.delta()
    replica.apply_delta(snapshot.message, snapshot.buffers)
    usages = replica.view.usages
    index = usages.indices(np.array([class_id])).item()
    assert usages.matrix[index, EXTRA_COLUMNS] == 1000
    owner.settled = {0: 1}
    snapshot = owner.delta()
    replica.apply_delta(snapshot.message, snapshot.buffers)
    assert class_id not in replica.view.classes
    assert not len(replica.view.nominations)


def test_an_unsettled_placement_counts_in_the_columns_of_a_full_snapshot() -> None:
    """The owner may have given the rows of resources to other names."""
    names = ["example.com/a", "example.com/b"]
    requests = {"requests": {"example.com/a": "3"}}
    pod = make_pod("p", spec={"containers": [{"name": "c", "resources": requests}]})
    owners = Owner(), Owner()
    class_id = 0
    for owner, order in zip(owners, (names, names[::-1]), strict=True):
        owner.cache.add_node(make_node("n0", extra=dict.fromkeys(order, "9")))
        class_id = owner.cache.classes.acquire(pod).class_id
    replica = started(owners[0])
    replica.place(class_id, 0)
    owners[1].log.skip(owners[1].settled)
    full, buffers = owners[1].log.full(owners[1].settled, next_ticket=1)
    replica.apply_full(full, buffers)
    asked = {name: replica.nodes.requested[replica.nodes.resources.find(name), 0] for name in names}
    assert asked == {"example.com/a": 3, "example.com/b": 0}
