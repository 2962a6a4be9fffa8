"""What a turn costs does not depend on how much waits: function calls are counted, which is the same on
any machine."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from daemon.core import bindings
from daemon.core.cache import Cache
from daemon.core.cluster_changes import LATE_S
from shared.feature_gates import DEFAULT_GATES
from shared.kube.api.core_v1 import Node
from shared.kube.pod_record import PodRecord
from shared.messages.from_binder import BindReport
from shared.messages.to_owner import PodChanged
from shared.transport.heard import Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import BINDER, EPOCH, Pipeline
from tests.unit.daemon.core.queue.builders import GATED
from tests.unit.daemon.core.test_extended_attempts import FILTERS, extended
from tests.unit.daemon.core.test_waiting_pods import Asks


def calls_in(action: Callable[[], object]) -> int:
    """How many functions were called, ours and built-in ones; the collector, which calls what others
    left behind, rests meanwhile."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def with_orders(count: int) -> Pipeline:
    """A binder that has as many orders as it may, and the rest of `count` waiting here."""
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="10000", memory="1000Gi", pods=10_000)], [])
    pipeline.run_until_quiet()
    pipeline.tell(*(PodChanged(make_pod(f"p{i}")) for i in range(count)))
    while pipeline.step_owner() or pipeline.step_scorer(0):
        pass
    assert pipeline.state.binders.in_flight_count() == count
    return pipeline


def test_a_turn_does_not_look_at_orders_that_wait_for_a_slow_api_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bindings, "ORDERS_PER_BINDER_MAX", 8)

    def cost(count: int) -> int:
        pipeline = with_orders(count)
        first = pipeline.orders[0].ticket
        report = BindReport(EPOCH, [first], [])
        return calls_in(lambda: pipeline.handle(Said(BINDER, report)))

    assert cost(1000) == cost(50)


def test_a_turn_does_not_look_at_assumed_pods_whose_time_is_not_over() -> None:
    def cost(count: int) -> int:
        cache = Cache(DEFAULT_GATES, assumed_pod_ttl_s=30.0)
        for i in range(count):
            record = make_pod(f"p{i}")
            pod_class = cache.classes.acquire(record)
            cache.assume_pod(record, "n0", pod_class)
            cache.finish_binding(record.uid, float(i) / count)
        return calls_in(lambda: (cache.next_wakeup_s(), cache.cleanup_expired(5.0)))

    assert cost(1000) == cost(50)


def large_node(name: str, **labels: str) -> Node:
    return make_node(name, cpu="1000", memory="1000Gi", pods=1000, labels=labels)


def with_pods(*pods: PodRecord, **parts: Any) -> Pipeline:
    """Pods that came, after all that follows of itself; nothing is heard of bindings."""
    pipeline = Pipeline(**parts)
    pipeline.sync([large_node("n0"), large_node("n1")], [])
    pipeline.run_until_quiet()
    pipeline.tell(*(PodChanged(pod) for pod in pods))
    while pipeline.step_owner() or pipeline.step_scorer(0):
        pass
    pipeline.advance(LATE_S)  # What nobody waited for is told.
    return pipeline


def labelled(count: int, **parts: Any) -> list[PodRecord]:
    """Pods of a class each."""
    return [make_pod(f"p{i}", labels={"job": f"{i}"}, **parts) for i in range(count)]


def parked(count: int) -> Pipeline:
    return with_pods(*labelled(count, cpu="2000"))


def gated(count: int) -> Pipeline:
    return with_pods(*labelled(count, spec=GATED))


def on_permit(count: int) -> Pipeline:
    return with_pods(*labelled(count), permit=[Asks("A", timeout_s=900.0)])


def ordered(count: int) -> Pipeline:
    return with_pods(*labelled(count))


def on_nodes(count: int) -> Pipeline:
    return with_pods(*labelled(count, node_name="n0"))


def at_extenders(count: int) -> Pipeline:
    return with_pods(*(extended(f"p{i}") for i in range(count)), extenders=(FILTERS,))


@pytest.mark.parametrize("world", [parked, gated, on_permit, ordered, on_nodes, at_extenders])
def test_a_turn_costs_what_came_and_not_what_is_there(world: Callable[[int], Pipeline]) -> None:
    def costs(count: int) -> list[int]:
        pipeline = world(count)
        bound, relabelled = make_pod("bound", node_name="n1"), large_node("n1", a="b")
        return [
            calls_in(pipeline.handle),
            calls_in(lambda: pipeline.add_pod(make_pod("new"))),
            calls_in(lambda: pipeline.add_pod(bound)),
            calls_in(lambda: pipeline.add_node(relabelled)),
        ]

    assert costs(120) == costs(20)


def test_nothing_is_kept_for_workers_while_there_are_none() -> None:
    def cost(count: int) -> int:
        pipeline = Pipeline(worker_count=0, is_candidate=True)
        pipeline.sync([make_node("n0")], [])
        for i in range(count):
            pod = make_pod(f"p{i}", labels={"job": f"{i}"})
            pipeline.add_pod(pod)
            pipeline.delete_pod(pod)
        classes = pipeline.state.cache.classes
        assert (classes.born, classes.retired) == ([], [])
        return calls_in(pipeline.handle)

    assert cost(300) == cost(30)
