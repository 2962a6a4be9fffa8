"""Room that is held for a gang that small pods would keep away for ever: off unless asked for.

A gang that has waited for so long, and still has no place, is told where it would go without the pods
that matter no more than it does, as many of those staying as can. Nobody is asked to go: the gang's pods
are nominated there, so that what gets free is given to nobody who matters no more, until the gang is
placed or as much time has passed again. Then nobody holds room for as long, and who held it last for
twice as long. So at most one gang at a time holds room, and at most half of the time.

It is known here alone: no status says so, and after the owner's death nothing is held.
"""

import math

import msgspec

from daemon.core.dispatch import Attempt
from daemon.core.holdings import ClusterFacts
from daemon.core.pod_groups import Unit


class Held(msgspec.Struct):
    """What one gang holds."""

    key: str
    until_s: float
    places: dict[str, str]
    message: str
    """Of the group's condition: what kept it away, which is not what keeps it away now."""


class GroupReservations:
    """At most one."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._facts = facts
        self._lasts_s = facts.settings.groups.reservation_s
        self.held: Held | None = None
        self._last_key = ""
        self._ended_s = -math.inf

    def is_due(self, unit: Unit, now_s: float) -> bool:
        """Whether the gang may hold room if it has no place this time."""
        if not self._lasts_s or self.held is not None:
            return False
        if not self._facts.groups.wanted_count(unit.key):
            return False  # Each of its pods is placed alone.
        pause_s = self._lasts_s * (2 if unit.key == self._last_key else 1)
        began_s = min(pod.initial_attempt_s or now_s for pod in unit.pods)
        return now_s >= max(began_s + self._lasts_s, self._ended_s + pause_s)

    def hold(self, key: str, placed: list[tuple[Attempt, int]], message: str, now_s: float) -> str:
        """The gang has no place; its pods would go to these rows, if to any. Returns what its condition
        says, which would be `message`."""
        if self.held is not None:
            return self.held.message if self.held.key == key else message
        nodes = self._facts.cache.nodes
        places = {
            attempt.pod.uid: nodes.name_of(row)
            for attempt, row in placed
            if 0 <= row < nodes.row_count and nodes.present[row]
        }
        if not places:
            return message
        count = len(dict.fromkeys(places.values()))
        message += f"; holds room on {count} nodes for {self._lasts_s:g} s at most"
        self.held = Held(key, now_s + self._lasts_s, places, message)
        self.renew(key)
        return message

    def renew(self, key: str) -> None:
        """An attempt of the gang has come to nothing, and ended its pods' nominations."""
        held, facts = self.held, self._facts
        if held is None or held.key != key:
            return
        for uid, node_name in held.places.items():
            if facts.queue.get(uid) is not None and facts.cache.get_pod(uid) is None:
                facts.queue.nominator.nominate(uid, node_name)

    def release(self, key: str, now_s: float) -> None:
        """The gang has its place, or waits for others to go."""
        if self.held is not None and self.held.key == key:
            self._end(self.held, now_s)

    def pass_time(self, now_s: float) -> None:
        if self.held is not None and self.held.until_s <= now_s:
            self._end(self.held, now_s)

    def next_wakeup_s(self) -> float | None:
        return None if self.held is None else self.held.until_s

    def _end(self, held: Held, now_s: float) -> None:
        self.held, self._last_key, self._ended_s = None, held.key, now_s
        nominator, freed = self._facts.queue.nominator, dict[str, str]()
        for uid, node_name in held.places.items():
            if nominator.node_of(uid) == node_name:
                nominator.clear(uid)
                freed[node_name] = uid
        self._facts.nominations.refresh()
        for node_name, uid in freed.items():
            pod = self._facts.queue.get(uid)
            if pod is not None:
                self._facts.queue.wake_after_nomination(pod.view, now_s, node_name)
