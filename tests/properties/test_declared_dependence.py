"""What each plugin says that its answers depend on is all that they depend on.

Nor is anything declared in vain: dropping any one declaration is noticed, by cases made for that.

One thing is changed (one node, the pods of one node, one object of one kind), and every plugin is
asked before and after, each time as if for the first time. Where its declaration says that the change
is none of its business, or reaches that one row only, nothing else may be different. The engine's
exactness rests on this; here a wrong declaration is found by the plugin's name.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.sim.slow_topology import ZONE
from daemon.core.cache import Cache
from shared.feature_gates import (
    DEFAULT_GATES,
    DRA_NODE_ALLOCATABLE_RESOURCES,
    STORAGE_CAPACITY_SCORING,
    FeatureGates,
)
from shared.framework.plugin_api import Dependence, ObjectReader, Reads, Scope
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.profiles import ProfileConfig
from shared.framework.status import SUCCESS
from shared.kube.api.core_v1 import Namespace, Node
from shared.plugins.in_tree import InTreeRegistry
from tests.properties.test_engine_exactness import (
    CLUSTERS,
    NODE_NAMES,
    NODES,
    SHAPES,
    asking_for,
    service,
)
from tests.support.builders import make_pod
from tests.support.dependence_cases import CASES, Case
from tests.support.devices import CLASS, device, make_claim, make_class, make_slice, request
from tests.support.volumes import (
    claim_volumes,
    put_capacity,
    put_claim,
    put_class,
    put_csi_node,
    put_driver,
    put_volume,
)

GATES = FeatureGates({STORAGE_CAPACITY_SCORING: True, DRA_NODE_ALLOCATABLE_RESOURCES: True})
"""So that VolumeBinding scores, and DynamicResources looks at what nodes have left."""
BUILT = InTreeRegistry(GATES, entry_points=()).build(ProfileConfig())
HARD = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
WITH_HARD_DEFAULTS = InTreeRegistry(GATES, entry_points=()).build(
    ProfileConfig(
        plugin_config={
            "PodTopologySpread": {"defaultingType": "List", "defaultConstraints": [HARD]}
        }
    )
)
ALL: tuple[Any, ...] = (*BUILT.framework.filters, *(e.plugin for e in BUILT.framework.scores))
PLUGINS = {plugin.NAME: plugin for plugin in ALL}
NOTHING = Dependence(Reads(0), Scope.ROW)
EBS = {"awsElasticBlockStore": {"volumeID": "a"}}
PODS: list[dict[str, Any]] = [
    *SHAPES,
    {"spec": {"tolerations": [{"key": "hard", "operator": "Exists"}]}},
    {"spec": {"volumes": [{"name": "v", **EBS}]}},
    {"spec": claim_volumes("bound")},
    {"spec": claim_volumes("single")},
    {"spec": claim_volumes("waiting")},
    {"spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "gpu"}]}},
    {"spec": {"containers": [
        {"name": "c", "image": "img", "resources": {"requests": {"example.com/gpu": "1"}}},
    ]}},
]  # fmt: skip
NO_PODS: list[tuple[int, int]] = []


def _objects() -> dict[str, list[Callable[[Cache, bool], None]]]:
    """Kind -> ways to change an object of it; the flag chooses between two states."""
    csi = {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "h"}}

    def put(kind: str, key: str, value: Any) -> Callable[[Cache, bool], None]:
        return lambda cache, is_there: (
            cache.objects.put(kind, key, value) if is_there else cache.objects.remove(kind, key)
        )

    def namespace(cache: Cache, is_x: bool) -> None:
        body = {"metadata": {"name": "default", "labels": {"team": "x" if is_x else "y"}}}
        cache.objects.put("namespaces", "default", msgspec.convert(body, Namespace))

    return {
        "services": [put("services", "default/s", service("a"))],
        "namespaces": [namespace],
        "persistentvolumes": [
            lambda cache, is_free: put_volume(
                cache, "local", hosts=[NODE_NAMES[0]], claim="" if is_free else "somebody"
            ),
            lambda cache, in_a: put_volume(
                cache, "pv-bound", source=csi, claim="bound",
                labels={"topology.kubernetes.io/zone": "a" if in_a else "b"},
            ),
        ],
        "persistentvolumeclaims": [
            lambda cache, is_single: put_claim(
                cache, "single", volume="pv-single",
                access_modes=["ReadWriteOncePod" if is_single else "ReadWriteOnce"],
            ),
            lambda cache, is_bound: put_claim(cache, "bound", volume="pv-bound" if is_bound else ""),
        ],
        "storageclasses": [
            lambda cache, local: put_class(
                cache, provisioner="kubernetes.io/no-provisioner" if local else "csi.example.com"
            ),
        ],
        "csidrivers": [lambda cache, counts: put_driver(cache, counts=counts)],
        "csinodes": [
            lambda cache, full: put_csi_node(
                cache, NODE_NAMES[0], {"ebs.csi.aws.com": 0 if full else 5}
            ),
        ],
        "csistoragecapacities": [lambda cache, big: put_capacity(cache, "cap", "100Gi" if big else "1")],
        "deviceclasses": [
            put("deviceclasses", CLASS, make_class(extendedResourceName="example.com/gpu")),
        ],
        "resourceslices": [put("resourceslices", "s", make_slice(NODE_NAMES[0], [device("d0")]))],
        "resourceclaims": [put("resourceclaims", "default/gpu", make_claim("gpu", [request()]))],
    }  # fmt: skip


OBJECTS = _objects()
CHANGES = [(kind, change) for kind, changes in OBJECTS.items() for change in changes]


def world(nodes: list[Node], pods: list[tuple[int, int]], flags: list[bool]) -> Cache:
    """`pods`: (kind, node), both by number; `flags`: the state of each object."""
    cache = Cache(DEFAULT_GATES)
    put_claim(cache, "waiting")
    for (_, change), flag in zip(CHANGES, flags, strict=True):
        change(cache, flag)
    for node in nodes:
        cache.add_node(node)
    for number, (kind, at) in enumerate(pods):
        put_pod(cache, f"p{number}", kind, nodes[at % len(nodes)].metadata.name)
    return cache


def put_pod(cache: Cache, name: str, kind: int, node_name: str) -> None:
    spec = {**PODS[kind].get("spec", {}), "nodeName": node_name}
    cache.add_pod(make_pod(name, node_name=node_name, **{**PODS[kind], "spec": spec}))


class Answers:
    """What the plugins say of a pod."""

    def __init__(
        self,
        cache: Cache,
        info: PodInfo,
        earlier: "Answers | None" = None,
        *,
        looks_at_feasible: bool = False,
        framework: Framework = BUILT.framework,
    ) -> None:
        """As if asked for the first time; or with what PreFilter and PreScore came to `earlier`.
        `looks_at_feasible`: PreScore hears of the nodes that pass alone."""
        view, rows = cache.view, cache.nodes.present_rows()
        self._names = [cache.nodes.name_of(row) for row in rows.tolist()]
        self.pre_filter: dict[str, Any] = {}
        self.filter: dict[str, dict[str, Any]] = {}
        self.pre_score: dict[str, Any] = {}
        self.score: dict[str, dict[str, Any]] = {}
        self.states: dict[str, Any] = {}
        self.score_states: dict[str, Any] = {}
        if earlier is None:
            for each in framework.pre_filters:
                result = each.pre_filter(info, view)
                self.pre_filter[each.NAME] = (result.status, result.node_names)
                self.states[each.NAME] = result.state
        else:
            self.pre_filter, self.states = earlier.pre_filter, earlier.states
        for plugin in framework.filters:
            status = self.pre_filter.get(plugin.NAME, (None,))[0]
            if status is not None and not status.is_success:
                continue  # Skipped, or rejected as a whole: Filter is not asked.
            said = plugin.filter(self.states.get(plugin.NAME), info, view, rows)
            self.filter[plugin.NAME] = {n: said.status(i, "") for i, n in enumerate(self._names)}
        feasible = rows[[self._passes(name) for name in self._names]] if looks_at_feasible else rows
        for scorer in (entry.plugin for entry in framework.scores):
            if earlier is not None:
                self.pre_score, self.score_states = earlier.pre_score, earlier.score_states
            elif hasattr(scorer, "pre_score"):
                result = scorer.pre_score(info, view, feasible)
                self.pre_score[scorer.NAME] = result.status
                self.score_states[scorer.NAME] = result.state
            if not self.pre_score.get(scorer.NAME, SUCCESS).is_success:
                continue
            raw = scorer.score(self.score_states.get(scorer.NAME), info, view, rows)
            self.score[scorer.NAME] = dict(zip(self._names, raw.tolist(), strict=True))

    def _passes(self, node: str) -> bool:
        return all(each[node].is_success for each in self.filter.values())


class Change(NamedTuple):
    """Answers around a change; `stale` are those after it with what PreFilter said before."""

    before: Answers
    after: Answers
    stale: Answers
    reads: Reads
    node: str = ""
    """The one that was changed."""
    kind: str = ""
    """Of the object that was changed; then no node was."""


def changed(
    cache: Cache,
    info: PodInfo,
    change: Callable[[], object],
    reads: Reads,
    node: str = "",
    kind: str = "",
    *,
    looks_at_feasible: bool = False,
    framework: Framework = BUILT.framework,
) -> Change:
    """What a change does to the answers."""
    ask = partial(Answers, cache, info, looks_at_feasible=looks_at_feasible, framework=framework)
    before = ask()
    change()
    return Change(before, ask(), ask(before), reads, node, kind)


def check(change: Change) -> None:
    """AssertionError where a change reached what does not read what was changed."""
    before, after, stale, reads, row, kind = change
    for name, plugin in PLUGINS.items():
        is_concerned = (
            not kind or not isinstance(plugin, ObjectReader) or kind in plugin.object_kinds
        )
        for point in ("filter", "score"):
            pre = getattr(plugin, f"pre_{point}_depends", NOTHING) or NOTHING
            own = getattr(plugin, f"{point}_depends", NOTHING)
            is_pre = bool(pre.reads & reads) and is_concerned
            if not is_pre:
                was, now = (getattr(a, f"pre_{point}").get(name) for a in (before, after))
                assert was == now, f"{name}.pre_{point} does not read {reads} {kind}"
                by_old, by_new = (getattr(a, point).get(name) for a in (stale, after))
                assert by_old == by_new, (
                    f"what {name}.pre_{point} said does not last: {reads} {kind}"
                )
            is_own = bool(own.reads & reads) and is_concerned
            # Who follows is not asked anew because of what its PreFilter reads.
            follows = hasattr(plugin, f"update_{point}") and not kind
            if (is_pre and not follows) or (is_own and (own.scope is not Scope.ROW or kind)):
                continue
            was, now = (getattr(a, point).get(name, {}) for a in (before, after))
            nodes = (was.keys() & now.keys()) - ({row} if is_own else set())
            assert [was[n] for n in nodes] == [now[n] for n in nodes], (
                f"{name}.{point} says more than it declares of {reads} {kind}"
            )


_VOLUMES = [i for i, pod in enumerate(PODS) if "volumes" in pod.get("spec", {})]
_DEVICES = [len(PODS) - 2, len(PODS) - 1]
READERS = {
    kind: _VOLUMES if kind.startswith(("persistent", "storage", "csi")) else _DEVICES
    for kind in OBJECTS
    if kind not in ("services", "namespaces")
}
"""Kind -> pods, by number, that have something to do with it; others are asked about all pods."""
KIND = st.integers(0, len(PODS) - 1)
PLACED = st.lists(st.tuples(KIND, st.integers(0, 6)), max_size=6)
FLAGS = st.lists(st.booleans(), min_size=len(CHANGES), max_size=len(CHANGES))


def info_of(cache: Cache, kind: int) -> PodInfo:
    return cache.classes.acquire(make_pod("new", **PODS[kind])).info


@given(CLUSTERS, PLACED, FLAGS, KIND, NODES)
def test_a_change_of_one_node_reaches_only_who_reads_nodes(
    nodes: list[Node], pods: list[tuple[int, int]], flags: list[bool], kind: int, other: Node
) -> None:
    names = [node.metadata.name for node in nodes]
    assume(other.metadata.name in names)
    cache = world(nodes, pods, flags)
    info = info_of(cache, kind)
    reads = Reads.NODE | Reads.IMAGES
    check(changed(cache, info, lambda: cache.add_node(other), reads, other.metadata.name))


@given(CLUSTERS, PLACED, FLAGS, KIND, st.tuples(KIND, st.integers(0, 6)))
def test_a_pod_on_one_node_reaches_only_who_reads_pods(
    nodes: list[Node],
    pods: list[tuple[int, int]],
    flags: list[bool],
    kind: int,
    comes: tuple[int, int],
) -> None:
    cache = world(nodes, pods, flags)
    info = info_of(cache, kind)
    name = nodes[comes[1] % len(nodes)].metadata.name
    reads = Reads.USAGE | Reads.PODS
    check(changed(cache, info, lambda: put_pod(cache, "comes", comes[0], name), reads, name))


@given(CLUSTERS, PLACED, FLAGS, KIND, st.sampled_from(("0", "3")))
def test_who_ignores_requests_says_the_same_of_a_pod_that_asks_for_more(
    nodes: list[Node], pods: list[tuple[int, int]], flags: list[bool], kind: int, cpu: str
) -> None:
    cache = world(nodes, pods, flags)
    before = Answers(cache, info_of(cache, kind))
    more = cache.classes.acquire(make_pod("new", **asking_for(PODS[kind], cpu))).info
    after = Answers(cache, more)
    ignoring = [name for name, p in PLUGINS.items() if getattr(p, "ignores_requests", False)]
    assert len(ignoring) > len(PLUGINS) // 2
    for name in ignoring:
        for point in ("pre_filter", "filter", "pre_score", "score"):
            was, now = getattr(before, point).get(name), getattr(after, point).get(name)
            assert was == now, f"{name}.{point} looks at requests"


@pytest.mark.parametrize("kind_name", sorted(OBJECTS))
@settings(max_examples=40)
@given(nodes=CLUSTERS, pods=PLACED, flags=FLAGS, kind=KIND, which=st.integers(0, len(CHANGES)))
def test_an_object_of_a_kind_reaches_only_who_names_the_kind(
    kind_name: str,
    nodes: list[Node],
    pods: list[tuple[int, int]],
    flags: list[bool],
    kind: int,
    which: int,
) -> None:
    at = [i for i, (name, _) in enumerate(CHANGES) if name == kind_name]
    index = at[which % len(at)]
    cache = world(nodes, pods, flags)
    readers = READERS.get(kind_name, range(len(PODS)))
    info = info_of(cache, readers[kind % len(readers)])

    def change() -> None:
        CHANGES[index][1](cache, not flags[index])

    check(changed(cache, info, change, Reads.OBJECTS, kind=kind_name))


def test_every_plugin_that_reads_objects_says_which() -> None:
    for name, plugin in PLUGINS.items():
        points = ("pre_filter_depends", "filter_depends", "pre_score_depends", "score_depends")
        declared = [getattr(plugin, point, None) or NOTHING for point in points]
        if any(each.reads & Reads.OBJECTS for each in declared):
            assert isinstance(plugin, ObjectReader), name
            assert plugin.object_kinds <= set(OBJECTS) | {
                "replicasets", "statefulsets", "replicationcontrollers", "volumeattachments",
            }, name  # fmt: skip


# No declaration is in vain ---------------------------------------------------------------------------


POINTS = ("pre_filter_depends", "filter_depends", "pre_score_depends", "score_depends")
Declared = tuple[str, str, Reads | Scope | str]
"""Plugin, attribute, and what is dropped: a bit of reads, the scope (for ROW), or a kind of object."""


def declarations() -> list[Declared]:
    found: list[Declared] = []
    for name, plugin in PLUGINS.items():
        for point in POINTS:
            depends = getattr(plugin, point, None) or NOTHING
            found += [(name, point, bit) for bit in Reads if bit in depends.reads]
            if depends.scope is not Scope.ROW and not point.startswith("pre"):
                found.append((name, point, depends.scope))
        found += [
            (name, "object_kinds", kind) for kind in sorted(getattr(plugin, "object_kinds", ()))
        ]
    return found


def without(declared: Declared) -> Any:
    """What is left of the attribute."""
    name, attribute, dropped = declared
    held = getattr(PLUGINS[name], attribute)
    match dropped:
        case str():
            return held - {dropped}
        case Scope():
            return Dependence(held.reads, Scope.ROW)
        case _:
            return Dependence(held.reads & ~dropped, held.scope)


@cache
def shown() -> list[Change]:
    """All cases."""
    found = []
    for case in CASES:
        cluster = case.before()
        info = cluster.classes.acquire(make_pod("new", **case.pod)).info
        found.append(
            changed(
                cluster,
                info,
                partial(case.change, cluster),
                case.reads,
                "" if case.kind else case.node,
                case.kind,
                looks_at_feasible=case.looks_at_feasible,
                framework=(WITH_HARD_DEFAULTS if case.has_hard_defaults else BUILT).framework,
            )
        )
    return found


def is_noticed() -> bool:
    for change in shown():
        try:
            check(change)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_reaches_only_who_reads_what_it_changes(case: Case) -> None:
    check(shown()[CASES.index(case)])


@pytest.mark.parametrize("declared", declarations(), ids=str)
def test_a_declaration_that_is_dropped_is_missed(
    declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, attribute, _ = declared
    monkeypatch.setattr(type(PLUGINS[name]), attribute, without(declared))
    assert is_noticed() is (declared not in UNNOTICED)


NEW_ROWS = "a node's name and its CSINode are others for a row only with the node: it is asked then"
COVERED = "what PreFilter or PreScore reads of it has everything asked anew"
UNNOTICED: dict[Declared, str] = {
    ("NodeName", "filter_depends", Reads.NODE): NEW_ROWS,
    ("NodeVolumeLimits", "filter_depends", Reads.NODE): NEW_ROWS,
    ("VolumeBinding", "filter_depends", Reads.OBJECTS): COVERED,
    ("VolumeBinding", "score_depends", Reads.OBJECTS): COVERED,
    ("DynamicResources", "filter_depends", Reads.OBJECTS): COVERED,
    ("DynamicResources", "score_depends", Reads.OBJECTS): COVERED,
    ("ImageLocality", "score_depends", Reads.IMAGES): COVERED,
    ("ImageLocality", "score_depends", Scope.CLUSTER): COVERED,
}
"""Declarations that others make needless, and why; they say what the extension point itself reads."""
