"""`python -m bench.null_binder`: a binder that binds nothing and says at once that it did.

It speaks the binder's channel, so that owner and workers run as they do in a cluster, but there is
no API server: what it is told, it passes on as JSON lines on standard output, for whoever plays the
cluster. A line is written before the owner is answered; who knows the owner's answer has the line.
Extenders that bind are asked for real.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

import msgspec

from bench.sync_peer import SyncPeer, sync_binder_peer
from shared.child_plan import child_start, watch_for_end
from shared.clock import Clock, SystemClock
from shared.config import load_configuration
from shared.errors import OperationalError
from shared.extenders.extender_config import ExtenderConfig
from shared.framework.binding_api import Skipped
from shared.kube.binding_work import ClaimWork, claim_work
from shared.messages.codec import Drain
from shared.messages.from_binder import (
    BinderHeartbeat,
    BinderHello,
    BinderReady,
    BindFailed,
    BindReport,
    VictimDone,
)
from shared.messages.to_binder import (
    BindPod,
    BindPods,
    PreemptPods,
    ReleaseClaim,
    ReportPods,
    StatusPatch,
    ToBinder,
    Welcome,
)
from shared.plugin_names import DYNAMIC_RESOURCES
from shared.telemetry.log import EventLog
from shared.transport.channels import Connected
from workers.binder.bind_call import NotBound, Outcome
from workers.binder.extender_bind import ExtenderBinder

BEAT_MS: Final = 1000
SEND_TIMEOUT_MS: Final = 5000

log = EventLog("null_binder")


class Bound(msgspec.Struct, frozen=True, tag="bound"):
    """An order that was carried out, as far as the owner knows."""

    uid: str
    pod: str
    node: str
    ordered_s: float
    """When the order came, by the clock that all processes of a machine share."""
    claims: list[ClaimWork] = []
    """Resource claims that a binder would have written before."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """A verdict that a binder would have written into the pod's condition."""

    uid: str
    pod: str
    reason: str
    message: str


class Evicted(msgspec.Struct, frozen=True, tag="evicted"):
    """A victim of preemption that a binder would have deleted."""

    uid: str
    pod: str
    preemptor_uid: str


class Nominated(msgspec.Struct, frozen=True, tag="nominated"):
    """A nomination that a binder would have written; an empty node ends it."""

    uid: str
    pod: str
    node: str


class Released(msgspec.Struct, frozen=True, tag="released"):
    """A resource claim that a binder would have freed."""

    claim: ReleaseClaim


Line = Bound | Refused | Evicted | Nominated | Released
"""What is written: one JSON object a line."""

_encoder: Final = msgspec.json.Encoder()


class NullBinder:
    """Everything between the owner's messages and the lines; no sockets of its own."""

    def __init__(
        self,
        index: int,
        instance: str,
        write: Callable[[bytes], None],
        clock: Clock,
        extenders: Sequence[ExtenderConfig] = (),
    ) -> None:
        self._index = index
        self._instance = instance
        self._write = write
        self._clock = clock
        self._extenders = extenders
        self._epoch: int | None = None
        self.is_drained = False

    def answers(self, message: ToBinder | Connected) -> list[Any]:
        """What to tell the owner."""
        match message:
            case Connected():
                self._epoch = None
                return [BinderHello(self._index)]
            case Welcome(epoch):
                self._epoch = epoch
                return [BinderReady(epoch)]
            case BindPods(epoch, orders):
                if epoch != self._epoch:
                    log.warning("orders_refused", epoch=epoch, orders=len(orders))
                    return []
                now_s = self._clock.monotonic_s()
                failed = [failure for order in orders if (failure := self._refusal(order))]
                refused = {failure.ticket for failure in failed}
                bound = [order for order in orders if order.ticket not in refused]
                self._tell([Bound(o.uid, o.pod, o.node_name, now_s, _claims(o)) for o in bound])
                finished = [order.ticket for order in bound]
                return [BindReport(epoch, finished, failed)]
            case ReportPods(epoch, patches):
                if epoch == self._epoch:
                    self._tell(_lines(patches))
                return []
            case PreemptPods(epoch, victims, releases):
                if epoch != self._epoch:
                    log.warning("victims_refused", epoch=epoch, victims=len(victims))
                    return []
                self._tell(
                    [
                        Evicted(v.uid, f"{v.namespace}/{v.name}", v.preemptor_uid)
                        for v in victims
                        if not v.is_given_up
                    ]
                )
                self._tell([Released(claim) for claim in releases])
                done = [VictimDone(victim.order_id) for victim in victims]
                return [BindReport(epoch, [], [], done)] if done else []
            case Drain():
                self.is_drained = True
                return []
            case _:
                assert_never(message)

    def beats(self) -> list[Any]:
        """What to say when nothing was heard for a while; nothing to an owner that is not there yet."""
        return [] if self._epoch is None else [BinderHeartbeat(self._index)]

    def _refusal(self, order: BindPod) -> BindFailed | None:
        """What an extender has against a binding that is up to it."""
        if not order.extenders:
            return None
        outcome = asyncio.run(_asked(self._extenders, order))
        if not isinstance(outcome, NotBound):
            return None
        return BindFailed(order.ticket, outcome.reason, outcome.message)

    def _tell(self, lines: Sequence[Line]) -> None:
        self._write(b"".join(_encoder.encode(line) + b"\n" for line in lines))


def _lines(patches: Sequence[StatusPatch]) -> list[Line]:
    """Whoever reads why a pod was refused knows of all nominations that ended with it."""
    lines: list[Line] = []
    for each in patches:
        node = each.nominated_node_name
        if node is not None:
            lines.append(Nominated(each.uid, f"{each.namespace}/{each.name}", node))
    refused = [each for each in patches if each.reason]
    lines += [Refused(v.uid, f"{v.namespace}/{v.name}", v.reason, v.message) for v in refused]
    return lines


def _claims(order: BindPod) -> list[ClaimWork]:
    told = order.work.get(DYNAMIC_RESOURCES)
    return [] if told is None else claim_work(told)


async def _nobody_bound(_: BindPod) -> None:
    """Stands for an API server that has seen no binding of an extender that failed."""


async def _asked(extenders: Sequence[ExtenderConfig], order: BindPod) -> Outcome | Skipped:
    binder = ExtenderBinder(dict(enumerate(extenders)), _nobody_bound)
    try:
        return await binder.bind(order)
    finally:
        await binder.close()


def _serve(
    peer: SyncPeer[Any, ToBinder], binder: NullBinder, is_stopped: Callable[[], bool]
) -> None:
    while not is_stopped() and not binder.is_drained:
        message = peer.receive(BEAT_MS)
        answers = binder.beats() if message is None else binder.answers(message)
        for answer in answers:
            peer.send(answer, SEND_TIMEOUT_MS)


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]


def main(arguments: list[str]) -> int:
    """Runs until drained, SIGTERM, or the end of whoever started it."""
    start = child_start("null-binder", arguments, is_one_of_many=True)
    instance = f"null-binder-{start.number}-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with sync_binder_peer(start.runtime_dir, instance) as peer:
            is_stopped = watch_for_end(start.lifeline_fd, peer.watch_fd)
            extenders = load_configuration(start.options.config).extenders
            binder = NullBinder(start.number, instance, _write_all, SystemClock(), extenders)
            _serve(peer, binder, is_stopped)
    except OperationalError as error:
        log.error("null_binder_failed", problem=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
