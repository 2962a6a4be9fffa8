"""No event is registered in vain, and none that is needed is missing from the table of hints.

Each case of `wakeup_cases` has a pod that fits nowhere until one event that one plugin registers. It is
bound then, and left alone if that line is taken out of the table: so a line that gets lost is noticed.
"""

import pytest

from daemon.core.queue.queued_pod import Place
from shared.framework.queueing_hints import ClusterEventWithHint, Registrations
from tests.support import pipeline
from tests.support.pipeline import Pipeline, default_profile
from tests.support.wakeup_cases import NAME, WAKEUPS, Wakeup
from tests.support.wakeups import default_registrations

MAX_BACKOFF_S = 11.0
Line = tuple[str, str]
"""Plugin, and resource/action."""


def lines() -> list[Line]:
    """All that is registered, action by action."""
    return [
        (plugin, f"{line.resource}/{action}")
        for plugin, registered in default_registrations().items()
        for line in registered
        for action in line.actions
    ]


def without(registrations: Registrations, dropped: Line) -> Registrations:
    plugin, event = dropped
    kept: list[ClusterEventWithHint] = []
    for line in registrations[plugin]:
        actions = tuple(a for a in line.actions if f"{line.resource}/{a}" != event)
        kept.append(line._replace(actions=actions))
    return {**registrations, plugin: tuple(kept)}


def is_bound(case: Wakeup) -> bool:
    """Whether the pod is bound in the end; before the event it must not be."""
    berth = Pipeline()
    case.park(berth)
    berth.run_until_quiet()
    (pod,) = berth.state.queue
    assert pod.record.name == NAME
    assert pod.place is not Place.ACTIVE
    for step in case.wake:
        step(berth)
    berth.run_until_quiet()
    berth.advance(MAX_BACKOFF_S)
    berth.run_until_quiet()
    return pod.record.uid in berth.bound


@pytest.mark.parametrize("case", WAKEUPS, ids=lambda case: f"{case.plugin} {case.event}")
def test_a_pod_is_woken_by_the_event_and_by_no_other_plugin(
    case: Wakeup, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_bound(case)
    line = case.plugin, case.event

    built = default_profile()
    without_line = built._replace(registrations=without(built.registrations, line))
    monkeypatch.setattr(pipeline, "default_profile", lambda _: without_line)
    assert not is_bound(case)


def test_every_line_has_its_case() -> None:
    shown = {(case.plugin, case.event) for case in WAKEUPS}
    assert shown <= set(lines())
    assert set(lines()) - shown == set(NOT_SHOWN)


IMPLIED = "who registers Node/Add is given this too (wakeups.with_implied_taint)"
NEVER = "a pod with a node's name is bound, and waits for nobody"
TAINTED = "the taint keeps the pod away as well, and TaintToleration registers this too"
FIRST = "VolumeRestrictions rejects a pod whose claim is missing, before this plugin is asked"
NO_CLASS = "VolumeBinding rejects a pod whose class is missing, before this plugin is asked"
NOT_SHOWN: dict[Line, str] = {
    ("NodeUnschedulable", "Node/UpdateNodeTaint"): IMPLIED,
    ("TaintToleration", "Node/UpdateNodeTaint"): IMPLIED,
    ("NodeName", "Node/Add"): NEVER,
    ("PodTopologySpread", "Pod/UpdatePodToleration"): TAINTED,
    ("PodTopologySpread", "Node/UpdateNodeTaint"): TAINTED,
    ("NodeVolumeLimits", "PersistentVolumeClaim/Add"): FIRST,
    ("VolumeBinding", "PersistentVolumeClaim/Add"): FIRST,
    ("VolumeZone", "PersistentVolumeClaim/Add"): FIRST,
    ("VolumeZone", "storage.k8s.io/StorageClass/Add"): NO_CLASS,
}
"""Lines that no pod waits for alone, and why."""
