"""What extenders have said so far of the pods of a group that is being tried.

A group is placed in one go, and an extender takes its time. So the group is begun anew with each answer:
its pods are placed as those of any group, by what was said of them; at the first that has to be asked
about, all is taken back, and it is asked. The run in which nobody is left to ask is the one that counts:
what it proposes was found in one piece, on the newest copy, and is checked and assumed as that of any
group (`daemon/core/group_commits.py`): without those that are refused there if enough are left, else all
of it is tried again. In between nothing of the group lies on the copy. So others go on as if it were not
there, and nobody is kept away by a group that then comes to nothing; where they took its room, its pods
go elsewhere among the nodes that extenders let them have, or are asked about again.

About each node an extender is asked once for each pod; once more for each placement by topology, and
where it is looked for who has to go, which kube-scheduler asks about anew for each look.
"""

from typing import Final

from msgspec.structs import replace

from shared.columns.schema import Rows
from shared.extenders.extender_wire import ExtenderVerdicts
from shared.messages.from_scorer import Failure, Proposals
from shared.messages.to_scorer import ExtendedTask


class Heard:
    """Of one pod."""

    def __init__(self) -> None:
        self.verdicts = ExtenderVerdicts([])
        self.asked: set[str] = set()
        """Nodes."""
        self.error = ""
        """An extender that must not be ignored failed."""
        self.node = ""
        """Where the pod was put in the last run: it stays there as long as the node takes it, as those
        after it are asked about with it there."""
        self.failure: Failure | None = None
        """Why it was put nowhere in an earlier run, where nobody goes for it either. That is not looked
        for in each run: what may help since then has the pod tried again (`queue/in_flight.py`)."""
        self.generation = 0
        """Of the copy in that run."""

    def unasked(self, names: list[str]) -> list[str]:
        """Those of the nodes that take the pod now that have to be asked about: none if there are some
        that extenders let it have."""
        if self.error or not set(self.verdicts.passing).isdisjoint(names):
            return []
        return [name for name in names if name not in self.asked]

    def take(self, names: list[str], verdicts: ExtenderVerdicts | None, error: str) -> None:
        """The answer about these nodes."""
        self.asked.update(names)
        self.error = error
        if verdicts is not None:
            known = self.verdicts
            known.passing = [*known.passing, *verdicts.passing]
            known.refused |= verdicts.refused
            known.unresolvable |= verdicts.unresolvable
            known.scores.update(verdicts.scores)
            known.are_bare |= verdicts.are_bare


class GroupHearing:
    """Of one batch."""

    def __init__(self, tasks: list[ExtendedTask]) -> None:
        self.tasks = {task.ticket: task for task in tasks}
        self._heard: dict[tuple[bool, bytes, int, bool], Heard] = {}
        self._in_vain: dict[tuple[bool, bytes], Proposals] = {}
        """Placements that do not take the group, and what was found there."""
        self._tried = False, b""

    def try_on(self, rows: Rows | None, *, only_looks: bool) -> Proposals | None:
        """From now on the group is tried on these nodes, or on all; with all there, or only to see what
        would be if some pods had gone. What came of it, where that is known to be too little: with more
        pods there again it is no more."""
        self._tried = only_looks, b"" if rows is None else rows.tobytes()
        return self._in_vain.get(self._tried)

    def give_up(self, answers: Proposals) -> None:
        """The placement that is being tried does not take the group."""
        self._in_vain[self._tried] = answers

    def dated(self, answers: Proposals) -> Proposals:
        """As old as the oldest of the copies on which it was found that a pod fits nowhere; where others
        go for all of the group, that is no last word."""
        room = answers.group_room
        if room is not None and not room.is_awaited:
            return answers
        failing = [each.generation for each in self._heard.values() if each.failure is not None]
        return replace(answers, generation=min([answers.generation, *failing]))

    def of(self, task: ExtendedTask, *, is_nominated: bool = False) -> Heard:
        """`is_nominated`: of the node that it is nominated to alone, before all others are looked at."""
        return self._heard.setdefault((*self._tried, task.ticket, is_nominated), Heard())


NO_HEARING: Final = GroupHearing([])
"""Of batches whose pods no extender has a say in."""
