"""A claim that cannot be written in JSON gets its finalizer in protobuf."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kube.api_client import JSON
from shared.kube.api_errors import Invalid, ProtocolViolation
from shared.kube.http_connection import Answer
from tests.unit.workers.binder.test_claim_bind import PATH, FakeClaims, bind
from workers.binder.claim_free import FINALIZER
from workers.binder.claim_protobuf import PROTOBUF, with_finalizer

MAGIC = b"k8s\0"


def field(number: int, content: bytes) -> bytes:
    size, count = b"", len(content)
    while True:
        count, low = divmod(count, 128)
        size += bytes([low + 128 * bool(count)])
        if not count:
            return bytes([number * 8 + 2]) + size + content


def fields(message: bytes) -> list[tuple[int, bytes]]:
    """Of a message that has nothing but bytes."""
    found, at = [], 0
    while at < len(message):
        number, kind = divmod(message[at], 8)
        assert kind == 2
        size, power, at = 0, 1, at + 1
        while True:
            size += message[at] % 128 * power
            power, at = power * 128, at + 1
            if message[at - 1] < 128:
                break
        found.append((number, message[at : at + size]))
        at += size
    assert at == len(message)
    return found


@given(kind=st.binary(max_size=200), spec=st.binary(max_size=40_000), rest=st.binary(max_size=200))
def test_it_comes_behind_all_that_was_there(kind: bytes, spec: bytes, rest: bytes) -> None:
    raw = field(1, field(1, b"gpu")) + field(2, spec)
    encoded = MAGIC + field(1, kind) + field(2, raw) + field(4, rest)
    told = with_finalizer(encoded, FINALIZER)
    assert told.startswith(MAGIC)
    (_, first), (number, after), last = fields(told[len(MAGIC) :])
    assert (first, number, last) == (kind, 2, (4, rest))
    assert after.startswith(raw)
    ((number, metadata),) = fields(after[len(raw) :])
    assert number == 1, "metadata"
    assert fields(metadata) == [(14, FINALIZER.encode())]


@given(st.binary(max_size=50))
def test_what_is_no_object_is_refused(body: bytes) -> None:
    for encoded in (body, MAGIC + field(1, body), MAGIC + field(2, body)[:-1] if body else b"{}"):
        with pytest.raises(ProtocolViolation):
            with_finalizer(encoded, FINALIZER)


class OpaqueClaims(FakeClaims):
    """JSON changes nothing of the claim but its status."""

    async def put(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
        if path == PATH:
            raise Invalid(422, "Invalid", "spec: field is immutable")
        return await super().put(path, body, timeout_s=timeout_s)

    async def request(self, method: str, path: str, *what: Any, **settings: Any) -> Answer:
        assert path == PATH
        if method == "GET":
            assert settings["accept"] == PROTOBUF
            return Answer(200, MAGIC + field(2, field(2, b"opaque")), None)
        body, kind = what
        assert (kind, settings["accept"]) == (PROTOBUF, JSON)
        assert self.claim is not None
        ((_, raw),) = fields(body[len(MAGIC) :])
        ((_, spec), (_, metadata)) = fields(raw)
        assert spec == b"opaque"
        self.writes.append("PUT protobuf")
        meta = self.claim["metadata"]
        meta["finalizers"] = [fields(metadata)[0][1].decode()]
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)
        return Answer(200, b"{}", None)


def test_a_claim_that_is_not_taken_back_in_json_is_protected_and_allocated() -> None:
    api = OpaqueClaims()
    assert bind(api) == ""
    assert api.writes == ["PUT protobuf", "PUT status"]
    assert api.claim is not None
    assert api.claim["metadata"]["finalizers"] == [FINALIZER]
