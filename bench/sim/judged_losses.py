"""Whom the owner parks: pods that workers were lost with again and again (daemon/core/suspects.py).

A story ends workers as it likes, so that also a pod may be parked that nobody has died of. Nothing
happens to it for an hour; that it was lost so often is judged here, by what was answered and lost.
"""

from collections import Counter
from collections.abc import Collection
from typing import Any

from bench.sim.schedule import SimulatedFailure
from bench.sim.sim_processes import OwnerProcess
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.suspects import LOSSES_IN_COMPANY_MAX, LOSSES_MAX
from shared.messages.from_scorer import FromScorer, Proposals


def listen_to_losses(owner: OwnerProcess) -> None:
    """From its first turn on."""
    lost: Counter[int] = Counter()
    """Class -> how many workers were lost with a pod of it since one was answered."""
    links: Any = owner.state._scorer_links  # noqa: SLF001 # To listen.
    suspects: Any = owner.state.suspects  # The same.
    hear, lose = links.hear, suspects.lose

    def heard(peer: bytes, message: FromScorer, key_name: str, now_s: float) -> None:
        scorer = owner.state.scorers.get(peer)
        if isinstance(message, Proposals) and message.epoch == owner.epoch and scorer is not None:
            failed = [ticket for failure in message.failures for ticket in failure.tickets]
            for ticket in (*message.placements.tickets, *failed, *message.skipped):
                if ticket in scorer.attempts:
                    lost.pop(scorer.attempts[ticket].tried_as.class_id, None)
        hear(peer, message, key_name, now_s)

    def lost_with(pods: Collection[QueuedPod], now_s: float, instance: str | None) -> set[int]:
        lost.update({pod.tried_as.class_id for pod in pods})
        guilty: set[int] = lose(pods, now_s, instance)
        needed = LOSSES_MAX if len(pods) == 1 else LOSSES_IN_COMPANY_MAX
        for class_id in guilty:
            if lost[class_id] < needed:
                told = f"class {class_id} after {lost[class_id]} losses, not {needed}"
                raise SimulatedFailure("parked", told)
        return guilty

    links.hear, suspects.lose = heard, lost_with
