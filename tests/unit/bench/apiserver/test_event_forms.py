"""Events: two forms of one object, their validation, and their time to live."""

from typing import Any

import pytest

from bench.apiserver.deletion import run_due
from tests.unit.bench.apiserver.api_caller import MERGE, ApiCaller

_NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
_CORE = "/api/v1/namespaces/default/events"


@pytest.fixture
def api() -> ApiCaller:
    return ApiCaller(event_ttl_s=100.0)


def _event(name: str = "e", **change: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "eventTime": "2027-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-vm",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"},
        "note": "Successfully assigned default/p to n0",
        "type": "Normal",
        **change,
    }


def test_both_groups_show_the_same_event(api: ApiCaller) -> None:
    assert api.call("POST", _NEW, _event()).code == 201
    core = api.call("GET", f"{_CORE}/e").body
    # As kube-apiserver v1.36.2 showed such an event of kube-scheduler.
    metadata = core.pop("metadata")
    assert core == {
        "kind": "Event",
        "apiVersion": "v1",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"},
        "reason": "Scheduled",
        "message": "Successfully assigned default/p to n0",
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "type": "Normal",
        "eventTime": "2027-01-01T00:00:00.000000Z",
        "action": "Binding",
        "reportingComponent": "default-scheduler",
        "reportingInstance": "default-scheduler-vm",
    }
    new = api.call("GET", f"{_NEW}/e").body
    assert new["metadata"] == metadata
    assert new["deprecatedSource"] == {}
    listed = api.call("GET", _CORE).body
    assert listed["kind"] == "EventList"
    assert listed["items"][0]["message"] == new["note"]


def test_an_old_event_is_created_and_patched_in_the_core_form(api: ApiCaller) -> None:
    old = {
        "metadata": {"name": "old"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Pulled",
        "message": "pulled",
        "source": {"component": "kubelet"},
        "firstTimestamp": "2027-01-01T00:00:00Z",
        "lastTimestamp": "2027-01-01T00:00:00Z",
        "count": 1,
        "type": "Normal",
    }
    assert api.call("POST", _CORE, old).code == 201
    patched = api.call("PATCH", f"{_CORE}/old", {"count": 2}, content_type=MERGE).body
    assert (patched["count"], patched["message"]) == (2, "pulled")
    new = api.call("GET", f"{_NEW}/old").body
    assert (new["deprecatedCount"], new["deprecatedSource"]) == (2, {"component": "kubelet"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"regarding": {"kind": "Pod", "name": "p"}}, None),
        ({"regarding": {"kind": "Pod", "namespace": "other", "name": "p"}}, None),
        ({"type": "Odd"}, "type: Invalid value"),
        ({"reason": ""}, "reason: Required value"),
        ({"action": ""}, "action: Required value"),
        ({"reason": "r" * 129}, "reason: Invalid value"),
        ({"reportingController": ""}, "reportingController: Required value"),
        ({"reportingInstance": ""}, "reportingInstance: Required value"),
        ({"note": "n" * 1024}, None),
        ({"note": "n" * 1025}, "message: Invalid value"),
        ({"eventTime": None}, "eventTime: Required value"),
        ({"deprecatedCount": 3}, "count: Invalid value"),
    ],
)
def test_events_are_validated(api: ApiCaller, change: dict[str, Any], words: str | None) -> None:
    reply = api.call("POST", _NEW, _event(**change))
    if words is None:
        assert reply.code == 201, reply.body
    else:
        assert (reply.code, reply.reason) == (422, "Invalid")
        assert words in reply.message


def test_an_event_outside_the_default_namespace_is_about_its_own(api: ApiCaller) -> None:
    path = "/apis/events.k8s.io/v1/namespaces/kube-public/events"
    nowhere = _event(regarding={"kind": "Node", "name": "n"})
    reply = api.call("POST", path, nowhere)
    assert "involvedObject.namespace: Invalid value" in reply.message


def test_events_are_selected_by_what_they_are_about(api: ApiCaller) -> None:
    api.call("POST", _NEW, _event("a"))
    about = {"kind": "Pod", "namespace": "default", "name": "q"}
    api.call("POST", _NEW, _event("b", regarding=about, reason="FailedScheduling"))
    selector = "fieldSelector=involvedObject.name%3Dq,reason%3DFailedScheduling"
    assert api.call("GET", f"{_CORE}?{selector}").names == ["b"]


def test_an_event_lives_for_its_time_after_the_last_write(api: ApiCaller) -> None:
    for name in ("kept", "left"):
        api.call("POST", _NEW, _event(name))
    api.now_s += 60
    series = {"series": {"count": 2, "lastObservedTime": "2027-01-01T00:01:00.000000Z"}}
    assert api.call("PATCH", f"{_NEW}/kept", series, content_type=MERGE).code == 200
    api.now_s += 60
    run_due(api.cluster, api.now_s)
    assert api.call("GET", _NEW).names == ["kept"]
    api.now_s += 60
    run_due(api.cluster, api.now_s)
    assert api.call("GET", _NEW).names == []
