"""Whether this binder may write: only in the term of the lease in which its orders were decided.

Asked when orders come, when each binding begins, and by the API client right before a request leaves
(`ApiClient(may_write=...)`), after every wait: so a binder that was stopped in the middle of its work
and goes on after the lease has lapsed sends nothing more; but for one request at most, whose turn was
between that question and the sending. What had left before has until the lease's end to arrive
(leaseDuration - renewDeadline, 5 s by default).
"""

from shared.transport.lease_gate import LeaseGate


class LeaseHold:
    """A binder's hold on the lease. Without leader election (no gate) it may always write."""

    def __init__(self, gate: LeaseGate | None = None) -> None:
        self._gate = gate
        self._term = 0
        """Of the orders that this binder has; 0: none yet."""

    def take(self, term: int) -> bool:
        """Orders came that were decided in `term`. False: they are void.

        What is in flight of an earlier term is void by then, and fenced (`fences.py`): the orders come
        from another owner, which has said `Welcome`.
        """
        if self._gate is None:
            return True
        if not term or self._gate.open_term() != term:
            return False
        self._term = term
        return True

    def may_write(self) -> bool:
        return self._gate is None or (self._term != 0 and self._gate.open_term() == self._term)

    def has_lapsed(self) -> bool:
        """True once after a term has ended: what was begun in it must be given up."""
        if not self._term or self.may_write():
            return False
        self._term = 0
        return True
