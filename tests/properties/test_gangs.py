"""Whatever happens to pods, workers and bindings: once all is quiet no gang is left half placed.

A gang may have lost pods that were bound: that is not its fault, and what is pending is tried with the
quorum that is still missing. So after each walk all bindings succeed, room is made for everybody, and
then each gang of which enough pods are there has to be placed whole.
"""

import random
from typing import Final

import pytest

from shared.kube.pod_record import PodRecord
from tests.support.builders import make_node
from tests.unit.daemon.core.test_pod_groups import Gangs, gang

STEPS: Final = 120


class Walk:
    """One cluster and what happens to it, by a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.berth = Gangs(
            [make_node(f"n{n}", cpu=str(self.rng.randint(2, 5))) for n in range(4)],
            worker_count=self.rng.randint(1, 3),
            reservation_s=self.rng.choice((0.0, 2.0)),
        )
        self.quorums: dict[str, int] = {}
        self.pods: dict[str, PodRecord] = {}
        self.lives = 1  # After two deaths with the same class in hand that class is parked.
        self.fails = True

    def run(self) -> None:
        moves = (self.add_gang, self.delete_pod, self.lose_worker, self.move, self.move, self.move)
        for _ in range(STEPS):
            self.rng.choice(moves)()
            self.berth.check()
        self.settle()

    def add_gang(self) -> None:
        name = f"g{len(self.quorums)}"
        if len(self.quorums) == 6:
            return
        count = self.rng.randint(1, 6)
        self.quorums[name] = self.rng.randint(1, count)
        pods = gang(*(f"{name}p{n}" for n in range(count)), group=name)
        is_first = self.rng.random() < 0.5
        if is_first:
            self._add_group(name)
        for pod in self.rng.sample(pods, len(pods)):
            self.pods[pod.uid] = pod
            self.berth.add_pod(pod)
            if self.rng.random() < 0.3:
                self.move()
        if not is_first:
            self._add_group(name)

    def _add_group(self, name: str) -> None:
        self.berth.tell_group(name, self.quorums[name])

    def delete_pod(self) -> None:
        if self.pods and self.rng.random() < 0.4:
            uid = self.rng.choice(sorted(self.pods))
            self.berth.delete_pod(self.pods.pop(uid))

    def lose_worker(self) -> None:
        if self.lives and self.rng.random() < 0.3:
            self.lives -= 1
            index = self.rng.choice(sorted(self.berth.scorers))
            self.berth.lose_scorer(index)
            self.berth.start_scorer(index)

    def move(self) -> None:
        berth = self.berth
        kind = self.rng.randrange(8)
        if kind == 0:
            berth.advance(self.rng.choice((0.1, 1.0, 3.0)))
        elif kind == 1:
            berth.step_binder(fails=self.fails and self.rng.random() < 0.3)
        elif kind < 5:
            berth.step_owner()
        else:
            berth.step_scorer(self.rng.choice(sorted(berth.scorers)))

    def settle(self) -> None:
        for number in range(12):
            self.berth.add_node(make_node(f"more{number}", cpu="8"))
        for _ in range(8):
            self.berth.wait()
        self.berth.check()

    def left_behind(self) -> list[str]:
        """Gangs of which enough pods are there, and not all have a node."""
        berth, found = self.berth, []
        for name, quorum in self.quorums.items():
            uids = [uid for uid, pod in self.pods.items() if pod.group == name]
            is_placed = [berth.state.cache.get_pod(uid) is not None for uid in uids]
            if len(uids) >= quorum and not all(is_placed):
                found.append(f"{name}: {sum(is_placed)} of {len(uids)}, quorum {quorum}")
        return found


@pytest.mark.parametrize("seed", range(40))
def test_no_gang_is_left_behind_half_placed(seed: int) -> None:
    walk = Walk(seed)
    walk.run()
    assert walk.left_behind() == []


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_at_no_time_is_a_gang_begun_that_does_not_reach_its_quorum(first: int) -> None:
    """Nothing is deleted here and no binding fails, so that nobody but us can break a gang."""
    placed_count = 0
    for seed in range(first, first + 5):
        walk = Walk(seed)
        walk.fails = False
        for _ in range(2 * STEPS):
            walk.rng.choice((walk.add_gang, walk.lose_worker, walk.move, walk.move))()
            walk.berth.check()
            for name, quorum in walk.quorums.items():
                uids = [uid for uid, pod in walk.pods.items() if pod.group == name]
                count = sum(walk.berth.state.cache.get_pod(uid) is not None for uid in uids)
                assert count == 0 or count >= quorum, f"{name}: {count} of {quorum}"
                placed_count += count
    assert placed_count
