"""Room that is held for a gang: it gets its place beside small pods that never cease, nobody else waits
longer for that than was said, and nothing is held where nobody asked for it."""

import itertools
from collections import deque
from typing import Any, Final

import pytest

from daemon.core.group_reservations import Held
from daemon.core.queue.queued_pod import Place
from shared.kube.api.core_v1 import Node
from shared.kube.pod_record import PodRecord
from tests.support.builders import make_node
from tests.unit.daemon.core.test_pod_groups import Gangs, gang, lone, names
from tests.unit.daemon.core.test_preemption_by_groups import Preempting, low

LASTS_S: Final = 30.0


def nodes_of(count: int, cpu: str = "4") -> list[Node]:
    return [make_node(f"n{n}", cpu=cpu, labels={"rack": f"r{n // 2}"}) for n in range(count)]


class Stream:
    """A full cluster: each second one small pod ends, and there is always one that waits."""

    def __init__(self, berth: Gangs, cpu_count: int) -> None:
        self.berth = berth
        self._numbers = itertools.count()
        self._there: deque[PodRecord] = deque()
        for _ in range(cpu_count + 2):
            self._come()
        berth.settle()

    def _come(self) -> None:
        pod = lone(f"small{next(self._numbers)}", "1")
        self._there.append(pod)
        self.berth.add_pod(pod)

    def second(self) -> None:
        """The oldest of those on nodes ends, and another comes."""
        cache = self.berth.state.cache
        running = (pod for pod in self._there if cache.get_pod(pod.uid) is not None)
        ends = next(running, None)
        if ends is not None:
            self._there.remove(ends)
            self.berth.delete_pod(ends)
        self._come()
        self.berth.advance(1.0)
        self.berth.settle()


def seconds_until_placed(reservation_s: float, seconds_max: int) -> int:
    """Of a gang that needs the room of a whole node, beside small pods; -1: never."""
    berth = Gangs(nodes_of(4), reservation_s=reservation_s)
    stream = Stream(berth, 16)
    berth.add_group("pg1", 4)
    pods = gang("m1", "m2", "m3", "m4", priority=100)
    for pod in pods:
        berth.add_pod(pod)
    for second in range(seconds_max):
        if berth.bound_names() >= names(pods):
            return second
        stream.second()
    return -1


def test_a_gang_is_starved_by_small_pods_unless_room_is_held_for_it() -> None:
    assert seconds_until_placed(0.0, 300) == -1
    # It waits so long first, holds a node's room at its next attempt, and the pods there end.
    assert LASTS_S <= seconds_until_placed(LASTS_S, 300) <= 3 * LASTS_S


class Waiting:
    """One full node with a pod that stays, another that has room for less than the gang."""

    def __init__(self, **more: Any) -> None:
        self.berth = Gangs(nodes_of(1), reservation_s=LASTS_S, **more)
        self.stays = lone("stays", "2", priority=0)
        self.berth.add(self.stays)
        self.berth.add_group("pg1", 4)
        self.pods = gang("m1", "m2", "m3", "m4")
        self.berth.add(*self.pods)

    def wait_until_held(self) -> None:
        for _ in range(4):
            self.berth.wait()
        assert self.room() is not None

    def room(self) -> Held | None:
        return self.berth.state.reservations.held.get("default/pg1")

    def places(self) -> int:
        return len(self.berth.state.queue.nominator.node_by_uid)


def test_what_is_free_is_held_and_the_condition_says_so() -> None:
    held = Waiting()
    assert held.places() == 0
    held.wait_until_held()
    assert held.places() == 4
    assert held.berth.lack("pg1").endswith("; holds room on 1 nodes for 30 s at most")
    held.berth.add(lone("small", "1", priority=0))
    assert "small" not in held.berth.bound_names()
    assert not held.berth.nominated, "the API server is told nothing of it"


def test_attempts_that_fail_meanwhile_end_nothing() -> None:
    held = Waiting()
    held.wait_until_held()
    held.berth.wait()
    assert held.places() == 4


def test_after_as_much_time_nothing_is_held_and_who_waited_for_that_is_placed() -> None:
    held = Waiting()
    held.wait_until_held()
    held.berth.add(lone("small", "1", priority=0))
    ends_s = held.berth.state.wakes_at_s
    room = held.room()
    assert room is not None
    assert ends_s <= room.until_s <= held.berth.now_s + LASTS_S
    held.berth.advance(room.until_s - held.berth.now_s)
    held.berth.settle()
    assert held.places() == 0
    held.berth.wait()
    assert "small" in held.berth.bound_names()


def expect_pauses(seen: list[bool]) -> None:
    """Held for no longer than it lasts, then not for at least twice as long (looked at every 11 s)."""
    lengths = [(is_held, len(list(some))) for is_held, some in itertools.groupby(seen)]
    assert len(lengths) > 4
    for is_held, count in lengths[1:-1]:  # Of 11 s each.
        assert count * 11.0 <= LASTS_S + 11.0 if is_held else count * 11.0 > LASTS_S * 2 - 11.0


def test_it_is_not_held_again_at_once() -> None:
    held = Waiting()
    seen = []
    for _ in range(40):
        held.berth.wait()
        seen.append(held.room() is not None)
    expect_pauses(seen)


def test_who_matters_more_is_not_kept_away() -> None:
    held = Waiting()
    held.wait_until_held()
    held.berth.add(lone("urgent", "1", priority=1000))
    assert "urgent" in held.berth.bound_names()


def test_a_gang_that_gets_its_place_holds_nothing_more() -> None:
    held = Waiting()
    held.wait_until_held()
    held.berth.delete_pod(held.stays)
    held.berth.wait()
    assert held.berth.bound_names() >= names(held.pods)
    assert held.room() is None
    assert held.places() == 0


def test_only_one_gang_holds_room() -> None:
    held = Waiting()
    held.berth.add_group("pg2", 3)
    held.berth.add(*gang("o1", "o2", "o3", group="pg2"))
    held.wait_until_held()
    held.berth.wait()
    room = held.room()
    assert room is not None
    held_by = {uid.removeprefix("uid-")[0] for uid in held.berth.state.queue.nominator.node_by_uid}
    assert len(held_by) == 1


@pytest.mark.parametrize("worker_count", [1, 2])
def test_with_a_topology_constraint_it_is_held_in_one_rack(worker_count: int) -> None:
    berth = Gangs(nodes_of(6), worker_count, reservation_s=LASTS_S, has_placements=True)
    berth.add(*(lone(f"s{n}", "1") for n in range(24)))
    constraint = {"topology": [{"key": "rack"}]}
    berth.add_group("pg1", 8, schedulingConstraints=constraint)
    berth.add(*gang(*(f"m{n}" for n in range(8)), priority=100))
    for _ in range(4):
        berth.wait()
    room = berth.state.reservations.held.get("default/pg1")
    assert room is not None
    assert sorted(set(room.places.values())) in (["n0", "n1"], ["n2", "n3"], ["n4", "n5"])


def test_a_node_that_goes_takes_what_was_held_there_with_it() -> None:
    held = Waiting()
    held.wait_until_held()
    held.berth.remove_node("n0")
    held.berth.wait()
    held.berth.check()
    held.berth.add_node(make_node("n1", cpu="8"))
    held.berth.wait()
    held.berth.wait()
    assert held.berth.bound_names() >= names(held.pods)


# Room for which others had to go -----------------------------------------------------------------


class Refusing(Preempting):
    """No victim is ever gone."""

    def step_victim(self, *, fails: bool = True, lingers: bool = False) -> bool:
        return super().step_victim(fails=fails, lingers=lingers)


def after_preemption(reservation_s: float, priority: int) -> Preempting:
    """A full node, pods that wait, and a gang that matters more than these, of pods of this priority."""
    berth = Preempting("2", reservation_s=reservation_s)
    berth.add(*low(*(f"low-{number}" for number in range(8))))
    berth.group("pg1", 2, 100)
    berth.add_at_once(*gang("m1", "m2", priority=priority))
    for _ in range(3):
        berth.wait()
    return berth


@pytest.mark.parametrize("priority", [0, 10, 100])
def test_who_waits_takes_what_a_group_had_others_leave_unless_it_is_held(priority: int) -> None:
    berth = after_preemption(0.0, priority)
    assert not berth.bound_names() & {"m1", "m2"}
    assert len(berth.gone()) > 4
    berth = after_preemption(LASTS_S, priority)
    assert berth.bound_names() == {"m1", "m2"}
    assert len(berth.gone()) == 2
    assert not berth.state.reservations.held


def test_who_matters_less_than_the_group_and_more_than_its_pods_is_told_when_nothing_is_held() -> (
    None
):
    berth = Preempting("2", reservation_s=LASTS_S)
    berth.add(*low("low-1", "low-2"))
    berth.group("pg1", 2, 100)
    berth.add_at_once(*gang("m1", "m2", priority=0))
    (between,) = low("between", priority=50)
    berth.add_at_once(between)
    waits = berth.state.queue.get(between.uid)
    assert waits is not None
    assert waits.place is Place.UNSCHEDULABLE
    berth.state.reservations.release("default/pg1", berth.now_s)
    assert waits.place is not Place.UNSCHEDULABLE


def test_two_groups_hold_what_each_of_them_made() -> None:
    berth = Preempting("2", "2", reservation_s=LASTS_S)
    berth.add(*low(*(f"low-{number}" for number in range(10))))
    for name in ("pg1", "pg2"):
        berth.group(name, 2, 100)
        berth.add_at_once(*gang(f"{name}-1", f"{name}-2", group=name))
    assert set(berth.state.reservations.held) == {"default/pg1", "default/pg2"}
    assert len(berth.state.queue.nominator.node_by_uid) == 4
    assert berth.lack("pg1") == "holds room on 2 nodes for 30 s at most"
    assert not berth.nominated, "the API server is told nothing of it"
    berth.wait()
    assert berth.bound_names() == {"pg1-1", "pg1-2", "pg2-1", "pg2-2"}
    assert len(berth.gone()) == 4


def test_a_pod_that_has_room_already_is_told_of_none_that_it_might_not_get() -> None:
    berth = Preempting("2", "2", reservation_s=LASTS_S)
    berth.group("pg1", 3, 100)
    berth.add(*low("low-1", cpu="2", node_name="node1"), *low("low-2", node_name="node2"))
    berth.add_at_once(*gang("m1", "m2", "m3"))
    assert not berth.nominated
    assert len(berth.state.queue.nominator.node_by_uid) == 3
    berth.until_placed("m1", "m2", "m3")


def test_a_gang_that_is_taken_off_again_holds_its_room_as_before() -> None:
    berth = Preempting("1", "1", reservation_s=LASTS_S)
    berth.add(*low("low-1", "low-2"))
    berth.group("pg1", 2, 100)
    berth.add_at_once(*gang("m1", "m2"))
    nominator = berth.state.queue.nominator
    assert nominator.priorities == {"uid-m1": 100, "uid-m2": 100}
    berth.advance(11.0)
    berth.handle()
    while not berth.to_owner:
        berth.step_scorer(0)
    berth.add_pod(low("foreign", priority=1000, node_name="node2")[0])
    berth.step_owner()
    assert not berth.bound_names() & {"m1", "m2"}
    assert nominator.priorities == {"uid-m1": 100, "uid-m2": 100}


def test_who_cannot_be_made_to_go_has_nothing_held_for_longer_than_that() -> None:
    berth = Refusing("2", reservation_s=LASTS_S)
    berth.add(*low("low-1", "low-2"))
    berth.group("pg1", 2, 100)
    berth.add_at_once(*gang("m1", "m2", priority=100))
    seen = []
    for _ in range(30):
        seen.append(bool(berth.state.reservations.held))
        berth.wait()
    expect_pauses(seen)


def test_pods_that_make_room_for_themselves_keep_it_though_it_was_held_before() -> None:
    held = Waiting()
    held.wait_until_held()
    berth = held.berth
    for pod in low("lower", priority=-10, cpu="2", node_name="n0"):
        berth.add_pod(pod)
    berth.delete_pod(held.stays)
    berth.advance(11.0)
    while not berth.victims:
        assert berth.step_owner() or berth.step_scorer(0)
    assert held.room() is None
    assert held.places() == 4
    berth.settle()
    berth.wait()
    assert berth.bound_names() >= names(held.pods)
