"""Room that is held for gangs that others would keep away for ever: off unless asked for.

A gang that has waited for so long, and still has no place, is told where it would go without the pods
that matter no more than it does, as many of those staying as can. Nobody is asked to go: the gang's pods
are nominated there, so that what gets free is given to nobody who matters no more. At most one gang at a
time holds room so, and nobody does for as long after it.

A group for which others were asked to go holds the room that these leave, as otherwise whoever is next
may take it, and others have to go for the same group again and again. Any number of groups may.

Either ends once the gang is placed, or after so long; then the same gang holds none for twice as long.
It is known here alone: no status says so, and after the owner's death nothing is held.
"""

import math

import msgspec

from daemon.core.dispatch import Placed
from daemon.core.holdings import ClusterFacts
from daemon.core.pod_groups import Unit
from daemon.core.queue.queued_pod import QueuedPod


class Held(msgspec.Struct):
    until_s: float
    places: dict[str, str]
    message: str
    """Of the group's condition: what kept it away, which is not what keeps it away now."""
    priority: int | None
    """Of the group for which others were asked to go; None where nobody was."""


class GroupReservations:
    def __init__(self, facts: ClusterFacts) -> None:
        self._facts = facts
        self._lasts_s = facts.settings.groups.reservation_s
        self.held: dict[str, Held] = {}
        self._ran_out: dict[str, float] = {}
        """When a gang had held room for as long as it may, not too long ago."""
        self._free_s = -math.inf
        """From then on the next that has waited for so long may hold room."""

    def is_due(self, unit: Unit, now_s: float) -> bool:
        """Whether the gang may hold room if it has no place this time."""
        if not self._lasts_s or not self._facts.groups.wanted_count(unit.key):
            return False  # Of a group without a quorum each pod is placed alone.
        if self._is_one_waiting() or unit.key in self.held or self._rests(unit.key, now_s):
            return False
        began_s = min(pod.initial_attempt_s or now_s for pod in unit.pods)
        return now_s >= max(began_s + self._lasts_s, self._free_s)

    def hold(
        self,
        key: str,
        placed: list[Placed],
        message: str,
        now_s: float,
        priority: int | None = None,
    ) -> None:
        """The gang has no place; its pods would go to these rows. From the next `renew` on they are
        nominated there. `message`: what its condition would say; `priority`: as `Held` has it."""
        held, cache = self.held.get(key), self._facts.cache
        is_served = self._is_one_waiting() if priority is None else self._rests(key, now_s)
        places = {pod.uid: cache.nodes.name_of(row) for pod, row in placed if cache.shows(row)}
        if not self._lasts_s or is_served or not places:
            return
        until_s = now_s + self._lasts_s if held is None else held.until_s
        self.release(key, now_s)
        count = len(dict.fromkeys(places.values()))
        message += f"; holds room on {count} nodes for {self._lasts_s:g} s at most"
        self.held[key] = Held(until_s, places, message, priority)

    def message(self, key: str, message: str) -> str:
        """What the condition of the gang says, which would be `message`."""
        held = self.held.get(key)
        return message if held is None else held.message

    def renew(self, key: str) -> None:
        """An attempt of the gang has come to nothing, and ended its pods' nominations."""
        held, facts = self.held.get(key), self._facts
        if held is None:
            return
        for uid, node_name in held.places.items():
            pod = facts.queue.get(uid)
            if pod is not None and facts.cache.get_pod(uid) is None:
                priority = _priority(held, pod)
                facts.queue.nominator.nominate(uid, node_name, priority)

    def release(self, key: str, now_s: float, *, are_nominated: bool = False) -> None:
        """The gang has its place, or has held room for as long as it may; or its pods `are_nominated`
        for their own part."""
        held = self.held.pop(key, None)
        if held is None:
            return
        if held.priority is None:
            self._free_s = now_s + self._lasts_s
        nominator = self._facts.queue.nominator
        for uid, node_name in () if are_nominated else held.places.items():
            if nominator.node_of(uid) == node_name:
                nominator.clear(uid)
        self._wake(held, now_s)

    def _wake(self, held: Held, now_s: float) -> None:
        """Whoever had to leave the room alone, where it is kept for nobody any more: the gang's pod may
        have found a place on another node. Who matters less than the group, but more than its pods
        that have the room now, is not told, or each would have the other go again and again."""
        facts = self._facts
        facts.nominations.refresh()
        freed: dict[str, QueuedPod] = {}
        for uid, node_name in held.places.items():
            pod, placed = facts.queue.get(uid), facts.cache.get_pod(uid)
            there = facts.queue.nominator.node_of(uid) if placed is None else placed.node_name
            if pod is not None and there != node_name:
                freed[node_name] = pod
        for node_name, pod in freed.items():
            facts.queue.wake_after_nomination(pod.view, now_s, node_name, _priority(held, pod))

    def pass_time(self, now_s: float) -> None:
        for key in [key for key, held in self.held.items() if held.until_s <= now_s]:
            resting = {each: s for each, s in self._ran_out.items() if self._rests(each, now_s)}
            self._ran_out = {**resting, key: now_s}
            self.release(key, now_s)

    def next_wakeup_s(self) -> float:
        return min(held.until_s for held in self.held.values()) if self.held else math.inf

    def _is_one_waiting(self) -> bool:
        """Whether some gang holds room that nobody was asked to leave."""
        return any(held.priority is None for held in self.held.values())

    def _rests(self, key: str, now_s: float) -> bool:
        """Whether the gang has held room for too long."""
        return now_s < self._ran_out.get(key, -math.inf) + 2 * self._lasts_s


def _priority(held: Held, pod: QueuedPod) -> int | None:
    """As which the pod holds room; None: as itself."""
    return None if held.priority is None else max(held.priority, pod.priority)
