"""What each answer to a binding, or none, leads to; and that nothing is ever posted twice blindly."""

import asyncio
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from shared.framework.binding_api import ALLOWED, Allowed, Refused
from shared.kube.api_errors import (
    ApiError,
    ConnectFailed,
    ConnectionLost,
    Forbidden,
    RequestTimeout,
    ServerError,
    TooManyRequests,
    TransportError,
    error_from_answer,
)
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import Decision
from tests.unit.workers.binder.fake_api import Answer, FakeApi, FakeTime, make_order, pod_json
from workers.binder.bind_call import (
    BOUND,
    LATE_PATIENCE,
    PATIENCE,
    DefaultBinder,
    NotBound,
    Outcome,
    binding_body,
)
from workers.binder.binding_cycle import BindingCycle, BindingPlugins

RECORDING = Path("tests/wire/kube-apiserver.jsonl")
CREATED = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


def answer(http_status: int, reason: str, message: str) -> ApiError:
    body = {"kind": "Status", "reason": reason, "message": message, "code": http_status}
    return error_from_answer(http_status, json.dumps(body).encode(), None)


MISSING = answer(404, "NotFound", 'pods "pod-u1" not found')
TAKEN = answer(409, "Conflict", 'pod pod-u1 is already assigned to node "n1"')
GATED = answer(409, "Conflict", "pod pod-u1 has non-empty .spec.schedulingGates")
BROKEN = answer(500, "InternalError", "etcdserver: request timed out")
LOST = ConnectionLost("connection reset")
SILENT = RequestTimeout("no answer in time")
REFUSED = ConnectFailed("connection refused")
BUSY = TooManyRequests(429, "TooManyRequests", "too many requests", 3.0)
HERE, ELSEWHERE, UNBOUND = pod_json(node="n1"), pod_json(node="n2"), pod_json()
OTHER_POD = pod_json(uid="u2", node="n1")


def bind(*script: Answer, look_first: bool = False) -> tuple[Outcome, FakeApi, FakeTime]:
    api, time = FakeApi(*script), FakeTime()
    binder = DefaultBinder(api, time.clock)
    with patch("workers.binder.retries.sleep", time.sleep):
        outcome = asyncio.run(binder.bind(make_order(look_first=look_first)))
    assert not api.script, "not all of the script was asked for"
    return outcome, api, time


def reason_of(outcome: Outcome | Allowed) -> BindFailureReason | None:
    return outcome.reason if isinstance(outcome, NotBound) else None


def test_one_post_binds_with_the_uid_as_a_precondition() -> None:
    outcome, api, _ = bind(CREATED)
    assert outcome == BOUND
    assert api.requests == [("POST", "/api/v1/namespaces/ns/pods/pod-u1/binding")]
    assert api.bodies == [
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "pod-u1", "namespace": "ns", "uid": "u1"},
            "target": {"kind": "Node", "name": "n1"},
        }
    ]


@pytest.mark.parametrize("lost", [LOST, SILENT, BROKEN])
class TestOutcomeUnknown:
    """Timeout, connection lost, 5xx: the pod itself is asked."""

    def test_it_was_bound_after_all(self, lost: Answer) -> None:
        outcome, api, _ = bind(lost, HERE)
        assert (outcome, api.methods) == (BOUND, "POST GET")

    def test_it_is_bound_elsewhere(self, lost: Answer) -> None:
        outcome, api, _ = bind(lost, ELSEWHERE)
        assert outcome == NotBound(BindFailureReason.CONFLICT, "the pod is bound to node n2")
        assert api.methods == "POST GET"

    def test_it_is_posted_again_once_a_get_has_shown_it_unbound(self, lost: Answer) -> None:
        outcome, api, _ = bind(lost, UNBOUND, CREATED)
        assert (outcome, api.methods) == (BOUND, "POST GET POST")

    def test_it_is_posted_again_after_a_5xx_once_and_after_silence_while_patience_lasts(
        self, lost: Answer
    ) -> None:
        assert not isinstance(lost, bytes)
        told = f'running Bind plugin "DefaultBinder": {lost}'
        # An error of the API server is an answer: nothing of that request comes later.
        is_answer = lost is BROKEN
        failure = BindFailureReason.REJECTED if is_answer else BindFailureReason.TIMEOUT
        post_count = 2 if is_answer else 21
        outcome, api, time = bind(*(lost, UNBOUND) * post_count)
        assert outcome == NotBound(failure, told)
        assert api.methods == " ".join(["POST GET"] * post_count)
        assert len(time.sleeps) == post_count - 1
        assert sum(time.sleeps) <= PATIENCE.total_s
        assert bind(*(lost, UNBOUND) * (post_count - 1), lost, HERE)[0] == BOUND
        assert bind(*(lost, UNBOUND) * (post_count - 1), CREATED)[0] == BOUND

    def test_the_wait_that_the_server_wishes_is_kept(self, lost: Answer) -> None:
        wish = ServerError(503, "ServiceUnavailable", "later", 3.0)
        _, api, time = bind(wish, UNBOUND, lost, HERE)
        assert (api.methods, time.sleeps) == ("POST GET POST GET", [3.0])

    def test_the_first_post_took_effect_after_the_get(self, lost: Answer) -> None:
        outcome, api, _ = bind(lost, UNBOUND, TAKEN, HERE)
        assert (outcome, api.methods) == (BOUND, "POST GET POST GET")

    def test_the_pod_is_gone_or_another_one(self, lost: Answer) -> None:
        assert reason_of(bind(lost, MISSING)[0]) is BindFailureReason.GONE
        assert reason_of(bind(lost, OTHER_POD)[0]) is BindFailureReason.GONE

    def test_a_get_that_fails_is_repeated_and_the_post_is_not(self, lost: Answer) -> None:
        outcome, api, time = bind(lost, LOST, BROKEN, REFUSED, BUSY, HERE)
        assert (outcome, api.methods) == (BOUND, "POST GET GET GET GET GET")
        assert len(time.sleeps) == 4

    def test_without_any_get_the_outcome_stays_unknown(self, lost: Answer) -> None:
        for answer_of_get in (LOST, b"<html>"):
            outcome, api, _ = bind(lost, *[answer_of_get] * 21)
            assert reason_of(outcome) is BindFailureReason.UNREACHABLE
            assert api.methods.count("POST") == 1

    def test_a_get_that_may_not_be_made_leaves_it_unknown(self, lost: Answer) -> None:
        outcome, _, _ = bind(lost, Forbidden(403, "Forbidden", "pods is forbidden"))
        assert reason_of(outcome) is BindFailureReason.UNREACHABLE


class TestConflict:
    def test_bound_to_our_node_already_is_success(self) -> None:
        outcome, api, _ = bind(TAKEN, HERE)
        assert (outcome, api.methods) == (BOUND, "POST GET")

    def test_bound_elsewhere_names_the_node(self) -> None:
        assert bind(TAKEN, ELSEWHERE)[0] == NotBound(
            BindFailureReason.CONFLICT, "the pod is bound to node n2"
        )

    def test_not_bound_at_all_keeps_the_words_of_the_api_server(self) -> None:
        outcome, api, _ = bind(GATED, UNBOUND)
        assert outcome == NotBound(
            BindFailureReason.CONFLICT, "pod pod-u1 has non-empty .spec.schedulingGates"
        )
        assert api.methods == "POST GET"

    def test_another_pod_of_that_name_means_ours_is_gone(self) -> None:
        assert reason_of(bind(TAKEN, OTHER_POD)[0]) is BindFailureReason.GONE


class TestSurelyNotDone:
    def test_a_refused_connection_is_tried_again_with_growing_waits(self) -> None:
        outcome, api, time = bind(REFUSED, REFUSED, REFUSED, CREATED)
        assert (outcome, api.methods) == (BOUND, "POST POST POST POST")
        assert time.sleeps == [0.025, 0.05, 0.1]

    def test_no_server_at_all_ends_within_bounds(self) -> None:
        outcome, _, time = bind(*[REFUSED] * 21)
        assert outcome == NotBound(BindFailureReason.UNREACHABLE, "connection refused")
        assert sum(time.sleeps) <= PATIENCE.total_s

    def test_the_wait_that_the_server_wishes_is_kept(self) -> None:
        outcome, api, time = bind(BUSY, CREATED)
        assert (outcome, api.methods) == (BOUND, "POST POST")
        assert time.sleeps == [3.0]

    def test_a_wish_beyond_our_patience_ends_it_at_once(self) -> None:
        outcome, _, time = bind(TooManyRequests(429, "TooManyRequests", "later", 3600.0))
        assert reason_of(outcome) is BindFailureReason.UNREACHABLE
        assert time.sleeps == []

    def test_orders_that_failed_together_come_back_apart(self) -> None:
        waits = set()
        for ticket in range(64):
            api, time = FakeApi(REFUSED, CREATED), FakeTime()
            binder = DefaultBinder(api, time.clock)
            with patch("workers.binder.retries.sleep", time.sleep):
                asyncio.run(binder.bind(make_order(ticket)))
            waits.add(time.sleeps[0])
        assert len(waits) == 64
        assert min(waits) == 0.025
        assert max(waits) < 0.075


class TestLookFirst:
    def test_nothing_is_posted_for_a_pod_that_is_bound_already(self) -> None:
        outcome, api, _ = bind(HERE, look_first=True)
        assert (outcome, api.methods) == (BOUND, "GET")

    def test_an_unbound_pod_is_posted(self) -> None:
        outcome, api, _ = bind(UNBOUND, CREATED, look_first=True)
        assert (outcome, api.methods) == (BOUND, "GET POST")

    @pytest.mark.parametrize(
        ("seen", "reason"),
        [
            (ELSEWHERE, BindFailureReason.CONFLICT),
            (OTHER_POD, BindFailureReason.GONE),
            (MISSING, BindFailureReason.GONE),
        ],
    )
    def test_else_nothing_is_posted(self, seen: Answer, reason: BindFailureReason) -> None:
        outcome, api, _ = bind(seen, look_first=True)
        assert reason_of(outcome) is reason
        assert api.methods == "GET"


def cycled(
    *script: Answer, look_first: bool = False, pre_bind: Refused | None = None
) -> tuple[Outcome | Allowed, FakeTime]:
    """A binding cycle whose looks show the pod unbound once the script has ended."""
    api, time = FakeApi(*script), FakeTime()
    binder = DefaultBinder(api, time.clock)
    order = make_order(look_first=look_first)

    class Refusing:
        NAME = "Refusing"

        async def pre_bind(self, _: object) -> Allowed | Refused:
            return pre_bind or ALLOWED

    async def unbound_in_the_end(path: str, *, timeout_s: float | None = None) -> bytes:
        return api._answer("GET", path, b"null") if api.script else UNBOUND

    async def scene() -> Outcome | Allowed:
        plugins = BindingPlugins((binder,), (Refusing(),))
        cycle = BindingCycle(plugins, binder.see_late)
        prepared = await cycle.prepare(order)
        return prepared if isinstance(prepared, NotBound) else await cycle.bind(order)

    with (
        patch("workers.binder.retries.sleep", time.sleep),
        patch.object(api, "get", unbound_in_the_end),
    ):
        outcome = asyncio.run(scene())
    assert not api.script
    return outcome, time


class TestCarriedOutLate:
    """The API server may still be at a POST that nobody waits for."""

    def test_a_post_without_an_answer_is_waited_for_as_long_as_it_may_live(self) -> None:
        """Whatever those after it come to."""
        silence = (LOST, UNBOUND, SILENT, UNBOUND) * 10
        for script in (
            (*silence, LOST),
            (SILENT, UNBOUND, Forbidden(403, "Forbidden", "no")),
            (SILENT, UNBOUND, GATED),
            (*silence, BROKEN),
        ):
            assert cycled(*script, *[UNBOUND] * 9, HERE)[0] == BOUND
            outcome, time = cycled(*script)
            assert reason_of(outcome) is BindFailureReason.TIMEOUT
            waited_s = sum(time.sleeps[script.count(UNBOUND) :])
            assert LATE_PATIENCE.total_s - 2 <= waited_s <= LATE_PATIENCE.total_s

    @pytest.mark.parametrize(
        "refused",
        [(BROKEN, UNBOUND, BROKEN), (GATED,), (Forbidden(403, "Forbidden", "no"),)],
        ids=["5xx", "409", "403"],
    )
    def test_so_is_that_of_another_binder_whatever_ours_come_to(
        self, refused: tuple[Answer, ...]
    ) -> None:
        later = (*[UNBOUND] * 5, HERE)
        assert cycled(UNBOUND, *refused, *later, look_first=True)[0] == BOUND
        outcome, time = cycled(UNBOUND, *refused, look_first=True)
        assert isinstance(outcome, NotBound)
        assert sum(time.sleeps) >= LATE_PATIENCE.total_s - 2

    def test_so_it_is_where_the_pod_cannot_be_prepared_again(self) -> None:
        no = Refused("no")
        assert cycled(UNBOUND, HERE, HERE, look_first=True, pre_bind=no)[0] == BOUND
        outcome, _ = cycled(look_first=True, pre_bind=no)
        assert reason_of(outcome) is BindFailureReason.REJECTED

    def test_nobody_waits_where_every_request_was_answered(self) -> None:
        for script in ((BROKEN, UNBOUND, BROKEN, UNBOUND), (GATED, UNBOUND)):
            outcome, time = cycled(*script)
            assert isinstance(outcome, NotBound)
            assert sum(time.sleeps) < 1.0


def recorded(name: str) -> tuple[int, bytes]:
    for line in RECORDING.read_text().splitlines():
        exchange: dict[str, Any] = json.loads(line)
        if exchange["name"] == name:
            return exchange["response"]["status"], exchange["response"]["body"].encode()
    raise LookupError(name)


@pytest.mark.parametrize(
    ("name", "then", "reason"),
    [
        ("bind-again-other-node", [ELSEWHERE], BindFailureReason.CONFLICT),
        ("bind-again-same-node", [HERE], None),
        ("bind-uid-mismatch", [OTHER_POD], BindFailureReason.GONE),
        ("bind-gated", [UNBOUND], BindFailureReason.CONFLICT),
        ("bind-missing-pod", [], BindFailureReason.GONE),
        ("bind-malformed", [], BindFailureReason.REJECTED),
        ("bind-empty-node", [UNBOUND, CREATED], None),
    ],
)
def test_what_a_real_api_server_answers(
    name: str, then: list[Answer], reason: BindFailureReason | None
) -> None:
    http_status, body = recorded(name)
    error = error_from_answer(http_status, body, None)
    assert isinstance(error, ApiError | TransportError)
    if name == "bind-empty-node":
        assert isinstance(error, ServerError)
    outcome, _, _ = bind(error, *then)
    assert reason_of(outcome) is reason


def test_a_refusal_is_told_in_upstreams_words() -> None:
    """RunBindPlugins in pkg/scheduler/framework/runtime/framework.go, v1.36.2."""
    outcome, _, _ = bind(answer(403, "Forbidden", "pods is forbidden"))
    told = 'running Bind plugin "DefaultBinder": pods is forbidden'
    assert outcome == NotBound(BindFailureReason.REJECTED, told)


def test_the_body_has_the_shape_that_a_real_api_server_accepted() -> None:
    _, api, _ = bind(CREATED)
    for line in RECORDING.read_text().splitlines():
        exchange = json.loads(line)
        if exchange["name"] == "bind-ok":
            accepted = json.loads(exchange["request"]["body"])
            del accepted["metadata"]["annotations"]
            ours = api.bodies[0]
            assert {k: type(v) for k, v in ours.items()} == {
                k: type(v) for k, v in accepted.items()
            }
            assert set(ours["metadata"]) == set(accepted["metadata"])
            assert set(ours["target"]) == set(accepted["target"])
            return
    raise LookupError("bind-ok")


def test_a_decision_is_written_on_the_pod_by_the_binding_itself() -> None:
    order = make_order()
    assert "annotations" not in json.loads(binding_body(order))["metadata"]
    decided = msgspec.structs.replace(order, decision=Decision(7, 5000, 2, 1250))
    annotations = json.loads(binding_body(decided))["metadata"]["annotations"]
    assert list(annotations) == ["berth.dev/decision"]
    record = json.loads(annotations["berth.dev/decision"])
    assert record == {
        "version": 1,
        "profile": order.profile,
        "generation": 7,
        "nodes": 5000,
        "attempts": 2,
        "waitedMs": 1250,
        "podVersion": order.resource_version,
    }
