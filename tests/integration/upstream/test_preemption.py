"""Preemption through real processes, up to the deletions at the API server.

Mirrors test/integration/scheduler/preemption (with misc, nominatednodename and the case table of
asynchronous preemption) and nominated_node_name of kube-scheduler v1.36; each test names the one that
it mirrors. There is no kubelet: a victim with a grace period stays, terminating, until the test ends it.

Which victims the scheduler means is asked of it, so that "not preempted" is known and not waited for.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from bench.apiserver import api_status as status
from bench.apiserver.api_faults import AnswerFault, Refuse, RequestFault, WatchFault
from bench.apiserver.router import Request
from bench.apiserver.watching import WatchCursor
from shared.messages.admin import PendingPod
from tests.integration.upstream import plugins, preemption_plugins
from tests.integration.upstream.queueing_cases import claim, volume
from tests.support.live import Json, LiveBerth, condition_of, configuration, enabled, profile
from tests.support.live_cluster import LiveCluster, nominated_node

pytestmark = pytest.mark.integration

PRIORITIES: Final = {"low": 100, "medium": 200, "high": 300, "super": 400}
GRACE_S: Final = 3600
SMALL: Final[dict[str, Any]] = {"cpu": "500m", "memory": "500", "pods": 32}
CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
ALLOWED: Final = {"foo": 0, "foo1": 0, "foo2": 3}
"""Label of the pods that a budget is for -> what the disruption controller would allow."""


class Held:
    """Deletions of these pods fail, so that a preemption stays under way. A fault plan."""

    is_active = True

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.patched: Counter[str] = Counter()
        """Pod -> how often its status was patched."""

    def before_request(self, request: Request) -> RequestFault | None:
        path = request.target.partition("?")[0]
        name = path.rpartition("/")[2]
        if request.method == "PATCH" and name == "status":
            self.patched[path.split("/")[-2]] += 1
        if request.method == "DELETE" and name in self.names:
            return Refuse(status.internal("held by the test"))
        return None

    def before_answer(self, request: Request, code: int) -> AnswerFault | None:
        return None

    def before_watch_event(self, cursor: WatchCursor) -> WatchFault | None:
        return None


HELD: Final = Held()


def _profiles() -> list[Json]:
    both = ["preFilter", "filter"]
    return [
        profile("default-scheduler"),
        profile("tokens", enabled(filter=["Tokens"]), Tokens={"tokens": 1}),
        profile("tokens-before", enabled(**{point: ["TokensBefore"] for point in both}),
                TokensBefore={"tokens": 1}),
        profile("tokens-final", enabled(filter=["Tokens"]),
                Tokens={"tokens": 1, "isUnresolvable": True}),
        profile("no-preemption", {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}),
        profile("pre-bind", enabled(preBind=["PreBinds"])),
        profile("permit", enabled(permit=["Permits"]), Permits={"answer": "wait", "timeoutS": 900}),
        profile("permit-once", enabled(permit=["PermitsLater"])),
        profile("pre-bind-once", enabled(preBind=["PreBindsLater"])),
    ]  # fmt: skip


def start_berth() -> LiveBerth:
    config = configuration(*_profiles(), podInitialBackoffSeconds=1, podMaxBackoffSeconds=1)
    entry_points = {**plugins.ENTRY_POINTS, **preemption_plugins.ENTRY_POINTS}
    return LiveBerth(config, entry_points, faults=HELD, before=_prepare)


def _prepare(cluster: LiveCluster) -> None:
    for name, value in PRIORITIES.items():
        _add_class(cluster, name, value, "PreemptLowerPriority")
    _add_class(cluster, "polite", PRIORITIES["high"], "Never")
    for label, allowed in ALLOWED.items():
        _add_budget(cluster, label, allowed)


def _add_class(cluster: LiveCluster, name: str, value: int, policy: str) -> None:
    body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
    cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", "PriorityClass", body)


def _add_budget(cluster: LiveCluster, label: str, allowed: int) -> None:
    """A budget, with the status that its controller would give it."""
    name = f"pdb-{label}"
    spec = {"minAvailable": 2, "selector": {"matchLabels": {label: "bar"}}}
    cluster.create(BUDGETS, "PodDisruptionBudget", {"metadata": {"name": name}, "spec": spec})

    def allow(budget: Json) -> None:
        budget["status"]["disruptionsAllowed"] = allowed

    cluster.update(f"{BUDGETS}/{name}", allow, "status")


@pytest.fixture
def live(live: LiveBerth) -> Iterator[LiveBerth]:
    yield live
    HELD.names.clear()
    HELD.patched.clear()


def add(live: LiveBerth, name: str, priority: str, **given: Any) -> Json:
    """A pod of a priority class; with a grace period unless `grace_s` says otherwise."""
    spec = {"priorityClassName": priority, **given.pop("spec", {})}
    spec["terminationGracePeriodSeconds"] = given.pop("grace_s", GRACE_S)
    return live.add_pod(name, spec=spec, **given)


def run(live: LiveBerth, name: str, priority: str, **given: Any) -> str:
    """The same, and waits until it is bound; its uid."""
    uid: str = add(live, name, priority, **given)["metadata"]["uid"]
    live.bound(name)
    return uid


def resting(live: LiveBerth, name: str) -> PendingPod:
    """The pod as soon as its attempt has ended and nothing is done for it."""
    return live.queue(lambda pods: pods[name].place == "unschedulable", f"{name} rests")[name]


def evicted(live: LiveBerth, name: str) -> None:
    """Waits until the victim is told to go, with the reason in its status."""
    pod = live.wait_pod(name, lambda p: p["metadata"]["deletionTimestamp"], "is told to go")
    target = condition_of(pod, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")


def stays(live: LiveBerth, name: str) -> None:
    assert "deletionTimestamp" not in live.pod(name)["metadata"]


def victims_are(
    live: LiveBerth, preemptor: str, uids: Mapping[str, str], victims: set[str]
) -> None:
    """The preemptor is nominated and waits for these pods to go, and for no others."""
    live.nominated(preemptor)
    for name in victims:
        evicted(live, name)
    awaited = {uids[name] for name in victims}
    live.queue(
        lambda pods: pods[preemptor].place == "unschedulable"
        and set(pods[preemptor].awaited_victims) == awaited,
        f"{preemptor} waits for {victims}",
    )
    for name in uids.keys() - victims:
        stays(live, name)


def no_nomination(live: LiveBerth, name: str) -> None:
    """Waits until the pod has lost its nomination."""
    live.wait_pod(name, lambda p: not nominated_node(p), "is not nominated")
    live.queue(lambda pods: not pods[name].nominated_node, f"{name} is not nominated in the queue")


def test_why_a_pod_waits_and_where_it_is_nominated_is_one_request(live: LiveBerth) -> None:
    """updatePod in pkg/scheduler/schedule_one.go."""
    live.add_node("n1", cpu=1)
    run(live, "victim", "low", cpu=1)
    add(live, "preemptor", "high", cpu=1)
    live.wait_pod(
        "preemptor",
        lambda p: nominated_node(p) == "n1" and condition_of(p)["reason"] == "Unschedulable",
        "says why it waits, and where",
    )
    evicted(live, "victim")
    assert HELD.patched == {"preemptor": 1, "victim": 1}


# Basics -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    name: str
    existing: Mapping[str, Json]
    """Name -> arguments of `add`."""
    preemptor: Json
    victims: set[str]
    scheduler: str = "default-scheduler"


def _anti(value: str) -> Json:
    selector = {"matchExpressions": [{"key": "pod", "operator": "In", "values": [value]}]}
    term = {"labelSelector": selector, "topologyKey": "node"}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": rule}}


def _existing_pair(priority: str) -> Mapping[str, Json]:
    tiny = {"cpu": "100m", "memory": "100"}
    return {
        "pod-0": {"priority": "medium", "labels": {"pod": "p0"}, **tiny},
        "pod-1": {
            "priority": priority,
            "labels": {"pod": "p1"},
            "spec": _anti("preemptor"),
            **tiny,
        },
    }


_ONE_VICTIM: Final = {"victim-pod": {"priority": "low", "cpu": "200m", "memory": "200"}}
_SMALL_PREEMPTOR: Final = {"cpu": "200m", "memory": "200"}
_LONELY: Final = {
    "cpu": "100m",
    "memory": "100",
    "labels": {"pod": "preemptor"},
    "spec": _anti("p0"),
}

PREEMPTION: Final = [
    Case("basic pod preemption", {"victim-pod": {"priority": "low", "cpu": "400m", "memory": "200"}},
         {"cpu": "300m", "memory": "200"}, {"victim-pod"}),
    Case("basic pod preemption with filter", _ONE_VICTIM, _SMALL_PREEMPTOR, {"victim-pod"}, "tokens"),
    Case("basic pod preemption with preFilter", _ONE_VICTIM, _SMALL_PREEMPTOR, {"victim-pod"},
         "tokens-before"),
    Case("basic pod preemption with unresolvable filter", _ONE_VICTIM, _SMALL_PREEMPTOR, set(),
         "tokens-final"),
    Case("preemption is performed to satisfy anti-affinity", _existing_pair("low"), _LONELY,
         {"pod-0", "pod-1"}),
    Case("preemption is not performed when anti-affinity is not satisfied", _existing_pair("high"),
         _LONELY, set()),
]  # fmt: skip


@pytest.mark.parametrize("case", PREEMPTION, ids=lambda case: case.name)
def test_preemption(live: LiveBerth, case: Case) -> None:
    """TestPreemption, the case of the same name."""
    live.add_node("node1", labels={"node": "node1"}, **SMALL)
    uids = {name: run(live, name, **given) for name, given in case.existing.items()}
    add(live, "preemptor", "high", scheduler=case.scheduler, **case.preemptor)
    if case.victims:
        victims_are(live, "preemptor", uids, case.victims)
        return
    live.unschedulable("preemptor")
    assert resting(live, "preemptor").nominated_node == ""
    for name in uids:
        stays(live, name)


def test_non_preemption_pod_preemption_will_happen(live: LiveBerth) -> None:
    """TestNonPreemption, "pod preemption will happen"."""
    live.add_node("node1", **SMALL)
    uid = run(live, "victim", "low", cpu="400m")
    add(live, "preemptor", "high", cpu="300m")
    victims_are(live, "preemptor", {"victim": uid}, {"victim"})


@pytest.mark.parametrize(
    ("priority", "scheduler"), [("polite", "default-scheduler"), ("high", "no-preemption")]
)
def test_pod_preemption_will_not_happen(live: LiveBerth, priority: str, scheduler: str) -> None:
    """TestNonPreemption and TestDisablePreemption, "pod preemption will not happen"."""
    live.add_node("node1", **SMALL)
    run(live, "victim", "low", cpu="400m")
    add(live, "preemptor", priority, cpu="300m", scheduler=scheduler)
    assert "Insufficient cpu" in live.unschedulable("preemptor")
    assert resting(live, "preemptor").nominated_node == ""
    stays(live, "victim")


@pytest.mark.parametrize(
    ("name", "priority"),
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)],
)
def test_pod_priority_resolution(live: LiveBerth, name: str, priority: int) -> None:
    """TestPodPriorityResolution, "SystemNodeCritical priority class" and "SystemClusterCritical
    priority class": the number that the API server puts in decides."""
    live.add_node("node1", cpu=1)
    uid = run(live, "victim", "super", cpu=1)
    pod = add(live, "p", name, cpu=1)
    assert pod["spec"]["priority"] == priority
    victims_are(live, "p", {"victim": uid}, {"victim"})


# Starvation, races --------------------------------------------------------------------------------


def test_preemption_starvation(live: LiveBerth) -> None:
    """TestPreemptionStarvation, "starvation test: higher priority pod is scheduled before the lower
    priority ones"."""
    live.add_node("node1", **SMALL)
    for index in range(5):
        run(live, f"running-{index}", "medium", cpu="100m", memory="100", grace_s=0)
    for index in range(5):
        add(live, f"pending-{index}", "medium", cpu="100m", memory="100", grace_s=0)
        live.unschedulable(f"pending-{index}")
    add(live, "preemptor", "high", cpu="300m", memory="200", grace_s=0)
    assert live.bound("preemptor") == "node1"
    assert len(live.pod_names() & {f"running-{index}" for index in range(5)}) == 2
    for index in range(5):
        assert "nodeName" not in live.pod(f"pending-{index}")["spec"]


def test_preemption_races(live: LiveBerth) -> None:
    """TestPreemptionRaces, "ensures that other pods are not scheduled while preemptor is being marked
    as nominated (issue #72124)"."""
    live.add_node("node1", cpu=5, memory="5000", pods=100)
    for index in range(2):
        run(live, f"initial-{index}", "medium", cpu="100m", memory="100", grace_s=0)
    add(live, "preemptor", "high", cpu="4900m", memory="4900", grace_s=0)
    for index in range(20):
        add(live, f"additional-{index}", "medium", cpu="100m", memory="100", grace_s=0)
    assert live.bound("preemptor") == "node1"
    for index in range(20):
        live.wait_pod(f"additional-{index}", condition_of, "was tried")
    pods = [live.pod(f"additional-{index}") for index in range(20)]
    assert not any("nodeName" in pod["spec"] for pod in pods)
    left = live.pod_names() & {"initial-0", "initial-1"}
    assert len(left) == 1, "one victim was enough, and what it left the preemptor has"


# The nominated node -------------------------------------------------------------------------------


def nominate(live: LiveBerth, name: str, node: str) -> None:
    """Another component says where the pod may go."""
    live.update(
        f"/api/v1/namespaces/default/pods/{name}",
        lambda pod: pod["status"].update(nominatedNodeName=node), "status",
    )  # fmt: skip


def add_nominated(live: LiveBerth, name: str, priority: str, node: str, **given: Any) -> None:
    """Nominated before it is tried: it is gated until `let_go`."""
    gates = {"schedulingGates": [{"name": "test"}]}
    add(live, name, priority, spec=gates, **given)
    nominate(live, name, node)


def let_go(live: LiveBerth, name: str) -> None:
    live.update_pod(name, lambda pod: pod["spec"].pop("schedulingGates"))


def test_a_nomination_is_cleared_by_a_more_important_pod_that_preempts_too(live: LiveBerth) -> None:
    """TestNominatedNode, "mid-priority pod preempts low-priority pod, followed by a high-priority pod
    with another preemption"."""
    live.add_node("n1", cpu=5)
    for index in range(4):
        run(live, f"low-{index}", "low", cpu=1)
    add(live, "medium", "medium", cpu=3)
    assert live.nominated("medium") == "n1"
    add(live, "high", "high", cpu=4)
    assert live.nominated("high") == "n1"
    no_nomination(live, "medium")


def test_a_nomination_is_cleared_when_a_more_important_pod_took_the_room(live: LiveBerth) -> None:
    """TestNominatedNode, "mid-priority pod preempts low-priority pod, followed by a high-priority pod
    without additional preemption"."""
    live.add_node("n1", cpu=2)
    run(live, "low", "low", cpu=1)
    add(live, "medium", "medium", cpu=2)
    assert live.nominated("medium") == "n1"
    run(live, "high", "high", cpu=1)
    live.delete_pod("low")
    no_nomination(live, "medium")


@pytest.mark.parametrize("with_other_node", [False, True])
def test_a_nomination_is_cleared_when_the_node_is_deleted(
    live: LiveBerth, with_other_node: bool
) -> None:
    """TestNominatedNode, "mid-priority pod preempts low-priority pod, followed by a node deletion" and
    "... at the beginning, but could not find candidates after the nominated node is deleted"."""
    if with_other_node:
        live.add_node("tainted", cpu=1, taints=[{"key": "taint-node", "effect": "NoSchedule"}])
    live.add_node("n1", cpu=1)
    run(live, "low", "low", cpu=1)
    add(live, "medium", "medium", cpu=1)
    assert live.nominated("medium") == "n1"
    live.delete_node("n1")
    live.delete_pod("low")
    no_nomination(live, "medium")


def test_a_nomination_is_cleared_when_scheduling_fails_unexpectedly(live: LiveBerth) -> None:
    """TestNominatedNode, "mid-priority pod preempts low-priority pod, but failed the scheduling
    unexpectedly"."""
    live.add_node("n1", cpu=1)
    run(live, "low", "low", cpu=1)
    add(live, "medium-fail", "medium", cpu=1, scheduler="pre-bind")
    assert live.nominated("medium-fail") == "n1"
    live.delete_pod("low")
    live.wait_call("PreBinds", "pre_bind", "medium-fail")
    no_nomination(live, "medium-fail")


@pytest.mark.parametrize(
    ("taken", "expected"), [("n2", "n1"), ("n1", "n2")], ids=["it fits there", "it does not"]
)
def test_prefer_nominated_node(live: LiveBerth, taken: str, expected: str) -> None:
    """TestPreferNominatedNode, "nominated node released all resource, preemptor is scheduled to the
    nominated node" and "nominated node cannot pass all the filters, preemptor should find a different
    node"."""
    live.add_nodes("n1", "n2", **SMALL)
    at = {"nodeSelector": {"kubernetes.io/hostname": taken}}
    run(live, "low", "low", cpu="100m", spec=at)
    add_nominated(live, "preemptor", "high", "n1", cpu="500m")
    let_go(live, "preemptor")
    assert live.bound("preemptor") == expected


def test_the_nominated_node_is_taken_though_another_scores_higher(live: LiveBerth) -> None:
    """TestPreferNominatedNode: the nominated node is asked first, and the others not at all."""
    live.add_nodes("n1", "n2")
    run(live, "busy", "low", cpu=2, spec={"nodeSelector": {"kubernetes.io/hostname": "n2"}})
    add_nominated(live, "p", "low", "n2", cpu=1)
    let_go(live, "p")
    assert live.bound("p") == "n2"


def test_basic_preemption_sets_nominated_node_name(live: LiveBerth) -> None:
    """TestPreemptionAndNominatedNodeNameScenarios, "basic preemption sets NominatedNodeName"."""
    live.add_node("n1", cpu=4)
    uid = run(live, "victim", "low", cpu=4)
    add(live, "preemptor", "high", cpu=2)
    victims_are(live, "preemptor", {"victim": uid}, {"victim"})
    assert live.nominated("preemptor") == "n1"
    live.delete_pod("victim")
    assert live.bound("preemptor") == "n1"


def test_overwrite_nominated_node_name_with_preemption(live: LiveBerth) -> None:
    """TestPreemptionAndNominatedNodeNameScenarios, "Overwrite NominatedNodeName with preemption": one
    victim is better than two."""
    live.add_nodes("n1", "n2", cpu=4)
    at = {name: {"nodeSelector": {"kubernetes.io/hostname": name}} for name in ("n1", "n2")}
    uids = {name: run(live, name, "low", cpu=2, spec=at["n1"]) for name in ("v1", "v2")}
    uids["v3"] = run(live, "v3", "low", cpu=3, spec=at["n2"])
    add_nominated(live, "preemptor", "high", "n1", cpu=4)
    let_go(live, "preemptor")
    live.wait_pod("preemptor", lambda p: nominated_node(p) == "n2", "goes to n2")
    victims_are(live, "preemptor", uids, {"v3"})
    live.delete_pod("v3")
    assert live.bound("preemptor") == "n2"


def test_nominated_node_name_is_ignored_on_a_pod_that_cannot_fit(live: LiveBerth) -> None:
    """TestPreemptionAndNominatedNodeNameScenarios, "NNN is ignored on pod that cannot fit on the
    node"."""
    live.add_node("n1", cpu=4)
    add_nominated(live, "exceeds", "low", "n1", cpu=5)
    let_go(live, "exceeds")
    live.unschedulable("exceeds")
    no_nomination(live, "exceeds")
    run(live, "fits", "low", cpu=3)


def test_nominated_node_name_of_a_lower_priority_pod_is_ignored(live: LiveBerth) -> None:
    """TestPreemptionAndNominatedNodeNameScenarios, "NNN is ignored on lower priority pod when higher
    priority pod without NNN is being scheduled"."""
    live.add_node("n1", cpu=4)
    add_nominated(live, "less", "low", "n1", cpu=4)
    run(live, "more", "high", cpu=4)
    let_go(live, "less")
    live.unschedulable("less")
    no_nomination(live, "less")


def test_nominated_node_name_is_cleared_after_binding(live: LiveBerth) -> None:
    """TestPreemptionAndNominatedNodeNameScenarios, "No preemption, NNN is cleared after binding"."""
    live.add_node("n1", cpu=4)
    add_nominated(live, "p", "low", "n1", cpu=4)
    let_go(live, "p")
    assert live.bound("p") == "n1"
    live.wait_pod("p", lambda p: not nominated_node(p), "is not nominated")


# Budgets ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BudgetCase:
    name: str
    nodes: Sequence[str]
    existing: Mapping[str, Json]
    preemptor: Json
    victims: set[str]
    expected: str = "n1"
    labels: Json = field(default_factory=dict)


def _small(priority: str, node: str, budget: str = "") -> Json:
    labels = {budget: "bar"} if budget else {}
    at = {"nodeSelector": {"kubernetes.io/hostname": node}}
    return {"priority": priority, "cpu": "100m", "memory": "100", "labels": labels, "spec": at}


BUDGET_CASES: Final = [
    BudgetCase("A non-PDB violating pod is preempted despite its higher priority", ["n1"],
               {"low-pod1": _small("low", "n1", "foo"), "low-pod2": _small("low", "n1", "foo"),
                "mid-pod3": _small("medium", "n1")},
               {"cpu": "300m", "memory": "200"}, {"mid-pod3"}),
    BudgetCase("A node without any PDB violating pods is preferred for preemption", ["n1", "n2"],
               {"low-pod1": _small("low", "n1", "foo"), "mid-pod2": _small("medium", "n2")},
               {"cpu": "500m", "memory": "200"}, {"mid-pod2"}, "n2"),
    BudgetCase("A node with fewer PDB violating pods is preferred for preemption",
               ["n1", "n2", "n3"],
               {"low-pod1": _small("low", "n1", "foo1"), "mid-pod1": _small("medium", "n1"),
                "low-pod2": _small("low", "n2", "foo2"), "mid-pod2": _small("medium", "n2", "foo2"),
                **{f"low-pod{i}": _small("low", "n3", "foo2") for i in (4, 5, 6)}},
               {"cpu": "500m", "memory": "400"}, {"low-pod4", "low-pod5", "low-pod6"}, "n3"),
]  # fmt: skip


@pytest.mark.parametrize("case", BUDGET_CASES, ids=lambda case: case.name)
def test_pdb_in_preemption(live: LiveBerth, case: BudgetCase) -> None:
    """TestPDBInPreemption, the case of the same name."""
    live.add_nodes(*case.nodes, **SMALL)
    uids = {name: run(live, name, **given) for name, given in case.existing.items()}
    add(live, "preemptor", "high", **case.preemptor)
    victims_are(live, "preemptor", uids, case.victims)
    assert live.nominated("preemptor") == case.expected


# ReadWriteOncePod ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("victims", "wanted"),
    [
        ({"victim": ["pvc1"]}, ["pvc1"]),
        ({"victim-1": ["pvc1"], "victim-2": ["pvc2"]}, ["pvc1", "pvc2"]),
        ({"victim": ["pvc1", "pvc2"]}, ["pvc1", "pvc2"]),
    ],
    ids=["preempt single pod", "preempt two pods", "preempt single pod with two volumes"],
)
def test_read_write_once_pod_preemption(
    live: LiveBerth, victims: Mapping[str, list[str]], wanted: list[str]
) -> None:
    """TestReadWriteOncePodPreemption, the case of the same name."""
    for number in (1, 2):
        live.create("/api/v1/persistentvolumes", "PersistentVolume",
                    volume(f"pv{number}", mode="ReadWriteOncePod"))  # fmt: skip
        live.create(CLAIMS, "PersistentVolumeClaim", claim(f"pvc{number}", f"pv{number}"))

    def using(names: list[str]) -> Json:
        source = [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in names]
        return {"volumes": source}

    live.add_node("node1", **SMALL)
    uids = {name: run(live, name, "low", spec=using(used)) for name, used in victims.items()}
    add(live, "preemptor", "high", spec=using(wanted))
    victims_are(live, "preemptor", uids, set(victims))
    for name in victims:
        live.delete_pod(name)
    assert live.bound("preemptor") == "node1"


# Asynchronous preemption --------------------------------------------------------------------------


def preempting(live: LiveBerth, name: str, victims: set[str]) -> None:
    """Waits until the scheduler is at work to make room for this pod; the victims are still there."""
    uids = {live.pod(victim)["metadata"]["uid"] for victim in victims}
    found = live.queue(
        lambda pods: set(pods[name].awaited_victims) == uids, f"{name} waits for {victims}"
    )
    assert found[name].place == "unschedulable"
    for victim in victims:
        stays(live, victim)


def hold(live: LiveBerth, count: int, cpu: int) -> set[str]:
    """A node full of pods that cannot be deleted for now."""
    live.add_node("n1", cpu=4)
    names = {f"victim-{index}" for index in range(count)}
    HELD.names |= names
    for name in names:
        run(live, name, "low", cpu=cpu, grace_s=0)
    return names


def test_async_preemption_basic(live: LiveBerth) -> None:
    """TestAsyncPreemption, "basic: async preemption happens expectedly"."""
    victims = hold(live, 2, 2)
    add(live, "preemptor", "high", cpu=4)
    preempting(live, "preemptor", victims)
    HELD.names.clear()
    assert live.bound("preemptor") == "n1"
    assert not live.pod_names() & victims


def test_async_preemption_lower_priority_pod_does_not_take_over_the_place(live: LiveBerth) -> None:
    """TestAsyncPreemption, "Lower priority Pod doesn't take over the place for higher priority Pod that
    is running the preemption"."""
    victims = hold(live, 2, 2)
    add(live, "preemptor", "high", cpu=4)
    preempting(live, "preemptor", victims)
    add(live, "mid", "medium", cpu=4)
    live.unschedulable("mid")
    assert resting(live, "mid").nominated_node == ""
    HELD.names.clear()
    assert live.bound("preemptor") == "n1"
    assert resting(live, "mid").nominated_node == ""


def test_async_preemption_higher_priority_pod_takes_over_the_place(live: LiveBerth) -> None:
    """TestAsyncPreemption, "Higher priority Pod takes over the place for lower priority Pod that is
    running the preemption"."""
    victims = hold(live, 4, 1)
    add(live, "preemptor", "high", cpu=4)
    preempting(live, "preemptor", victims)
    add(live, "super", "super", cpu=4)
    preempting(live, "super", victims)
    HELD.names.clear()
    assert live.bound("super") == "n1"
    assert resting(live, "preemptor").nominated_node == ""


def test_async_preemption_lower_priority_pod_can_select_the_same_place(live: LiveBerth) -> None:
    """TestAsyncPreemption, "Lower priority Pod can select the same place where the higher priority Pod
    is preempting if the node is big enough"."""
    hold(live, 4, 1)
    add(live, "preemptor", "high", cpu=2)
    live.nominated("preemptor")
    add(live, "mid", "medium", cpu=2)
    live.nominated("mid")
    HELD.names.clear()
    assert live.bound("preemptor") == live.bound("mid") == "n1"


# Pods that wait on Permit -------------------------------------------------------------------------


def goes_elsewhere(live: LiveBerth, victim: dict[str, Any]) -> None:
    """A victim that is assumed on the only node large enough for the preemptor is not deleted."""
    live.add_node("small-node", cpu=1)
    add(live, "preemptor", "high", cpu="1500m")
    assert live.bound("preemptor") == "big-node"
    assert live.bound("victim") == "small-node"
    pod = live.pod("victim")
    assert pod["metadata"]["uid"] == victim["metadata"]["uid"]
    assert "deletionTimestamp" not in pod["metadata"]


def test_a_waiting_pod_makes_room_and_goes_elsewhere(live: LiveBerth) -> None:
    """TestPreemptionRespectsWaitingPod: the victim waits on Permit on the only node that is large enough
    for the preemptor; it is not deleted, and goes to the small one."""
    live.add_node("big-node", cpu=2)
    victim = add(live, "victim", "low", cpu=1, scheduler="permit-once")
    live.until(lambda s: s.assumed_pod_count == 1, "it waits")
    goes_elsewhere(live, victim)


def test_a_pod_that_is_being_prepared_makes_room_and_goes_elsewhere(live: LiveBerth) -> None:
    """TestPreemptionRespectsBindingPod: the same of a victim that a PreBind plugin is at work for."""
    live.add_node("big-node", cpu=2)
    victim = add(live, "victim", "low", cpu=1, scheduler="pre-bind-once")
    live.wait_call("PreBindsLater", "pre_bind", "victim")
    goes_elsewhere(live, victim)


def test_a_waiting_pod_is_not_preempted_by_a_less_important_pod(live: LiveBerth) -> None:
    """Of our own: what a more important pod waits with is taken."""
    live.add_node("n1", cpu=2)
    add(live, "waiting", "high", cpu=2, scheduler="permit")
    live.until(lambda s: s.assumed_pod_count == 1, "it waits")
    add(live, "less", "medium", cpu=2)
    live.unschedulable("less")
    assert resting(live, "less").nominated_node == ""
    live.until(lambda s: s.assumed_pod_count == 1, "the other still waits")
