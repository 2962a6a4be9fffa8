"""Orders for binders: answered once, and never lost with a binder."""

import itertools
import math

import pytest

from daemon.core import bindings
from daemon.core.bindings import BinderPool
from daemon.core.events import Effect, Tell
from shared.kube.pod_record import PodRecord
from shared.messages.to_binder import BindPod, BindPods
from tests.support.builders import make_pod

TICKETS = itertools.count(1)


def sent(effects: list[Effect]) -> dict[bytes, list[BindPod]]:
    found: dict[bytes, list[BindPod]] = {}
    for effect in effects:
        assert isinstance(effect, Tell)
        assert isinstance(effect.message, BindPods)
        found.setdefault(effect.peer, []).extend(effect.message.orders)
    return found


def ask_for(binders: BinderPool, pod: PodRecord) -> None:
    bind = BindPod(
        next(TICKETS), "default-scheduler", pod.namespace, pod.name, pod.uid, "n0", look_first=False
    )
    binders.order(bind, pod)


def pool(*peers: bytes) -> BinderPool:
    made = BinderPool(epoch=1)
    for index, peer in enumerate(peers):
        made.join(peer, index, now_s=0.0)
        made.ready(peer)
    return made


def test_orders_wait_until_a_binder_is_ready() -> None:
    binders = BinderPool(epoch=1)
    ask_for(binders, make_pod("p"))
    assert binders.flush() == []
    binders.join(b"a", 0, now_s=0.0)
    assert binders.flush() == [], "it has said Hello, but may still bind for an earlier owner"
    binders.ready(b"a")
    assert [one.name for one in sent(binders.flush())[b"a"]] == ["p"]
    assert binders.in_flight_count() == 1


def test_orders_are_spread_over_the_binders() -> None:
    binders = pool(b"a", b"b")
    for i in range(200):
        ask_for(binders, make_pod(f"p{i}"))
    counts = {peer: len(orders) for peer, orders in sent(binders.flush()).items()}
    assert sum(counts.values()) == 200
    assert min(counts.values()) > 60


def test_one_binder_writes_all_about_a_pod() -> None:
    binders = pool(b"a", b"b", b"c")
    for i in range(20):
        pod = make_pod(f"p{i}")
        ask_for(binders, pod)
        (peer,) = sent(binders.flush())
        assert binders.for_pod(pod.uid) == peer


def test_a_binder_that_says_hello_again_has_forgotten_its_orders() -> None:
    binders = pool(b"a")
    ask_for(binders, make_pod("p"))
    binders.flush()
    assert binders.join(b"a", 0, now_s=1.0) == 1
    binders.ready(b"a")
    (again,) = sent(binders.flush())[b"a"]
    assert again.look_first


def test_the_orders_of_a_lost_binder_go_to_another_that_looks_first() -> None:
    binders = pool(b"a")
    ask_for(binders, make_pod("p"))
    (first,) = sent(binders.flush())[b"a"]
    assert not first.look_first
    assert binders.join(b"a2", 0, now_s=1.0) == 1
    binders.ready(b"a2")
    (again,) = sent(binders.flush())[b"a2"]
    assert again.look_first
    assert again.ticket == first.ticket
    assert binders.settle(b"a", first.ticket) is None, "the lost binder has no say any more"
    assert binders.settle(b"a2", first.ticket) is not None
    assert binders.settle(b"a2", first.ticket) is None, "an order is answered once"
    assert binders.in_flight_count() == 0


def test_a_silent_binder_is_found_by_when_it_was_last_heard() -> None:
    binders = pool(b"a", b"b")
    binders.heard(b"b", now_s=20.0)
    assert binders.silent(25.0) == [b"a"]
    assert not binders.heard(b"unknown", now_s=20.0)


def test_orders_beyond_what_a_binder_may_have_follow_in_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bindings, "ORDERS_PER_BINDER_MAX", 2)
    binders = pool(b"a")
    for i in range(5):
        ask_for(binders, make_pod(f"p{i}"))
    names: list[str] = []
    while effects := binders.flush():
        (orders,) = sent(effects).values()
        names += [order.name for order in orders]
        assert binders.flush() == [], "it has as many as it may"
        assert binders.in_flight_count() == 5 - (len(names) - len(orders))
        for order in orders:
            assert binders.settle(b"a", order.ticket) is not None
    assert names == [f"p{i}" for i in range(5)]


def test_orders_that_wait_for_a_binder_are_spread_anew_when_another_comes_or_one_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bindings, "ORDERS_PER_BINDER_MAX", 2)
    binders = pool(b"a")
    for i in range(40):
        ask_for(binders, make_pod(f"p{i}"))
    assert len(sent(binders.flush())[b"a"]) == 2
    binders.join(b"b", 1, now_s=0.0)
    assert binders.flush() == []
    binders.ready(b"b")
    (orders,) = sent(binders.flush()).values()
    assert all(binders.for_pod(order.uid) == b"b" for order in orders)
    assert binders.leave(b"a") == 2
    for order in orders:
        binders.settle(b"b", order.ticket)
    again = sent(binders.flush())[b"b"]
    assert [(order.name, order.look_first) for order in again] == [("p0", True), ("p1", True)]
    assert binders.in_flight_count() == 38


def test_pods_that_share_a_claim_are_with_one_binder() -> None:
    def named(uid: str) -> str:
        return "default/claim" if uid.startswith("uid-default-shared") else ""

    binders = BinderPool(epoch=1, shared_claim_of=named)
    for peer in (b"a", b"b", b"c"):
        binders.join(peer, peer[0], now_s=0.0)
        binders.ready(peer)
    shared = [make_pod(f"shared{i}") for i in range(50)]
    for pod in shared:
        ask_for(binders, pod)
    ((peer, orders),) = sent(binders.flush()).items()
    assert len(orders) == 50
    assert {binders.for_pod(pod.uid) for pod in shared} == {peer}
    assert len({binders.for_pod(f"uid-default-p{i}") for i in range(50)}) == 3


def test_an_order_of_unknown_outcome_is_looked_up_after_pauses_that_grow() -> None:
    binders = pool(b"a")
    ask_for(binders, make_pod("p"))
    now_s, pauses = 100.0, []
    for _ in range(6):
        (order,) = sent(binders.flush())[b"a"]
        settled = binders.settle(b"a", order.ticket)
        assert settled is not None
        binders.order_again(settled, now_s)
        assert binders.in_flight_count() == 1
        pauses.append(binders.next_wakeup_s() - now_s)
        binders.pass_time(now_s + pauses[-1] - 0.1)
        assert binders.flush() == []
        now_s = binders.next_wakeup_s()
        binders.pass_time(now_s)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    (again,) = sent(binders.flush())[b"a"]
    assert again.look_first
    assert binders.next_wakeup_s() == math.inf
