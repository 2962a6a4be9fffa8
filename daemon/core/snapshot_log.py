"""Snapshots: what changed since the last one, for all scorers; everything, for one that asks.

A snapshot at generation G contains every change up to G and none after. Deltas are numbered, so
that a scorer notices a lost one; a full snapshot says which delta comes next.
"""

import msgspec

from daemon.core.cache import Cache
from daemon.core.events import Publish
from shared.columns.delta import NOTHING_SENT, Buffer, dictionary_marks, make_delta
from shared.framework.cluster_view import Follower
from shared.messages.to_scorer import SnapshotDelta, SnapshotFull


class SnapshotLog:
    def __init__(self, cache: Cache, epoch: int) -> None:
        self._cache = cache
        self._epoch = epoch
        self.sequence = 0
        """Of the last delta; 0 before the first."""
        self._follower = Follower(cache.view)
        self._follower.note()  # Of an empty cluster a full snapshot may be all that is ever told.
        self.generation = 0
        """Of the cache, as of the last delta."""
        self._marks = NOTHING_SENT
        self._settled: dict[int, int] = {}

    def is_current(self, settled: dict[int, int], generation: int) -> bool:
        """Nothing changed since the last delta that a scorer must know, but for rows that changed up to
        this generation, of which it knows without being told."""
        cache, classes = self._cache, self._cache.classes
        return (
            generation == cache.generation
            and not cache.object_news
            and not cache.objects.assumption_news
            and not classes.born
            and not classes.retired
            and not cache.nomination_news
            and settled == self._settled
        )

    def delta(self, settled: dict[int, int], next_ticket: int) -> Publish | None:
        """What changed since the last delta; None if nothing did that a scorer must know."""
        if self.is_current(settled, self.generation):
            return None
        cache, classes = self._cache, self._cache.classes
        body, buffers, self._marks = make_delta(
            cache.nodes,
            cache.pod_table,
            self._follower.changes() or cache.all_changes(),
            self._marks,
            image_sizes=cache.new_image_sizes,
            # A class may be born and die between two deltas; its pods were never seen.
            classes=[born.definition for born in classes.born if born.class_id in classes.infos],
            retired_classes=classes.retired,
            # After the objects: what is assumed lies on top of them.
            objects=cache.object_news + cache.objects.take_news(),
            nominations=list(cache.nomination_news.values()),
        )
        self.sequence += 1
        where = self._epoch, self.sequence, cache.generation
        message = SnapshotDelta(*where, dict(settled), msgspec.Raw(body), next_ticket)
        self._sent(settled)
        return Publish(message, buffers)

    def skip(self, settled: dict[int, int]) -> None:
        """Nobody listens: what changed until now will be part of the next full snapshot."""
        self._marks = dictionary_marks(self._cache.nodes)
        self._sent(settled)

    def start_over(self, settled: dict[int, int]) -> None:
        """Copies that are out are of no use any more, and no delta goes on from them: whoever has one
        must be sent everything. A number is left out, so that one who misses that notices."""
        self.skip(settled)
        self.sequence += 1

    def full(self, settled: dict[int, int], next_ticket: int) -> tuple[SnapshotFull, list[Buffer]]:
        """Everything as of the last delta. Call after `delta` or `skip`, so that nothing is newer."""
        cache = self._cache
        is_seen = self._follower.saw_usage and self._follower.saw_nodes
        assert is_seen, "a full snapshot follows a delta"
        body, buffers, _ = make_delta(
            cache.nodes,
            cache.pod_table,
            cache.all_changes(),
            NOTHING_SENT,
            image_sizes=cache.nodes.image_sizes,
            classes=[pod_class.definition for pod_class in cache.classes],
            objects=cache.encoded_objects() + cache.objects.all_assumptions(),
            nominations=cache.view.nominations.all(),
        )
        where = self._epoch, self.sequence, cache.generation
        message = SnapshotFull(*where, dict(settled), msgspec.Raw(body), next_ticket)
        return message, buffers

    def _sent(self, settled: dict[int, int]) -> None:
        self._follower.note()
        self.generation = self._cache.generation
        self._settled = dict(settled)
        self._cache.object_news = []
        self._cache.objects.assumption_news.clear()
        self._cache.new_image_sizes = {}
        self._cache.nomination_news = {}
        self._cache.classes.born = []
        self._cache.classes.retired = []
