"""Pods that are alike but for their claims go where each of them would go if it were looked at alone.

Plugins say of claims what they come to (`ClaimsLikener`), and pods of which that is equal share one
evaluation. Whatever was placed before them, with whichever claims, a new engine and a new checker that
know nothing of likeness must agree with it.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.core.cache import Cache
from daemon.core.checker import Checker, end_of_stretch
from daemon.core.committer import passing
from daemon.core.pod_classes import PodClass
from shared.engine import families, row_states
from shared.engine.evaluation import Alike, Evaluations
from shared.engine.families import Families
from shared.feature_gates import DEFAULT_GATES
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.profiles import ProfileConfig
from shared.kube.pod_record import PodRecord
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.devices import (
    CLASS,
    allocated,
    device,
    first_available,
    make_claim,
    make_class,
    make_slice,
    request,
    selectors,
    with_claims_made,
)
from tests.support.volumes import ZONE, claim_volumes, put_claim, put_csi_node, put_volume
from workers.scorer.engine import Engine
from workers.scorer.lone_pods import LonePods

PROFILE = "default-scheduler"
BUILT = InTreeRegistry(entry_points=()).build(ProfileConfig())
FRAMEWORKS = {PROFILE: BUILT.framework}
CHECKED = {PROFILE: BUILT.framework.only(lambda plugin: not hasattr(plugin, "reserve_filters"))}
"""The owner's, which leaves to Reserve what that says as well."""
NODES = tuple(f"n{i}" for i in range(6))
CSI, OTHER, EBS = "csi.example.com", "other.example.com", "ebs.csi.aws.com"
CLAIMS_A_KIND = 12
ONCE = ("ReadWriteOnce",)
KINDS: dict[str, dict[str, Any]] = {
    "anywhere": {"driver": CSI},
    "of another driver": {"driver": OTHER},
    "in zone a": {"driver": CSI, "labels": {ZONE: "a"}},
    "on two nodes": {"driver": CSI, "hosts": ["n0", "n1"]},
    "in-tree": {"ebs": "", "labels": {}},
    "in-tree in zone b": {"ebs": "", "labels": {ZONE: "b"}},
    "not attached": {},
    "of one pod": {"driver": CSI, "modes": ("ReadWriteOncePod",)},
    "one volume for all": {"driver": CSI, "handle": "same"},
}
LARGE = request(selectors=selectors('device.attributes["gpu.example.com"].size == "large"'))
DEVICES: dict[str, list[dict[str, Any]]] = {
    "a device": [request()],
    "two devices": [request(count=2)],
    "a large device": [LARGE],
    "any of two": [first_available("r0", LARGE, request("other"))],
}
ALL_KINDS = (*KINDS, *DEVICES)
LIKE_NO_OTHER = ("of one pod", "any of two")


def put_slice(cache: Cache, node: str, count: int, *, is_shared: bool = False) -> None:
    """So many small devices, and a large one."""
    sizes = ["small"] * count + ["large"]
    devices = [device(f"d{i}", attributes={"size": size}) for i, size in enumerate(sizes)]
    of_node: dict[str, Any] = {"node": None, "allNodes": True} if is_shared else {}
    each = make_slice(node, devices, **of_node)
    cache.objects.put("resourceslices", each.metadata.name, each)


def put_device_claim(cache: Cache, kind: str, number: int) -> str:
    name = f"claim-{list(DEVICES).index(kind)}-{number}"
    cache.objects.put("resourceclaims", f"default/{name}", make_claim(name, DEVICES[kind]))
    return name


def put_kind(cache: Cache, kind: str, number: int) -> str:
    """A claim that is bound to a volume of its own; its name."""
    name = f"{list(KINDS).index(kind)}-{number}"
    spec = KINDS[kind]
    source: dict[str, Any] = {}
    if "driver" in spec:
        handle = spec.get("handle", name)
        source = {"csi": {"driver": spec["driver"], "volumeHandle": handle}}
    elif "ebs" in spec:
        source = {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}}
    modes = spec.get("modes", ONCE)
    put_claim(cache, name, volume=f"pv-{name}", access_modes=modes, phase="Bound")
    put_volume(
        cache, f"pv-{name}", claim=name, source=source,
        hosts=spec.get("hosts", ()), labels=spec.get("labels", {}),
    )  # fmt: skip
    return name


class World:
    """Nodes in two zones, few volumes each; claims of all kinds, which are there from the beginning."""

    def __init__(self) -> None:
        self.cache = Cache(DEFAULT_GATES)
        for i, name in enumerate(NODES):
            labels = {ZONE: "ab"[i % 2], "kubernetes.io/hostname": name}
            labels["topology.ebs.csi.aws.com/zone"] = "ab"[i % 2]
            self.cache.add_node(make_node(name, labels=labels, cpu="8", pods=9))
            self.limit(name, 1 + i % 2)
        self.free = {
            kind: [put_kind(self.cache, kind, i) for i in range(CLAIMS_A_KIND)] for kind in KINDS
        }
        self.cache.objects.put("deviceclasses", CLASS, make_class())
        for i, name in enumerate(NODES):
            put_slice(self.cache, name, 1 + i % 2)
        for kind in DEVICES:
            self.free[kind] = [put_device_claim(self.cache, kind, i) for i in range(CLAIMS_A_KIND)]
        self.engine = Engine(self.cache.view, FRAMEWORKS)
        self.lone_pods = LonePods(self.cache.view, FRAMEWORKS, self.engine)
        self.checker = Checker(self.cache.view, FRAMEWORKS)
        self.owner = Checker(self.cache.view, CHECKED)
        self.number = 0
        self.there: list[tuple[PodRecord, PodInfo]] = []

    def limit(self, node: str, count: int) -> None:
        limits = {CSI: count, OTHER: max(1, 3 - count), EBS: count}
        put_csi_node(self.cache, node, limits, migrated="kubernetes.io/aws-ebs")

    def new_pod(self, kinds: list[str], cpu: str) -> tuple[PodRecord, PodClass]:
        """With claims of these kinds that nobody had yet, as far as there are."""
        names = [(kind, self.free[kind].pop()) for kind in kinds if self.free[kind]]
        self.number += 1
        spec = claim_volumes(*(name for kind, name in names if kind in KINDS))
        made = {f"r{i}": name for i, (kind, name) in enumerate(names) if kind in DEVICES}
        spec["resourceClaims"] = [{"name": r, "resourceClaimTemplateName": "t"} for r in made]
        record = with_claims_made(make_pod(f"p{self.number}", cpu=cpu, spec=spec), made)
        for kind, name in names:
            if kind in DEVICES:
                claim = make_claim(name, DEVICES[kind], owner=record.uid)
                self.cache.objects.put("resourceclaims", f"default/{name}", claim)
        return record, self.cache.classes.acquire(record)

    def crowd(self, kinds: list[str], cpu: str, count: int) -> None:
        """Pods that come one after the other; each goes where a new engine says."""
        for _ in range(count):
            record, pod_class = self.new_pod(kinds, cpu)
            info = pod_class.info
            found = self.lone_pods.choose(pod_class.class_id, info, PROFILE, lambda ties: ties[-1])
            fresh = Engine(self.cache.view, FRAMEWORKS)
            evaluation = fresh.evaluate(pod_class.class_id, info, PROFILE)
            wanted = fresh.choose(evaluation, lambda ties: ties[-1])
            assert found is None or found == wanted
            self.owner_agrees(pod_class, evaluation.feasible)
            if wanted is not None:
                assert self.reserve(record, pod_class, wanted.row)
                self.there.append((record, info))

    def owner_agrees(self, pod_class: PodClass, feasible: Any) -> None:
        for row in self.cache.nodes.present_rows().tolist():
            rows = np.array([row], np.intp)
            passes = self.checker.passing(pod_class.class_id, pod_class.info, rows)
            assert passes.item() == feasible.item(row)
        rows = np.array(self.cache.nodes.present_rows())
        kept, fresh = (
            each.passing(pod_class.class_id, pod_class.info, rows).tolist()
            for each in (self.owner, Checker(self.cache.view, CHECKED))
        )
        assert kept == fresh

    def judge(self, kinds: list[str], rows: list[int]) -> None:
        """Pods that were proposed for these rows are checked together, as far as they may be; each is
        let in if a new checker does so that is asked when those before it are there."""
        known, begin = self.proposed(kinds, rows), 0
        while begin < len(known):
            run = known[begin : end_of_stretch(known, begin, self.owner)]
            passes = passing(self.cache, self.owner, run, self.cache.generation)
            begin += len(passes)
            for (pod, row), is_let_in in zip(run, passes, strict=False):
                record, pod_class = pod.record, pod.tried_as
                fresh, alone = Checker(self.cache.view, CHECKED), np.array([row], np.intp)
                wanted = fresh.passing(pod_class.class_id, pod_class.info, alone)
                assert is_let_in is wanted.item(), f"{record.key} of {len(run)} on {row}"
                if is_let_in and self.reserve(record, pod_class, row):
                    self.there.append((record, pod_class.info))

    def proposed(self, kinds: list[str], rows: list[int]) -> list[Any]:
        """New pods of these kinds in turn, each as an attempt with its row."""
        known = []
        for at, row in enumerate(rows):
            record, pod_class = self.new_pod([kinds[at % len(kinds)]], "500m")
            known.append((SimpleNamespace(record=record, tried_as=pod_class), row))
        return known

    def reserve(self, record: PodRecord, pod_class: PodClass, row: int) -> bool:
        """Whether the pod is there now: devices are found by Reserve."""
        view, info = self.cache.view, pod_class.info
        for plugin in BUILT.plugins_at["reserve"]:
            if not plugin.reserve(record, info, view, row).is_success:
                for each in BUILT.plugins_at["reserve"]:
                    each.unreserve(record, info, view, row)
                return False
        self.cache.assume_pod(record, self.cache.nodes.name_of(row), pod_class)
        return True

    def take(self, what: str, *parts: Any) -> None:
        match what:
            case "crowd":
                self.crowd(*parts)
            case "judge":
                self.judge(*parts)
            case "leaves":
                if self.there:
                    record, info = self.there.pop(parts[0] % len(self.there))
                    self.cache.remove_pod(record.uid)
                    for plugin in BUILT.plugins_at["reserve"]:
                        plugin.unreserve(record, info, self.cache.view, 0)
            case "limit":
                self.limit(*parts)
            case "slice":
                put_slice(self.cache, parts[0], parts[1])
            case "shared slice":
                put_slice(self.cache, "far", parts[0], is_shared=True)
            case "takes":  # Somebody whom nobody here placed.
                self.number += 1
                status = allocated(f"d{parts[1]}", pool=parts[0])
                claim = make_claim(f"other{self.number}", status=status)
                self.cache.objects.put("resourceclaims", f"default/other{self.number}", claim)
            case "shares":  # Somebody has a claim already that a later pod of the kind names.
                if self.free[parts[0]]:
                    self.number += 1
                    spec = {**claim_volumes(self.free[parts[0]][-1]), "nodeName": parts[1]}
                    self.cache.add_pod(make_pod(f"p{self.number}", node_name=parts[1], spec=spec))
            case _:  # "node"
                self.cache.add_node(make_node(parts[0], labels={ZONE: parts[1]}, cpu="8"))


KIND = st.sampled_from(list(KINDS))
CROWD = st.tuples(
    st.just("crowd"), st.lists(st.sampled_from(ALL_KINDS), min_size=1, max_size=2),
    st.sampled_from(("1", "500m")), st.integers(2, 6),
)  # fmt: skip
JUDGE = st.tuples(
    st.just("judge"), st.lists(st.sampled_from(ALL_KINDS), min_size=1, max_size=2),
    st.lists(st.integers(0, len(NODES) - 1), min_size=2, max_size=6),
)  # fmt: skip
STEPS = st.lists(
    st.one_of(
        CROWD,
        CROWD,
        JUDGE,
        JUDGE,
        st.tuples(st.just("leaves"), st.integers(0, 99)),
        st.tuples(st.just("limit"), st.sampled_from(NODES), st.integers(0, 3)),
        st.tuples(st.just("slice"), st.sampled_from(NODES), st.integers(0, 3)),
        st.tuples(st.just("shared slice"), st.integers(0, 2)),
        st.tuples(st.just("takes"), st.sampled_from(NODES), st.integers(0, 2)),
        st.tuples(st.just("takes"), st.sampled_from(NODES), st.integers(0, 2)),
        st.tuples(st.just("shares"), KIND, st.sampled_from(NODES)),
        st.tuples(st.just("node"), st.sampled_from(NODES), st.sampled_from("ab")),
    ),
    min_size=2,
    max_size=8,
)


@pytest.fixture(autouse=True)
def _like_a_large_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods share an evaluation from the second on, nodes their states."""
    monkeypatch.setattr(families, "ALONE_MAX", 1)
    monkeypatch.setattr(row_states, "ROWS_MIN", 2)


@settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # The fixture is the same for all of them.
@given(STEPS)
def test_pods_alike_but_for_claims_go_where_each_would_alone(steps: list[tuple[Any, ...]]) -> None:
    world = World()
    for step in steps:
        world.take(*step)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_pods_with_claims_of_two_kinds_in_turn_take_what_is_left(kind: str) -> None:
    for other in ALL_KINDS[ALL_KINDS.index(kind) :]:
        world = World()
        world.crowd([kind], "500m", 5)
        world.crowd([other], "500m", 5)
        world.crowd([kind], "500m", 2)


@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_one_kind_are_checked_by_one_call(kind: str) -> None:
    world = World()
    known = world.proposed([kind], [0, 1, 2, 3])
    end = end_of_stretch(known, 0, world.owner)
    assert end == (1 if kind in LIKE_NO_OTHER else 4)


def test_a_pod_does_not_speak_for_others_once_one_before_it_took_a_node_for_their_volume() -> None:
    """The first fills n0, where the volume takes no further place from then on; the last has another."""
    World().judge(["one volume for all", "anywhere"], [0, 1, 1, 0])


def test_devices_that_somebody_else_takes_are_not_given_to_pods_that_are_alike() -> None:
    world = World()
    world.crowd(["a large device"], "500m", 2)
    for number, node in enumerate(NODES[:5]):
        world.take("takes", node, 1 + number % 2)
        world.crowd(["a large device"], "500m", 1)


@pytest.mark.parametrize("kind", [k for k in ALL_KINDS if k not in LIKE_NO_OTHER])
def test_pods_with_claims_of_one_kind_share_an_evaluation(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    alone = Evaluations.alone

    def note(*parts: Any) -> Any:
        made.append(parts)
        return alone(*parts)

    world = World()
    for name in NODES:
        world.limit(name, 3)
    world.crowd([kind], "1", 4)  # From here on they are known to be alike.
    monkeypatch.setattr(Evaluations, "alone", note)
    _, pod_class = world.new_pod([kind], "1")
    assert world.lone_pods.choose(
        pod_class.class_id, pod_class.info, PROFILE, lambda ties: ties[-1]
    )
    rows = np.array([0], np.intp)
    world.checker.passing(pod_class.class_id, pod_class.info, rows)
    assert not made, "nothing of it was worked out anew"


@pytest.mark.parametrize("kind", LIKE_NO_OTHER)
def test_a_pod_whose_claim_nobody_may_share_or_whose_devices_rate_nodes_is_like_no_other(
    kind: str,
) -> None:
    world = World()
    world.crowd([kind], "1", 2)
    found = Families(world.cache.view, FRAMEWORKS, row_bytes=2)
    _, pod_class = world.new_pod([kind], "1")
    for _ in range(4):
        each = found.of(pod_class.class_id, pod_class.info, PROFILE)
        assert not isinstance(each, Alike)
