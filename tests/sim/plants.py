"""Faults that the simulation must find, each with a seed that does."""

from typing import NamedTuple


class Plant(NamedTuple):
    module: str
    before: str
    after: str
    found_by: int = 0
    """A seed that finds it, as things are."""


PLANTS = {
    "the owner does not check a placement again": Plant(
        "daemon.core.proposals",
        "    passed: list[bool] = ok.tolist()\n",
        "    passed: list[bool] = [True] * len(run)\n",
        found_by=8,
    ),
    "a placement that came to nothing is not forgotten": Plant(
        "daemon.core.cache",
        "        self._step(pod, Cause.FORGET)\n        self._drop(pod)\n",
        "",
        found_by=1,
    ),
    "a worker ignores a gap": Plant(
        "workers.scorer.replica",
        "message.epoch != self.epoch or message.sequence != self.sequence + 1",
        "message.epoch != self.epoch",
        found_by=11,
    ),
    "a binding is posted again after a timeout": Plant(
        "workers.binder.bind_call",
        "                self._problem = str(error)\n                return _Next.LOOK\n",
        "                self._problem = str(error)\n                return _Next.POST\n",
        found_by=24,
    ),
    "held orders are reversed": Plant(
        "daemon.core.bindings",
        "sent = [waiting.popleft() for _ in range(min(room, len(waiting)))]",
        "sent = [waiting.pop() for _ in range(min(room, len(waiting)))]",
        found_by=2,
    ),
    "what a list does not show stays": Plant(
        "daemon.core.cluster_changes",
        "            missed = sorted(set(held) - seen)\n            for uid in missed:\n",
        "            missed = sorted(set(held) - seen)\n            for uid in ():\n",
        found_by=3,
    ),
}
