"""What one more pod costs a turn: what depends on its class, or on what it does not have, is not asked
for it. Calls are counted, which is the same on any machine."""

import itertools
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Final

from daemon.core.holdings import Settings
from daemon.core.state import SchedulerState
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.plugin_times import IN_OWNER, SAMPLED
from shared.messages.from_binder import BindReport
from shared.messages.to_owner import PodChanged
from shared.transport.heard import Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import BINDER, EPOCH, Pipeline
from tests.unit.daemon.core.queue.builders import GATED
from tests.unit.daemon.core.test_pod_groups import Gangs, member

CALLS_A_POD_MAX: Final = 63
"""From its arrival to its confirmation, of functions in `daemon/core`, where pods come in batches. Three
ask what of its template matters."""


def calls_by_place(action: Callable[[], object]) -> Counter[str]:
    """How often each function of ours was called, by file and name."""
    counts: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            counts[f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return counts


def on_one_node() -> Pipeline:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="1000", memory="1000Gi", pods=1000)], [])
    pipeline.run_until_quiet()
    return pipeline


def life_of(count: int, pipeline: Pipeline) -> None:
    """Pods come, are placed, bound, and confirmed."""
    pods = [make_pod(f"p{i}") for i in range(count)]
    pipeline.tell(*(PodChanged(pod) for pod in pods))
    pipeline.run_until_quiet()
    pipeline.tell(*(PodChanged(make_pod(f"p{i}", node_name="n0")) for i in range(count)))
    assert len(pipeline.bound) == count


def test_a_pod_without_a_group_asks_nothing_of_groups() -> None:
    def asked(count: int) -> int:
        pipeline = on_one_node()
        counts = calls_by_place(lambda: life_of(count, pipeline))
        return sum(calls for place, calls in counts.items() if "/pod_groups.py:" in place)

    assert asked(100) == asked(10)


def test_what_plugins_say_of_a_class_is_asked_once() -> None:
    """PreEnqueue and Reserve."""

    def asked(count: int) -> int:
        pipeline = on_one_node()
        counts = calls_by_place(lambda: life_of(count, pipeline))
        return sum(
            calls
            for place, calls in counts.items()
            if "/owner_plugins.py:" in place or "/plugins/gates.py:SchedulingGates" in place
        )

    assert asked(100) == asked(10)


def test_a_pod_of_a_gang_is_asked_about_when_it_comes_and_when_the_gang_is_whole() -> None:
    """And not for each other pod that comes, is placed or is confirmed meanwhile."""

    def asked(count: int) -> int:
        pipeline = Gangs([make_node("n0", cpu="1000", memory="1000Gi", pods=1000)])
        pipeline.add_group("g", count)
        pods = [member(f"p{i}", "g") for i in range(count)]
        others = [make_pod(f"o{i}", node_name="n0") for i in range(count)]

        def come() -> None:
            for pod, other in zip(pods, others, strict=True):
                pipeline.tell(PodChanged(pod))
                pipeline.tell(PodChanged(other))

        counts = calls_by_place(come)
        return sum(
            calls for place, calls in counts.items() if place.endswith(":ClusterFacts._gate_of")
        )

    assert asked(20) - asked(10) == 2 * 10


def test_an_attempt_of_a_group_costs_the_same_however_many_pods_of_others_are_on_nodes() -> None:
    """Also where all of them may have to go for it."""

    def calls(others_count: int) -> int:
        nodes = [make_node("n0", cpu="1000", memory="1000Gi", pods=1000)]
        pipeline = Gangs(nodes, preempting=frozenset(["default-scheduler"]))
        pipeline.add_group("others", 1)
        others = (member(f"o{i}", "others", node_name="n0") for i in range(others_count))
        pipeline.tell(*(PodChanged(pod) for pod in others))
        pipeline.add_group("g", 2)
        pods = [member(f"p{i}", "g") for i in range(2)]
        pipeline.run_until_quiet()
        counts = calls_by_place(lambda: pipeline.tell(*(PodChanged(pod) for pod in pods)))
        return sum(calls for place, calls in counts.items() if "/daemon/core/" in place)

    assert calls(40) == calls(4)


def in_four_turns(count: int, pipeline: Pipeline) -> None:
    """All pods come, are placed, bound, and confirmed, at once each time."""
    pods = [make_pod(f"p{i}") for i in range(count)]
    pipeline.tell(*(PodChanged(pod) for pod in pods))
    while pipeline.step_scorer(0) or pipeline.step_owner():
        pass
    finished = [order.ticket for order in pipeline.orders]
    assert len(finished) == count
    pipeline.handle(Said(BINDER, BindReport(EPOCH, finished, [])))
    pipeline.tell(*(PodChanged(make_pod(f"p{i}", node_name="n0")) for i in range(count)))
    assert len(pipeline.state.queue) == 0


def test_a_pod_costs_the_owner_no_more_calls_than_it_did() -> None:
    """A layer that only passes on, or a question that is asked of each pod, shows here; who needs more
    calls says what for."""

    def calls(count: int) -> int:
        pipeline = on_one_node()
        counts = calls_by_place(lambda: in_four_turns(count, pipeline))
        return sum(calls for place, calls in counts.items() if "/daemon/core/" in place)

    in_a_batch = [calls(count) for count in (64, 128)]
    assert in_a_batch[1] - in_a_batch[0] <= 64 * CALLS_A_POD_MAX


def looks_at_the_clock(count: int, spec: dict[str, object]) -> float:
    """In a turn in which so many pods come, and no single call of a plugin is looked at."""
    pipeline = Pipeline()
    clock = itertools.count(0.0, 1.0)
    settings = Settings(DEFAULT_GATES)
    pipeline.state = SchedulerState(
        EPOCH, settings, pipeline.frameworks, pipeline.plugins, 1000.0, None, clock.__next__
    )
    (profile,) = pipeline.frameworks
    pipeline.state.counters.plugin_times.watch(
        profile, pipeline.plugins.pre_enqueue[profile], IN_OWNER
    )
    pipeline.sync([], [])
    assert SAMPLED > 1, "the turn after the first is not sampled"
    begun_s = next(clock)
    pipeline.tell(*(PodChanged(make_pod(f"p{i}", spec=spec)) for i in range(count)))
    return next(clock) - begun_s


def test_a_pod_that_no_plugin_keeps_out_costs_no_look_at_the_clock() -> None:
    assert looks_at_the_clock(50, {}) == looks_at_the_clock(5, {})


def test_a_pod_that_may_be_kept_out_costs_two() -> None:
    assert looks_at_the_clock(50, GATED) - looks_at_the_clock(5, GATED) == 2 * 45
