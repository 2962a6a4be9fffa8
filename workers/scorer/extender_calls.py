"""The thread of a scorer that talks to extenders, so that nobody else has to wait for them; with
whole Node objects (`RawNodes`) for those that keep no nodes themselves.

A scorer is a loop without waiting; an extender may take seconds. So calls are made on a thread of
their own, with an event loop of its own, and the two share two queues and nothing else. The pod that
is sent is read from the API server for each question: scorers hold no whole pods, and an extender may
look at any field.

Callers may rely on: every question is answered once, in any order; `fd` is readable while answers
wait. A bug on the thread is raised by `take`.
"""

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Self, assert_never

import msgspec

from shared.child_plan import reading_files
from shared.clock import Clock, SystemClock
from shared.errors import OperationalError
from shared.extenders.extender_client import ExtenderClient
from shared.extenders.extender_config import ExtenderConfig
from shared.extenders.extender_wire import (
    ExtenderVerdicts,
    MetaVictims,
    PodName,
    filter_answer,
    node_args,
    preempt_args,
    preempt_result,
    priorities,
)
from shared.kube.api.meta_v1 import NamedObject
from shared.kube.api_errors import read_answer
from shared.kube.cluster_access import ClusterAccess
from shared.kube.connection_problems import ConnectionProblems
from shared.kube.decode import raw_event
from shared.kube.http_stream import LineSplitter, StreamClient
from shared.kube.list_pages import list_pages
from shared.telemetry.log import EventLog
from workers.scorer.extended_pods import ExtenderAnswer, FilterQuestion, PreemptQuestion, Question

POD_TIMEOUT_S: Final = 10.0
CONNECTIONS_MAX: Final = 16

log = EventLog("scorer.extenders")


class ExtenderCaller:
    """Context manager: the thread lives as long."""

    def __init__(
        self,
        extenders: Sequence[ExtenderConfig],
        access: ClusterAccess,
        tell: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        """`tell` gets what is wrong with the connections (`shared/kube/connection_problems.py`)."""
        self.extenders = tuple(extenders)
        self._desk = ExtenderDesk(self.extenders, access, self._put, SystemClock(), tell)
        self._answers: deque[ExtenderAnswer] = deque()
        self._failure: BaseException | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="extenders", daemon=True)
        self.fd, self._wake_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join()
        os.close(self.fd)
        os.close(self._wake_fd)

    def ask(self, question: Question) -> None:
        """Answered some time later."""
        self._raise_failure()
        self._loop.call_soon_threadsafe(self._desk.begin, question)

    def take(self) -> list[ExtenderAnswer]:
        """The answers that have come."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.fd, 4096):
                pass
        self._raise_failure()
        return [self._answers.popleft() for _ in range(len(self._answers))]

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # On the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except asyncio.CancelledError:
            pass  # Stopped.
        except BaseException as error:  # noqa: BLE001 # Raised again on the other thread, which ends.
            self._failure = error
            self._wake()
        finally:
            self._is_ready.set()

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._main = self._loop.create_task(self._desk.run(self._is_ready.set))
        await self._main

    def _put(self, answer: ExtenderAnswer) -> None:
        self._answers.append(answer)
        self._wake()

    def _wake(self) -> None:
        # If it is full it is readable all the more.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_fd, b".")


class ExtenderDesk:
    """Where extenders are asked, on one event loop."""

    def __init__(
        self,
        extenders: Sequence[ExtenderConfig],
        access: ClusterAccess,
        answered: Callable[[ExtenderAnswer], None],
        clock: Clock,
        tell: Callable[[bytes], None],
    ) -> None:
        """`answered` is told on the loop, once for each question."""
        self._extenders = extenders
        self._access = access
        self._answered_by = answered
        self._clock = clock
        self._tell = tell
        self._tasks = asyncio.TaskGroup()

    async def run(self, is_ready: Callable[[], None]) -> None:
        """Until it is cancelled, or there is a bug; questions that are open are not answered any more.
        `is_ready` is called once questions are taken."""
        problems = ConnectionProblems(log, self._clock.wall_s, self._tell)
        self._api = StreamClient(self._access, connections_max=CONNECTIONS_MAX, problems=problems)
        with reading_files():
            self._clients = {
                position: ExtenderClient(config, problems)
                for position, config in enumerate(self._extenders)
                if config.is_asked_by_scorers
            }
        self._nodes = RawNodes(self._api)
        keeps_nodes = any(
            not config.node_cache_capable and (config.filter_verb or config.prioritize_verb)
            for config in self._extenders
        )
        try:
            async with self._tasks:
                if keeps_nodes:
                    self._tasks.create_task(self._nodes.run())
                is_ready()
                await asyncio.get_running_loop().create_future()
        finally:
            for client in self._clients.values():
                await client.close()
            await self._api.close()
            problems.close()

    def begin(self, question: Question) -> None:
        """Answered some time later."""
        self._tasks.create_task(self._answer(question))

    async def _answer(self, question: Question) -> None:
        try:
            answer = await self._answered(question)
        except OperationalError as error:
            answer = ExtenderAnswer(question.number, error=str(error))
        self._answered_by(answer)

    async def _answered(self, question: Question) -> ExtenderAnswer:
        pod = await self._pod(question.pod)
        match question:
            case FilterQuestion():
                verdicts = ExtenderVerdicts(question.node_names)
                await self._filter(question, pod, verdicts)
                if len(verdicts.passing) > 1:
                    await self._prioritize(question, pod, verdicts)
                return ExtenderAnswer(question.number, verdicts=verdicts)
            case PreemptQuestion():
                return ExtenderAnswer(question.number, victims=await self._preempt(question, pod))
            case _:
                assert_never(question)

    def _asked(self, positions: Iterable[int]) -> list[ExtenderClient]:
        return [self._clients[each] for each in positions if each in self._clients]

    async def _pod(self, pod: PodName) -> bytes:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        return await self._api.get(path, timeout_s=POD_TIMEOUT_S)

    async def _filter(
        self, question: FilterQuestion, pod: bytes, verdicts: ExtenderVerdicts
    ) -> None:
        for client in self._asked(question.extenders):
            config = client.config
            if not config.filter_verb or not verdicts.passing:
                continue
            with _ignored(config):
                args = await self._args(config, pod, verdicts.passing)
                body = await client.ask(config.filter_verb, args)
                answer = filter_answer(
                    body,
                    verdicts.passing,
                    config.url_prefix,
                    is_cache_capable=config.node_cache_capable,
                )
                verdicts.take(answer)

    async def _prioritize(
        self, question: FilterQuestion, pod: bytes, verdicts: ExtenderVerdicts
    ) -> None:
        clients = self._asked(question.extenders)
        asked = [client for client in clients if client.config.prioritize_verb]
        for scores in await asyncio.gather(
            *(self._scores(client, pod, verdicts.passing) for client in asked)
        ):
            verdicts.scores.update(scores)

    async def _scores(self, client: ExtenderClient, pod: bytes, names: list[str]) -> dict[str, int]:
        """None of an extender that fails: others determine the priorities, as in prioritizeNodes."""
        config = client.config
        try:
            args = await self._args(config, pod, names)
            return priorities(await client.ask(config.prioritize_verb, args), config.weight)
        except OperationalError as error:
            log.warning("extender_gave_no_scores", extender=config.url_prefix, problem=str(error))
            return {}

    async def _args(self, config: ExtenderConfig, pod: bytes, names: list[str]) -> bytes:
        if config.node_cache_capable:
            return node_args(pod, names)
        return node_args(pod, None, await self._nodes.get(names))

    async def _preempt(self, question: PreemptQuestion, pod: bytes) -> dict[str, MetaVictims]:
        victims = question.victims
        for client in self._asked(question.extenders):
            config = client.config
            with _ignored(config):
                args = await self._preempt_args(config, pod, question, victims)
                body = await client.ask(config.preempt_verb, args)
                left = preempt_result(body, is_ignorable=config.ignorable)
                _check_known(config, left, question)
                victims = left
            if not victims:
                break
        return victims

    async def _preempt_args(
        self,
        config: ExtenderConfig,
        pod: bytes,
        question: PreemptQuestion,
        victims: dict[str, MetaVictims],
    ) -> bytes:
        if config.node_cache_capable:
            return preempt_args(pod, victims)
        names = [
            question.pods[node, each.uid]
            for node, on_node in victims.items()
            for each in on_node.pods or ()
        ]
        bodies = await asyncio.gather(*map(self._pod, names))
        uids = (name.uid for name in names)
        return preempt_args(pod, victims, dict(zip(uids, bodies, strict=True)))


@contextlib.contextmanager
def _ignored(config: ExtenderConfig) -> Iterator[None]:
    """What goes wrong with an extender that may be."""
    try:
        yield
    except OperationalError as error:
        if not config.ignorable:
            raise
        log.warning("extender_ignored", extender=config.url_prefix, problem=str(error))


def _check_known(
    config: ExtenderConfig, victims: dict[str, MetaVictims], question: PreemptQuestion
) -> None:
    """Raises `OperationalError` for a victim that is not on the node, in kube-scheduler's words
    (`convertPodUIDToPod` in pkg/scheduler/extender.go, v1.36.2)."""
    for name, on_node in victims.items():
        for each in on_node.pods or ():
            if (name, each.uid) not in question.pods:
                raise OperationalError(
                    f"extender: {config.url_prefix} claims to preempt pod (UID: &{{{each.uid}}}) on"
                    f" node: {name}, but the pod is not found on that node"
                )


NODES_PATH: Final = "/api/v1/nodes"
PAGE_SIZE: Final = 500
BACKOFF_S: Final = 1.0
BACKOFF_S_MAX: Final = 30.0
WATCH_S: Final = 300

_object_decoder: Final = msgspec.json.Decoder(NamedObject)


class RawNodes:
    """Nodes by name. Belongs to one event loop."""

    def __init__(self, client: StreamClient) -> None:
        self._client = client
        self._nodes: dict[str, bytes] = {}
        self._version = ""
        """Where a watch may resume; empty: list first."""
        self._is_listed = asyncio.Event()

    async def get(self, names: Iterable[str]) -> list[bytes]:
        """These nodes; one that the watch has not brought yet is asked for."""
        await self._is_listed.wait()
        found: list[bytes] = []
        for name in names:
            node = self._nodes.get(name)
            found.append(await self._client.get(f"{NODES_PATH}/{name}") if node is None else node)
        return found

    async def run(self) -> None:
        """Keeps the nodes up to date until cancelled."""
        backoff_s = BACKOFF_S
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                backoff_s = BACKOFF_S
            except OperationalError as error:
                self._version = ""
                log.warning("nodes_not_watched", problem=str(error), next_try_s=backoff_s)
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, BACKOFF_S_MAX)

    async def _list(self) -> None:
        nodes: dict[str, bytes] = {}
        version = ""
        async for page in list_pages(self._client, NODES_PATH, PAGE_SIZE):
            for item in page.items or ():
                nodes[read_answer(_object_decoder, item).metadata.name] = bytes(item)
            version = page.metadata.resource_version
        self._nodes, self._version = nodes, version
        self._is_listed.set()

    async def _watch(self) -> None:
        stream = await self._client.open_stream(
            f"{NODES_PATH}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_S}"
            f"&resourceVersion={self._version}"
        )
        splitter = LineSplitter()
        try:
            while chunks := await stream.chunks():
                for line in splitter.feed(b"".join(chunks)):
                    if not self._take(line):
                        return
        finally:
            stream.close()

    def _take(self, line: bytes) -> bool:
        """One event; False: the watch is of no use any more."""
        event = raw_event(line, "nodes")
        if event.type == "ERROR":
            self._version = ""
            return False
        meta = read_answer(_object_decoder, event.object).metadata
        self._version = meta.resource_version
        if event.type == "DELETED":
            self._nodes.pop(meta.name, None)
        elif event.type != "BOOKMARK":
            self._nodes[meta.name] = bytes(event.object)
        return True
