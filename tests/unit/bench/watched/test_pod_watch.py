"""The witness's watch: it goes on where it was, and says when it cannot."""

import asyncio
import json
from typing import Any, cast

import pytest

from bench.manual_clock import ManualClock
from bench.watched.pod_events import PodEvent
from bench.watched.pod_watch import PodWatch, WatchBrokenError
from shared.kube.http_stream import StreamClient


def event(kind: str, version: str, name: str = "", **others: Any) -> bytes:
    metadata = {"name": name, "resourceVersion": version}
    return json.dumps({"type": kind, "object": {"metadata": metadata, **others}}).encode() + b"\n"


class Played:
    """An API client whose watches bring these chunks, one list of them for each watch."""

    def __init__(self, *watches: list[bytes]) -> None:
        self._watches = list(watches)
        self._chunks: list[bytes] = []
        self.asked: list[str] = []
        self.closed_count = 0

    async def get(self, path: str) -> bytes:
        assert path == "/api/v1/pods?limit=1"
        return b'{"metadata":{"resourceVersion":"10"},"items":[]}'

    async def open_stream(self, path: str) -> "Played":
        self.asked.append(path.partition("resourceVersion=")[2].partition("&")[0])
        self._chunks = self._watches.pop(0)
        return self

    async def chunks(self) -> list[bytes]:
        return [self._chunks.pop(0)] if self._chunks else []

    def close(self) -> None:
        self.closed_count += 1


def watched(*watches: list[bytes]) -> tuple[Played, PodWatch, list[tuple[str, str]]]:
    seen: list[tuple[str, str]] = []

    def take(each: PodEvent, now_s: float) -> None:
        assert now_s == 5.0
        seen.append((each.type, each.object.metadata.name))

    played = Played(*watches)
    return played, PodWatch(cast("StreamClient", played), ManualClock(5.0), take), seen


def test_each_event_is_handed_on_once_however_it_is_cut_into_chunks() -> None:
    whole = event("ADDED", "11", "a") + event("MODIFIED", "12", "b") + event("DELETED", "13", "a")
    _, watch, seen = watched([whole[:30], whole[30:31], whole[31:]])

    async def main() -> None:
        await watch.start()
        await watch.follow()

    asyncio.run(main())
    assert seen == [("ADDED", "a"), ("MODIFIED", "b"), ("DELETED", "a")]
    assert watch.version == "13"


def test_what_the_server_says_again_is_not_news() -> None:
    before = event("ADDED", "11", "a") + event("MODIFIED", "12", "a")
    _, watch, seen = watched([before + event("ADDED", "11", "a") + event("MODIFIED", "13", "a")])

    async def main() -> None:
        await watch.start()
        await watch.follow()

    asyncio.run(main())
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a")]
    assert watch.version == "13"


def test_a_watch_that_ends_in_order_is_opened_again_behind_the_last_version() -> None:
    played, watch, seen = watched(
        [event("ADDED", "11", "a"), event("BOOKMARK", "20")], [event("ADDED", "21", "b")]
    )

    async def main() -> None:
        await watch.start()
        await watch.follow()
        await watch.follow()

    asyncio.run(main())
    assert played.asked == ["10", "20"]
    assert seen == [("ADDED", "a"), ("ADDED", "b")], "a bookmark is no event of a pod"
    assert played.closed_count == 2


def test_a_gap_in_the_history_ends_it_with_the_reason() -> None:
    gone = event("ERROR", "", status="Failure", message="too old resource version", code=410)
    played, watch, seen = watched([event("ADDED", "11", "a"), gone, event("ADDED", "12", "b")])

    async def main() -> None:
        await watch.start()
        await watch.run()

    with pytest.raises(WatchBrokenError, match="too old resource version"):
        asyncio.run(main())
    assert seen == [("ADDED", "a")]
    assert played.closed_count == 1
