"""Lone pods go where an evaluation of their class would put them."""

from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from daemon.core.cache import Cache
from shared.columns.nomination_columns import Nomination
from shared.columns.schema import Int64s, Rows
from shared.engine import families, row_states
from shared.engine.families import ALONE_MAX, Families, Family, family_key, labels_key
from shared.feature_gates import DEFAULT_GATES
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_NODE, Dependence
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.profiles import ProfileConfig
from shared.kube.api.core_v1 import Node
from shared.kube.pod_record import decode_template
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_pod
from tests.support.devices import CLASS, allocated, device, make_claim, make_class, make_slice
from tests.support.volumes import claim_volumes, put_claim, put_csi_node, put_volume
from workers.scorer import lone_pods
from workers.scorer.engine import Choice, Engine
from workers.scorer.lone_pods import LonePods

PROFILE = "default-scheduler"
FRAMEWORKS = {PROFILE: InTreeRegistry(entry_points=()).build(ProfileConfig()).framework}


def node(name: str, cpu: int, soft_taint_count: int, zone: str = "a", memory: str = "8Gi") -> Node:
    taints = [
        {"key": f"soft{i}", "value": "", "effect": "PreferNoSchedule"}
        for i in range(soft_taint_count)
    ]
    body = {
        "metadata": {"name": name, "labels": {"zone": zone, "kubernetes.io/hostname": name}},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": str(cpu), "memory": memory, "pods": "9"}},
    }
    return msgspec.convert(body, Node)


def info_of(**shape: Any) -> PodInfo:
    record = make_pod("p", **shape)
    return PodInfo(record.namespace, decode_template(record.template))


class World:
    """Nodes of which the smallest has the most taints."""

    def __init__(self) -> None:
        self.cache = Cache(DEFAULT_GATES)
        for each in (node("n0", 2, 4), node("n1", 4, 2), node("n2", 4, 1), node("n3", 8, 2, "b")):
            self.cache.add_node(each)
        engine = Engine(self.cache.view, FRAMEWORKS)
        self.lone_pods = LonePods(self.cache.view, FRAMEWORKS, engine)
        self.number = 0

    def alone(self, info: PodInfo) -> Choice | None:
        self.number += 1
        return self.lone_pods.choose(self.number, info, PROFILE, lambda ties: ties[0])

    def by_class(self, info: PodInfo) -> Choice | None:
        engine = Engine(self.cache.view, FRAMEWORKS)
        return engine.choose(engine.evaluate(1, info, PROFILE), lambda ties: ties[0])


@pytest.fixture(
    params=((2, 0), (1 << 14, 0), (1 << 14, 8)), ids=("states shared", "rows asked", "rows kept")
)
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> World:
    sharing_min, kept_rows_max = request.param
    monkeypatch.setattr(row_states, "ROWS_MIN", sharing_min)
    monkeypatch.setattr(lone_pods, "KEPT_ROWS_A_FEASIBLE_MAX", kept_rows_max)
    return World()


def test_the_first_of_a_family_is_left_to_its_class(world: World) -> None:
    assert world.alone(info_of(cpu="1")) is None
    assert world.alone(info_of(cpu="2")) == world.by_class(info_of(cpu="2"))


@pytest.mark.parametrize("cpu", ["100m", "2", "3", "4", "5"])
def test_scores_are_normalized_over_the_nodes_that_take_the_pod(world: World, cpu: str) -> None:
    world.alone(info_of(cpu="1"))
    wanted = world.by_class(info_of(cpu=cpu))
    assert wanted is not None
    assert world.alone(info_of(cpu=cpu)) == wanted


def test_a_pod_that_fits_nowhere_is_left_to_its_class(world: World) -> None:
    world.alone(info_of(cpu="1"))
    assert world.alone(info_of(cpu="9")) is None


def test_prescore_that_looks_at_feasible_nodes_is_not_shared_where_these_differ(
    world: World,
) -> None:
    spread = {
        "topologySpreadConstraints": [{
            "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }]
    }  # fmt: skip
    world.alone(info_of(cpu="1", labels={"app": "web"}, spec=spread))
    same = info_of(cpu="500m", labels={"app": "web"}, spec=spread)
    assert world.alone(same) == world.by_class(same)
    assert world.alone(info_of(cpu="3", labels={"app": "web"}, spec=spread)) is None


def test_more_pods_of_a_class_are_left_to_it(world: World) -> None:
    info = info_of(cpu="1")
    world.alone(info)

    def choose() -> Choice | None:
        return world.lone_pods.choose(100, info, PROFILE, lambda ties: ties[0])

    assert all(choose() is not None for _ in range(ALONE_MAX))
    assert choose() is None


def test_more_pods_of_a_class_with_labels_of_its_own_are_left_to_it_at_once(world: World) -> None:
    world.alone(info_of(cpu="1"))
    info = info_of(cpu="1", labels={"app": "own"})

    def choose() -> Choice | None:
        return world.lone_pods.choose(100, info, PROFILE, lambda ties: ties[0])

    assert choose() is not None
    assert choose() is None


def test_a_family_is_alike_in_all_but_requests_and_labels() -> None:
    key = family_key(info_of(cpu="1"), PROFILE)
    assert family_key(info_of(cpu="2"), PROFILE) == key
    assert family_key(info_of(cpu="1", labels={"a": "b"}), PROFILE) == key
    assert family_key(info_of(cpu="1", namespace="other"), PROFILE) != key
    assert family_key(info_of(cpu="1", spec={"nodeSelector": {"a": "b"}}), PROFILE) != key
    assert family_key(info_of(cpu="1"), "other") != key
    asking_for = [
        {"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": count}}}]}
        for count in ("1", "2")
    ]
    one, two = (family_key(info_of(spec=spec), PROFILE) for spec in asking_for)
    assert one != two, "which devices there are is not a matter of the columns"


def test_images_that_are_mounted_are_no_claims() -> None:
    mounted = [{"volumes": [{"name": "v", "image": {"reference": name}}]} for name in ("a", "b")]
    claimed = [
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}
        for name in ("a", "b")
    ]
    assert len({family_key(info_of(spec=spec), PROFILE) for spec in mounted}) == 2
    assert len({family_key(info_of(spec=spec), PROFILE) for spec in claimed}) == 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which way was taken for each pod."""
    taken: list[str] = []
    best, best_kept = LonePods._best, LonePods._best_kept

    def note_rows(*args: Any) -> Any:
        taken.append("rows")
        return best(*args)

    def note_kept(*args: Any) -> Any:
        taken.append("kept")
        return best_kept(*args)

    monkeypatch.setattr(LonePods, "_best", note_rows)
    monkeypatch.setattr(LonePods, "_best_kept", note_kept)
    return taken


def test_what_is_kept_of_all_rows_is_enough_where_many_take_the_pod(asked: list[str]) -> None:
    world = World()
    world.alone(info_of(cpu="1"))
    assert world.alone(info_of(cpu="2")) == world.by_class(info_of(cpu="2"))
    assert asked == ["kept"]
    few = {"nodeSelector": {"zone": "a"}}
    world.alone(info_of(cpu="1", spec=few))
    for number in range(40):
        world.cache.add_node(node(f"b{number}", 64, 0, "b"))
    asked.clear()
    assert world.alone(info_of(cpu="2", spec=few)) == world.by_class(info_of(cpu="2", spec=few))
    assert asked == ["rows"]


def test_rows_are_asked_about_where_one_that_takes_the_pod_cannot_be_kept(
    asked: list[str],
) -> None:
    world = World()
    world.alone(info_of(cpu="1"))
    world.cache.add_node(node("large", 16, 0, memory="1Pi"))
    assert world.alone(info_of(cpu="2")) == world.by_class(info_of(cpu="2"))
    assert asked == ["kept", "rows"]
    world.cache.add_pod(make_pod("full", node_name="large", cpu="15"))
    assert world.alone(info_of(cpu="3")) == world.by_class(info_of(cpu="3"))
    assert asked == ["kept", "rows", "kept"]


def test_only_so_many_families_are_kept_and_those_forgotten_are_answered_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept_max = 5
    kept = World().lone_pods._families.kept
    each = kept._bytes_max // kept.count_max
    monkeypatch.setattr(families, "FAMILIES_BYTES_MAX", kept_max * each)
    world = World()
    count = 4 * kept_max

    def family(number: int, cpu: str) -> PodInfo:
        tolerations = [{"key": f"batch-{number}", "operator": "Exists"}]
        return info_of(cpu=cpu, spec={"tolerations": tolerations})

    for number in range(count):
        assert world.alone(family(number, "1")) is None
        assert world.alone(family(number, "2")) == world.by_class(family(number, "2"))
        world.cache.add_pod(make_pod(f"p{number}", node_name=f"n{number % 4}", cpu="100m"))
    kept = world.lone_pods._families.kept
    infos = [family(number, "1") for number in range(count)]
    keys = [(family_key(info, PROFILE), labels_key(info, PROFILE)) for info in infos]
    assert [key in kept for key in keys] == [False] * (count - kept_max) + [True] * kept_max
    for number in (0, count - 1, 1, count - kept_max, 0):
        assert world.alone(family(number, "3")) == world.by_class(family(number, "3"))
    assert len(kept._kept) == kept_max


def test_nothing_is_said_of_lone_pods_while_others_are_nominated(world: World) -> None:
    world.alone(info_of(cpu="1"))
    other = world.cache.classes.acquire(make_pod("keeper", cpu="8", priority=10))
    world.cache.view.nominations.put(Nomination("waits", other.class_id, 10, 3))
    assert world.alone(info_of(cpu="2")) is None
    world.cache.view.nominations.remove("waits")
    assert world.alone(info_of(cpu="2")) == world.by_class(info_of(cpu="2"))


def test_pods_that_differ_in_claims_alone_are_a_family(world: World) -> None:
    found = Families(world.cache.view, FRAMEWORKS, row_bytes=2)
    assert found.of(1, info_of(), PROFILE) is None, "the first of its family"
    family = found.of(2, info_of(cpu="2"), PROFILE)
    assert isinstance(family, Family)
    assert family.each is None
    for number, claim in enumerate(("data", "logs"), 3):
        claiming = found.of(number, info_of(claim=claim), PROFILE)
        assert isinstance(claiming, Family)
        assert claiming.shared is family.shared
        assert claiming.each is not None


def test_pods_that_differ_in_labels_are_a_family_until_some_have_the_same(world: World) -> None:
    found = Families(world.cache.view, FRAMEWORKS, row_bytes=2)
    assert found.of(1, info_of(labels={"app": "a"}), PROFILE) is None, "the first of its family"
    other = found.of(2, info_of(labels={"app": "b"}), PROFILE)
    assert isinstance(other, Family)
    assert other.each is not None
    asked = {plugin.NAME for plugin in other.each.filters}
    assert asked == {"PodTopologySpread", "InterPodAffinity"}
    assert {plugin.NAME for plugin in other.shared.pod.framework.filters}.isdisjoint(asked)
    same = found.of(3, info_of(cpu="1", labels={"app": "b"}), PROFILE)
    assert isinstance(same, Family)
    assert same.each is None
    assert asked <= {plugin.NAME for plugin in same.shared.pod.framework.filters}


LABELLED: dict[str, dict[str, Any]] = {
    "nothing about others": {},
    "spread over zones": {"topologySpreadConstraints": [
        {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
         "labelSelector": {"matchLabels": {"app": "db"}}}
    ]},
    "never beside its like": {"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [
                {"key": "app", "operator": "In", "values": ["db", "web"]}]}}
        ]
    }}},
    "rather near others": {"affinity": {"podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 50, "podAffinityTerm": {
                "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}}
        ]
    }}},
}  # fmt: skip


@pytest.mark.parametrize("about", LABELLED)
def test_pods_that_differ_in_labels_go_where_their_class_would_put_them(
    world: World, about: str
) -> None:
    spec = LABELLED[about]
    for name, app, node_name in (("b1", "db", "n1"), ("b2", "web", "n3")):
        pod = make_pod(name, node_name=node_name, labels={"app": app}, spec=spec)
        world.cache.add_pod(pod)
    world.alone(info_of(cpu="1", labels={"app": "first"}, spec=spec))
    for app in ("db", "web", "mail"):
        info = info_of(cpu="1", labels={"app": app}, spec=spec)
        wanted = world.by_class(info)
        assert wanted is not None
        assert world.alone(info) == wanted


class ByOwnLabel:
    """The pod's label says how all nodes are rated."""

    NAME: ClassVar[str] = "ByOwnLabel"
    reads_labels: ClassVar[frozenset[str]] = frozenset({"score"})
    ignores_requests: ClassVar[bool] = True
    score_depends: ClassVar[Dependence] = ON_NODE

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        return np.full(len(rows), int(pod.labels["score"]), np.int64)


@pytest.mark.parametrize("score", ["7", "100", "101", "-1"])
def test_a_plugin_that_looks_at_a_label_is_asked_about_each_pod(world: World, score: str) -> None:
    default = FRAMEWORKS[PROFILE]
    scorers = [(ByOwnLabel(), 3), *((entry.plugin, entry.weight) for entry in default.scores)]
    framework = Framework(default.pre_filters, default.filters, scorers)
    engine = Engine(world.cache.view, {PROFILE: framework})
    lone = LonePods(world.cache.view, {PROFILE: framework}, engine)
    infos = [info_of(cpu="1", labels={"score": each}) for each in ("0", score)]
    first, found = (
        lone.choose(number, info, PROFILE, lambda ties: ties[0])
        for number, info in enumerate(infos)
    )
    assert first is None, "the first of its family"
    wanted = engine.choose(engine.evaluate(1, infos[1], PROFILE), lambda ties: ties[0])
    assert found == wanted
    assert (wanted is None) is (score in ("101", "-1")), "out of range: an error of the attempt"


DRIVER = "csi.example.com"
CLAIMED: dict[str, dict[str, Any]] = {
    "a volume that anybody reaches": claim_volumes("free"),
    "another one": claim_volumes("free-too"),
    "two of them": claim_volumes("free", "free-too"),
    "one that is attached already": claim_volumes("used"),
    "one for some nodes": claim_volumes("near"),
    "one for a single node": claim_volumes("nearest"),
    "one that does not exist": claim_volumes("gone"),
    "one that is for one pod": claim_volumes("solo"),
    "a device": {"resourceClaims": [{"name": "d", "resourceClaimName": "gpu"}]},
    "a device that is taken": {"resourceClaims": [{"name": "d", "resourceClaimName": "taken"}]},
}


def put_claims(world: World) -> None:
    """Volumes of a driver that attaches one to n3 and two to others; devices on n1, n2 and n3."""
    cache = world.cache
    hosts = {"near": ["n1", "n2"], "nearest": ["n2"]}
    for name in ("free", "free-too", "used", "near", "nearest", "solo"):
        modes = ["ReadWriteOncePod"] if name == "solo" else ["ReadWriteOnce"]
        put_claim(cache, name, volume=f"pv-{name}", access_modes=modes, phase="Bound")
        source = {"csi": {"driver": DRIVER, "volumeHandle": name}}
        put_volume(cache, f"pv-{name}", claim=name, source=source, hosts=hosts.get(name, ()))
    for i in range(4):
        put_csi_node(cache, f"n{i}", {DRIVER: 1 if i == 3 else 2})
    cache.objects.put("deviceclasses", CLASS, make_class())
    for i in (1, 2, 3):
        each = make_slice(f"n{i}", [device("d0")])
        cache.objects.put("resourceslices", each.metadata.name, each)
    cache.objects.put("resourceclaims", "default/gpu", make_claim("gpu"))
    taken = make_claim("taken", status=allocated("d0", pool="n3"))
    cache.objects.put("resourceclaims", "default/taken", taken)
    cache.add_pod(make_pod("user", node_name="n3", cpu="1", spec=claim_volumes("used", "solo")))


@pytest.mark.parametrize("what", CLAIMED)
@pytest.mark.parametrize("cpu", ["100m", "3"])
def test_a_pod_with_claims_goes_where_its_class_would(world: World, what: str, cpu: str) -> None:
    put_claims(world)
    world.alone(info_of(cpu="1"))
    info = info_of(cpu=cpu, spec=CLAIMED[what])
    expected = world.by_class(info)
    found = world.alone(info)
    if found is None:
        left = ("one for a single node", "one that does not exist", "one that is for one pod")
        assert what in left or cpu == "3", "it is found without an evaluation of its class"
    else:
        assert found == expected
