"""What is in flight with binders: which of them has which order, and what becomes of it.

An order is answered exactly once. When a binder is lost, its orders go to another one with
`look_first`: whether the lost one had already bound the pod is for the API server to say, and a
second blind POST is never sent. While no binder is there, orders wait; beside a slow API server there
may be as many of them as pods that are assumed, so no turn looks at those that cannot be sent yet.
"""

import heapq
import math
import zlib
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from daemon.core.events import Effect, Tell
from daemon.core.peers import Peer, Peers
from shared.kube.pod_record import PodRecord
from shared.limits import ORDERS_PER_BINDER_MAX, POD_INITIAL_BACKOFF_S, POD_MAX_BACKOFF_S
from shared.messages.to_binder import BindPod, BindPods, DeleteVictim, PreemptPods, ReleaseClaim
from shared.transport.channels import Channel

PAUSE_DOUBLINGS_MAX: Final = 10
"""Of what may be doubled further, the maximum is reached by then."""


class Order(msgspec.Struct, frozen=True, eq=False, gc=False):
    bind: BindPod
    number: int
    """Orders are counted: those that come first go first."""
    record: PodRecord
    is_announced: bool
    """The owner had the pod's status say so already."""
    unknown_count: int = 0
    """How often a binder could not tell its outcome."""


class Binder(Peer):
    is_ready: bool = False
    is_clear: bool = False
    """Nothing of before is in flight there."""
    orders: dict[int, Order] = msgspec.field(default_factory=dict)
    """By ticket."""
    waiting: deque[Order] = msgspec.field(default_factory=deque)
    """Beyond what it may have at a time."""
    victims: dict[int, DeleteVictim] = msgspec.field(default_factory=dict)
    """By order id: deletions that it has not answered."""


class BinderPool(Peers[Binder]):
    SILENCE_MAX_S = 15.0
    """It says something each second while it has orders, and each few seconds without."""

    def __init__(self, epoch: int, shared_claim_of: Callable[[str], str] = lambda _: "") -> None:
        """`shared_claim_of`: by the uid of a pod, the resource claim that others may name too. Who
        shares one is with one binder, as it has one writer at a time."""
        super().__init__()
        self._shared_claim_of = shared_claim_of
        self._epoch = epoch
        self._ready: list[Binder] = []
        """In the order of their index."""
        self._unassigned: list[Order] = []
        """Of which it is not said yet which binder gets them."""
        self._paused: list[tuple[float, int, Order]] = []
        """A heap of (when its pause is over, its number, order)."""
        self.victims: list[DeleteVictim] = []
        """Deletions that no binder has."""
        self.releases: list[ReleaseClaim] = []
        """Resource claims to be freed that a pod which fits nowhere could use otherwise."""
        self._next_number = 1

    def join(self, peer: bytes, index: int, now_s: float) -> int:
        """A binder said Hello. Returns how many orders its former life left to be sent again."""
        # Also one that is known: a binder that says Hello again forgets what it had not begun.
        lost = sum(self.leave(former) for former in self.replaced_by(peer, index))
        self._by_peer[peer] = Binder(peer, index, now_s)
        return lost

    def leave(self, peer: bytes) -> int:
        """A binder is gone: its next life said Hello, it was silent for too long, or takes no message.
        Its orders wait to be sent again; returns how many."""
        binder = self._by_peer.pop(peer, None)
        if binder is None:
            return 0
        self.victims += binder.victims.values()  # A deletion by uid does no harm twice.
        again = [_with_a_look(order) for order in binder.orders.values()]
        self._unassigned += [*again, *binder.waiting]
        self._line_up()
        return len(again)

    def ready(self, peer: bytes, *, is_clear: bool = True) -> None:
        binder = self._by_peer.get(peer)
        if binder is not None:
            binder.is_ready, binder.is_clear = True, is_clear
            self._line_up()

    def for_pod(self, uid: str) -> bytes:
        """The binder that writes about this pod, where any is ready: always the same while the pool does
        not change, so that an earlier attempt's condition never lands after a later one's binding."""
        return self._home(uid).peer

    def ready_count(self) -> int:
        return len(self._ready)

    def order(self, bind: BindPod, record: PodRecord, *, is_announced: bool = False) -> None:
        """Asks for a binding; it leaves with the next `flush`. `is_announced`: the pod's status says
        the node already, or is about to, whatever the record says."""
        self._unassigned.append(Order(bind, self._next_number, record, is_announced))
        self._next_number += 1

    def order_again(self, order: Order, now_s: float) -> None:
        """The outcome of an order is unknown: somebody has to look, after a pause that doubles. The pod
        stays assumed, so there is no end but an answer."""
        looking = _with_a_look(order)
        again = msgspec.structs.replace(looking, unknown_count=order.unknown_count + 1)
        doubled = 2.0 ** min(order.unknown_count, PAUSE_DOUBLINGS_MAX)
        # As of pods that fail in the queue, by default: the same server answers neither.
        pause_s = min(POD_MAX_BACKOFF_S, POD_INITIAL_BACKOFF_S * doubled)
        heapq.heappush(self._paused, (now_s + pause_s, order.number, again))

    def next_wakeup_s(self) -> float:
        """When `pass_time` next has something to do; infinite if never."""
        return self._paused[0][0] if self._paused else math.inf

    def pass_time(self, now_s: float) -> None:
        """Orders whose pause is over leave with the next `flush`."""
        while self.next_wakeup_s() <= now_s:
            self._unassigned.append(heapq.heappop(self._paused)[2])

    def settle(self, peer: bytes, ticket: int) -> Order | None:
        """The outcome of an order came in; None for one that is not out with this binder."""
        binder = self._by_peer.get(peer)
        return None if binder is None else binder.orders.pop(ticket, None)

    def in_flight_count(self) -> int:
        given = sum(len(binder.orders) + len(binder.waiting) for binder in self)
        return len(self._unassigned) + len(self._paused) + given

    def flush(self) -> list[Effect]:
        """Sends what waits and may be sent, each order to its pod's binder."""
        ready = self._ready
        if not ready:
            return []
        for order in self._unassigned:
            self._home(order.record.uid).waiting.append(order)
        self._unassigned.clear()
        effects: list[Effect] = []
        for binder in ready:
            waiting, room = binder.waiting, ORDERS_PER_BINDER_MAX - len(binder.orders)
            if waiting and room > 0:
                orders = []
                for _ in range(min(room, len(waiting))):
                    order = waiting.popleft()
                    binder.orders[order.bind.ticket] = order
                    orders.append(order.bind)
                effects.append(Tell(Channel.BINDERS, binder.peer, BindPods(self._epoch, orders)))
        return effects

    def preempt(self) -> list[Effect]:
        """Has `victims` deleted, as soon as a binder is there, and what is in `releases` freed, if one
        is: the pods' next attempts find those again."""
        told = {binder: PreemptPods(self._epoch, [], []) for binder in self._ready}
        if told:
            for victim in self.victims:
                binder = self._home(victim.uid)
                binder.victims[victim.order_id] = victim
                told[binder].victims.append(victim)
            self.victims.clear()
            for release in self.releases:
                told[self._home(release.pod_uid)].releases.append(release)
        self.releases.clear()
        some = (one for one in told.items() if one[1].victims or one[1].releases)
        return [Tell(Channel.BINDERS, binder.peer, message) for binder, message in some]

    def settle_victim(self, peer: bytes, order_id: int) -> DeleteVictim | None:
        """What became of a deletion came in; None for one that is not out with this binder."""
        binder = self._by_peer.get(peer)
        return None if binder is None else binder.victims.pop(order_id, None)

    def _home(self, uid: str) -> Binder:
        """An even choice of those that are ready, the same for a pod and all that share its claim."""
        if len(self._ready) == 1:
            return self._ready[0]
        name = self._shared_claim_of(uid) or uid
        return self._ready[zlib.crc32(name.encode()) % len(self._ready)]

    def _line_up(self) -> None:
        """Others are ready than before, so that what waits is spread anew, in the old order."""
        ready = [binder for binder in self if binder.is_ready]
        self._ready = sorted(ready, key=lambda binder: binder.index)
        for binder in ready:
            self._unassigned += binder.waiting
            binder.waiting.clear()
        self._unassigned.sort(key=lambda order: order.number)


def _with_a_look(order: Order) -> Order:
    return msgspec.structs.replace(order, bind=msgspec.structs.replace(order.bind, look_first=True))
