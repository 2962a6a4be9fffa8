"""Follows all pods on the API server and writes what it sees into a `PodBook`.

It must see every change, so a gap in the history (410 Gone) ends the run instead of being bridged by a
new list.
"""

from bench.demo.pod_book import PodBook
from bench.watched.pod_events import PodEvent
from bench.watched.pod_watch import PodWatch, WatchBrokenError
from shared.clock import Clock
from shared.kube.http_stream import StreamClient


def pod_watcher(client: StreamClient, book: PodBook, clock: Clock) -> PodWatch:
    """A watch that keeps the book up to date, once it is started and runs."""

    def take(event: PodEvent, now_s: float) -> None:
        if event.type == "DELETED":
            raise WatchBrokenError(f"pod {event.object.metadata.name} was deleted; nobody may")
        book.observed(event, now_s)

    return PodWatch(client, clock, take)
