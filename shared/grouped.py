"""Things by group, and numbers by name, of which nothing empty is kept.

Pods, nodes and objects come and go without end: what is filed under one of them has to leave nothing
behind when it goes.
"""

from typing import TypeVar

G = TypeVar("G")
K = TypeVar("K")
V = TypeVar("V")


class Grouped(dict[G, dict[K, V]]):
    """Group -> key -> value, in the order in which they came; a group that is there has members. It is
    read as the dictionary that it is, and changed by these two only."""

    __slots__ = ()

    def put(self, group: G, key: K, value: V) -> None:
        """Files the value in the group, in place of what was there under the key."""
        self.setdefault(group, {})[key] = value

    def drop(self, group: G, key: K) -> None:
        """Takes out what must be there."""
        members = self[group]
        del members[key]
        if not members:
            del self[group]


def tally(counts: dict[K, int], key: K, change: int) -> None:
    """Adds to a number; one that comes to 0 is forgotten."""
    now = counts.get(key, 0) + change
    if now:
        counts[key] = now
    else:
        del counts[key]


def tally_in(counts: dict[G, dict[K, int]], group: G, key: K, change: int) -> None:
    """The same of a number in a group; a group without numbers is forgotten as well."""
    of_group = counts.setdefault(group, {})
    tally(of_group, key, change)
    if not of_group:
        del counts[group]
