"""What counts as a difference between a berth and the API server."""

from daemon.commands.compare_caches import LISTED_MAX, CacheComparison, Shown, differences
from shared.kube.api.core_v1_parts import BriefPod, BriefPodSpec
from shared.kube.api.meta_v1 import ObjectIdentity
from shared.messages.admin import CacheAnswer, HeldNode, HeldPod


def held_pod(uid: str, *, is_assumed: bool = False) -> HeldPod:
    return HeldPod(uid, f"default/{uid}", is_assumed)


def found(shown: Shown, *nodes: HeldNode, pending: tuple[HeldPod, ...] = ()) -> list[str]:
    return list(differences(shown, CacheAnswer(list(nodes), list(pending), ["ours"])))


def shown(
    nodes: tuple[str, ...] = ("n0",),
    placed: dict[str, str] | None = None,
    pending: dict[str, str] | None = None,
) -> Shown:
    specs = {uid: BriefPodSpec(node_name=node) for uid, node in (placed or {}).items()}
    specs |= {uid: BriefPodSpec(scheduler_name=name) for uid, name in (pending or {}).items()}
    pods = {
        uid: BriefPod(ObjectIdentity(namespace="default", name=uid, uid=uid), spec)
        for uid, spec in specs.items()
    }
    return Shown(frozenset(nodes), pods)


def test_what_agrees_is_no_difference() -> None:
    world = shown(("n0", "n1"), {"a": "n0"}, {"b": "ours", "c": "theirs"})
    nodes = [HeldNode("n0", False, [held_pod("a")]), HeldNode("n1", False, [])]
    assert found(world, *nodes, pending=(held_pod("b"),)) == []


def test_an_assumed_pod_may_be_shown_unbound() -> None:
    world = shown(pending={"a": "ours"})
    assert found(world, HeldNode("n0", False, [held_pod("a", is_assumed=True)])) == []


def test_a_node_that_is_only_known_by_its_pods_is_not_believed_in() -> None:
    world = shown((), {"a": "gone"})
    assert found(world, HeldNode("gone", True, [held_pod("a")])) == []


def test_nodes_that_one_side_lacks() -> None:
    assert found(shown(("n0",)), HeldNode("n1", False, [])) == [
        "node n0: missing in the cache",
        "node n1: in the cache, not at the API server",
    ]


def test_pods_that_the_cache_lacks_or_has_elsewhere() -> None:
    world = shown(("n0", "n1"), {"a": "n0", "b": "n0"})
    nodes = [HeldNode("n0", False, []), HeldNode("n1", False, [held_pod("b")])]
    assert found(world, *nodes) == [
        "pod default/a (a): on n0, in the cache missing",
        "pod default/b (b): on n0, in the cache on n1",
    ]


def test_pods_that_only_the_cache_has() -> None:
    nodes = HeldNode("n0", False, [held_pod("a"), held_pod("b", is_assumed=True)])
    assert found(shown(), nodes) == [
        "pod default/a (a): in the cache on n0, not at the API server",
        "pod default/b (b): in the cache on n0, not at the API server",
    ]


def test_pods_that_wait_on_one_side_only() -> None:
    world = shown(pending={"a": "ours"})
    assert found(world, HeldNode("n0", False, []), pending=(held_pod("b"),)) == [
        "pod default/a (a): pending, missing in the queue",
        "pod default/b (b): in the queue, not pending at the API server",
    ]


def test_of_many_differences_some_are_told_and_all_are_counted() -> None:
    lines = CacheComparison([f"d{i}" for i in range(LISTED_MAX + 5)], 1, 2).lines()
    assert f"{LISTED_MAX + 5} difference(s)" in lines[0]
    assert len(lines) == LISTED_MAX + 2
    assert lines[-1] == "... and 5 more"
    assert "no differences" in CacheComparison([], 1, 2).lines()[0]
