"""Fault plans as rules, from a YAML or JSON file or made by a test.

    faults:
      - at: request                 # request, answer or watch: the points of faults.py
        do: refuse
        method: POST                # these four choose; what is left out matches everything
        path: /api/v1/namespaces/*/pods/*/binding
        query: watch=1              # a part of the query
        token: old-token            # the bearer token that was sent
        skip: 2                     # of those that match, let the first two pass
        times: 3                    # then interfere with three (default 1; 0: with all)
        chance: 0.5                 # interfere with half of them, by the server's seed
        code: 429                   # refuse: with a Status of this code, reason and message
        reason: TooManyRequests
        retry_after_s: 1

What may be done:

- at request: `refuse`, `delay` (`delay_s`), `disconnect`, `reset`, `hang`, `gone-unchunked` (a watch's
  410 as an ERROR event in a plain answer of 200);
- at answer, when the request has been carried out: `delay`, `disconnect`, `reset`, `hang`, `cut` (the
  connection ends in the middle of the body), `halve` (half of the body as if it were the whole);
- at watch, of the next event: `delay`, `disconnect`, `reset`, `hang` (half-open: no bookmarks either),
  `end`, `expire` (a 410 ERROR event), `cut` (ends in the middle of the event), `drop`, `repeat` (and one
  that was sent `back` events ago: 0 a duplicate, else a stale one), `garble` (a line that is not JSON).

The path of a watch is that of its kind over all namespaces, and `*` matches slashes too. The first rule
that matches and is due decides.
"""

import fnmatch
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import orjson

from bench.apiserver import api_status as status
from bench.apiserver.api_faults import (
    AnswerFault,
    CutAnswer,
    CutEvent,
    Delay,
    Disconnect,
    DropEvent,
    EndWatch,
    ExpireWatch,
    GarbleEvent,
    Hang,
    Refuse,
    RepeatEvent,
    Reply,
    RequestFault,
    WatchFault,
)
from bench.apiserver.router import Request
from bench.apiserver.watching import WatchCursor

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


_NotNegative = Annotated[int, msgspec.Meta(ge=0)]


class Rule(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One entry of a plan; the module says what its fields mean."""

    at: Literal["request", "answer", "watch"]
    do: str
    method: str = ""
    path: str = "*"
    query: str = ""
    token: str = ""
    skip: _NotNegative = 0
    times: _NotNegative = 1
    chance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    delay_s: Annotated[float, msgspec.Meta(ge=0)] = 0.1
    code: Annotated[int, msgspec.Meta(ge=400, le=599)] = 500
    reason: str = ""
    message: str = "a fault plan says so"
    retry_after_s: _NotNegative | None = None
    back: _NotNegative = 0


class _PlanFile(msgspec.Struct, forbid_unknown_fields=True):
    faults: list[Rule]


class _PlannedRule:
    """A rule, what it orders, and how often it has."""

    def __init__(self, rule: Rule, fault: RequestFault | AnswerFault | WatchFault) -> None:
        self.rule = rule
        self.fault = fault
        self.matched_count = 0
        self.ordered_count = 0

    @property
    def is_spent(self) -> bool:
        return bool(self.rule.times) and self.ordered_count >= self.rule.times


class RulePlan:
    """A plan of rules. Deterministic for a seed and an order of requests."""

    def __init__(self, rules: list[Rule], seed: int = 0) -> None:
        """ValueError names the rule that makes no sense."""
        self._random = random.Random(f"faults/{seed}")
        self._at: dict[str, list[_PlannedRule]] = {"request": [], "answer": [], "watch": []}
        self._all: list[_PlannedRule] = []
        for rule in rules:
            self.add(rule)

    def add(self, rule: Rule) -> None:
        """One more rule, after those that there are."""
        choices = _FAULTS[rule.at](rule)
        if rule.do not in choices:
            raise ValueError(
                f"faults[{len(self._all)}].do: {rule.do!r} cannot be done at {rule.at}; "
                f"there are: {', '.join(sorted(choices))}"
            )
        planned = _PlannedRule(rule, choices[rule.do])
        self._at[rule.at].append(planned)
        self._all.append(planned)

    @property
    def is_active(self) -> bool:
        """Whether any rule has not been used up."""
        return any(not planned.is_spent for planned in self._all)

    @property
    def ordered_counts(self) -> list[int]:
        """How often each rule has interfered, in their order."""
        return [planned.ordered_count for planned in self._all]

    def before_request(self, request: Request) -> RequestFault | None:
        """Decide before a request is handled."""
        fault = self._decide_on_request("request", request)
        assert fault is None or isinstance(fault, RequestFault)
        return fault

    def before_answer(self, request: Request, code: int) -> AnswerFault | None:
        """Decide before an answer is written."""
        del code
        fault = self._decide_on_request("answer", request)
        assert fault is None or isinstance(fault, AnswerFault)
        return fault

    def before_watch_event(self, cursor: WatchCursor) -> WatchFault | None:
        """Decide before the next event of a watch is sent."""
        resource = cursor.table.resource
        root = "/apis" if resource.group else "/api"
        fault = self._decide("watch", "GET", f"{root}/{resource.group_version}/{resource.plural}")
        assert fault is None or isinstance(fault, WatchFault)
        return fault

    def _decide_on_request(
        self, point: str, request: Request
    ) -> RequestFault | AnswerFault | WatchFault | None:
        path, _, query = request.target.partition("?")
        token = request.authorization.removeprefix("Bearer ")
        return self._decide(point, request.method, path, query, token)

    def _decide(
        self, point: str, method: str, path: str, query: str = "", token: str = ""
    ) -> RequestFault | AnswerFault | WatchFault | None:
        for planned in self._at[point]:
            rule = planned.rule
            if (
                planned.is_spent
                or (rule.method and rule.method != method)
                or not fnmatch.fnmatchcase(path, rule.path)
                or rule.query not in query
                or (rule.token and rule.token != token)
            ):
                continue
            planned.matched_count += 1
            if planned.matched_count <= rule.skip:
                continue
            if rule.chance < 1.0 and self._random.random() >= rule.chance:
                continue
            planned.ordered_count += 1
            return planned.fault
        return None


def read_plan(path: Path, seed: int) -> RulePlan:
    """The plan in a file; ValueError says what is wrong with it and where."""
    try:
        plan = msgspec.yaml.decode(path.read_bytes(), type=_PlanFile)
        return RulePlan(plan.faults, seed)
    except OSError as error:
        raise ValueError(f"--faults {path}: cannot be read: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"--faults {path}: {error}") from error


# What a rule may order ----------------------------------------------------------------------------


def _request_faults(rule: Rule) -> dict[str, RequestFault]:
    error = status.ApiError(
        rule.code,
        rule.message,
        reason=rule.reason or _REASONS.get(rule.code, ""),
        retry_after_s=rule.retry_after_s,
    )
    gone = status.expired("too old resource version: 1 (2)")
    event = orjson.dumps({"type": "ERROR", "object": gone.as_object()})
    return {
        "refuse": Refuse(error),
        "delay": Delay(rule.delay_s),
        "disconnect": Disconnect(),
        "reset": Disconnect(is_reset=True),
        "hang": Hang(),
        "gone-unchunked": Reply(200, event),
    }


def _answer_faults(rule: Rule) -> dict[str, AnswerFault]:
    return {
        "delay": Delay(rule.delay_s),
        "cut": CutAnswer(),
        "halve": CutAnswer(is_whole_http=True),
        "disconnect": Disconnect(),
        "reset": Disconnect(is_reset=True),
        "hang": Hang(),
    }


def _watch_faults(rule: Rule) -> dict[str, WatchFault]:
    return {
        "delay": Delay(rule.delay_s),
        "disconnect": Disconnect(),
        "reset": Disconnect(is_reset=True),
        "hang": Hang(),
        "end": EndWatch(),
        "expire": ExpireWatch(),
        "cut": CutEvent(),
        "drop": DropEvent(),
        "repeat": RepeatEvent(rule.back),
        "garble": GarbleEvent(),
    }


_FAULTS: Final[
    Mapping[str, Callable[[Rule], Mapping[str, RequestFault | AnswerFault | WatchFault]]]
] = {"request": _request_faults, "answer": _answer_faults, "watch": _watch_faults}
