"""Parked pods, by whom an event may concern."""

from collections.abc import Iterator

from daemon.core.queue.unschedulable import GroupKey, UnschedulablePods
from shared.plugin_names import INTER_POD_AFFINITY, NODE_RESOURCES_FIT
from tests.unit.daemon.core.queue.builders import Bench


class Classes(set[int]):
    """Counts how many classes are looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[int]:
        for class_id in super().__iter__():
            self.looked_at += 1
            yield class_id

    def __contains__(self, class_id: object) -> bool:
        self.looked_at += 1
        return super().__contains__(class_id)


def parked(count: int, *plugins: str) -> tuple[UnschedulablePods, list[int]]:
    """So many pods of a class each, which these plugins rejected."""
    bench, pods = Bench(), UnschedulablePods(start_s=0.0, leftover_after_s=300.0)
    waiting = [bench.add(f"p{i}", labels={"number": f"{i}"}) for i in range(count)]
    for pod in waiting:
        pod.unschedulable_plugins = frozenset(plugins)
        pods.add(pod)
        pods.check_invariants()
    return pods, [pod.class_id for pod in waiting]


def keys(pods: UnschedulablePods, wanted: set[int] | None, *plugins: str) -> list[GroupKey]:
    return list(pods.groups_rejected_by(plugins, lambda _: wanted))


def test_of_many_classes_that_wait_only_those_are_looked_at_that_an_event_concerns() -> None:
    pods, ids = parked(50, INTER_POD_AFFINITY)
    wanted = Classes([ids[7], ids[31], 10**6])
    found = keys(pods, wanted, INTER_POD_AFFINITY)
    assert sorted(key.class_id for key in found) == [ids[7], ids[31]]
    assert wanted.looked_at == 3


def test_a_pod_that_several_plugins_rejected_is_found_once_by_each_and_is_gone_when_it_leaves() -> (
    None
):
    pods, ids = parked(3, INTER_POD_AFFINITY, NODE_RESOURCES_FIT)
    assert [key.class_id for key in keys(pods, None, NODE_RESOURCES_FIT)] == ids
    assert len(keys(pods, None, INTER_POD_AFFINITY, NODE_RESOURCES_FIT)) == 3
    for pod in list(pods):
        pods.remove(pod)
        pods.check_invariants()
    assert not keys(pods, None, INTER_POD_AFFINITY)
    assert not keys(pods, set(ids), NODE_RESOURCES_FIT)
