"""What one kind's watch has told lately, to notice when it tells it again.

A watch never repeats itself, but servers behind load balancers, proxies and reconnections do: an event
that comes twice does no harm, one that comes late takes the object back to how it was. Versions are
opaque, so nothing is compared but equality: an event is a repetition if its uid came with the same
version before, or if its uid has been deleted. What is remembered is bounded; a new list begins anew.
"""

from collections import deque

from shared.limits import RECENT_DELETIONS_MAX, RECENT_EVENTS_MAX


class RecentEvents:
    """The events of one kind since its last list."""

    def __init__(
        self, events_max: int = RECENT_EVENTS_MAX, deletions_max: int = RECENT_DELETIONS_MAX
    ) -> None:
        self._events_max = events_max
        self._deletions_max = deletions_max
        self._events: set[tuple[str, str, bool]] = set()
        self._event_order: deque[tuple[str, str, bool]] = deque()
        self._deleted: set[str] = set()
        self._deletion_order: deque[str] = deque()

    def clear(self) -> None:
        """A new list begins."""
        self._events.clear()
        self._event_order.clear()
        self._deleted.clear()
        self._deletion_order.clear()

    def is_repetition(self, uid: str, version: str, *, is_deletion: bool) -> bool:
        """Whether this was told before, or cannot be any more; remembers it otherwise."""
        event = (uid, version, is_deletion)
        if event in self._events or uid in self._deleted:
            return True
        self._events.add(event)
        self._event_order.append(event)
        if len(self._event_order) > self._events_max:
            self._events.discard(self._event_order.popleft())
        return False

    def has_gone(self, uid: str) -> None:
        """An object was deleted for good: its uid never comes back."""
        self._deleted.add(uid)
        self._deletion_order.append(uid)
        if len(self._deletion_order) > self._deletions_max:
            self._deleted.discard(self._deletion_order.popleft())
