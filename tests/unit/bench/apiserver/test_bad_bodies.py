"""No body makes the server fail: whatever is wrong in it, the answer is the client's fault."""

import json
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bench.apiserver.deletion import run_due
from tests.unit.bench.apiserver.api_caller import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    ApiCaller,
    everything,
    pod,
    pods_path,
)

_SELECTOR = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
}
_TERM = {"labelSelector": _SELECTOR, "matchLabelKeys": ["a"], "topologyKey": "z"}
_POD = pod(
    "p",
    labels={"a": "b"},
    tolerations=[{"key": "k", "operator": "Exists"}],
    nodeSelector={"a": "b"},
    hostNetwork=True,
    overhead={"cpu": "1"},
    affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}},
    topologySpreadConstraints=[{**_TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    initContainers=[{"name": "i", "image": "i", "ports": [{"containerPort": 1}]}],
)
_EVENT = {
    "metadata": {"name": "e"},
    "eventTime": "2027-01-01T00:00:00.000000Z",
    "reportingController": "c",
    "reportingInstance": "i",
    "action": "a",
    "reason": "r",
    "regarding": {"namespace": "default", "name": "p"},
    "note": "n",
    "type": "Normal",
}
_NODE = {
    "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z"}},
    "spec": {"taints": [{"key": "a"}]},
    "status": {"capacity": {"cpu": "1"}, "conditions": [{"type": "Ready"}]},
}
_PATCH = {
    "metadata": {"labels": {"a": "c"}, "finalizers": ["z"]},
    "spec": {"tolerations": [{"key": "n"}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"},
}
_OPERATIONS = [
    {"op": "add", "path": "/metadata/labels/x", "value": "y"},
    {"op": "remove", "path": "/spec/nodeSelector"},
]
_BUDGET = {"metadata": {"name": "b"}, "spec": {"selector": _SELECTOR}}
_CLASS = {"metadata": {"name": "h"}, "value": 1, "globalDefault": True}
_BINDING = {"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": {"name": "n"}}
_DELETE = {"gracePeriodSeconds": 5, "preconditions": {"uid": "x"}}
_EVICTION = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 1}}
_BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_JSON = "application/json"
_REQUESTS: list[tuple[str, str, Any, str]] = [
    ("POST", pods_path(), _POD, _JSON),
    ("POST", "/api/v1/nodes", _NODE, _JSON),
    ("POST", "/apis/events.k8s.io/v1/namespaces/default/events", _EVENT, _JSON),
    ("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", _CLASS, _JSON),
    ("POST", _BUDGETS, _BUDGET, _JSON),
    ("PATCH", f"{_BUDGETS}/b", _BUDGET, MERGE),
    ("PUT", pods_path("p"), _POD, _JSON),
    ("PATCH", pods_path("p"), _PATCH, STRATEGIC),
    ("PATCH", pods_path("p"), _PATCH, MERGE),
    ("PATCH", pods_path("p"), _OPERATIONS, JSON_PATCH),
    ("PATCH", pods_path("p/status"), _PATCH, STRATEGIC),
    ("PATCH", pods_path("p/status"), _PATCH, MERGE),
    ("POST", pods_path("p/binding"), _BINDING, _JSON),
    ("POST", pods_path("p/eviction"), _EVICTION, _JSON),
    ("DELETE", pods_path("p"), _DELETE, _JSON),
]
_ODD_VALUES: list[Any] = [
    None, 0, -1, 1.5, "", "x", True, [], {}, [1], ["a"], {"a": 1}, [{}], [[]], "é\u2028",
]  # fmt: skip


def _places(value: Any) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    else:
        return []
    return [
        place
        for key, member in members
        for place in [(key,), *((key, *p) for p in _places(member))]
    ]


@st.composite
def _bad_requests(draw: st.DrawFn) -> tuple[str, str, Any, str]:
    method, path, good, content_type = draw(st.sampled_from(_REQUESTS))
    body = deepcopy(good)
    if draw(st.booleans()):
        *above, last = draw(st.sampled_from(_places(body)))
        container = body
        for key in above:
            container = container[key]
        container[last] = deepcopy(draw(st.sampled_from(_ODD_VALUES)))
    return method, path, body, content_type


@given(requests=st.lists(_bad_requests(), min_size=1, max_size=12))
def test_no_body_makes_the_server_fail(requests: list[tuple[str, str, Any, str]]) -> None:
    api = ApiCaller()
    api.create_pod("p", labels={"a": "b"})
    for method, path, body, content_type in requests:
        reply = api.call(method, path, body, content_type=content_type)
        # kube-apiserver itself answers 500 to a binding without a target.
        is_own_answer = reply.message.startswith(("target.", "[target."))
        assert reply.code < 500 or is_own_answer, (reply.message, json.dumps(body))
    api.now_s += 60
    run_due(api.cluster, api.now_s)
    for path in (
        "pods?fieldSelector=spec.nodeName=",
        "nodes?fieldSelector=spec.unschedulable=true",
    ):
        assert api.call("GET", f"/api/v1/{path}").code == 200
    assert api.call("GET", "/api/v1/events?fieldSelector=reason=r").code == 200
    everything(api.watch(resourceVersion="1", labelSelector="a=b"))


def test_an_exponent_beyond_all_bounds_is_no_quantity() -> None:
    body = pod("p", containers=[{"name": "c", "resources": {"requests": {"cpu": "1e99999999"}}}])
    reply = ApiCaller().call("POST", pods_path(), body)
    assert reply.code == 400
    assert "quantities must match" in reply.message
