"""A connection that is on its way to being closed. A TLS transport stays there until the peer agrees."""

import asyncio

import pytest

from bench.apiserver.fault_plan import Rule
from bench.apiserver.http_protocol import HttpProtocol
from tests.support.faulty_server import FaultyServer, faulty_server


class ClosingTransport(asyncio.Transport):
    """Its peer never agrees, so that the connection is never said to be lost."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closings: list[str] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return bool(self.closings)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closings, "written to after it was closed"
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closings.append("close")

    def abort(self) -> None:
        self.closings.append("abort")


def watch(server: FaultyServer) -> ClosingTransport:
    transport = ClosingTransport()
    connection = HttpProtocol(server.server)
    connection.connection_made(transport)
    connection.data_received(b"GET /api/v1/nodes?watch=1 HTTP/1.1\r\nHost: test\r\n\r\n")
    # The server would wait for it to be lost.
    server.server.connections.discard(connection)
    return transport


@pytest.mark.parametrize(("fault", "closing"), [("cut", "close"), ("disconnect", "abort")])
def test_a_watch_that_was_broken_off_is_fed_no_more(fault: str, closing: str) -> None:
    async def main() -> None:
        rule = Rule(at="watch", do=fault, path="/api/v1/nodes", times=2)
        async with faulty_server(rule, watch_pause_s=0.0) as server:
            server.add_node("first")
            broken = watch(server)
            for name in ("second", "third"):
                server.add_node(name)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            assert broken.closings == [closing]
            assert server.plan.is_active, "one of the two faults is left for the next connection"
            assert watch(server).closings == [closing]
            assert not server.plan.is_active

    asyncio.run(main())
