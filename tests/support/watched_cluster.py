"""A berth to look at: the owner's answers are those of a trial, the processes are this one's."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from daemon.overview.overview import PERIOD_S, BerthStatus, Looks
from daemon.supervisor.process_list import ProcessList, SupervisorLock, entry_of, write_list
from daemon.trial.explain import explain_in
from daemon.trial.trial import Subject, Trial
from shared.clock import SystemClock
from shared.messages.admin import (
    AdminAnswer,
    AdminRequest,
    PodAnswer,
    PodRequest,
    StatusAnswer,
    StatusRequest,
)
from shared.messages.codec import Message
from shared.messages.to_owner import AdapterMessage, NodeChanged
from shared.transport.owner_link import OwnerLink
from tests.support.subjects import openb_subject
from tests.unit.daemon.endpoints.test_pages import FixedSource

A = TypeVar("A", bound=Message)

PROCESSES: Final = ("supervisor", "owner", "scorer-0", "binder-0", "adapter", "endpoints")
ZONES: Final = ("north-a", "north-b", "south-a")
NOW_S: Final = 12.0
"""After the pods came."""


@cache
def openb_in_zones() -> Trial:
    """The demo's cluster, spread over three zones, when all of its pods were tried. To be looked at."""
    subject = openb_subject()
    node_count = sum(isinstance(one, NodeChanged) for one in subject.messages)
    seen = iter(range(node_count))

    def with_zone(message: AdapterMessage) -> AdapterMessage:
        if not isinstance(message, NodeChanged):
            return message
        node = message.node
        zone = ZONES[next(seen) * len(ZONES) // node_count]
        labels = {**(node.metadata.labels or {}), "topology.kubernetes.io/zone": zone}
        return NodeChanged(replace(node, metadata=replace(node.metadata, labels=labels)))

    told = subject._replace(messages=list(map(with_zone, subject.messages)))
    trial = told.trial(decides=True)
    trial.tell([], NOW_S)
    return trial


class TrialOwner(OwnerLink):
    """Answers as a trial does."""

    def __init__(self, ask: Callable[[AdminRequest], AdminAnswer]) -> None:
        self._ask = ask

    async def ask(self, request: AdminRequest, kind: type[A], timeout_s: float) -> A:
        answer = self._ask(request)
        assert isinstance(answer, kind)
        return answer


class WatchedSource(FixedSource):
    """What the live page asks."""

    def __init__(self, trial: Trial, runtime_dir: Path) -> None:
        super().__init__()
        self._trial = trial
        self._runtime_dir = runtime_dir
        self._lock = SupervisorLock(runtime_dir)
        listed = [entry_of(name, os.getpid()) for name in PROCESSES]
        write_list(runtime_dir, ProcessList("running", listed))
        self._looks = Looks(runtime_dir, SystemClock())
        self.looks = 0
        self.change: Callable[[], None] = lambda: None
        """Is called before each look."""
        self.subject: Subject | None = None
        """Whose pods are explained."""

    def ask(self, request: AdminRequest) -> AdminAnswer:
        return self._trial.ask(request, NOW_S)

    async def overview(self) -> bytes | None:
        self.looks += 1
        self.change()
        overview = await self._looks.overview(TrialOwner(self.ask), 1.0)
        # The trial's clock is not the machine's, and a look is as long as the machine is slow.
        return msgspec.json.encode(replace(overview, api_word_age_s=0.4, next_in_s=PERIOD_S))

    def status(self) -> BerthStatus:
        """Of two looks."""
        looks = Looks(self._runtime_dir, SystemClock())
        answer = self.ask(StatusRequest())
        assert isinstance(answer, StatusAnswer)
        looks.take(answer)
        return looks.take(answer)

    async def pod(self, key: str) -> bytes:
        answer = self.ask(PodRequest(key))
        assert isinstance(answer, PodAnswer)
        return msgspec.json.encode(answer.facts)

    async def explain(self, key: str) -> bytes:
        assert self.subject is not None, "a scene in which nobody asks"
        return msgspec.json.encode(explain_in(self.subject, key))
