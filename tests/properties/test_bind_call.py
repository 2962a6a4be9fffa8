"""A binding against an API server that fails in any way at any moment."""

import asyncio
import itertools
import json
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from bench.manual_clock import ManualClock
from shared.kube.api_errors import (
    ApiError,
    Conflict,
    ConnectFailed,
    ConnectionLost,
    NotFound,
    RequestTimeout,
    ServerError,
    TooManyRequests,
    TransportError,
)
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod
from tests.unit.workers.binder.fake_api import FakeApi
from workers.binder.bind_call import BOUND, PATIENCE, DefaultBinder, NotBound

OUR_UID, OTHER_UID = "ours", "another"
ORDER: dict[str, Any] = {
    "ticket": 1,
    "profile": "p",
    "namespace": "ns",
    "name": "pod",
    "uid": OUR_UID,
    "node_name": "n1",
}
UNSEEN: list[ApiError | TransportError] = [
    ConnectFailed("refused"),
    TooManyRequests(429, "TooManyRequests", "later", 1.0),
]
UNKNOWN: list[ApiError | TransportError] = [
    ConnectionLost("reset"),
    RequestTimeout("silence"),
    ServerError(503, "ServiceUnavailable", "no"),
]
# What happens to a request: None: it is answered. Of a POST that is not: was it carried out first?
fates = st.one_of(
    st.just((None, True)),
    st.tuples(st.sampled_from(UNSEEN), st.just(False)),
    st.tuples(st.sampled_from(UNKNOWN), st.booleans()),
)
meddlers = st.sampled_from(
    ["", "deletes", "replaces", "binds elsewhere", "gates", "carries out an earlier order"]
)


class ApiServer(FakeApi):
    """One pod, and kube-apiserver's rules for binding it."""

    def __init__(
        self, fate_list: list[tuple[ApiError | TransportError | None, bool]], meddling: list[str]
    ) -> None:
        super().__init__()
        self._fates = list(fate_list)
        self._meddling = list(meddling)
        self.uid = OUR_UID
        self.node = ""
        self.is_gated = False
        self.bound_count = 0
        self.log: list[str] = []
        """POST, POST?, POST!, GET, GET? (?: not answered, !: answered by 5xx), and what a GET showed."""

    async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
        error, _ = self._next()
        if error is not None:
            self.log.append("GET?")
            raise error
        if not self.uid:
            raise NotFound(404, "NotFound", "gone")
        self.log.append(f"GET {self.uid} {self.node}")
        return json.dumps({"metadata": {"uid": self.uid}, "spec": {"nodeName": self.node}}).encode()

    async def post(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
        error, is_carried_out = self._next()
        refusal = self._bind(json.loads(body)) if is_carried_out else None
        if error is not None:
            is_answer = isinstance(error, ServerError)
            self.log.append(
                "POST!" if is_answer else "POST?" if error in UNKNOWN else "POST unseen"
            )
            raise error
        self.log.append("POST")
        if refusal is not None:
            raise refusal
        return b"{}"

    def _next(self) -> tuple[ApiError | TransportError | None, bool]:
        self._meddle()
        return self._fates.pop(0) if self._fates else (None, True)

    def _meddle(self) -> None:
        match self._meddling.pop(0) if self._meddling else "":
            case "deletes":
                self.uid = self.node = ""
            case "replaces":
                self.uid, self.node = OTHER_UID, ""
            case "binds elsewhere" if self.uid and not self.node:
                self.node = "n2"
            case "carries out an earlier order" if self.uid == OUR_UID and not self.node:
                self.node = "n1"
            case "gates" if not self.node:
                self.is_gated = True

    def _bind(self, body: dict[str, dict[str, str]]) -> ApiError | None:
        if not self.uid:
            return NotFound(404, "NotFound", "gone")
        if self.node or self.is_gated or body["metadata"]["uid"] != self.uid:
            return Conflict(409, "Conflict", "no")
        self.node = body["target"]["name"]
        self.bound_count += 1
        return None


def bind(server: ApiServer, *, look_first: bool) -> BindFailureReason | None:
    clock = ManualClock()

    async def sleep(delay_s: float) -> None:
        clock.advance(delay_s)

    binder = DefaultBinder(server, clock)
    with patch("workers.binder.retries.sleep", sleep):
        outcome = asyncio.run(binder.bind(BindPod(**ORDER, look_first=look_first)))
    assert outcome == BOUND or isinstance(outcome, NotBound)
    return outcome.reason if isinstance(outcome, NotBound) else None


@given(st.lists(fates, max_size=30), st.lists(meddlers, max_size=6), st.booleans())
def test_the_outcome_is_the_truth_and_no_post_is_ever_blind(
    fate_list: list[tuple[ApiError | TransportError | None, bool]],
    meddling: list[str],
    look_first: bool,
) -> None:
    # Nobody meddles after the last request, so the truth that was seen still holds.
    server = ApiServer(fate_list, meddling)
    reason = bind(server, look_first=look_first)
    is_ours = server.uid == OUR_UID and server.node == "n1"
    match reason:
        case None:
            assert is_ours
        case BindFailureReason.UNREACHABLE:
            pass
        case BindFailureReason.GONE:
            assert server.uid != OUR_UID
        case _:
            assert not is_ours
    assert server.bound_count <= 1
    posts = [i for i, line in enumerate(server.log) if line.startswith("POST")]
    for earlier, later in itertools.pairwise(posts):
        if server.log[earlier] in ("POST?", "POST!"):
            assert f"GET {OUR_UID} " in server.log[earlier:later]
    assert "POST?" in server.log or server.log.count("POST!") <= 2
    assert PATIENCE.pauses_max is not None
    assert len(server.log) <= 2 * PATIENCE.pauses_max
    if look_first and posts:
        assert f"GET {OUR_UID} " in server.log[: posts[0]]
