"""What one kind's watch has told lately, to notice when it tells it again.

A watch never repeats itself, but servers behind load balancers, proxies and reconnections do: an event
that comes twice does no harm, one that comes late takes the object back to how it was. Versions are
opaque, so nothing is compared but equality: an event is a repetition if its uid came with the same
version before, or if its uid has been deleted. What is remembered is bounded; a new list begins anew.
"""

from collections import OrderedDict

from shared.limits import RECENT_DELETIONS_MAX, RECENT_EVENTS_MAX


class RecentEvents:
    """The events of one kind since its last list."""

    def __init__(self) -> None:
        self._events: OrderedDict[tuple[str, str, bool], None] = OrderedDict()
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def clear(self) -> None:
        """A new list begins."""
        self._events.clear()
        self._deleted.clear()

    def is_repetition(self, uid: str, version: str, *, is_deletion: bool) -> bool:
        """Whether this was told before, or cannot be any more; remembers it otherwise."""
        event = (uid, version, is_deletion)
        if event in self._events or uid in self._deleted:
            return True
        self._events[event] = None
        if len(self._events) > RECENT_EVENTS_MAX:
            self._events.popitem(last=False)
        return False

    def has_gone(self, uid: str) -> None:
        """An object was deleted for good: its uid never comes back."""
        self._deleted[uid] = None
        if len(self._deleted) > RECENT_DELETIONS_MAX:
            self._deleted.popitem(last=False)
