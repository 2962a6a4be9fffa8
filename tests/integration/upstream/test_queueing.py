"""What wakes a pod that no node would take, through real processes.

Mirrors test/integration/scheduler/queueing of kube-scheduler v1.36: `queueing_cases.py` is the table
of TestCoreResourceEnqueue, the other tests name theirs.

Whether the queue has seen an event is told by a pod that every event wakes (the watcher), so that "was
not woken" is known and not waited for. Pods that may be placed after all are held by a plugin that no
event can change, as upstream's test holds them by not scheduling.
"""

import pytest

from shared.messages.admin import PendingPod
from tests.integration.upstream.queueing_cases import (
    CASES,
    EVENT_OF,
    NOT_READY,
    TAINTS,
    Case,
    affinity,
    on_nodes,
)
from tests.integration.upstream.queueing_plugins import ENTRY_POINTS
from tests.support.live import Json, LiveBerth, configuration, profile

pytestmark = pytest.mark.integration

WATCHER = "watcher"
LONG_S = 1000
"""Back-off: whoever is woken is tried at once, because nobody else wants to be."""


def _profile_name(plugins: tuple[str, ...]) -> str:
    return "-".join(plugins).lower()


def _profiles() -> list[Json]:
    """One for each set of plugins of the table."""
    sets = dict.fromkeys(tuple(case.plugins) for case in CASES)
    named = {_profile_name(plugins): [*plugins, "Blocker"] for plugins in sets}
    always = ["PrioritySort", "DefaultPreemption", "DefaultBinder", "SchedulingGates"]
    return [
        profile(name, {"multiPoint": {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": each} for each in (*always, *plugins)],
        }})
        for name, plugins in {**named, WATCHER: ["Watcher"]}.items()
    ]  # fmt: skip


def start_berth() -> LiveBerth:
    config = configuration(
        profile("default-scheduler"), *_profiles(),
        podInitialBackoffSeconds=LONG_S, podMaxBackoffSeconds=LONG_S,
    )  # fmt: skip
    admission = frozenset({"Priority", "DefaultTolerationSeconds"})
    return LiveBerth(config, ENTRY_POINTS, disabled_admission=admission)


def is_parked(pod: PendingPod) -> bool:
    return pod.place == "unschedulable" and not pod.gated_by


def parked(live: LiveBerth, *names: str) -> dict[str, PendingPod]:
    """Waits until these pods, and all others of the queue, lie there rejected."""
    return live.queue(
        lambda pods: set(names) <= pods.keys() and all(is_parked(pod) for pod in pods.values()),
        f"{names} are rejected and nothing moves",
    )


class Seen:
    """`with Seen(live, "NodeAdd"):` ends when the queue has seen what was done in it."""

    def __init__(self, live: LiveBerth, event: str) -> None:
        self._live = live
        self._event = event
        self._before = 0

    def __enter__(self) -> None:
        parked(self._live, WATCHER)
        self._before = self._live.moves(self._event)

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None:
            self._live.moves(self._event, self._before + 1)
            parked(self._live, WATCHER)


def watch_from(live: LiveBerth, node: str, given: Json) -> None:
    """Adds the first node, without which no plugin could reject the watcher, and the watcher."""
    live.add_node(node, **given)
    live.add_pod(WATCHER, scheduler=WATCHER)
    parked(live, WATCHER)


def set_up(live: LiveBerth, case: Case) -> dict[str, PendingPod]:
    """Everything before the event; the pods were tried once."""
    first, *others = case.nodes.items()
    watch_from(live, *first)
    for name, given in others:
        with Seen(live, "NodeAdd"):
            live.add_node(name, settle=False, **given)
    for collection, body in case.objects:
        with Seen(live, f"{EVENT_OF[collection]}Add"):
            live.create(collection, EVENT_OF[collection].rpartition("/")[2], body)
    for name, given in case.assigned.items():
        with Seen(live, "AssignedPodAdd"):
            live.add_pod(name, **given)
    for name, given in case.pods.items():
        live.add_pod(name, scheduler=_profile_name(tuple(case.plugins)), **given)
    return parked(live, WATCHER, *case.pods)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace("/", " "))
def test_core_resource_enqueue(live: LiveBerth, case: Case) -> None:
    """TestCoreResourceEnqueue, the case of the same name."""
    before = set_up(live, case)
    for name in case.pods:
        assert before[name].attempts == 1
        expected = case.rejected_by.get(name, {case.plugins[0]})
        assert set(before[name].unschedulable_plugins) == expected
    with Seen(live, case.event):
        case.trigger(live)
    after = parked(live, *case.pods)
    assert {name for name in case.pods if after[name].attempts > 1} == case.woken


# A pod's own update -------------------------------------------------------------------------------


def tainted(live: LiveBerth, *names: str) -> None:
    watch_from(live, "n1", {"taints": [NOT_READY]})
    for name in names:
        live.add_pod(name, scheduler=_profile_name((TAINTS,)))
    parked(live, *names)


def attempts(live: LiveBerth, name: str) -> int:
    return parked(live, name)[name].attempts


def test_pod_updated_with_toleration_requeued_to_active_q(live: LiveBerth) -> None:
    """TestCoreResourceEnqueue, "Pod updated with toleration requeued to activeQ"."""
    tainted(live, "p1", "p2")
    added = [{"key": NOT_READY["key"], "operator": "Exists"}]
    live.update_pod("p1", lambda pod: pod["spec"].update(tolerations=added))
    live.queue(lambda pods: pods["p1"].attempts == 2, "p1 is tried again")
    assert attempts(live, "p2") == 1


def test_updating_pod_label_does_not_retry_if_it_was_rejected_by_taint_toleration(
    live: LiveBerth,
) -> None:
    """TestCoreResourceEnqueue, "Updating pod label doesn't retry scheduling if the Pod was rejected by
    TaintToleration"."""
    tainted(live, "p1")
    live.update_pod("p1", lambda pod: pod["metadata"].update(labels={"key": "val"}))
    before = attempts(live, WATCHER)
    live.update_pod(WATCHER, lambda pod: pod["metadata"].update(labels={"key": "val"}))
    live.queue(lambda pods: pods[WATCHER].attempts > before, "the watcher's update is seen")
    assert attempts(live, "p1") == 1


# Gates and back-off -------------------------------------------------------------------------------


def gated(live: LiveBerth, *names: str) -> None:
    live.queue(
        lambda pods: {n for n, pod in pods.items() if pod.gated_by == "SchedulingGates"}
        == set(names),
        f"just {names} are gated",
    )


def add_gated(live: LiveBerth, name: str, gate: str) -> None:
    live.add_pod(name, spec={"schedulingGates": [{"name": gate}]})


def open_gates(live: LiveBerth, name: str) -> None:
    live.update_pod(name, lambda pod: pod["spec"].pop("schedulingGates"))


def test_scheduling_gates_regular_pods(live: LiveBerth) -> None:
    """TestSchedulingGates, "regular pods"."""
    live.add_node("n1")
    for name in ("p1", "p2"):
        live.add_pod(name)
    assert live.bound("p1") == live.bound("p2") == "n1"


def test_scheduling_gates_one_pod_carrying_gates(live: LiveBerth) -> None:
    """TestSchedulingGates, "one pod carrying scheduling gates"."""
    live.add_node("n1")
    add_gated(live, "p1", "foo")
    live.add_pod("p2")
    assert live.bound("p2") == "n1"
    gated(live, "p1")
    assert live.unschedulable("p1", reason="SchedulingGated")


def test_scheduling_gates_are_removed_from_one_of_two_pods(live: LiveBerth) -> None:
    """TestSchedulingGates, "two pod carrying scheduling gates, and remove gates of one pod"."""
    live.add_node("n1")
    add_gated(live, "p1", "foo")
    add_gated(live, "p2", "bar")
    live.add_pod("p3")
    assert live.bound("p3") == "n1"
    gated(live, "p1", "p2")
    open_gates(live, "p2")
    assert live.bound("p2") == "n1"
    gated(live, "p1")


def test_scheduling_gates_pod_schedulable_after_deleting_the_scheduled_pod(live: LiveBerth) -> None:
    """TestSchedulingGates, "gated pod schedulable after deleting the scheduled pod and removing
    gate"."""
    live.add_node("n1")
    add_gated(live, "p1", "foo")
    live.add_pod("p2")
    assert live.bound("p2") == "n1"
    live.delete_pod("p2")
    live.until(lambda s: s.pod_count == 0, "p2 is gone")
    gated(live, "p1")
    open_gates(live, "p1")
    assert live.bound("p1") == "n1"


def test_pop_from_backoff_q_when_active_q_empty(live: LiveBerth) -> None:
    """TestPopFromBackoffQWhenActiveQEmpty: the back-off is longer than the test."""
    live.add_node("n1")
    live.add_pod("p", spec=affinity(on_nodes("foo", "bar")))
    live.unschedulable("p")
    before = live.moves("PopFromBackoffQ")
    live.add_node("n2", labels={"foo": "bar"})
    assert live.bound("p") == "n2"
    live.moves("PopFromBackoffQ", before + 1)
