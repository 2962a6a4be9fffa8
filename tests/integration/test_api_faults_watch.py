"""Watches under every fault that a server, a proxy or a network can come up with.

Each case is a fault plan of the simulated server. Whatever goes wrong, in the end the mirror of a
watch holds what the cluster holds, and the test ends: nothing is lost, nothing taken back, no drift.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from unittest.mock import patch

import pytest

from bench.apiserver.fault_plan import Rule
from daemon.adapter.kind_feed import KindFeed
from daemon.adapter.kind_watch import KindWatch, WatchSettings
from shared.kube.cluster_access import access_at
from shared.kube.http_stream import HttpStream, StreamClient
from shared.kube.resources import KINDS_BY_PLURAL
from tests.support.faulty_server import NODES, PODS, FaultyServer, NodeMirror, faulty_server
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(HANG_S):
            await main()

    asyncio.run(bounded())


class Watching:
    """A watch of nodes and what it has told so far."""

    def __init__(self, mirror: NodeMirror, delays: list[float]) -> None:
        self.mirror = mirror
        self.delays = delays


@contextlib.asynccontextmanager
async def watching(
    server: FaultyServer, plural: str = "nodes", **settings: Any
) -> AsyncIterator[Watching]:
    delays: list[float] = []

    async def sleep(delay_s: float) -> None:
        delays.append(delay_s)
        await asyncio.sleep(0)

    mirror = NodeMirror()
    client = StreamClient(access_at(server.address), timeout_s=server.patience_s)
    patience = dict.fromkeys(
        ["idle_s_max", "initial_idle_s_max", "page_timeout_s"], server.patience_s
    )
    kind = KINDS_BY_PLURAL[plural]
    watch = KindWatch(
        kind,
        KindFeed(kind, mirror.put),
        client,
        mirror,
        random.Random(1),
        WatchSettings(page_size=2, **{**patience, **settings}),
    )
    task = asyncio.create_task(watch.run())
    try:
        with patch("daemon.adapter.kind_watch.sleep", sleep):
            yield Watching(mirror, delays)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await client.close()


def churn(server: FaultyServer) -> None:
    """Adds, changes, deletes, and makes anew under the same name."""
    for number in range(4):
        server.label_node(f"n{number}", "changed")
    server.delete_node("n0")
    server.add_node("n0")
    server.delete_node("n1")
    server.label_node("n2", "changed again")


WATCH: dict[str, Any] = {"path": NODES, "query": "watch=1"}
EVENT: dict[str, Any] = {"at": "watch", "path": NODES, "skip": 3}

CASES: dict[str, list[Rule]] = {
    "410 as the HTTP status": [Rule(at="request", do="refuse", code=410, **WATCH)],
    "410 as an ERROR event": [Rule(do="expire", **EVENT)],
    "410 in an answer of 200 without chunks": [Rule(at="request", do="gone-unchunked", **WATCH)],
    "410 again and again": [
        Rule(at="request", do="refuse", code=410, times=4, **WATCH),
        Rule(do="expire", **{**EVENT, "times": 2}),
    ],
    "ended by the server": [Rule(do="end", **{**EVENT, "times": 3})],
    "cut in the middle of an event": [Rule(do="cut", **EVENT)],
    "connection closed": [Rule(do="disconnect", **{**EVENT, "times": 2})],
    "connection reset": [Rule(do="reset", **EVENT)],
    "half-open: nothing comes any more": [Rule(do="hang", **EVENT)],
    "half-open before the head": [Rule(at="request", do="hang", **WATCH)],
    "events twice": [Rule(do="repeat", back=0, **{**EVENT, "times": 6})],
    **{
        f"stale events: {times} from {back} before": [
            Rule(do="repeat", back=back, **{**EVENT, "times": times})
        ]
        for back in (1, 3, 5)
        for times in (5, 6, 8)
    },
    "events late": [Rule(do="delay", delay_s=0.01, **{**EVENT, "times": 3})],
    "an event lost, then 410": [
        Rule(do="drop", **{**EVENT, "skip": 5}),
        Rule(do="expire", **{**EVENT, "skip": 6}),
    ],
    "a line that is not JSON": [Rule(do="garble", **EVENT)],
    "429 to the watch": [
        Rule(at="request", do="refuse", code=429, retry_after_s=7, times=3, **WATCH)
    ],
    "5xx to the watch, in a burst": [
        Rule(at="request", do="refuse", code=500, times=5, **WATCH),
        Rule(at="request", do="refuse", code=503, times=5, **WATCH),
        Rule(at="request", do="refuse", code=504, times=2, **WATCH),
    ],
    "all requests reset for a while": [Rule(at="request", do="reset", times=6)],
    "all requests closed for a while": [Rule(at="request", do="disconnect", times=6)],
}


@pytest.mark.parametrize("use_watch_list", [False, True], ids=["pages", "watch list"])
@pytest.mark.parametrize("rules", CASES.values(), ids=CASES.keys())
def test_a_watch_ends_up_with_what_the_cluster_holds(
    rules: list[Rule], use_watch_list: bool
) -> None:
    async def main() -> None:
        async with faulty_server(*rules) as server:
            for number in range(5):
                server.add_node(f"n{number}")
            async with watching(server, use_watch_list=use_watch_list) as w:
                await w.mirror.until(lambda m: "finished" in m.told)
                churn(server)
                server.add_node("z")
                while server.plan.is_active:
                    server.label_node("z", server.nodes()["z"][1])
                    await w.mirror.until(lambda m: m.nodes.get("z") == server.nodes()["z"])
                # One event without a fault; what comes before it has come.
                server.label_node("z", "last")
                await w.mirror.until(
                    lambda m: m.nodes.get("z") == server.nodes()["z"] and not m.is_listing
                )
                assert w.mirror.nodes == server.nodes()

    run(main)


LIST: dict[str, Any] = {"path": NODES, "query": "limit="}
LIST_CASES: dict[str, tuple[list[Rule], float]] = {
    "429 with a wish": ([Rule(at="request", do="refuse", code=429, retry_after_s=3, **LIST)], 3.0),
    "429 in the middle": (
        [Rule(at="request", do="refuse", code=429, retry_after_s=2, skip=1, **LIST)],
        2.0,
    ),
    "5xx": ([Rule(at="request", do="refuse", code=500, times=4, **LIST)], 0.4),
    "an answer of half a list": ([Rule(at="answer", do="halve", times=2, **LIST)], 0.4),
    "an answer that breaks off": ([Rule(at="answer", do="cut", times=2, **LIST)], 0.0),
    "no answer": ([Rule(at="answer", do="hang", times=2, **LIST)], 0.4),
    "a slow answer": ([Rule(at="answer", do="delay", delay_s=0.02, times=2, **LIST)], 0.0),
    "410 for the continue token": (
        [Rule(at="request", do="refuse", code=410, path=NODES, query="continue=", times=2)],
        0.0,
    ),
}


@pytest.mark.parametrize(("rules", "least_delay_s"), LIST_CASES.values(), ids=LIST_CASES.keys())
def test_a_list_is_had_in_the_end(rules: list[Rule], least_delay_s: float) -> None:
    async def main() -> None:
        async with faulty_server(*rules) as server:
            for number in range(5):
                server.add_node(f"n{number}")
            async with watching(server) as w:
                await w.mirror.until(lambda m: "finished" in m.told and m.nodes == server.nodes())
                assert not server.plan.is_active
                assert max(w.delays, default=0.0) >= least_delay_s

    run(main)


@pytest.mark.parametrize("use_watch_list", [False, True], ids=["pages", "watch list"])
@pytest.mark.parametrize("code", [403, 404])
def test_a_kind_that_is_not_to_be_had_is_reported_once_and_taken_up_when_it_is(
    code: int, use_watch_list: bool
) -> None:
    claims = "/apis/resource.k8s.io/v1/resourceclaims"

    async def main() -> None:
        refusals = Rule(at="request", do="refuse", code=code, path=claims, times=5)
        async with (
            faulty_server(refusals) as server,
            watching(server, "resourceclaims", use_watch_list=use_watch_list) as w,
        ):
            await w.mirror.until(lambda m: "finished" in m.told)
            assert w.mirror.told == ["unavailable", "started", "finished"]
            assert min(w.delays[:5]) >= 240.0

    run(main)


def test_a_server_that_ignores_send_initial_events_is_listed_by_pages() -> None:
    async def main() -> None:
        hangs = Rule(at="watch", do="hang", path=NODES)
        async with faulty_server(hangs) as server:
            server.add_node("n0")
            async with watching(server, use_watch_list=True) as w:
                await w.mirror.until(lambda m: m.nodes == server.nodes() and "finished" in m.told)
                assert w.mirror.told == ["started", "started", "finished"]

    run(main)


def test_a_kind_at_rest_is_left_alone_where_it_gets_no_bookmarks() -> None:
    async def main() -> None:
        # Two watches are ended by the server, having brought nothing for longer than a bookmark takes.
        third = Rule(at="request", do="refuse", code=410, skip=2, **WATCH)
        quiet = {"has_progress_notify": False, "bookmark_interval_s": 0.01}
        async with faulty_server(third, **quiet) as server:
            server.add_node("n0")
            asked: dict[str, Any] = {
                "watch_s_min": 1.0,
                "watch_s_max": 1.0,
                "overdue_s_max": HANG_S,
            }
            async with watching(server, **asked) as w:
                await w.mirror.until(lambda m: m.told == ["started", "finished"] * 2)
                assert len(w.delays) == 1, "for the answer to the third"

    run(main)


async def events_of(stream: HttpStream, count: int) -> list[Any]:
    lines: list[bytes] = []
    while len(lines) < count:
        lines += b"".join(await stream.chunks()).splitlines()
    return [json.loads(line) for line in lines]


def test_without_progress_notify_bookmarks_come_only_of_what_has_changed() -> None:
    async def main() -> None:
        async with faulty_server(has_progress_notify=False, bookmark_interval_s=0.01) as server:
            server.add_node("n0")
            version = server.nodes()["n0"][1]
            client = StreamClient(access_at(server.address))
            query = f"watch=1&allowWatchBookmarks=1&resourceVersion={version}"
            nodes = await client.open_stream(f"{NODES}?{query}")
            pods = await client.open_stream(f"{PODS}?{query}")
            server.add_pod("p0")
            told = [event["type"] for event in await events_of(pods, 3)]
            assert told[:3] == ["ADDED", "BOOKMARK", "BOOKMARK"]
            # The watch of nodes has had time for two bookmarks too.
            server.label_node("n0", "changed")
            changed, bookmark, *_ = await events_of(nodes, 2)
            await client.close()
            assert (changed["type"], bookmark["type"]) == ("MODIFIED", "BOOKMARK")
            versions = {one["object"]["metadata"]["resourceVersion"] for one in (changed, bookmark)}
            assert len(versions) == 1

    run(main)
