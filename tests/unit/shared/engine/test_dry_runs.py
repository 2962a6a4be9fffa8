"""What dry runs came to is forgotten with the pods that it is about, also where as much is taken of the
node as before."""

from collections.abc import Callable

import msgspec
import pytest

from shared.framework.post_filter import Candidate
from shared.kube.pod_record import PodRecord
from tests.support.builders import make_node, make_pod
from tests.unit.daemon.core.test_checker import FRAMEWORKS, PROFILE
from tests.unit.workers.scorer.test_replica import Owner, started
from workers.scorer.engine import Engine
from workers.scorer.evaluator import post_filter
from workers.scorer.replica import Replica


def low(name: str, node: str = "", started_at: str = "") -> PodRecord:
    record = make_pod(name, cpu="1", node_name=node)
    return msgspec.structs.replace(record, started=started_at)


class Searches:
    """A worker that has placed a pod on n1, which the owner has not confirmed, and knows what it is to
    make room for another on n0."""

    def __init__(self) -> None:
        self.owner = Owner()
        for name, cpu in (("n0", "2"), ("n1", "1")):
            self.owner.cache.add_node(make_node(name, cpu=cpu))
        for name, second in (("a", 1), ("b", 2)):
            pod = low(name, "n0", f"2026-01-01T00:00:0{second}Z")
            self.owner.cache.add_pod(pod)
        self.own = low("own")
        class_id = self.owner.cache.classes.acquire(self.own).class_id
        self.class_id = self.owner.cache.classes.acquire(
            make_pod("p", cpu="1", priority=9)
        ).class_id
        self.replica = started(self.owner)
        self.replica.place(class_id, self.replica.nodes.row_of("n1"))
        self.engine = Engine(self.replica.view, FRAMEWORKS)

    def found(self) -> set[Candidate]:
        return searched(self.engine, self.replica, self.class_id)

    def found_anew(self) -> set[Candidate]:
        """The same of somebody who knows nothing yet."""
        return searched(Engine(self.replica.view, FRAMEWORKS), self.replica, self.class_id)

    def told(self) -> None:
        snapshot = self.owner.delta()
        assert self.replica.apply_delta(snapshot.message, snapshot.buffers)


def searched(engine: Engine, replica: Replica, class_id: int) -> set[Candidate]:
    info = replica.classes[class_id].info
    evaluation = engine.evaluate(class_id, info, PROFILE)
    preemption = post_filter(evaluation, lambda ties: int(ties[0])).preemption
    assert preemption is not None
    return set(preemption.candidates.all())


def confirmed(it: Searches) -> None:
    it.owner.assume(it.own, "n1")
    it.owner.settled = {0: 1}


def started_anew(it: Searches) -> None:
    """The one that was there longer is the younger now."""
    it.owner.cache.add_pod(low("a", "n0", "2026-01-01T00:00:03Z"))


def exchanged(it: Searches) -> None:
    it.owner.cache.add_pod(low("c", "n0"))
    it.owner.cache.remove_pod(low("b").uid)


@pytest.mark.parametrize("happens", [confirmed, started_anew, exchanged])
def test_what_is_known_of_a_node_is_forgotten_when_its_pods_are_others(
    happens: Callable[[Searches], None],
) -> None:
    it = Searches()
    before = it.found()
    assert len(before) == 1
    happens(it)
    it.told()
    assert it.found() == it.found_anew()
    assert it.found() != before
