"""List and watch against a server that does everything that servers do on bad days."""

import asyncio
import contextlib
import itertools
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from unittest.mock import patch

import pytest

from daemon.adapter.api_source import ApiSource
from daemon.adapter.kind_feed import KindFeed
from daemon.adapter.kind_watch import KindWatch, WatchSettings
from daemon.adapter.process import Adapter
from shared.kube.cluster_access import access_at
from shared.kube.http_stream import HttpStream, StreamClient
from shared.kube.resources import ALL_KINDS, KINDS_BY_PLURAL, custom_kind, is_custom
from shared.messages.to_owner import (
    AdapterMeasured,
    AdapterMessage,
    KindUnavailable,
    NodeChanged,
    NodeDeleted,
    ObjectRejected,
    PodChanged,
    PodDeleted,
    StartSync,
    SyncFinished,
    SyncStarted,
)
from tests.support.memory_adapter import MemoryLink
from tests.support.scripted_server import Handler, Reply, Request, ScriptedServer
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration


class Collector:
    """A sink that tells when enough has come."""

    is_full = False

    def __init__(self) -> None:
        self.messages: list[AdapterMessage] = []
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, message: AdapterMessage, size_bytes: int) -> None:
        self.messages.append(message)
        task = asyncio.ensure_future(self._notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def room(self) -> None:
        pass

    async def until(self, count: int) -> list[str]:
        """The first `count` messages, put in short."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.messages) >= count)
        assert len(self.messages) == count
        return [short(message) for message in self.messages]

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def short(message: AdapterMessage) -> str:
    match message:
        case SyncStarted():
            return "sync"
        case SyncFinished(_, version):
            return f"synced {version}"
        case PodChanged(pod):
            return f"+{pod.name}"
        case PodDeleted(pod):
            return f"-{pod.name}"
        case NodeChanged(node):
            return f"+{node.metadata.name}"
        case NodeDeleted(name):
            return f"-{name}"
        case ObjectRejected(where=where):
            return f"!{where}"
        case KindUnavailable():
            return "unavailable"
        case _:
            return type(message).__name__


Step = Callable[[Request, Reply], Awaitable[None]]


def script(*steps: Step) -> Handler:
    """One step for each request; after the last one the server falls silent."""
    waiting = list(steps)

    async def handler(request: Request, reply: Reply) -> None:
        if waiting:
            await waiting.pop(0)(request, reply)
        else:
            await asyncio.Event().wait()

    return handler


def item(name: str, version: str = "1", plural: str = "pods", **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": version}
    if KINDS_BY_PLURAL[plural].is_namespaced:
        meta["namespace"] = "ns"
    return {"metadata": meta, **fields}


def event(event_type: str, name: str, version: str, **fields: Any) -> dict[str, Any]:
    return {"type": event_type, "object": item(name, version, **fields)}


def bookmark(version: str, ends_initial_events: bool = False) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": version}
    if ends_initial_events:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"type": "BOOKMARK", "object": {"metadata": meta, "spec": {"containers": None}}}


EXPIRED = {
    "kind": "Status",
    "status": "Failure",
    "reason": "Expired",
    "code": 410,
    "message": "old",
}


def lists(*names: str, version: str = "10", token: str = "", expect_token: str = "") -> Step:
    """Of names, or of "name@version"."""

    async def step(request: Request, reply: Reply) -> None:
        assert "watch" not in request.query
        assert request.query.get("continue", "") == expect_token
        meta = {"resourceVersion": version, "continue": token}
        await reply.json(
            200, {"metadata": meta, "items": [item(*name.split("@")) for name in names]}
        )

    return step


def watches(*events: Any, since: str, then: str = "end") -> Step:
    async def step(request: Request, reply: Reply) -> None:
        assert request.query["watch"] == "1"
        assert request.query["allowWatchBookmarks"] == "true"
        assert request.query.get("resourceVersion", "") == since
        await reply.start_stream()
        for one in events:
            await (reply.chunk(one) if isinstance(one, bytes) else reply.line(one))
        if then == "end":
            await reply.end_stream()
        elif then == "reset":
            reply.reset()
        elif then == "close":
            await reply.close()

    return step


def refuses(status: int, body: Any = b"", **headers: str) -> Step:
    async def step(request: Request, reply: Reply) -> None:
        await reply.json(status, body, **headers)

    return step


def breaks() -> Step:
    async def step(request: Request, reply: Reply) -> None:
        reply.reset()

    return step


class Watching:
    """A KindWatch under test."""

    def __init__(self, server: ScriptedServer, collector: Collector, delays: list[float]) -> None:
        self.server = server
        self.collector = collector
        self.delays = delays

    async def told(self, *expected: str) -> None:
        """All that is told up to now."""
        assert await self.collector.until(len(expected)) == list(expected)


@contextlib.asynccontextmanager
async def watching(
    handler: Handler, plural: str = "pods", timeout_s: float = 30.0, **options: Any
) -> AsyncIterator[Watching]:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)
        await asyncio.sleep(0)

    async with ScriptedServer(handler) as server:
        collector = Collector()
        client = StreamClient(access_at(server.url), timeout_s=timeout_s)
        kind = custom_kind(plural) if is_custom(plural) else KINDS_BY_PLURAL[plural]
        watch = KindWatch(
            kind,
            KindFeed(kind, collector.put),
            client,
            collector,
            random.Random(1),
            WatchSettings(**options),
        )
        task = asyncio.create_task(watch.run())
        try:
            with patch("daemon.adapter.kind_watch.sleep", sleep):
                yield Watching(server, collector, delays)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await client.close()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(HANG_S):
            await main()

    asyncio.run(bounded())


def test_list_then_watch_then_resume_where_it_ended() -> None:
    async def main() -> None:
        steps = script(
            lists("a", "b", version="10"),
            watches(event("ADDED", "c", "11"), bookmark("15"), since="10"),
            watches(event("DELETED", "a", "16"), since="15"),
            watches(since="16"),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "+b", "synced 10", "+c", "-a")
            # A watch that ended after it had brought something is no failure.
            assert w.delays == []
            query = w.server.requests[0].query
            assert query["limit"] == "500"
            assert query["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"
            query = w.server.requests[1].query
            assert 300 <= int(query["timeoutSeconds"]) <= 600
            assert query["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"

    run(main)


def test_what_was_read_is_not_held_until_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[list[bytes]] = []
    read_chunks = HttpStream.chunks

    async def main() -> None:
        asks_again = asyncio.Event()

        async def chunks(stream: HttpStream) -> list[bytes]:
            if handed:
                asks_again.set()
            handed.append(await read_chunks(stream))
            return handed[-1]

        monkeypatch.setattr(HttpStream, "chunks", chunks)
        steps = script(
            lists("a", version="10"), watches(event("ADDED", "b", "11"), since="10", then="hang")
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 10", "+b")
            await asks_again.wait()
            assert handed == [[]]

    run(main)


def test_a_long_list_comes_in_pages() -> None:
    async def main() -> None:
        steps = script(
            lists("a", token="t1"),
            lists("b", token="t2", expect_token="t1"),
            lists("c", version="12", expect_token="t2"),
            watches(event("ADDED", "d", "13"), since="12", then="hang"),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "+b", "+c", "synced 12", "+d")

    run(main)


def test_a_page_that_is_followed_by_itself_is_listed_anew_after_a_pause() -> None:
    async def main() -> None:
        steps = script(
            lists("a", token="t1"),
            lists("b", token="t1", expect_token="t1"),
            lists("a", "b", version="12"),
            watches(event("ADDED", "c", "13"), since="12", then="hang"),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "+b", "sync", "+a", "+b", "synced 12", "+c")
            assert len(w.delays) == 1

    run(main)


def test_an_expired_continue_token_starts_the_list_over_and_then_without_pages() -> None:
    async def main() -> None:
        steps = script(
            lists("a", token="t1"),
            refuses(410, EXPIRED),
            lists("a", token="t2"),
            refuses(410, EXPIRED),
            lists("a", "b", version="20"),
            watches(event("ADDED", "c", "21"), since="20", then="hang"),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "sync", "+a", "sync", "+a", "+b", "synced 20", "+c")
            assert ["limit" in request.query for request in w.server.requests[:5]] == [
                *(True, True, True, True),
                False,
            ]
            assert len(w.delays) == 2

    run(main)


@pytest.mark.parametrize(
    "gone",
    [
        refuses(410, EXPIRED),
        refuses(410, b"not a status"),
        watches({"type": "ERROR", "object": EXPIRED}, since="10"),
        watches({"type": "ERROR", "object": EXPIRED}, since="10", then="hang"),
    ],
    ids=["status", "status without a body", "event", "event on an open stream"],
)
def test_410_in_every_form_lists_anew(gone: Step) -> None:
    async def main() -> None:
        steps = script(
            lists("a", version="10"),
            gone,
            lists("b", version="20"),
            watches(event("ADDED", "c", "21"), since="20", then="hang"),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 10", "sync", "+b", "synced 20", "+c")
            assert len(w.delays) == 1

    run(main)


def test_410_without_chunks_and_without_a_line_end() -> None:
    async def gone(request: Request, reply: Reply) -> None:
        body = json.dumps({"type": "ERROR", "object": EXPIRED}).encode()
        await reply.raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
        await reply.close()

    async def main() -> None:
        steps = script(
            lists("a"),
            gone,
            lists("b", version="20"),
            watches(event("ADDED", "c", "21"), since="20", then="hang"),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 10", "sync", "+b", "synced 20", "+c")

    run(main)


def test_a_server_whose_watches_fail_at_once_is_listed_ever_more_seldom() -> None:
    async def main() -> None:
        steps = script(*[lists("a"), refuses(410, EXPIRED)] * 8)
        async with watching(steps) as w:
            await w.told(*["sync", "+a", "synced 10"] * 8)
            for number, delay_s in enumerate(w.delays):
                assert delay_s >= min(30.0, 0.8 * 2**number) / 2

    run(main)


def test_half_a_line_is_no_progress() -> None:
    async def main() -> None:
        steps = script(
            lists("a"),
            *[watches(b'{"type":"ADDED","obj', since="10", then="reset")] * 2,
            lists("a"),
            *[watches(b'{"type":"ADDED","obj', since="10", then="reset")] * 2,
            lists("a"),
            watches(event("ADDED", "b", "11"), since="10", then="hang"),
        )
        async with watching(steps) as w:
            await w.told(*["sync", "+a", "synced 10"] * 3, "+b")
            for number, delay_s in enumerate(w.delays):
                assert delay_s >= 0.8 * 2**number / 2

    run(main)


@pytest.mark.parametrize("end", ["reset", "close"])
def test_a_connection_that_breaks_in_the_middle_of_a_line_resumes(end: str) -> None:
    async def main() -> None:
        half = json.dumps(event("ADDED", "half", "12")).encode()[:-20]
        steps = script(
            lists("a"),
            watches(event("ADDED", "b", "11"), half, since="10", then=end),
            watches(event("ADDED", "half", "12"), since="11", then="hang"),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 10", "+b", "+half")

    run(main)


def failed(reason: str) -> Step:
    return watches({"type": "ERROR", "object": {"reason": reason}}, since="10")


def test_errors_that_pass_are_waited_out_without_a_new_list() -> None:
    async def main() -> None:
        steps = script(
            lists("a"),
            refuses(500, {"reason": "InternalError", "code": 500}),
            watches(event("ADDED", "b", "11"), since="10", then="reset"),
            refuses(429, {"reason": "TooManyRequests", "code": 429}, Retry_After="17"),
            refuses(429, {"reason": "TooManyRequests", "code": 429}),
            watches(event("ADDED", "c", "12"), since="11"),
            refuses(403, {"reason": "Forbidden", "code": 403}),
            watches(event("ADDED", "d", "13"), since="12", then="hang"),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 10", "+b", "+c", "+d")
            assert len(w.delays) == 5
            assert w.delays[2] >= 17

    run(main)


@pytest.mark.parametrize(
    "vain",
    [
        refuses(500, {"reason": "InternalError", "code": 500}),
        refuses(504, b"no upstream"),
        refuses(400, {"reason": "BadRequest", "code": 400}),
        refuses(422, {"reason": "Invalid", "code": 422}),
        refuses(403, {"reason": "Forbidden", "code": 403}),
        failed("InternalError"),
        breaks(),
        watches(since="10"),
    ],
    ids=["500", "504", "400", "422", "403", "500 as an event", "connection reset", "ended"],
)
def test_a_version_that_no_watch_goes_on_from_is_given_up(vain: Step) -> None:
    async def main() -> None:
        steps = script(
            *(lists("a"), vain, vain),
            lists("b", version="20"),
            watches(event("ADDED", "c", "21"), since="20", then="hang"),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 10", "sync", "+b", "synced 20", "+c")
            assert len(w.delays) == 2

    run(main)


def test_a_watch_that_a_proxy_answers_with_its_first_event_alone_is_not_waited_for() -> None:
    async def silence(request: Request, reply: Reply) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        steps = script(
            lists("a"),
            *[silence] * 4,
            watches(event("ADDED", "b", "11"), since="10", then="hang"),
        )
        async with watching(steps, timeout_s=0.05) as w:
            await w.told("sync", "+a", "synced 10", "+b")
            assert w.delays == []

    run(main)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_who_is_sent_elsewhere_stays_and_asks_again(status: int) -> None:
    async def main() -> None:
        steps = script(refuses(status, b"", Location="/elsewhere/api/v1/pods"), lists("a"))
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 10")
            assert {request.path for request in w.server.requests} == {"/api/v1/pods"}
            assert len(w.delays) == 1

    run(main)


def test_a_list_that_fails_in_the_middle_is_told_anew() -> None:
    async def main() -> None:
        steps = script(
            refuses(503, b"starting"),
            lists("a", token="t1"),
            refuses(500, b""),
            refuses(200, b"<html>not a list</html>"),
            lists("a", "b", version="20"),
            watches(event("ADDED", "c", "21"), since="20", then="hang"),
        )
        async with watching(steps) as w:
            # Of the page that was no list nobody is told.
            await w.told("sync", "+a", "sync", "+a", "+b", "synced 20", "+c")
            assert len(w.delays) == 3

    run(main)


def test_a_watch_that_brings_nothing_and_ends_at_once_is_a_failure() -> None:
    async def main() -> None:
        steps = script(
            lists("a"),
            watches(since="10"),
            watches(event("ADDED", "b", "11"), since="10", then="hang"),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 10", "+b")
            assert len(w.delays) == 1

    run(main)


def test_empty_watches_are_tried_ever_more_seldom() -> None:
    async def main() -> None:
        steps = script(
            lists("a"),
            *[watches(since="10")] * 2,
            lists("a"),
            *[watches(since="10")] * 2,
            lists("a"),
            watches(since="10"),
            watches(event("ADDED", "b", "11"), since="10"),
            refuses(500, b""),
            watches(event("ADDED", "c", "12"), since="11", then="hang"),
        )
        async with watching(steps) as w:
            await w.told(*["sync", "+a", "synced 10"] * 3, "+b", "+c")
            *growing, last = w.delays
            for number, delay_s in enumerate(growing):
                assert 0.8 * 2**number / 2 <= delay_s <= 0.8 * 2**number
            # The event was progress: the next failure is a first one.
            assert last <= 0.8

    run(main)


def test_a_silent_connection_is_taken_for_dead() -> None:
    async def main() -> None:
        steps = script(
            lists("a"),
            watches(event("ADDED", "b", "11"), since="10", then="hang"),
            watches(event("ADDED", "c", "12"), since="11", then="hang"),
        )
        async with watching(steps, idle_s_max=0.05) as w:
            await w.told("sync", "+a", "synced 10", "+b", "+c")

    run(main)


def test_watches_that_stay_silent_are_followed_by_a_list() -> None:
    """So the state of a restored etcd is seen, whose versions lie before ours: for that its server
    has to be started anew, which breaks what watches there are."""

    async def main() -> None:
        steps = script(
            lists("a"),
            watches(since="10", then="reset"),
            watches(since="10", then="hang"),
            lists("b"),
        )
        async with watching(steps, idle_s_max=0.05) as w:
            await w.told("sync", "+a", "synced 10", "sync", "+b", "synced 10")

    run(main)


def test_a_watch_that_the_server_does_not_end_in_time_is_taken_for_dead() -> None:
    async def main() -> None:
        steps = script(
            lists("a"),
            watches(since="10", then="hang"),
            watches(event("ADDED", "b", "11"), since="10", then="hang"),
        )
        async with watching(steps, watch_s_min=1, watch_s_max=1, overdue_s_max=0.0) as w:
            await w.told("sync", "+a", "synced 10", "+b")

    run(main)


def test_a_malformed_object_costs_itself_only() -> None:
    async def main() -> None:
        steps = script(
            lists("a"),
            watches(
                event("ADDED", "bad", "11", spec={"containers": "none"}),
                event("ADDED", "good", "12"),
                since="10",
                then="hang",
            ),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 10", "!ns/bad", "+good")

    run(main)


def test_a_line_that_is_no_json_lists_anew() -> None:
    async def main() -> None:
        steps = script(
            lists("a"),
            watches(b'{"type":"ADDED",\n', since="10", then="hang"),
            lists("b", version="20"),
            watches(event("ADDED", "c", "21"), since="20", then="hang"),
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 10", "sync", "+b", "synced 20", "+c")

    run(main)


def test_pods_that_finish_are_deleted() -> None:
    async def main() -> None:
        done = {"status": {"phase": "Succeeded"}}
        steps = script(
            lists("a"), watches(event("MODIFIED", "a", "11", **done), since="10", then="hang")
        )
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 10", "-a")

    run(main)


@pytest.mark.parametrize("status", [403, 404])
def test_an_optional_kind_that_cannot_be_read_is_reported_once(status: int) -> None:
    async def main() -> None:
        no = refuses(status, b"404 page not found")
        steps = script(
            *(no, no, no),
            lists(version="20"),
            watches(bookmark("21"), since="20"),
            *(no, no, no, no, no),
            lists(version="30"),
        )
        async with watching(steps, plural="resourceslices") as w:
            await w.told(
                *("unavailable", "sync", "synced 20"), *("unavailable", "sync", "synced 30")
            )
            soon, late = w.delays[3:6], w.delays[:3] + w.delays[6:]
            assert all(delay_s <= 3.2 for delay_s in soon)
            assert all(240 <= delay_s <= 360 for delay_s in late)

    run(main)


@pytest.mark.parametrize("status", [403, 404])
def test_an_optional_kind_that_was_listed_is_not_given_up_for_a_refusal(status: int) -> None:
    async def main() -> None:
        no = refuses(status, b"404 page not found")
        steps = script(
            lists(version="20"),
            no,
            watches(bookmark("21"), since="20"),
            *(no, no),  # The second is followed by a list.
            no,
            lists(version="30"),
            *(no, no),
            lists(version="40"),
        )
        async with watching(steps, plural="resourceslices") as w:
            await w.told("sync", "synced 20", "sync", "synced 30", "sync", "synced 40")
            assert max(w.delays) <= 30

    run(main)


def test_a_required_kind_that_cannot_be_read_is_tried_again_soon() -> None:
    async def main() -> None:
        steps = script(refuses(403, b""), refuses(404, b""), lists("a", version="20"))
        async with watching(steps) as w:
            await w.told("sync", "+a", "synced 20")
            assert all(delay_s <= 1.6 for delay_s in w.delays)

    run(main)


def at(group_version: str, inner: Step) -> Step:
    async def step(request: Request, reply: Reply) -> None:
        assert request.path == f"/apis/{group_version}/poddisruptionbudgets"
        await inner(request, reply)

    return step


def test_an_older_version_of_a_kind_is_watched_where_the_newer_is_not_served() -> None:
    async def main() -> None:
        steps = script(
            at("policy/v1", refuses(404, b"404 page not found")),
            at("policy/v1beta1", lists("a")),
            at("policy/v1beta1", watches(bookmark("11"), since="10")),
            # The server is updated, and the version is gone: the watch goes on with the other.
            at("policy/v1beta1", refuses(404, b"404 page not found")),
            at("policy/v1", watches(event("ADDED", "b", "12"), since="11", then="hang")),
        )
        async with watching(steps, plural="poddisruptionbudgets") as w:
            await w.told("sync", "ObjectChanged", "synced 10", "ObjectChanged")
            assert len(w.delays) == 1

    run(main)


def test_a_required_kind_in_no_version_is_looked_for_in_all_again() -> None:
    async def main() -> None:
        no = refuses(404, b"404 page not found")
        steps = script(*(no, no, no, no), lists("a"))
        async with watching(steps, plural="poddisruptionbudgets") as w:
            await w.told("sync", "ObjectChanged", "synced 10")
            assert len(w.delays) == 2

    run(main)


# Watch lists --------------------------------------------------------------------------------------


def initial(*events: Any, then: str = "end") -> Step:
    inner = watches(*events, since="", then=then)

    async def step(request: Request, reply: Reply) -> None:
        assert request.query["sendInitialEvents"] == "true"
        assert request.query["resourceVersionMatch"] == "NotOlderThan"
        await inner(request, reply)

    return step


def test_a_watch_may_send_the_list() -> None:
    async def main() -> None:
        steps = script(
            initial(event("ADDED", "a", "3"), then="reset"),
            initial(
                event("ADDED", "a", "3"),
                event("ADDED", "b", "5"),
                bookmark("10", ends_initial_events=True),
                event("DELETED", "a", "11"),
            ),
            watches(event("ADDED", "c", "12"), since="11"),
            refuses(410, EXPIRED),
            initial(bookmark("20", ends_initial_events=True), then="hang"),
        )
        async with watching(steps, use_watch_list=True) as w:
            await w.told(
                *("sync", "+a"),
                *("sync", "+a", "+b", "synced 10", "-a", "+c"),
                *("sync", "synced 20"),
            )

    run(main)


@pytest.mark.parametrize("status", [400, 403, 405, 406, 422, 500, 501])
def test_a_server_without_watch_lists_is_listed(status: int) -> None:
    async def main() -> None:
        steps = script(
            refuses(status, b""),
            lists("a"),
            watches(event("ADDED", "b", "11"), since="10", then="hang"),
        )
        async with watching(steps, use_watch_list=True) as w:
            await w.told("sync", "+a", "synced 10", "+b")
            assert w.delays == []

    run(main)


def test_a_watch_list_that_is_refused_for_a_while_is_asked_for_again() -> None:
    async def main() -> None:
        no, gone = refuses(503, b""), refuses(410, EXPIRED)
        steps = script(
            *(no, no, no, lists("a"), gone),
            watches({"type": "ERROR", "object": {"reason": "InternalError"}}, since=""),
            *(lists("a"), gone),
            refuses(429, b""),
            initial(bookmark("20", ends_initial_events=True), then="hang"),
        )
        async with watching(steps, use_watch_list=True) as w:
            await w.told(
                *["sync", "+a", "synced 10"],
                "sync",
                *["sync", "+a", "synced 10"],
                *["sync", "synced 20"],
            )
            assert ["limit" in one.query for one in w.server.requests] == [
                *(False, True, True, True, False),
                *(False, True, False),
                *(False, False),
            ]
            assert len(w.delays) == 5

    run(main)


def test_who_may_list_and_not_watch_lists_again_and_again() -> None:
    async def main() -> None:
        no = refuses(403, b"")
        steps = script(*(no, lists("a"), no, no), *(no, lists("b"), no, no), *(no, lists("c")))
        async with watching(steps, use_watch_list=True) as w:
            told = [["sync", f"+{name}", "synced 10"] for name in "abc"]
            await w.told(*itertools.chain(*told))
            assert max(w.delays) <= 30

    run(main)


def test_a_kind_that_only_a_plugin_knows_keeps_nobody_waiting_though_its_lists_fail() -> None:
    async def main() -> None:
        failure = {"kind": "Status", "code": 500, "message": "conversion webhook failed"}
        fails = [refuses(500, failure)] * 5
        steps = script(*fails, lists("a"), watches(since="10", then="hang"))
        async with watching(steps, "foos.v1.example.com") as w:
            await w.told("unavailable", "sync", "ObjectChanged", "synced 10")
            assert {one.path for one in w.server.requests} == {"/apis/example.com/v1/foos"}
            # It was tried again as of any other kind.
            assert len(w.delays) == len(fails)
            assert max(w.delays) <= 30

    run(main)


# The whole source ---------------------------------------------------------------------------------


async def small_cluster(request: Request, reply: Reply) -> None:
    """Two nodes, a pod, nothing else; watches bring a third node."""
    plural = request.path.rpartition("/")[2]
    if "watch" in request.query:
        await reply.start_stream()
        if plural == "nodes":
            await reply.line({"type": "ADDED", "object": item("n3", "11", "nodes")})
        await asyncio.Event().wait()
    names = {"nodes": ["n1", "n2"], "pods": ["p1"]}.get(plural, [])
    if plural == "deviceclasses":
        await reply.json(404, b"404 page not found")
    items = [item(name, plural=plural) for name in names]
    await reply.json(200, {"metadata": {"resourceVersion": "10"}, "items": items})


async def taken(link: MemoryLink, count: int) -> list[AdapterMessage]:
    messages: list[AdapterMessage] = []
    while len(messages) < count:
        epoch, batch = await link.take_batch()
        if epoch:
            # How the adapter is comes at any moment.
            messages += [one for one in batch if not isinstance(one, AdapterMeasured)]
    return messages


EXPECTED_COUNT = 2 * (len(ALL_KINDS) - 1) + 1 + 3 + 1
"""Starts and ends of every kind but one, that one, two nodes and a pod, and the third node."""


def by_kind(messages: list[AdapterMessage]) -> dict[str, list[str]]:
    sorted_out: dict[str, list[str]] = {}
    for message in messages:
        match message:
            case PodChanged():
                kind = "pods"
            case NodeChanged():
                kind = "nodes"
            case SyncStarted(kind) | SyncFinished(kind, _) | KindUnavailable(kind, _):
                pass
            case _:
                raise AssertionError(f"unexpected {message}")
        sorted_out.setdefault(kind, []).append(short(message))
    return sorted_out


EXPECTED = {
    **{kind.plural: ["sync", "synced 10"] for kind in ALL_KINDS},
    "nodes": ["sync", "+n1", "+n2", "synced 10", "+n3"],
    "pods": ["sync", "+p1", "synced 10"],
    "deviceclasses": ["unavailable"],
}


def test_all_kinds_are_told_side_by_side_and_again_for_a_new_owner() -> None:
    async def main() -> None:
        async with ScriptedServer(small_cluster) as server:
            source = ApiSource(access_at(server.url), 1, ALL_KINDS, WatchSettings())
            link = MemoryLink()
            task = asyncio.create_task(Adapter(source, link).run())
            for epoch in (1, 2):
                link.order(StartSync(epoch))
                assert by_kind(await taken(link, EXPECTED_COUNT)) == EXPECTED
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    run(main)


class NewsCollector(Collector):
    """How the adapter is comes at any moment."""

    def put(self, message: AdapterMessage, size_bytes: int) -> None:
        if not isinstance(message, AdapterMeasured):
            super().put(message, size_bytes)


async def told_by(source: ApiSource, *expected: str) -> None:
    """To one owner, up to now."""
    collector = NewsCollector()
    task = asyncio.create_task(source.run(collector))
    try:
        assert await collector.until(len(expected)) == list(expected)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def waits_for(step: Step) -> Step:
    """A list of pods without a node."""

    async def checked(request: Request, reply: Reply) -> None:
        selector = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName="
        assert request.query["fieldSelector"] == selector
        await step(request, reply)

    return checked


BOUND: Any = {"spec": {"nodeName": "n"}}


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        # All is as it was.
        (
            [waits_for(lists("a", "b@12")), watches(since="12", then="hang")],
            ["sync", "+a", "+b", "synced 12"],
        ),
        # The watch brings a binding that the list has shown.
        (
            [waits_for(lists("b@12")), watches(event("MODIFIED", "a", "13", **BOUND), since="12")],
            ["sync", "+a", "+b", "+a", "synced 12"],
        ),
        # The watch ends too soon, or brings nothing: all is listed.
        (
            [waits_for(lists("b@12")), watches(since="12"), lists("b@12", version="20")],
            ["sync", "+a", "+b", "sync", "+b", "synced 20"],
        ),
        (
            [
                waits_for(lists("b@12")),
                watches(since="12", then="hang"),
                lists("b@12", version="20"),
            ],
            ["sync", "+a", "+b", "sync", "+b", "synced 20"],
        ),
        # Nor is there a list of those that wait, or a watch from there.
        ([waits_for(refuses(500)), lists("b@12", version="20")], ["sync", "+b", "synced 20"]),
        (
            [waits_for(lists("b@12")), refuses(410, EXPIRED), lists("b@12", version="20")],
            ["sync", "+a", "+b", "sync", "+b", "synced 20"],
        ),
    ],
    ids=["the same", "news", "ends", "silent", "no list", "expired"],
)
def test_a_new_owner_is_told_pods_without_a_list_of_all(steps: list[Step], told: list[str]) -> None:
    async def main() -> None:
        before = [lists("a"), watches(event("ADDED", "b", "12"), since="10", then="hang")]
        async with ScriptedServer(script(*before, *steps)) as server:
            settings = WatchSettings(catch_up_s=0.05)
            source = ApiSource(access_at(server.url), 1, [KINDS_BY_PLURAL["pods"]], settings)
            await told_by(source, "sync", "+a", "synced 10", "+b")
            await told_by(source, *told)

    run(main)
