"""One connection, fed with bytes in every arrangement that a server or a network can think of."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from shared.kube.api_errors import ConnectionLost, ProtocolViolation, RequestTimeout
from shared.kube.http_connection import Answer, HttpConnection, read_buffer
from shared.kube.http_stream import APART_S, HELD_S, HttpStream
from shared.limits import STREAM_BUFFER_BYTES_MAX
from tests.support.fake_transport import FakeTransport
from tests.unit.workers.binder.virtual_time import run_virtual

CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3;x=y\r\ncde\r\n0\r\n\r\n"
)

Scenario = Callable[[HttpConnection, FakeTransport], Coroutine[object, object, None]]


def run(
    scenario: Scenario, play: Callable[[Coroutine[object, object, None]], None] = asyncio.run
) -> None:
    async def main() -> None:
        closed: list[HttpConnection] = []
        connection = HttpConnection(closed.append, lambda *_: None)
        transport = FakeTransport(connection)
        connection.connection_made(transport)
        await scenario(connection, transport)
        assert closed == ([connection] if transport.is_closing() else [])

    play(main())


@pytest.mark.parametrize("message", [CREATED, CHUNKED])
def test_an_answer_may_come_in_any_pieces(message: bytes) -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        for size in (1, 2, 7, len(message)):
            answer = connection.send("GET", b"request", 0)
            for start in range(0, len(message), size):
                assert not answer.done()
                connection.data_received(message[start : start + size])
            assert (await answer).body in (b"ok", b"abcde")
            assert connection.is_usable

    run(scenario)


def test_connections_that_read_into_one_buffer_have_each_their_own_answer() -> None:
    async def main() -> None:
        buffer = read_buffer()
        answers: dict[HttpConnection, asyncio.Future[Answer]] = {}
        for _ in range(2):
            connection = HttpConnection(lambda _: None, lambda *_: None, buffer=buffer)
            connection.connection_made(FakeTransport(connection))
            answers[connection] = connection.send("GET", b"request", 0)
        messages = (
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + body for body in (b"this", b"that")
        )
        for pieces in zip(*messages, strict=True):
            for connection, piece in zip(answers, pieces, strict=True):
                connection.get_buffer(-1)[0] = piece
                connection.buffer_updated(1)
        assert [(await answer).body for answer in answers.values()] == [b"this", b"that"]

    asyncio.run(main())


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        answer = connection.send("GET", b"request", 0)
        connection.data_received(b"HTTP/1.1 410 Gone\r\nConnection: close\r\n\r\ngo")
        connection.data_received(b"ne")
        assert not answer.done()
        transport.lose(None)
        assert await answer == Answer(410, b"gone", None)

    run(scenario)


@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        CHUNKED[:-5],
    ],
)
def test_a_connection_that_ends_too_soon_is_lost(part: bytes) -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        answer = connection.send("GET", b"request", 0)
        if part:
            connection.data_received(part)
        transport.lose(None)
        with pytest.raises(ConnectionLost):
            await answer

    run(scenario)


def test_a_reset_loses_even_an_answer_without_a_length() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        answer = connection.send("GET", b"request", 0)
        connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nabc")
        transport.lose(ConnectionResetError("reset by peer"))
        with pytest.raises(ConnectionLost, match="reset by peer"):
            await answer

    run(scenario)


def test_what_is_not_http_is_a_violation() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        answer = connection.send("GET", b"request", 0)
        connection.data_received(b"SSH-2.0-OpenSSH_9.2\r\n")
        with pytest.raises(ProtocolViolation):
            await answer
        assert transport.is_closing()

    run(scenario)


def test_switching_protocols_is_a_violation() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        answer = connection.send("GET", b"request", 0)
        connection.data_received(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"
        )
        with pytest.raises(ProtocolViolation):
            await answer

    run(scenario)


def test_interim_answers_are_passed_over() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        answer = connection.send("GET", b"request", 0)
        connection.data_received(b"HTTP/1.1 100 Continue\r\n\r\n" + CREATED)
        assert (await answer).status == 201

    run(scenario)


def test_retry_after_is_read_of_refusals_only() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        for status, expected in (("429 Too Many Requests", 7.0), ("200 OK", None)):
            answer = connection.send("GET", b"request", 0)
            head = f"HTTP/1.1 {status}\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
            connection.data_received(head.encode())
            assert (await answer).retry_after_s == expected

    run(scenario)


def test_the_server_may_ask_to_close() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        answer = connection.send("GET", b"request", 0)
        connection.data_received(CREATED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert (await answer).status == 201
        assert not connection.is_usable

    run(scenario)


def test_an_answer_that_nobody_asked_for_closes_the_connection() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        connection.data_received(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        assert transport.is_closing()

    run(scenario)


def test_two_answers_to_one_request_close_the_connection() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        answer = connection.send("GET", b"request", 0)
        connection.data_received(CREATED + CREATED)
        assert (await answer).body == b"ok"
        assert not connection.is_usable

    run(scenario)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_requests_in_a_row_are_answered_in_their_order(size: int) -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        row = [connection.send("POST", b"request", 0) for _ in range(3)]
        refused = b"HTTP/1.1 429 Wait\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno"
        message = CREATED + refused + CHUNKED
        for start in range(0, len(message), size):
            assert not connection.is_usable
            connection.data_received(message[start : start + size])
        answers = [await answer for answer in row]
        assert [(each.status, each.body) for each in answers] == [
            (201, b"ok"),
            (429, b"no"),
            (200, b"abcde"),
        ]
        if size == 1000:
            assert answers[1].retry_after_s == 7
        assert connection.is_usable

    run(scenario)


def test_the_end_of_the_connection_is_no_end_of_an_answer_in_a_row() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        first, second = (connection.send("POST", b"request", 0) for _ in range(2))
        connection.data_received(CREATED + CREATED[:-1])
        transport.lose(None)
        assert (await first).body == b"ok"
        with pytest.raises(ConnectionLost):
            await second

    run(scenario)


def test_a_timeout_ends_the_request_and_the_connection() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        answer = connection.send("GET", b"request", 0)
        connection.fail(RequestTimeout("too late"))
        with pytest.raises(RequestTimeout, match="too late"):
            await answer
        assert transport.is_closing()

    run(scenario)


def test_a_head_without_end_is_a_violation() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        answer = connection.send("GET", b"request", 0)
        connection.data_received(b"HTTP/1.1 200 OK\r\n")
        while not transport.is_closing():
            connection.data_received(b"X-Filler: " + b"x" * 10_000 + b"\r\n")
        with pytest.raises(ProtocolViolation, match="head of more than"):
            await answer

    run(scenario)


# Streams ------------------------------------------------------------------------------------------


def test_a_stream_hands_on_what_has_come() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        stream = HttpStream(connection)
        head = connection.send("GET", b"request", 0)
        connection.data_received(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
        )
        assert (await head).status == 200
        assert await stream.chunks() == [b"ab"]
        waiting = asyncio.ensure_future(stream.chunks())
        await asyncio.sleep(0)
        connection.data_received(b"1\r\nc\r\n1\r\nd\r\n0\r\n\r\n")
        assert await waiting == [b"c", b"d"]
        assert await stream.chunks() == []
        assert transport.is_closing()

    run(scenario)


def test_a_stream_may_come_whole_with_its_head() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        stream = HttpStream(connection)
        head = connection.send("GET", b"request", 0)
        connection.data_received(CHUNKED)
        assert (await head).status == 200
        assert b"".join(await stream.chunks()) == b"abcde"
        assert await stream.chunks() == []

    run(scenario)


def test_a_stream_that_breaks_gives_what_came_before() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        stream = HttpStream(connection)
        connection.send("GET", b"request", 0)
        connection.data_received(CHUNKED[:-5])
        transport.lose(ConnectionResetError("reset"))
        assert b"".join(await stream.chunks()) == b"abcde"
        with pytest.raises(ConnectionLost):
            await stream.chunks()

    run(scenario)


def test_a_stream_without_a_length_ends_with_the_connection() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        stream = HttpStream(connection)
        connection.send("GET", b"request", 0)
        connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nabc")
        transport.lose(None)
        assert await stream.chunks() == [b"abc"]
        assert await stream.chunks() == []

    run(scenario)


def test_a_refusal_is_a_whole_answer_and_no_stream() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        HttpStream(connection)
        head = connection.send("GET", b"request", 0)
        connection.data_received(b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngo")
        assert not head.done()
        connection.data_received(b"ne")
        assert await head == Answer(410, b"gone", None)

    run(scenario)


def test_the_socket_is_not_read_while_the_consumer_is_behind() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        stream = HttpStream(connection)
        connection.send("GET", b"request", 0)
        connection.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
        reads = []
        connection.data_received(b"x" * STREAM_BUFFER_BYTES_MAX)
        reads.append(transport.reads)
        connection.data_received(b"x")
        reads.append(transport.reads)
        assert sum(map(len, await stream.chunks())) == STREAM_BUFFER_BYTES_MAX + 1
        reads.append(transport.reads)
        assert reads == [True, False, True]
        stream.close()

    run(scenario)


@pytest.mark.parametrize("wakes", ["an urgent chunk", "time", "the end", "too much"])
def test_what_can_wait_comes_with_what_cannot_or_after_a_while(wakes: str) -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        stream = HttpStream(connection)
        stream.can_wait = lambda chunk: not chunk.startswith(b"!")
        connection.send("GET", b"request", 0)
        connection.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
        waiting = asyncio.ensure_future(stream.chunks())
        for chunk in (b"a", b"b"):
            await asyncio.sleep(HELD_S / 4)
            connection.data_received(chunk)
        await asyncio.sleep(HELD_S / 4)
        assert not waiting.done()
        if wakes == "an urgent chunk":
            connection.data_received(b"!c")
        elif wakes == "the end":
            transport.lose(None)
        elif wakes == "too much":
            connection.data_received(b"x" * STREAM_BUFFER_BYTES_MAX)
        else:
            await asyncio.sleep(HELD_S)
            assert waiting.done()
        await asyncio.sleep(0)
        assert (await waiting)[:2] == [b"a", b"b"]
        waiting = asyncio.ensure_future(stream.chunks())
        await asyncio.sleep(HELD_S / 2)
        if wakes != "the end":
            connection.data_received(b"d")
            await asyncio.sleep(HELD_S * 3 / 4)
            assert not waiting.done(), "the time of others is over"
            await asyncio.sleep(HELD_S)
            assert await waiting == [b"d"]

    run(scenario, run_virtual)


def test_urgent_chunks_that_come_fast_come_together() -> None:
    async def scenario(connection: HttpConnection, transport: FakeTransport) -> None:
        stream = HttpStream(connection)
        stream.can_wait = lambda chunk: not chunk.startswith(b"!")
        connection.send("GET", b"request", 0)
        connection.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.sleep(APART_S)
        for _ in range(2):
            lone = asyncio.ensure_future(stream.chunks())
            await asyncio.sleep(APART_S)
            connection.data_received(b"!a")
            await asyncio.sleep(0)
            assert lone.done(), "nothing was read for long"
            assert await lone == [b"!a"]
            next_ones = asyncio.ensure_future(stream.chunks())
            await asyncio.sleep(0)
            for chunk in (b"b", b"!c", b"!d"):
                connection.data_received(chunk)
                await asyncio.sleep(APART_S / 4)
                assert not next_ones.done()
            await asyncio.sleep(APART_S / 2)
            assert await next_ones == [b"b", b"!c", b"!d"]
        stream.close()

    run(scenario, run_virtual)


@pytest.mark.parametrize("body", [b"Content-Length: 11\r\n\r\n", b"Connection: close\r\n\r\n"])
def test_an_answer_beyond_its_bound_is_given_up_and_not_kept(body: bytes) -> None:
    async def main() -> None:
        closed: list[HttpConnection] = []
        connection = HttpConnection(closed.append, lambda *_: None, body_bytes_max=10)
        transport = FakeTransport(connection)
        connection.connection_made(transport)
        answer = connection.send("GET", b"request", 0)
        connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789")
        assert (await answer).body == b"0123456789"
        answer = connection.send("GET", b"request", 0)
        connection.data_received(b"HTTP/1.1 200 OK\r\n" + body + b"0123456789")
        assert not answer.done()
        connection.data_received(b"0")
        with pytest.raises(ProtocolViolation, match="an answer of more than 10 bytes"):
            await answer
        assert transport.is_closing()

    asyncio.run(main())
