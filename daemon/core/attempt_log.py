"""The steps of each attempt, for people who ask for them (`--log-level debug`).

Each line has the pod and the ticket of its attempt, and so have those of the scorer and the binder that
the attempt goes through: one `grep` for the pod tells its story over all processes, one for a ticket
that of the attempt.
"""

from daemon.core.effects import Effect, Note
from daemon.core.queue.queued_pod import QueuedPod


class AttemptLog:
    """Of all pods, or of none."""

    def __init__(self, effects: list[Effect], *, is_on: bool) -> None:
        self.is_on = is_on
        """For whoever asks once for many pods."""
        self._effects = effects

    def tell(self, event: str, pod: QueuedPod, **fields: object) -> None:
        if self.is_on:
            said: dict[str, object] = {"pod": pod.key, "ticket": pod.ticket, **fields}
            self._effects.append(Note(event, said, is_detail=True))
