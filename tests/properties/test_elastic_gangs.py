"""Pods that elastic gangs can do without go first: on small clusters all ways to make room are tried.

What must hold: somebody whom his gang needs goes only where room cannot be had for pods that nobody
needs, of his priority or a lower one.
"""

import random
from collections.abc import Collection, Iterator
from itertools import chain, combinations
from typing import Final, NamedTuple

import msgspec
import pytest

from shared.kube.pod_group_rules import ELASTIC
from tests.support.builders import make_node
from tests.unit.daemon.core.test_pod_groups import Gangs, gang, member

PREEMPTING: Final = frozenset({"default-scheduler"})
ELASTIC_GANG: Final = {ELASTIC: "true"}
HIGH: Final = 100


class Held(NamedTuple):
    """A pod on a node, of 1 cpu."""

    name: str
    node: str
    gang: str
    priority: int


class Case:
    """Full nodes, and who comes: a gang of equal pods, or one pod of several cpus."""

    def __init__(self, seed: int, *, is_gang: bool) -> None:
        rng = random.Random(seed)
        self.sizes = {f"n{n}": rng.randint(1, 3) for n in range(rng.randint(1, 4))}
        priorities = rng.choice(((5,), (5,), (5, 7)))
        of_gang = {name: rng.choice(priorities) for name in "ab"}
        self.held: list[Held] = []
        for node, size in self.sizes.items():
            for _ in range(size):
                name = rng.choice(("a", "a", "b", "b", ""))
                priority = of_gang.get(name) or rng.choice(priorities)
                self.held.append(Held(f"v{len(self.held)}", node, name, priority))
        rng.shuffle(self.held)  # The first is the oldest.
        self.quorums = {
            name: rng.randint(1, max(1, sum(v.gang == name for v in self.held))) for name in "ab"
        }
        self.is_gang = is_gang
        most = sum(self.sizes.values()) if is_gang else max(self.sizes.values())
        self.wanted = rng.randint(1, most)
        self.is_pinned = is_gang and rng.random() < 0.5
        """One of the gang, the first, has to go to the first node."""

    def victims(self, elastic: Collection[str] = "ab") -> set[str]:
        """Who has to go."""
        nodes = [
            make_node(name, cpu=str(size), labels={"name": name})
            for name, size in self.sizes.items()
        ]
        berth = Gangs(nodes, preempting=PREEMPTING)
        for name, quorum in self.quorums.items():
            annotations: dict[str, str] = ELASTIC_GANG if name in elastic else {}
            berth.add_group(name, quorum, annotations=annotations)
        for age, pod in enumerate(self.held):
            record = member(
                pod.name, pod.gang, uid=pod.name, node_name=pod.node, priority=pod.priority
            )
            berth.add_pod(msgspec.structs.replace(record, started=f"2026-01-01T00:00:{age:02}Z"))
        berth.settle()
        if self.is_gang:
            berth.add_group("new", self.wanted, priority=HIGH)
            pods = gang(*(f"g{n}" for n in range(self.wanted)), group="new", priority=HIGH)
            if self.is_pinned:
                pods[0] = member(
                    "g0", "new", priority=HIGH + 1, spec={"nodeSelector": {"name": "n0"}}
                )
            berth.add(*pods)
        else:
            berth.add_pod(member("new", "", cpu=str(self.wanted), uid="new", priority=HIGH))
        berth.settle()
        return set(berth.evicted)

    def makes_room(self, gone: Collection[str]) -> bool:
        free = dict.fromkeys(self.sizes, 0)
        for pod in self.held:
            free[pod.node] += pod.name in gone
        if self.is_pinned and not free["n0"]:
            return False
        room = sum(free.values()) if self.is_gang else max(free.values())
        return room >= self.wanted

    def broken(self, gone: Collection[str]) -> list[Held]:
        """Those gone that their gang needs: it has fewer than minCount then, and had not before."""
        found = []
        for name, quorum in self.quorums.items():
            pods = [pod for pod in self.held if pod.gang == name]
            lost = [pod for pod in pods if pod.name in gone]
            if len(pods) - len(lost) < quorum <= len(pods):
                found += lost
        return found

    def other_ways(self, priority: int) -> Iterator[set[str]]:
        """To make room with pods of gangs that stay above minCount, of that priority, and with any of a
        lower one."""
        some = [pod for pod in self.held if pod.gang and pod.priority == priority]
        lower = {pod.name for pod in self.held if pod.priority < priority}
        for chosen in chain.from_iterable(combinations(some, n) for n in range(len(some) + 1)):
            gone = {pod.name for pod in chosen} | lower
            is_harmless = all(pod.priority < priority for pod in self.broken(gone))
            if is_harmless and self.makes_room(gone):
                yield gone


@pytest.mark.parametrize("first", range(0, 300, 50))
@pytest.mark.parametrize("is_gang", [True, False], ids=["gang", "pod"])
def test_no_gang_loses_whom_it_needs_where_others_can_do_without(first: int, is_gang: bool) -> None:
    broken_count = spared_count = 0
    for seed in range(first, first + 50):
        case = Case(seed, is_gang=is_gang)
        gone = case.victims()
        assert case.makes_room(gone), f"seed {seed}"
        assert not any(case.makes_room(gone - {name}) for name in gone), f"seed {seed}: too many"
        broken = case.broken(gone)
        highest = max(pod.priority for pod in case.held if pod.name in gone)
        if any(pod.priority == highest for pod in broken):
            broken_count += 1
            others = list(case.other_ways(highest))
            assert not others, f"seed {seed}: {sorted(gone)} and not {sorted(others[0])}"
        elif case.broken(case.victims(elastic="")):
            spared_count += 1
    assert broken_count
    assert spared_count, "without the annotation they are broken"
