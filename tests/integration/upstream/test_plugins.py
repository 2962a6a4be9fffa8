"""Plugins of other packages at every extension point, through real processes.

Each test names the test of kube-scheduler that it mirrors (test/integration/scheduler/plugins/
plugins_test.go, v1.36) and checks what that checks: what became of the pods, and which plugins were
asked. The plugins are in `plugins.py`.
"""

from typing import Any
from uuid import uuid4

import pytest

from tests.integration.upstream.plugins import ENTRY_POINTS
from tests.support.live import (
    EVENTS,
    Fields,
    Json,
    LiveBerth,
    condition_of,
    configuration,
    enabled,
    profile,
)

pytestmark = pytest.mark.integration

NEVER = {"answer": "wait", "timeoutS": 900}


def _profiles() -> list[Json]:
    return [
        profile("default-scheduler"),
        *(
            profile(f"gate-{answer}", enabled(preEnqueue=["Gate"]), Gate={"answer": answer})
            for answer in ("", "reject")
        ),
        *(
            profile(f"pre-filter-{a}", enabled(preFilter=["PreFilters"]), PreFilters={"answer": a})
            for a in ("", "error", "reject")
        ),
        profile("pre-filter-n2", enabled(preFilter=["PreFilters"]), PreFilters={"nodes": ["n2"]}),
        *(
            profile(f"filter-{a}", enabled(filter=["Filters"]), Filters={"answer": a})
            for a in ("", "error", "reject")
        ),
        *(
            profile(
                f"post-filter-{a}",
                enabled(multiPoint=["Filters"], postFilter=["PostFilters", "OtherPostFilters"])
                | {"postFilter": {
                    "enabled": [{"name": "PostFilters"}, {"name": "OtherPostFilters"}],
                    "disabled": [{"name": "*"}],
                }},
                Filters={"answer": "reject"}, PostFilters={"answer": a},
                OtherPostFilters={"answer": "reject"},
            )
            for a in ("", "error", "reject")
        ),
        *(
            profile(f"pre-score-{a}", enabled(preScore=["PreScores"]), PreScores={"answer": a})
            for a in ("", "error")
        ),
        profile("score", enabled(multiPoint=["Scores"]), Scores={"nodes": ["n3"]})
        | {"plugins": {"multiPoint": {"enabled": [{"name": "Scores", "weight": 100}]}}},
        profile("normalize", Normalized={"nodes": ["n1"]})
        | {"plugins": {"multiPoint": {"enabled": [{"name": "Normalized", "weight": 100}]}}},
        *(
            profile(f"reserve-{a}", enabled(multiPoint=["Reserves", "Reserves2"]),
                    Reserves2={"answer": a})
            for a in ("", "error", "reject")
        ),
        *(
            profile(f"permit-{a}", enabled(multiPoint=["Reserves", "Reserves2", "Permits"]),
                    Permits={"answer": a, "timeoutS": 900})
            for a in ("", "error", "reject", "wait")
        ),
        profile("permit-short", enabled(multiPoint=["Reserves", "Permits", "Permits2"]),
                Permits=NEVER, Permits2={"answer": "wait", "timeoutS": 0.2}),
        profile("permit-two", enabled(multiPoint=["Permits", "Permits2"]),
                Permits=NEVER, Permits2=NEVER),
        profile("permit-reviewed", enabled(multiPoint=["Reviews"]), Reviews=NEVER),
        profile("gang", enabled(multiPoint=["Gang"]), Gang={"timeoutS": 900}),
        profile("gang-short", enabled(multiPoint=["Gang"]), Gang={"timeoutS": 0.2}),
        profile("pre-bind", enabled(multiPoint=["Reserves", "Reserves2", "PreBinds"])),
        profile("bind", enabled(multiPoint=["Reserves", "PostBinds"]) | {"bind": {
            "enabled": [{"name": n} for n in ("Binds", "Binds2", "DefaultBinder")],
            "disabled": [{"name": "*"}],
        }}),
        profile("bind-own", enabled(multiPoint=["Reserves", "PostBinds"]) | {"bind": {
            "enabled": [{"name": "Binds"}], "disabled": [{"name": "*"}],
        }}),
        profile("post-bind", enabled(multiPoint=["PreBinds", "PostBinds"])),
        profile("job", enabled(multiPoint=["Job"])),
    ]  # fmt: skip


def start_berth() -> LiveBerth:
    config = configuration(*_profiles(), podInitialBackoffSeconds=1, podMaxBackoffSeconds=1)
    return LiveBerth(config, ENTRY_POINTS, disabled_admission=frozenset({"Priority"}))


def add(live: LiveBerth, name: str, scheduler: str, **given: Any) -> Json:
    # Of a class of its own each time, as plugins are asked once about pods that are alike.
    labels = {"name": name, "run": uuid4().hex, **given.pop("labels", {})}
    return live.add_pod(name, scheduler=scheduler, labels=labels, **given)


def failed(live: LiveBerth, name: str) -> Json:
    """Waits until an attempt ended with an error; the condition."""
    return condition_of(
        live.wait_pod(name, lambda p: condition_of(p)["reason"] == "SchedulerError", "failed")
    )


def waits(live: LiveBerth, count: int = 1) -> None:
    """Until so many pods are assumed and wait."""
    live.until(lambda s: s.assumed_pod_count == count, f"{count} pods wait")


# Before a node is chosen --------------------------------------------------------------------------


def test_a_pod_that_pre_enqueue_refuses_is_gated_and_not_tried(live: LiveBerth) -> None:
    """TestPreEnqueuePlugin."""
    live.add_node("n1")
    add(live, "free", "gate-")
    assert live.bound("free") == "n1"
    add(live, "kept", "gate-reject")
    live.wait_call("Gate", "pre_enqueue", "kept")
    assert live.until(lambda s: s.queue.gated == 1, "it is gated").queue.unschedulable == 0
    assert "nodeName" not in live.pod("kept")["spec"]


def test_pre_filter_lets_pass_refuses_or_fails(live: LiveBerth) -> None:
    """TestPreFilterPlugin."""
    live.add_node("n1")
    add(live, "passes", "pre-filter-")
    assert live.bound("passes") == "n1"
    add(live, "refused", "pre-filter-reject")
    assert live.unschedulable("refused").startswith("0/1 nodes are available: reject pod.")
    add(live, "fails", "pre-filter-error")
    assert failed(live, "fails")["message"] == (
        'running PreFilter plugin "PreFilters": injecting failure for pod'
    )
    assert {"passes", "refused", "fails"} <= set(live.calls("PreFilters", "pre_filter"))


def test_pre_filter_narrows_the_search_to_nodes(live: LiveBerth) -> None:
    """TestPreFilterPlugin, its result's NodeNames."""
    live.add_nodes("n1", "n2", "n3")
    add(live, "p", "pre-filter-n2")
    assert live.bound("p") == "n2"


def test_filter_lets_pass_refuses_or_fails(live: LiveBerth) -> None:
    """TestFilterPlugin."""
    live.add_nodes("n1", "n2")
    add(live, "passes", "filter-")
    assert live.bound("passes")
    add(live, "refused", "filter-reject")
    assert live.unschedulable("refused").startswith("0/2 nodes are available: 2 reject pod.")
    add(live, "fails", "filter-error")
    assert "injecting failure for pod" in failed(live, "fails")["message"]
    assert {"passes", "refused", "fails"} <= set(live.calls("Filters", "filter"))


def test_a_filter_that_names_no_events_has_its_pods_woken_by_every_event(live: LiveBerth) -> None:
    """TestCoreResourceEnqueue; a plugin without EnqueueExtensions (scheduler.go,
    buildQueueingHintMap)."""
    live.add_node("n1")
    add(live, "refused", "filter-reject")
    live.unschedulable("refused")
    tried = live.queue(lambda pods: pods["refused"].place == "unschedulable", "it rests")
    attempts = tried["refused"].attempts
    live.create("/apis/storage.k8s.io/v1/csidrivers", "CSIDriver",
                {"metadata": {"name": "d.example.com"}, "spec": {}})  # fmt: skip
    live.queue(lambda pods: pods["refused"].attempts > attempts, "it is tried again")
    live.ask("DELETE", "/apis/storage.k8s.io/v1/csidrivers/d.example.com")


@pytest.mark.parametrize(("answer", "asked_too"), [("", False), ("error", False), ("reject", True)])
def test_post_filters_are_asked_in_order_until_one_finds_something_or_fails(
    live: LiveBerth, answer: str, asked_too: bool
) -> None:
    """TestPostFilterPlugin."""
    live.add_node("n1")
    name = f"p-{answer or 'success'}"
    add(live, name, f"post-filter-{answer}")
    live.wait_pod(name, condition_of, "was tried")
    assert name in live.calls("PostFilters", "post_filter")
    assert (name in live.calls("OtherPostFilters", "post_filter")) is asked_too


def test_pre_score_is_asked_and_its_failure_ends_the_attempt(live: LiveBerth) -> None:
    """TestPreScorePlugin."""
    live.add_nodes("n1", "n2")
    add(live, "passes", "pre-score-")
    assert live.bound("passes")
    add(live, "fails", "pre-score-error")
    told = failed(live, "fails")["message"]
    assert 'running PreScore plugin "PreScores": injecting failure for pod' in told
    assert {"passes", "fails"} <= set(live.calls("PreScores", "pre_score"))


def test_the_node_with_the_best_score_is_taken(live: LiveBerth) -> None:
    """TestScorePlugin."""
    live.add_nodes("n1", "n2", "n3", "n4")
    add(live, "p", "score")
    assert live.bound("p") == "n3"
    assert live.calls("Scores", "score")


def test_normalised_scores_count_and_not_raw_ones(live: LiveBerth) -> None:
    """TestNormalizeScorePlugin."""
    live.add_nodes("n1", "n2")
    add(live, "p", "normalize")
    assert live.bound("p") == "n2"
    assert live.calls("Normalized", "normalize")


# Reserve ------------------------------------------------------------------------------------------


def test_what_is_reserved_stays_reserved_for_a_pod_that_is_bound(live: LiveBerth) -> None:
    """TestReservePluginReserve."""
    live.add_node("n1")
    add(live, "p", "reserve-")
    assert live.bound("p") == "n1"
    live.until(lambda s: s.binds_in_flight == 0, "nothing is under way")
    assert live.calls("Reserves", "reserve") == ["p"]
    assert live.calls("Reserves", "unreserve") == []


@pytest.mark.parametrize("answer", ["error", "reject"])
def test_after_a_reserve_that_fails_all_are_unreserved_in_reverse_order(
    live: LiveBerth, answer: str
) -> None:
    """TestReservePluginUnreserve."""
    live.add_node("n1")
    add(live, "p", f"reserve-{answer}")
    if answer == "reject":
        assert live.unschedulable("p") == "0/1 nodes are available: 1 reject pod."
    else:
        told = 'running Reserve plugin "Reserves2": injecting failure for pod'
        assert failed(live, "p")["message"] == told
    assert live.calls("order", "reserve")[:2] == ["Reserves p", "Reserves2 p"]
    assert live.calls("order", "unreserve")[:2] == ["Reserves2 p", "Reserves p"]


# Permit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["", "error", "reject"])
def test_permit_allows_refuses_or_fails(live: LiveBerth, answer: str) -> None:
    """TestPermitPlugin, without waiting; TestUnReservePermitPlugins."""
    live.add_node("n1")
    add(live, "p", f"permit-{answer}")
    if not answer:
        assert live.bound("p") == "n1"
        live.until(lambda s: s.binds_in_flight == 0, "nothing is under way")
        assert live.calls("order", "unreserve") == []
        return
    if answer == "reject":
        assert live.unschedulable("p") == "0/1 nodes are available: 1 reject pod."
    else:
        told = 'running Permit plugin "Permits": injecting failure for pod'
        assert failed(live, "p")["message"] == told
    assert live.calls("order", "unreserve")[:2] == ["Reserves2 p", "Reserves p"]
    assert live.until(lambda s: s.assumed_pod_count == 0, "its room is free").pod_count == 0


def test_a_pod_that_waits_too_long_is_unschedulable_by_the_plugin_with_the_least_patience(
    live: LiveBerth,
) -> None:
    """TestPermitPlugin, timeoutPermit; TestMultiplePermitPlugins."""
    live.add_node("n1")
    add(live, "p", "permit-short")
    assert live.unschedulable("p") == (
        "0/1 nodes are available: 1 rejected due to timeout after waiting 200ms at plugin Permits2."
    )
    assert "Reserves p" in live.calls("order", "unreserve")


def test_a_waiting_pod_is_bound_when_all_plugins_have_allowed_it(live: LiveBerth) -> None:
    """TestMultiplePermitPlugins."""
    live.add_nodes("n1", "n2")
    add(live, "p", "permit-two", spec={"nodeSelector": {"kubernetes.io/hostname": "n1"}})
    waits(live)
    assert "nodeName" not in live.pod("p")["spec"]
    add(live, "peer", "permit-two", labels={"says": "allow"})
    assert live.bound("p") == "n1"
    assert live.bound("peer")


def test_a_waiting_pod_is_rejected_when_one_plugin_rejects_it(live: LiveBerth) -> None:
    """TestPermitPluginsCancelled."""
    live.add_node("n1")
    add(live, "p", "permit-two")
    waits(live)
    add(live, "peer", "permit-two", labels={"says": "reject"})
    assert live.unschedulable("p") == "0/1 nodes are available: 1 rejected by a peer."
    assert live.unschedulable("peer") == "0/1 nodes are available: 1 rejected itself."
    live.until(lambda s: s.counters["permit_rejections"] > 0, "it is counted")


@pytest.mark.parametrize("says", ["allow", "reject"])
def test_the_second_pod_decides_about_the_first(live: LiveBerth, says: str) -> None:
    """TestCoSchedulingWithPermitPlugin."""
    live.add_node("n1")
    add(live, "waiting", "permit-wait")
    waits(live)
    add(live, "signalling", "permit-wait", labels={"says": says})
    if says == "allow":
        assert live.bound("waiting") == live.bound("signalling") == "n1"
    else:
        assert "rejected by a peer" in live.unschedulable("waiting")
        assert "rejected itself" in live.unschedulable("signalling")


def test_a_gang_is_bound_when_its_last_pod_arrives(live: LiveBerth) -> None:
    """TestCoSchedulingWithPermitPlugin, as coscheduling plugins use it."""
    live.add_nodes("n1", "n2")
    gang = {"gang": "a", "size": "4"}
    for index in range(3):
        add(live, f"a{index}", "gang", labels=gang)
    waits(live, 3)
    add(live, "other", "default-scheduler")
    assert live.bound("other")  # Those that wait are in nobody's way.
    add(live, "a3", "gang", labels=gang)
    for index in range(4):
        assert live.bound(f"a{index}")


def test_a_gang_that_does_not_come_together_gives_its_room_back(live: LiveBerth) -> None:
    """TestCoSchedulingWithPermitPlugin, timeout: one pod's end is that of its peers, and what waits
    for the room is woken as if the pods had been deleted."""
    live.add_node("n1", cpu=2)
    for index in range(2):
        add(live, f"a{index}", "gang-short", cpu=1, labels={"gang": "a", "size": "3"})
        live.wait_call("Gang", "permit", f"a{index}")
    live.add_pod("late", cpu=2)
    assert live.bound("late") == "n1"

    def tell_of_it(events: Fields) -> bool:
        # Their conditions may say already that there is no room any more; events stay.
        notes = [
            event["note"] for event in events["items"] if event["reason"] == "FailedScheduling"
        ]
        return any("rejected due to timeout" in note or "of the gang" in note for note in notes)

    live.wait(EVENTS, tell_of_it, "tell of the gang's end")


def test_what_happens_in_the_cluster_can_decide_about_a_waiting_pod(live: LiveBerth) -> None:
    """TestPermitPlugin, waitAndAllow from elsewhere (Handle.IterateOverWaitingPods)."""
    live.add_node("n1")
    add(live, "p", "permit-reviewed")
    waits(live)
    port = {"ports": [{"port": 80}]}
    live.create("/api/v1/namespaces/default/services", "Service",
                {"metadata": {"name": "p"}, "spec": port})  # fmt: skip
    assert live.bound("p") == "n1"
    live.ask("DELETE", "/api/v1/namespaces/default/services/p")


def test_a_waiting_pod_that_is_deleted_gives_its_room_to_others(live: LiveBerth) -> None:
    """TestPreemptWithPermitPlugin, "deleting a waiting pod to trigger retrying unschedulable pods
    immediately"."""
    live.add_node("n1", cpu=1)
    add(live, "waiting", "permit-wait", cpu=1)
    waits(live)
    live.add_pod("next", cpu=1)
    live.unschedulable("next")
    live.delete_pod("waiting")
    assert live.bound("next") == "n1"
    assert live.calls("order", "unreserve") == ["Reserves2 waiting", "Reserves waiting"]


def test_a_waiting_pod_is_preempted_without_being_deleted(live: LiveBerth) -> None:
    """TestPreemptWithPermitPlugin, "waiting pod is not physically deleted upon preemption"."""
    live.add_node("n1", cpu=2)
    live.add_pod("running", cpu=1, priority=100)
    assert live.bound("running") == "n1"
    waiting = add(live, "waiting", "permit-wait", cpu=1, priority=100)
    live.wait_call("Permits", "permit", "waiting")
    live.add_pod("preemptor", cpu=2, priority=300)
    assert live.bound("preemptor") == "n1"
    live.gone("running")
    pod = live.wait_pod("waiting", condition_of, "is told so")
    assert pod["metadata"]["uid"] == waiting["metadata"]["uid"]
    assert "deletionTimestamp" not in pod["metadata"]
    assert "Reserves waiting" in live.calls("order", "unreserve")


@pytest.mark.parametrize("process", ["owner", "binder", "scorer", "adapter"])
def test_a_waiting_pod_outlives_any_process(live: LiveBerth, process: str) -> None:
    """Of our own: whichever process dies, the pod still waits or waits again, and is bound once."""
    live.add_node("n1")
    add(live, "p", "permit-wait")
    waits(live)
    live.restart(process)
    waits(live)
    add(live, "peer", "permit-wait", labels={"says": "allow"})
    assert live.bound("p") == live.bound("peer") == "n1"


# Binding ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["fail", "raise"])
def test_pre_bind_that_fails_unreserves_and_the_pod_is_tried_again(
    live: LiveBerth, how: str
) -> None:
    """TestPrebindPlugin, TestUnReservePreBindPlugins."""
    live.add_node("n1")
    add(live, f"p-{how}", "pre-bind")
    assert 'running PreBind plugin "PreBinds": ' in failed(live, f"p-{how}")["message"]
    assert live.calls("order", "unreserve")[:2] == [f"Reserves2 p-{how}", f"Reserves p-{how}"]
    live.wait_call("PreBinds", "pre_bind", f"p-{how}", 2)


def test_a_pod_whose_pre_bind_succeeds_at_last_is_bound(live: LiveBerth) -> None:
    """TestPrebindPlugin, succeedOnRetry."""
    live.add_node("n1")
    add(live, "p-once", "pre-bind")
    assert live.bound("p-once") == "n1"
    assert live.calls("PreBinds", "pre_bind") == ["p-once"] * 2


@pytest.mark.parametrize(
    ("name", "asked"),
    [("p", ["Binds"]), ("p-skip-binds", ["Binds", "Binds2"]), ("p-skip-all", ["Binds", "Binds2"])],
)
def test_the_first_bind_plugin_that_does_not_skip_binds(
    live: LiveBerth, name: str, asked: list[str]
) -> None:
    """TestBindPlugin."""
    live.add_node("n1")
    add(live, name, "bind")
    assert live.bound(name) == "n1"
    live.wait_call("PostBinds", "post_bind", name)
    assert [p for p in ("Binds", "Binds2") if name in live.calls(p, "bind")] == asked
    assert live.calls("Reserves", "unreserve") == []


def test_a_bind_plugin_that_fails_unreserves(live: LiveBerth) -> None:
    """TestBindPlugin, TestUnReserveBindPlugins."""
    live.add_node("n1")
    add(live, "p-fail", "bind-own")
    told = 'running Bind plugin "Binds": cannot bind'
    assert told in failed(live, "p-fail")["message"]
    live.wait_call("Reserves", "unreserve", "p-fail")
    assert live.calls("PostBinds", "post_bind") == []


def test_a_bind_plugin_that_fails_after_it_has_bound_the_pod_does_no_harm(live: LiveBerth) -> None:
    """Of our own: the API server's word counts, and the pod is bound once."""
    live.add_node("n1")
    add(live, "p-raise", "bind-own")
    assert live.bound("p-raise") == "n1"
    live.wait_call("PostBinds", "post_bind", "p-raise")
    assert live.calls("Binds", "bind") == ["p-raise"]


def test_post_bind_is_told_of_pods_that_were_bound_and_of_no_others(live: LiveBerth) -> None:
    """TestPostBindPlugin."""
    live.add_node("n1")
    add(live, "p-fail", "post-bind")
    failed(live, "p-fail")
    add(live, "p", "post-bind")
    assert live.bound("p") == "n1"
    live.wait_call("PostBinds", "post_bind", "p")
    assert "p-fail" not in live.calls("PostBinds", "post_bind")


# The handle ---------------------------------------------------------------------------------------


def test_a_plugin_has_pods_tried_again_that_no_event_would_wake(live: LiveBerth) -> None:
    """TestActivatePods."""
    live.add_node("n1")
    for index in range(2):
        add(live, f"executor-{index}", "job")
        assert "unable to find driver pod" in live.unschedulable(f"executor-{index}")
    add(live, "driver", "job", labels={"driver": ""})
    for name in ("driver", "executor-0", "executor-1"):
        assert live.bound(name) == "n1"
    assert live.calls("Job", "activate") == ["2"]
