"""What became of each pod, and who waits for it."""

import asyncio

from bench.perf.book import PodBook
from tests.support.waiting import HANG_S


def test_a_wait_ends_with_the_binding_that_it_waits_for() -> None:
    async def scenario() -> None:
        book = PodBook()
        for name in "abc":
            book.created("ns", name, 1.0)
        wait = asyncio.create_task(book.until("ns", "Scheduled", 2))
        attempted = asyncio.create_task(book.until("ns", "Attempted", 2))
        book.bound("ns", "a", "n1", 2.0)
        book.bound("elsewhere", "z", "n1", 2.0)
        await asyncio.sleep(0)
        assert not wait.done()
        book.refused("ns", "b", "0/1 nodes are available")
        await asyncio.wait_for(attempted, HANG_S)
        assert not wait.done()
        book.bound("ns", "b", "n1", 3.0)
        await asyncio.wait_for(wait, HANG_S)
        await asyncio.wait_for(book.until("ns", "Scheduled", 2), HANG_S)
        assert book.of("ns").refused == {}

    asyncio.run(scenario())


def test_a_wait_may_be_for_some_pods_alone() -> None:
    async def scenario() -> None:
        book = PodBook()
        for name in ("a", "b", "c"):
            book.created("ns", name, 1.0, {"type": "blocker" if name == "a" else "unsched"})
        of_ns = book.of("ns")

        def counts(name: str) -> bool:
            return of_ns.has(name, {"type": "unsched"})

        attempted = asyncio.create_task(book.until("ns", "Attempted", 2, counts))
        wait = asyncio.create_task(book.until("ns", "Scheduled", 2, counts))
        await asyncio.sleep(0)
        book.bound("ns", "a", "n1", 2.0)
        book.refused("ns", "b", "no")
        book.refused("ns", "b", "still not")
        await asyncio.sleep(0)
        assert not attempted.done(), "one was told twice, the other does not count"
        book.deleted("ns", "b")
        book.created("ns", "b", 2.0, {"type": "unsched"})
        book.refused("ns", "c", "no")
        await asyncio.sleep(0)
        assert not attempted.done(), "one of two is new and was not looked at"
        book.bound("ns", "c", "n1", 3.0)
        book.bound("ns", "b", "n1", 3.0)
        await asyncio.wait_for(attempted, HANG_S)
        await asyncio.wait_for(wait, HANG_S)

    asyncio.run(scenario())


def test_a_pod_of_the_same_name_is_another_one() -> None:
    book = PodBook()
    book.created("ns", "a", 1.0)
    book.bound("ns", "a", "n1", 2.0)
    book.deleted("ns", "a")
    book.created("ns", "a", 3.0)
    book.bound("ns", "a", "n2", 5.0)
    assert book.double_binds == []
    assert sorted(book.selected(["ns"])) == [(1.0, 2.0), (3.0, 5.0)]


def test_a_cancelled_wait_is_forgotten() -> None:
    async def scenario() -> None:
        book = PodBook()
        wait = asyncio.create_task(book.until("ns", "Scheduled", 1))
        await asyncio.sleep(0)
        wait.cancel()
        await asyncio.wait([wait])
        book.bound("ns", "a", "n1", 2.0)
        assert wait.cancelled()

    asyncio.run(scenario())


def test_bindings_are_counted_once_and_a_second_node_is_a_fault() -> None:
    book = PodBook()
    book.created("ns", "a", 1.0)
    book.bound("ns", "a", "n1", 2.0)
    book.bound("ns", "a", "n1", 3.0)
    assert book.selected(["ns"]) == [(1.0, 2.0)]
    assert book.double_binds == []
    book.bound("ns", "a", "n2", 4.0)
    assert book.double_binds == ["ns/a: n1 then n2"]


def test_pods_are_selected_by_namespace_and_labels() -> None:
    book = PodBook()
    for namespace, name, labels in (("x", "a", {"color": "red"}), ("x", "b", {}), ("y", "c", {})):
        book.created(namespace, name, 1.0, labels)
        book.bound(namespace, name, "n", 2.0)
    assert len(book.selected(["x", "y"])) == 3
    assert len(book.selected(["x"], {"color": "red"})) == 1
    assert book.selected(["x"], {"color": "blue"}) == []


def test_the_state_is_told_with_the_reason_when_it_is_the_same_for_all() -> None:
    book = PodBook()
    assert book.told() == "no pods"
    book.created("ns", "a", 1.0)
    book.refused("ns", "a", "too small")
    assert book.told() == "ns: 1 created, 0 bound, 1 refused (too small)"
    book.deleted("ns", "a")
    assert "0 refused" in book.told()
