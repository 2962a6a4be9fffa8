"""What is wrong, now, between this process and the API server, with what helps; and what was, last.

One for a process. `ApiClient` tells it of each request that fails for a reason that is not the object's:
no connection, no credentials, no rights, a server that cannot; `ExtenderClient` of each call to an
extender that brings no answer. Equal ones are one problem, whatever they concern: eighteen watches that
a token does not open are one line in the log, said again each minute while it lasts, and one when it is
over. `tell` is given all of them whenever that changes, at most once a second, for `berth status`.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from errno import EMFILE, ENFILE
from typing import Final

import msgspec

from shared.errors import OperationalError
from shared.kube.api_errors import (
    ApiError,
    BadRequest,
    ConnectFailed,
    ConnectionLost,
    Forbidden,
    NotSent,
    ProtocolViolation,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from shared.limits import CONCERNS_MAX, PROBLEM_LENGTH_MAX, PROBLEMS_MAX
from shared.telemetry.log import EventLog

TELL_AFTER_S: Final = 1.0
"""Those who fail for the same reason do so within a moment of one another."""
REPEAT_S: Final = 60.0
LONG_WAIT_S: Final = 10.0
"""A server that has too much to do wishes to be asked again in a second or so. Who wishes for more may
keep all pods waiting."""
CONCERNS_TOLD: Final = 3
"""Of each verb, to people."""

_NOT_OURS: Final = "Client sent an HTTP request to an HTTPS server"
"""Said in plain text by servers written in Go (net/http/server.go)."""


class Problem(msgspec.Struct):
    """One reason for which requests fail, or failed."""

    error: str
    remedy: str
    concerns: list[str]
    """What could not be done, in RBAC's verbs: "list nodes", "create pods/binding"."""
    since_s: float
    """Wall time, as the next."""
    last_s: float
    times: int = 1
    is_over: bool = False
    """All of it has gone well since."""


class ConnectionProblems:
    """Belongs to one event loop."""

    def __init__(
        self,
        log: EventLog,
        wall_s: Callable[[], float],
        tell: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self._log = log
        self._wall_s = wall_s
        self._tell = tell
        self._problems: dict[str, Problem] = {}
        """By what makes errors equal."""
        self._open: set[str] = set()
        """All that is not over concerns one of these."""
        self._logged_s: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def failed(self, method: str, path: str, error: OperationalError) -> None:
        """A request failed. Those that are about the object, as a conflict is, are left out."""
        if not _is_of_connection(error):
            if isinstance(error, ApiError):
                self.went_well(method, path)
            return
        key = f"{type(error).__name__} {error.http_status if isinstance(error, ApiError) else ''}"
        self.add(key, concern_of(method, path), str(error), remedy_of(error))

    def add(self, key: str, concern: str, error: str, remedy: str) -> None:
        """Something failed; errors of the same key are one problem."""
        now_s, told = self._wall_s(), error[:PROBLEM_LENGTH_MAX]
        problem = self._problems.get(key)
        if problem is None or problem.is_over:
            self._problems.pop(key, None)
            while len(self._problems) >= PROBLEMS_MAX:
                del self._problems[min(self._problems, key=lambda k: self._problems[k].last_s)]
            problem = self._problems[key] = Problem(told, remedy, [], now_s, now_s, 0)
        if concern not in problem.concerns and len(problem.concerns) < CONCERNS_MAX:
            problem.concerns.append(concern)
        problem.error, problem.last_s = told, now_s
        problem.times += 1
        self._open.add(concern)
        self._tell_soon()

    def went_well(self, method: str, path: str) -> None:
        """A request was answered. Costs nothing while there is no problem."""
        if self._open:
            self.end(concern_of(method, path))

    def end(self, concern: str) -> None:
        """What is named so went well again."""
        if concern not in self._open:
            return
        self._open.discard(concern)
        for problem in self._problems.values():
            if concern in problem.concerns and not problem.is_over:
                problem.is_over = not self._open.intersection(problem.concerns)
        self._tell_soon()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tell_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TELL_AFTER_S, self._tell_now)

    def _tell_now(self) -> None:
        self._timer = None
        self._tell(msgspec.json.encode(list(self._problems.values())))
        now_s = self._wall_s()
        for key, problem in self._problems.items():
            logged_s = self._logged_s.get(key)
            if problem.is_over:
                if self._logged_s.pop(key, None) is not None:
                    lasted_s = round(problem.last_s - problem.since_s, 1)
                    self._log.info("connection_well", was=problem.error, lasted_s=lasted_s)
            elif logged_s is None or abs(now_s - logged_s) >= REPEAT_S:  # It may be set back.
                self._logged_s[key] = now_s
                fields = {"remedy": problem.remedy} if problem.remedy else {}
                self._log.warning(
                    "connection_problem",
                    error=problem.error,
                    concerns=concerns_text(problem),
                    times=problem.times,
                    **fields,
                )


def concerns_text(problem: Problem) -> str:
    """Each verb once: "watch nodes, pods and 16 more; create pods/binding"."""
    by_verb: dict[str, list[str]] = {}
    for concern in problem.concerns:
        verb, _, resource = concern.partition(" ")
        by_verb.setdefault(verb, []).append(resource)
    told = []
    for verb, resources in by_verb.items():
        more = len(resources) - CONCERNS_TOLD
        rest = f" and {more} more" if more > 0 else ""
        told.append(f"{verb} {', '.join(resources[:CONCERNS_TOLD])}{rest}")
    return "; ".join(told)


def concern_of(method: str, path: str) -> str:
    """What a request is for, as a role would name it: "watch nodes", "create pods/binding"."""
    path, _, query = path.partition("?")
    parts = path.strip("/").split("/")
    parts = parts[{"api": 2, "apis": 3}.get(parts[0], 0) :]  # api/v1, or apis/GROUP/VERSION
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    resource = "/".join([*parts[:1], *parts[2:]])
    verb = {"POST": "create", "PUT": "update"}.get(method, method.lower())
    if method == "GET" and "watch=" in query:
        verb = "watch"
    elif method == "GET" and len(parts) < 2:
        verb = "list"
    return f"{verb} {resource}"


def remedy_of(error: OperationalError) -> str:
    """What helps, where that can be told; else empty."""
    cause = error.__cause__
    match error:
        case Unauthorized():
            return "check the token or certificate of the kubeconfig or service account; has it expired?"
        case Forbidden():
            return "grant it to whom berth is there: docs/manifests/rbac.yaml has all that is used"
        case BadRequest() if _NOT_OURS in error.message:
            return "the server speaks TLS: write its address with https://"
        case ProtocolViolation():
            return "what answers there is no API server by plain HTTP; is it one by https://?"
        case ConnectFailed() if isinstance(cause, ssl.SSLCertVerificationError):
            return "check the certificate-authority of the kubeconfig, and the name in the address"
        case ConnectFailed() if isinstance(cause, ssl.SSLError):
            return "what answers there does not speak TLS; is its address one with http://?"
        case ConnectFailed() if isinstance(cause, socket.gaierror | ValueError):
            return "check the host's name in the address, and the machine's resolver"
        case ConnectFailed() if isinstance(cause, OSError) and cause.errno in (EMFILE, ENFILE):
            return "raise the limit of open files, of this process or of the host"
        case ConnectFailed() if type(error) is ConnectFailed:
            return "check the address, and that the API server (or the proxy) runs there"
        case TooManyRequests():
            wait_s = error.retry_after_s
            when = "later" if wait_s is None else f"after {wait_s:g} s, as it wishes"
            return (
                f"it is asked again {when}: has it too much to do, or is that what a proxy in "
                "between says?"
            )
        case ConnectionLost():
            return (
                "what answers there hangs up: a proxy in between, or a server that wants https://?"
            )
        case _:
            return ""


def _is_of_connection(error: OperationalError) -> bool:
    if isinstance(error, NotSent):
        return False
    if isinstance(error, ApiError):
        is_foreign = isinstance(error, BadRequest) and _NOT_OURS in error.message
        is_busy = isinstance(error, TooManyRequests)
        is_long = is_busy and (error.retry_after_s or 0.0) >= LONG_WAIT_S
        return is_foreign or is_long or isinstance(error, Unauthorized | Forbidden | ServerError)
    return True
