"""Owner and workers come to an end with each other, whatever was nominated where.

Two small nodes, pods of several priorities, victims that take their time: what the owner refuses a
worker must be the doing of something that changed, never of the order in which it looks at the answers
(`Pipeline.step_owner` sees to that, and to rest it has to come within a bounded number of steps).
"""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.kube.pod_record import PodRecord
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline

STEPS_MAX = 2_000
"""At most 20 pods, each of which is tried a few times: far more than a few hundred is no progress."""
LARGE = st.sampled_from(("3500m", "4"))
"""One fills a node, or leaves room for a small one."""
CPUS = st.one_of(LARGE, st.sampled_from(("500m", "1")))
PRIORITIES = st.integers(0, 3)
ADDED = st.tuples(st.just("add"), CPUS, PRIORITIES)
GONE = st.tuples(st.just("gone"), st.integers(0, 1))


class World:
    """A pipeline, and which pods there are."""

    def __init__(self, worker_count: int, bound: list[tuple[str, int]]) -> None:
        self.pipeline = Pipeline(worker_count=worker_count)
        self.alive: dict[str, PodRecord] = {}
        for i, (cpu, priority) in enumerate(bound):
            self._new(cpu, priority, f"n{i}")
        nodes = [make_node(f"n{i}", cpu="4") for i in range(len(bound))]
        self.pipeline.sync(nodes, list(self.alive.values()))

    def _new(self, cpu: str, priority: int, node: str = "") -> PodRecord:
        name = f"p{len(self.alive)}"
        pod = make_pod(name, cpu=cpu, memory=None, priority=priority, node_name=node)
        self.alive[pod.uid] = pod
        return pod

    def add(self, cpu: str, priority: int) -> None:
        self.pipeline.add_pod(self._new(cpu, priority))

    def gone(self, pick: int) -> None:
        """A pod on a node ends, those first that were told to go."""
        held = sorted(self.pipeline.state.cache.pods(), key=lambda pod: pod.record.name)
        going = [pod for pod in held if pod.record.deleted] or held
        if going:
            self.pipeline.delete_pod(going[pick % len(going)].record)

    def quiet(self) -> None:
        pipeline = self.pipeline
        for _ in range(STEPS_MAX):
            moved = pipeline.step_owner()
            for index in pipeline.scorers:
                moved = pipeline.step_scorer(index) or moved
            moved = pipeline.step_binder() or moved
            moved = pipeline.step_victim(lingers=True) or moved
            if not moved:
                return
        raise AssertionError("owner and workers go round")


ROOM_GIVEN_BACK = [
    (("add", "4", 2), True),
    (("add", "500m", 3), True),
    (("add", "1", 0), True),
    (("gone", 0), True),
]
"""A nominated pod whose node was spoilt finds room elsewhere, and in the same answer another pod is
placed into the room that the nomination kept."""


@settings(max_examples=100)
@example(worker_count=1, bound=[("3500m", 0), ("4", 1)], steps=ROOM_GIVEN_BACK)
@given(
    worker_count=st.sampled_from((1, 1, 2)),
    bound=st.lists(st.tuples(LARGE, st.integers(0, 1)), min_size=2, max_size=2),
    steps=st.lists(
        st.tuples(st.one_of(ADDED, ADDED, GONE), st.sampled_from((True, True, False))),
        min_size=4,
        max_size=14,
    ),
)
def test_answers_found_on_the_newest_state_settle_pods(
    worker_count: int, bound: list[tuple[str, int]], steps: list[tuple[tuple[Any, ...], bool]]
) -> None:
    world = World(worker_count, bound)
    world.quiet()
    for (what, *args), is_alone in steps:
        getattr(world, what)(*args)
        if is_alone:
            world.quiet()
    world.quiet()
    world.pipeline.advance(20.0)
    world.quiet()
    world.pipeline.check()
