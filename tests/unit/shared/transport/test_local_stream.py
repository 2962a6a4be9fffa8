"""What a stream makes of bytes that come in pieces, and what it says of an end that is gone."""

import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.limits import MESSAGE_BYTES_MAX
from shared.messages.codec import seal, unseal
from shared.transport.channels import LIMITS, Channel
from shared.transport.local_entrance import LocalEntrance
from shared.transport.local_stream import READ_BYTES, LocalStream, connected_stream
from shared.transport.sockets import Poller

BODIES = [b"", b"small", bytes(3 * READ_BYTES), b"last"]


@pytest.fixture
def ends() -> Iterator[tuple[LocalStream, LocalStream]]:
    one, other = (LocalStream(end, Channel.BINDERS) for end in socket.socketpair())
    yield one, other
    one.close()
    other.close()


def bodies(stream: LocalStream) -> list[bytes]:
    taken = [bytes(unseal("binders", parts)[0]) for parts in stream.received]
    stream.received.clear()
    return taken


def test_messages_of_any_length_arrive_whole_and_in_order(
    ends: tuple[LocalStream, LocalStream],
) -> None:
    one, other = ends
    assert all(one.send(seal(body)) for body in BODIES)
    got: list[bytes] = []
    while len(got) < len(BODIES):
        other.receive(1)
        got += bodies(other)
        one.flush()
    assert got == BODIES
    assert not one.has_unsent


def test_a_message_that_comes_byte_by_byte_is_taken_when_it_is_whole() -> None:
    raw, end = socket.socketpair()
    sent = LocalStream(raw.dup(), Channel.BINDERS)
    sent.send(seal(b"slow"))
    reading, writing = socket.socketpair()
    stream = LocalStream(reading, Channel.BINDERS)
    message = end.recv(READ_BYTES)
    for index in range(len(message)):
        assert not stream.received
        writing.send(message[index : index + 1])
        stream.receive(1)
    assert bodies(stream) == [b"slow"]
    for each in (raw, end, writing, sent, stream):
        each.close()


def test_a_full_queue_takes_nothing_and_what_it_took_arrives_when_it_is_read(
    ends: tuple[LocalStream, LocalStream],
) -> None:
    one, other = ends
    body = bytes(READ_BYTES)
    sent = 0
    while one.send(seal(body)):
        sent += 1
    assert sent >= LIMITS[Channel.BINDERS].high_water
    got = 0
    while got < sent:
        other.receive(1)
        got += len(bodies(other))
        one.flush()
    assert one.send(seal(body))


def test_what_was_said_before_the_end_is_heard_and_then_the_end(
    ends: tuple[LocalStream, LocalStream],
) -> None:
    one, other = ends
    other.send(seal(b"not read"))
    one.send(seal(b"last words"))
    one.close()
    other.receive(10)
    other.receive(10)
    assert bodies(other) == [b"last words"]
    assert other.is_over
    assert not other.send(seal(b"too late"))


def test_a_length_beyond_all_bounds_ends_the_connection() -> None:
    reading, writing = socket.socketpair()
    stream = LocalStream(reading, Channel.BINDERS)
    writing.send((MESSAGE_BYTES_MAX + 1).to_bytes(4, "little") + b"more")
    stream.receive(1)
    assert stream.is_over
    assert not stream.received
    stream.close()
    writing.close()


def test_who_cannot_be_let_in_for_want_of_descriptors_is_told_of_and_let_in_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    poller = Poller()
    entrance = LocalEntrance(tmp_path, Channel.BINDERS, poller)
    stream = connected_stream(tmp_path, Channel.BINDERS, b"binder")
    assert stream is not None
    stream.send(seal(b"hello"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = os.dup(0)
    os.close(taken)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken, hard))
    try:
        assert entrance.take(poller.wait(-1), 1) == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    told = getattr(caplog.records[-1], "berth_fields")["problem"]  # noqa: B009 # Set by the log.
    assert told == "channel binders: nobody is let in: Too many open files"
    ready = poller.wait(0)
    assert not ready, "who waits to be let in keeps nobody turning"
    assert entrance.take(ready, 1) == []
    ((name, parts),) = entrance.take(poller.wait(-1), 1)
    assert (name, bytes(unseal("binders", parts)[0])) == (b"binder", b"hello")
    stream.close()
    entrance.close(0.0)
    poller.close()
