"""What a worker says of a batch."""

from typing import NamedTuple

from shared.messages.from_scorer import Failure, GroupRoom, Placements, Proposals


class BatchAnswers(NamedTuple):
    """What became of a batch."""

    placements: Placements
    """In task order."""
    failures: list[Failure]
    """One for all tickets of a class that fit nowhere."""
    skipped: list[int]
    """Tickets whose class is not known any more."""
    group_message: str = ""
    """As in `Proposals`."""
    group_room: GroupRoom | None = None
    """The same."""

    @property
    def found_count(self) -> int:
        """Pods that have a node, or would have if others made room."""
        waiting = sum(failure.preemption is not None for failure in self.failures)
        return len(self.placements.tickets) + waiting

    @property
    def is_error(self) -> bool:
        return any(failure.is_error for failure in self.failures)

    def proposals(self, epoch: int, batch_id: int, sequence: int, generation: int) -> Proposals:
        """As the owner is told, fields as there."""
        return Proposals(epoch, batch_id, sequence, generation, **self._asdict())
