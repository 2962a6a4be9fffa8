"""Where the answers come from: the owner, the supervisor's list, the lease gate, the files of berth."""

import asyncio
import math
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from daemon.endpoints.explainer import Explainer
from daemon.endpoints.health import Facts
from daemon.endpoints.metrics_text import metrics_text, resources_text
from daemon.overview.overview import PERIOD_S, Looks
from daemon.supervisor.children import ADAPTER
from daemon.supervisor.plan import CONFIGZ_NAME, FLAGZ_NAME
from daemon.supervisor.process_list import NotRunningError, ProcessList, measure, read_list
from shared.clock import SystemClock
from shared.errors import UNDECODABLE
from shared.kube.connection_problems import concerns_text
from shared.messages.admin import (
    UNKNOWN_STATUS,
    MetricsAnswer,
    MetricsRequest,
    PodAnswer,
    PodRequest,
    PodResources,
    PodResourcesRequest,
    StatusAnswer,
    StatusRequest,
)
from shared.transport.lease_gate import LeaseGate
from shared.transport.owner_link import NoAnswerError, OwnerLink

PROBE_TIMEOUT_S: Final = 0.8
"""Kubernetes' probes wait a second unless told otherwise."""
METRICS_TIMEOUT_S: Final = 8.0
"""Prometheus waits ten."""


class FactSource:
    """Asks, each time anew: nothing is kept that could be old, but a look at everything for a moment.
    NoAnswerError of the owner where nothing can be said without it."""

    def __init__(self, runtime_dir: Path, gate: LeaseGate | None, clock: SystemClock) -> None:
        self._runtime_dir = runtime_dir
        self._gate = gate
        self._clock = clock
        self._owner = OwnerLink(runtime_dir)
        self._looks = Looks(runtime_dir, clock)
        self._explainer = Explainer(runtime_dir, clock)
        self._looking = asyncio.Lock()
        self._next_look_s = 0.0
        self._overview: bytes | None = None

    async def facts(self) -> Facts:
        status, problem = UNKNOWN_STATUS, ""
        try:
            status = await self._owner.ask(StatusRequest(), StatusAnswer, PROBE_TIMEOUT_S)
        except NoAnswerError as error:
            problem = str(error)
        listed = self._processes()
        now_s = self._clock.monotonic_s()
        told_s = status.adapter_told_s
        return Facts(
            state=listed.state,
            owner_problem=problem,
            status=status,
            lease_lapsed_s=None if self._gate is None else self._gate.lapsed_s(),
            adapter_silent_s=now_s - told_s if told_s else math.inf,
            api_word_age_s=now_s - max(status.api_heard_s.values(), default=-math.inf),
            api_problem=_api_problem(listed),
        )

    async def metrics(self) -> str:
        found = None
        # Else `berth_owner_up 0` says it; what the kernel knows is told all the same.
        with suppress(NoAnswerError):
            found = await self._owner.ask(MetricsRequest(), MetricsAnswer, METRICS_TIMEOUT_S)
        uses = [measure(entry, self.now_s()) for entry in self._processes().processes]
        is_leading = None if self._gate is None else self._gate.open_term() != 0
        return metrics_text(found, uses, is_leading, self._clock.monotonic_s())

    async def pod_resources(self) -> str:
        """What each pod asks for; empty unless this berth leads."""
        if self._gate is not None and not self._gate.open_term():
            return ""
        asked = self._owner.ask_pages(PodResourcesRequest, PodResources, METRICS_TIMEOUT_S)
        return resources_text(await asked)

    async def overview(self) -> bytes | None:
        """For the live page; of the last look until the next one is due, whoever asks. None where no
        berth can be found."""
        async with self._looking:
            if self._clock.monotonic_s() >= self._next_look_s:
                self._overview, rest_s = None, PERIOD_S
                with suppress(NotRunningError, *UNDECODABLE):
                    overview = await self._looks.overview(self._owner, METRICS_TIMEOUT_S)
                    self._overview, rest_s = msgspec.json.encode(overview), overview.next_in_s
                self._next_look_s = self._clock.monotonic_s() + rest_s
            return self._overview

    async def pod(self, key: str) -> bytes:
        """What the owner knows of a pod that waits: `null` of any other."""
        answer = await self._owner.ask(PodRequest(key), PodAnswer, METRICS_TIMEOUT_S)
        return msgspec.json.encode(answer.facts)

    async def explain(self, key: str) -> bytes:
        return await self._explainer.explain(key)

    def flags(self) -> dict[str, str] | None:
        """The options of the command line; None where they are not known (yet)."""
        written = self._written(FLAGZ_NAME)
        return None if written is None else msgspec.json.decode(written, type=dict[str, str])

    def started_s(self) -> float:
        """When this berth was started, in seconds since 1970."""
        return next((one.create_time_s for one in self._processes().processes), self.now_s())

    def now_s(self) -> float:
        """In seconds since 1970."""
        return self._clock.wall_s()

    def configz(self) -> bytes | None:
        """The effective configuration as JSON; None if there is none (yet)."""
        return self._written(CONFIGZ_NAME)

    def _written(self, name: str) -> bytes | None:
        try:
            return (self._runtime_dir / name).read_bytes()
        except FileNotFoundError:
            return None

    def _processes(self) -> ProcessList:
        """Empty where they cannot be known."""
        try:
            return read_list(self._runtime_dir)
        except (NotRunningError, *UNDECODABLE):
            return ProcessList("", [])


def _api_problem(listed: ProcessList) -> str:
    for entry in listed.processes:
        for problem in entry.problems if entry.name == ADAPTER else ():
            # Nothing can be scheduled without news of pods and nodes.
            is_essential = any(one.endswith((" nodes", " pods")) for one in problem.concerns)
            if is_essential and not problem.is_over:
                return f"{concerns_text(problem)}: {problem.error}"
    return ""
