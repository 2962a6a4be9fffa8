"""A client whose tasks are void: what is under way is seen to its end, and nothing more leaves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from shared.kube.cluster_access import access_at
from workers.binder.fences import Fence, FencedClient, Fences

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers when it is let, one request after the other."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.came = asyncio.Event()
        self.is_open = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, path, _ = head.decode().split(" ", 2)
                if b"Content-Length: 2" in head:
                    await reader.readexactly(2)
                self.seen.append(f"{method} {path}")
                self.came.set()
                await self.is_open.wait()
                writer.write(OK)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def world() -> AsyncIterator[tuple[Server, Fences, FencedClient]]:
    server, fences = Server(), Fences()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    access = access_at(f"http://127.0.0.1:{port}")
    client = FencedClient(access, fences, connections_max=1)
    try:
        yield server, fences, client
    finally:
        await client.close()
        listening.close()


def play(scene: Callable[[Server, Fences, FencedClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with world() as parts:
            await scene(*parts)

    asyncio.run(main())


def test_a_write_under_way_is_seen_to_its_end_and_the_next_does_not_leave() -> None:
    async def scene(server: Server, fences: Fences, client: FencedClient) -> None:
        answers: list[bytes] = []

        async def writes() -> None:
            answers.append(await client.post("/first", b"{}"))
            answers.append(await client.post("/second", b"{}"))

        task = fences.start(writes(), Fence())
        await server.came.wait()
        fences.void_all()
        assert fences.void_count == 1
        server.is_open.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (answers, server.seen) == ([b"{}"], ["POST /first"])
        assert fences.void_count == 0

    play(scene)


def test_a_write_that_waits_for_a_connection_does_not_leave_and_reads_are_cut() -> None:
    async def scene(server: Server, fences: Fences, client: FencedClient) -> None:
        first = asyncio.create_task(client.post("/of-nobody", b"{}"))
        await server.came.wait()
        tasks = [
            fences.start(client.post("/waits", b"{}"), Fence()),
            fences.start(client.get("/read"), Fence()),
        ]
        await asyncio.sleep(0)
        fences.void_all()
        server.is_open.set()
        assert await first == b"{}", "it is no guarded task"
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in ended] == [asyncio.CancelledError] * 2
        assert server.seen == ["POST /of-nobody"]

    play(scene)
