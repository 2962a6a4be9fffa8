"""What is wrong between a process and the API server, told once."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from errno import EMFILE

import msgspec
import pytest

from shared.errors import OperationalError
from shared.kube import api_errors
from shared.kube.connection_problems import ConnectionProblems, Problem, concern_of, remedy_of
from shared.kube.resources import ALL_KINDS
from shared.limits import PROBLEM_LENGTH_MAX, PROBLEMS_MAX
from shared.telemetry.log import EventLog
from shared.transport.heartbeat import NOTE_BYTES_MAX

REFUSED = api_errors.Unauthorized(401, "Unauthorized", "Unauthorized")


class Told:
    """Problems, with a loop that calls later at once."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.notes: list[list[Problem]] = []
        self.later: list[Callable[[], None]] = []
        self.problems = ConnectionProblems(EventLog("adapter"), lambda: self.now_s, self._note)

    def _note(self, note: bytes) -> None:
        self.notes.append(msgspec.json.decode(note, type=list[Problem]))

    def pass_time(self, by_s: float) -> None:
        self.now_s += by_s
        later, self.later = self.later, []
        for call in later:
            call()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()

    class Loop:
        def call_later(self, _: float, call: Callable[[], None]) -> object:
            told.later.append(call)
            return call  # Stands for the timer.

    monkeypatch.setattr(asyncio, "get_running_loop", Loop)
    return told


def fail_all_kinds(told: Told, error: OperationalError = REFUSED) -> None:
    for kind in ALL_KINDS:
        told.problems.failed("GET", f"{kind.api_path}/{kind.plural}?limit=500", error)


def test_equal_errors_of_all_kinds_are_one_line_until_it_is_said_again(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "berth")
    for _ in range(7):
        fail_all_kinds(told)
        told.pass_time(1.0)
    assert [one.getMessage() for one in caplog.records] == ["connection_problem"]
    fields = vars(caplog.records[0])["berth_fields"]
    assert fields["error"] == "401 Unauthorized: Unauthorized"
    assert fields["concerns"] == f"list nodes, pods, namespaces and {len(ALL_KINDS) - 3} more"
    assert "token" in fields["remedy"]
    told.now_s += 60.0
    fail_all_kinds(told)
    told.pass_time(1.0)
    assert len(caplog.records) == 2


def test_it_is_over_when_all_of_it_goes_well_again(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "berth")
    told.problems.failed("GET", "/api/v1/nodes?watch=1", REFUSED)
    told.problems.failed("GET", "/api/v1/pods?watch=1", REFUSED)
    told.pass_time(1.0)
    told.problems.went_well("GET", "/api/v1/nodes?watch=1&x=y")
    told.pass_time(1.0)
    assert [one.is_over for one in told.notes[-1]] == [False]
    told.problems.went_well("GET", "/api/v1/pods?watch=1")
    told.pass_time(1.0)
    assert [one.is_over for one in told.notes[-1]] == [True]
    assert caplog.records[-1].getMessage() == "connection_well"


def test_it_is_logged_again_after_a_clock_was_set_back(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    told.problems.failed("GET", "/api/v1/nodes?watch=1", REFUSED)
    told.pass_time(1.0)
    told.problems.failed("GET", "/api/v1/nodes?watch=1", REFUSED)
    told.pass_time(-3600.0)
    assert [one.getMessage() for one in caplog.records] == ["connection_problem"] * 2


def test_a_binding_that_is_forbidden_is_not_over_when_something_else_goes_well(told: Told) -> None:
    binding = "/api/v1/namespaces/default/pods/p/binding"
    told.problems.failed("POST", binding, api_errors.Forbidden(403, "Forbidden", "no"))
    told.problems.went_well("POST", "/api/v1/namespaces/default/events")
    told.pass_time(1.0)
    ((problem,),) = told.notes
    assert problem.concerns == ["create pods/binding"]
    assert not problem.is_over
    # A conflict is an answer too.
    told.problems.failed("POST", binding, api_errors.Conflict(409, "Conflict", "bound"))
    told.pass_time(1.0)
    assert told.notes[-1][0].is_over


def test_a_server_that_wishes_to_be_left_alone_for_long_is_told_of(told: Told) -> None:
    told.problems.failed("GET", "/api/v1/pods", api_errors.TooManyRequests(429, "", "", 300.0))
    told.pass_time(1.0)
    ((problem,),) = told.notes
    assert problem.concerns == ["list pods"]
    assert "after 300 s" in problem.remedy


@pytest.mark.parametrize(
    "error",
    [
        api_errors.NotFound(404, "NotFound", ""),
        api_errors.Expired(410, "Expired", ""),
        api_errors.TooManyRequests(429, "", ""),
        api_errors.TooManyRequests(429, "", "", 1.0),
        api_errors.BadRequest(400, "BadRequest", "the object is wrong"),
        api_errors.NamespaceTerminating(403, "Forbidden", "it is being terminated"),
        api_errors.NotSent("the lease may be another's"),
    ],
)
def test_what_is_the_objects_or_our_own_is_no_problem(told: Told, error: OperationalError) -> None:
    told.problems.failed("POST", "/api/v1/pods", error)
    assert told.later == []


def test_what_is_told_is_bounded(told: Told) -> None:
    for status in range(500, 500 + 2 * PROBLEMS_MAX):
        told.now_s += 1.0
        for number in range(100):
            path = f"/apis/some.group.example/v1/resource-{number:03d}"
            told.problems.failed("DELETE", path, api_errors.ServerError(status, "x" * 9999, ""))
    told.pass_time(1.0)
    (problems,) = told.notes
    assert len(problems) == PROBLEMS_MAX
    assert max(len(one.error) for one in problems) == PROBLEM_LENGTH_MAX
    assert len(msgspec.json.encode(problems)) <= NOTE_BYTES_MAX


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        ("GET", "/api/v1/nodes?limit=500", "list nodes"),
        ("GET", "/api/v1/pods?watch=1&fieldSelector=x", "watch pods"),
        ("GET", "/api/v1/namespaces/a/pods/b", "get pods"),
        ("GET", "/api/v1/namespaces/a", "get namespaces"),
        ("POST", "/api/v1/namespaces/a/pods/b/binding", "create pods/binding"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "update leases"),
        ("PATCH", "/api/v1/namespaces/a/pods/b/status", "patch pods/status"),
        ("POST", "/filter", "create filter"),
    ],
)
def test_requests_are_named_as_a_role_names_them(method: str, path: str, told: str) -> None:
    assert concern_of(method, path) == told


def caused(cause: OSError) -> api_errors.ConnectFailed:
    error = api_errors.ConnectFailed("https://a:1: x")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (REFUSED, "token"),
        (api_errors.Forbidden(403, "Forbidden", ""), "rbac.yaml"),
        (caused(ssl.SSLCertVerificationError()), "certificate-authority"),
        (caused(ssl.SSLError()), "http://"),
        (caused(socket.gaierror()), "name"),
        (caused(OSError(EMFILE, "")), "open files"),
        (caused(ConnectionRefusedError()), "runs there"),
        (api_errors.TooManyRequests(429, "", "", 60), "60 s"),
        (api_errors.TooManyRequests(429, "", ""), "later"),
        (api_errors.ProtocolViolation("x"), "https://"),
        (api_errors.ConnectionLost("x"), "https://"),
        (
            api_errors.BadRequest(400, "", "Client sent an HTTP request to an HTTPS server."),
            "https://",
        ),
    ],
)
def test_each_has_its_remedy(error: OperationalError, word: str) -> None:
    assert word in remedy_of(error)


def kinds_below(kind: type[OperationalError]) -> set[type[OperationalError]]:
    return {kind}.union(*map(kinds_below, kind.__subclasses__()))


KINDS = kinds_below(api_errors.ApiError) | kinds_below(api_errors.TransportError)


@pytest.mark.parametrize("kind", sorted(KINDS, key=str))
def test_none_is_too_bare_for_a_remedy(kind: type[OperationalError]) -> None:
    is_answer = issubclass(kind, api_errors.ApiError)
    remedy_of(kind(500, "", "") if is_answer else kind(""))
