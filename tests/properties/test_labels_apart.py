"""Pods that differ in labels go where each of them would go if it were looked at alone.

Most of what plugins say of such pods is kept for all of them together, and those that select by labels
are asked about each. Whatever was placed before them, a new engine and a new checker that know no
families must agree.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.core.cache import Cache
from daemon.core.checker import Checker
from shared.engine import row_states
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.profiles import ProfileConfig
from shared.kube.api.apps_v1 import ReplicaSet
from shared.kube.api.core_v1 import Service
from shared.kube.api.meta_v1 import LabelSelector, ObjectMeta
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from workers.scorer.engine import Choice, Engine
from workers.scorer.lone_pods import LonePods

PROFILE: Final = "default-scheduler"
FRAMEWORKS: Final = {PROFILE: InTreeRegistry(entry_points=()).build(ProfileConfig()).framework}
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
APPS: Final = tuple("abcdefgh")
SERVED: Final = APPS[:3]


def spread(key: str, when: str, app: str) -> dict[str, Any]:
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": app}}, "matchLabelKeys": ["tier"]}  # fmt: skip


def term(key: str, *apps: str) -> dict[str, Any]:
    chosen = {"key": "app", "operator": "In", "values": list(apps)}
    return {"topologyKey": key, "labelSelector": {"matchExpressions": [chosen]}}


def affinity(kind: str, *, required: Any = (), preferred: Any = ()) -> dict[str, Any]:
    weighted = [{"weight": 30, "podAffinityTerm": each} for each in preferred]
    of_kind = {
        "requiredDuringSchedulingIgnoredDuringExecution": list(required),
        "preferredDuringSchedulingIgnoredDuringExecution": weighted,
    }
    return {"affinity": {kind: of_kind}}


HARD: Final = [spread(HOST, "DoNotSchedule", "a")]
SOFT: Final = [spread(ZONE, "ScheduleAnyway", "b"), spread(HOST, "ScheduleAnyway", "c")]
SPECS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"nodeSelector": {"disk": "ssd"}},
    {"topologySpreadConstraints": HARD},
    {"topologySpreadConstraints": SOFT},
    affinity("podAntiAffinity", required=[term(HOST, "a", "b", "d")]),
    affinity("podAffinity", required=[term(ZONE, "a", "c", "e")]),
    affinity("podAffinity", preferred=[term(ZONE, "b", "f")]),
)


class World:
    """Six nodes in two zones; some Services, and a ReplicaSet for each app."""

    def __init__(self) -> None:
        self.cache = Cache(DEFAULT_GATES)
        for i in range(6):
            labels = {ZONE: "xy"[i % 2], HOST: f"n{i}", "disk": ("ssd", "hdd")[i // 4]}
            taints = [{"key": "soft", "value": "", "effect": "PreferNoSchedule"}] * (i == 3)
            self.cache.add_node(
                make_node(f"n{i}", labels=labels, cpu="4", pods=5 + i, taints=taints)
            )
        for app in SERVED:
            service = Service(metadata=ObjectMeta(name=app, namespace="default"))
            service.spec.selector = {"app": app}
            self.cache.objects.put("services", f"default/{app}", service)
        for app in APPS:
            owner = ReplicaSet(metadata=ObjectMeta(name=app, namespace="default"))
            owner.spec.selector = LabelSelector(match_labels={"app": app})
            self.cache.objects.put("replicasets", f"default/{app}", owner)
        self.lone_pods = self.new_lone_pods()
        self.checker = Checker(self.cache.view, FRAMEWORKS)
        self.from_families = 0
        self.number = 0

    def new_lone_pods(self) -> LonePods:
        return LonePods(self.cache.view, FRAMEWORKS, Engine(self.cache.view, FRAMEWORKS))

    def pod_comes(self, app: str, cpu: str, spec: dict[str, Any], *, is_owned: bool) -> None:
        self.number += 1
        labels = {"app": app, "tier": str(self.number % 2)}
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app}
        shape: dict[str, Any] = {"cpu": cpu, "labels": labels, "spec": spec}
        shape["owner"] = owner if is_owned else None
        name = f"p{self.number}"
        pod_class = self.cache.classes.acquire(make_pod(name, **shape))
        found = self.lone_pods.choose(
            pod_class.class_id, pod_class.info, PROFILE, lambda ties: ties[-1]
        )
        fresh = Engine(self.cache.view, FRAMEWORKS)
        evaluation = fresh.evaluate(pod_class.class_id, pod_class.info, PROFILE)
        wanted = fresh.choose(evaluation, lambda ties: ties[-1])
        assert found is None or found == wanted
        self.from_families += found is not None
        self.owner_agrees(pod_class.class_id, pod_class.info, evaluation.feasible)
        if isinstance(wanted, Choice):
            node_name = self.cache.nodes.name_of(wanted.row)
            self.cache.add_pod(make_pod(name, node_name=node_name, **shape))

    def owner_agrees(self, class_id: int, info: Any, feasible: Any) -> None:
        for row in self.cache.nodes.present_rows().tolist():
            passes = self.checker.passing(class_id, info, np.array([row], np.intp))
            assert passes.item() == feasible.item(row)


STEP = st.tuples(
    st.sampled_from(APPS), st.sampled_from(("100m", "500m", "2")), st.sampled_from(SPECS), st.booleans()
)  # fmt: skip


@pytest.fixture(params=(2, 1 << 14), ids=("states shared", "rows asked"))
def _sharing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_states, "ROWS_MIN", request.param)


@pytest.mark.usefixtures("_sharing")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, min_size=4, max_size=24))
def test_pods_that_differ_in_labels_go_where_each_would_alone(
    steps: Sequence[tuple[str, str, dict[str, Any], bool]],
) -> None:
    world = World()
    for app, cpu, spec, is_owned in steps:
        world.pod_comes(app, cpu, spec, is_owned=is_owned)


def test_all_but_the_first_of_a_family_are_placed_by_it() -> None:
    world = World()
    for app in APPS:
        world.pod_comes(app, "100m", {}, is_owned=True)
    assert world.from_families == len(APPS) - 1
