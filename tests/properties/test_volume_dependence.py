"""What is kept of a class with volumes from one pod to the next is what a new evaluation finds.

The volume plugins say what their answers depend on; the engine and the owner's checker ask again
only where that changed. Whatever changes, both must agree with somebody who never looked before.
"""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.cache import Cache
from daemon.core.checker import Checker
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.prepared_pod import prepared, run_filters_with_nominated
from shared.framework.runtime.profiles import ProfileConfig
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.volumes import (
    ZONE,
    claim_volumes,
    put_claim,
    put_class,
    put_csi_node,
    put_volume,
)
from workers.scorer.engine import Engine

BUILT = InTreeRegistry(entry_points=()).build(ProfileConfig())
FRAMEWORKS = {BUILT.scheduler_name: BUILT.framework}
NODES = ("n0", "n1", "n2")
EBS = {"driver": "ebs.csi.aws.com"}


def disk(volume_id: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": volume_id}}]}


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "disk": disk("a"),
    "other disk": disk("b"),
    "bound": claim_volumes("bound"),
    "single": claim_volumes("single"),
    "waiting": claim_volumes("waiting"),
    "two": claim_volumes("bound", "waiting"),
}
KIND = st.sampled_from(sorted(KINDS))
NODE = st.sampled_from(NODES)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), KIND, NODE),
        st.tuples(st.just("no pod"), KIND, NODE),
        st.tuples(st.just("node"), NODE, st.sampled_from(("a", "b"))),
        st.tuples(st.just("no node"), NODE),
        st.tuples(st.just("limit"), NODE, st.integers(0, 2)),
        st.tuples(st.just("zone"), st.sampled_from(("", "a", "b"))),
        st.tuples(st.just("local"), st.integers(0, 1), NODE, st.booleans()),
        st.tuples(st.just("place"), st.sampled_from(("waiting", "two"))),
        st.tuples(st.just("no place"), st.sampled_from(("waiting", "two"))),
    ),
    min_size=3,
    max_size=12,
)


class World:
    """A cluster to which things happen."""

    def __init__(self) -> None:
        self.cache = Cache(DEFAULT_GATES)
        for name in NODES:
            self.take("node", name, "a")
        put_class(self.cache, provisioner="kubernetes.io/no-provisioner")
        put_claim(self.cache, "single", volume="pv-single", access_modes=["ReadWriteOncePod"])
        put_volume(self.cache, "pv-single", claim="single")
        put_claim(self.cache, "bound", volume="pv-bound")
        put_claim(self.cache, "waiting")
        self.take("zone", "")

    def take(self, what: str, *parts: Any) -> None:
        getattr(self, "_" + what.replace(" ", "_"))(*parts)

    def _pod(self, kind: str, node: str) -> None:
        self.cache.add_pod(make_pod(f"{kind}-{node}", node_name=node, spec={
            **KINDS[kind], "nodeName": node,
        }))  # fmt: skip

    def _no_pod(self, kind: str, node: str) -> None:
        self.cache.remove_pod(f"uid-default-{kind}-{node}")

    def _node(self, name: str, zone: str) -> None:
        self.cache.add_node(make_node(name, labels={ZONE: zone}))

    def _no_node(self, name: str) -> None:
        self.cache.remove_node(name)

    def _limit(self, name: str, limit: int) -> None:
        put_csi_node(self.cache, name, {EBS["driver"]: limit})

    def _zone(self, zone: str) -> None:
        labels = {ZONE: zone} if zone else {}
        source = {"csi": {**EBS, "volumeHandle": "h"}}
        put_volume(self.cache, "pv-bound", labels=labels, source=source, claim="bound")

    def _local(self, number: int, node: str, is_free: bool) -> None:
        claim = "" if is_free else "somebody"
        put_volume(self.cache, f"local-{number}", hosts=[node], claim=claim)

    def _place(self, kind: str) -> None:
        """Reserves the first node that takes such a pod."""
        record = make_pod(f"reserved {kind}", spec=KINDS[kind])
        info = self.cache.classes.acquire(record).info
        rows = self.cache.nodes.present_rows()
        asked = prepared(BUILT.framework, info, self.cache.view)
        passes = run_filters_with_nominated(asked, rows).passes
        for plugin in BUILT.plugins_at["reserve"] if passes.any() else ():
            plugin.reserve(record, info, self.cache.view, int(rows[passes][0]))

    def _no_place(self, kind: str) -> None:
        record = make_pod(f"reserved {kind}", spec=KINDS[kind])
        info = self.cache.classes.acquire(record).info
        for plugin in BUILT.plugins_at["reserve"]:
            plugin.unreserve(record, info, self.cache.view, 0)


@given(STEPS)
def test_what_is_kept_is_what_a_new_evaluation_finds(steps: list[tuple[Any, ...]]) -> None:
    world = World()
    cache, profile = world.cache, BUILT.scheduler_name
    engine = Engine(cache.view, FRAMEWORKS)
    checker = Checker(cache.view, FRAMEWORKS)
    classes = [cache.classes.acquire(make_pod(f"new {k}", spec=KINDS[k])) for k in KINDS]
    for step in steps:
        world.take(*step)
        fresh = Engine(cache.view, FRAMEWORKS)
        for each in classes:
            kept = engine.evaluate(each.class_id, each.info, profile)
            new = fresh.evaluate(each.class_id, each.info, profile)
            assert kept.pod.outcome.status == new.pod.outcome.status
            assert kept.feasible.tolist() == new.feasible.tolist()
            rows = cache.nodes.present_rows()
            passes = checker.passing(each.class_id, each.info, rows)
            assert passes.tolist() == new.feasible[rows].tolist()
            if len(rows) and passes.any():
                assert np.count_nonzero(passes) == new.feasible_count
