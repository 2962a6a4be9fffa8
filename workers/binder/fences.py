"""What of a binder may still write: only in the term of the lease in which its orders were decided, and
only what is not void.

The lease is asked for when orders come, when each binding begins, and right before a request leaves,
after every wait: so a binder that was stopped in the middle of its work and goes on after the lease has
lapsed sends nothing more; but for one request at most, whose turn was between that question and the
sending. What had left before has until the lease's end to arrive (leaseDuration - renewDeadline, 5 s by
default).

An order is void as soon as its owner, or the connection to it, is gone, or the owner has taken this
binder for dead. Its task may be anywhere then. To wait for all of them would keep every other pod from
being bound for as long as one of them waits for its volume; to cut them would leave requests behind
that the API server may yet carry out, with nobody who knows. So each is dealt with where it is: one that
only waits is cut at once; one that has a request under way sees its answer, and then ends before its
next request; and what comes for the same pod waits for that one task.

`FencedClient` asks for each request of a guarded task. Requests of other tasks pass.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from shared.kube.api_client import ApiClient
from shared.kube.api_errors import ApiError, TransportError
from shared.kube.cluster_access import ClusterAccess
from shared.kube.http_connection import Answer
from shared.transport.lease_gate import LeaseGate

T = TypeVar("T")


class Fence(msgspec.Struct, eq=False):
    """What is known of one task, and of those that do a part of its work."""

    uid: str = ""
    """Of the pod that is being bound, if any."""
    is_void: bool = False
    writing_count: int = 0
    """Requests that are under way, or about to be."""
    is_cuttable: bool = True
    """False: somebody else's plugin may be writing, which only its end tells."""
    is_preparing: bool = False
    """The pod may still be told to give its place up, and has not been."""
    is_preempted: bool = False
    """It was told to."""

    def check(self) -> None:
        """Ends the task here if it is void."""
        if self.is_void:
            raise asyncio.CancelledError


class Fences:
    """All tasks that act on orders. Belongs to one event loop."""

    def __init__(self, gate: LeaseGate | None = None) -> None:
        """Without leader election (no gate) the lease is always there."""
        self._gate = gate
        self._term = 0
        """Of the orders that this binder has; 0: none yet."""
        self._fences: dict[asyncio.Task[Any], Fence] = {}

    def take(self, term: int) -> bool:
        """Orders came that were decided in `term`. False: they are void. What is in flight of an earlier
        term is void by then: another owner has said `Welcome`."""
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

    def start(self, work: Coroutine[Any, Any, T], fence: Fence | None) -> asyncio.Task[T]:
        """A task that is guarded until its end; one of nobody's orders without a fence."""
        task = asyncio.get_running_loop().create_task(work)
        if fence is not None:
            self._fences[task] = fence
            task.add_done_callback(self._fences.pop)
        return task

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that does a part of what the current one has to do, behind the same fence."""
        return self.start(work, self.current())

    def void_all(self) -> None:
        """Nothing that was ordered until now is to be done any more."""
        for task, fence in self._fences.items():
            if not fence.is_void:
                fence.is_void = True
                if fence.is_cuttable and not fence.writing_count:
                    task.cancel()

    def cut_all(self) -> None:
        """Ends them without finishing anything."""
        for task in self._fences:
            task.cancel()

    @property
    def void_count(self) -> int:
        """Tasks that are void and not over: what they have under way may yet be carried out."""
        return sum(fence.is_void for fence in self._fences.values())

    def current(self) -> Fence | None:
        task = asyncio.current_task()
        return None if task is None else self._fences.get(task)


class FencedClient(ApiClient):
    """An API client whose guarded tasks end in place of a request that is void."""

    def __init__(self, access: ClusterAccess, fences: Fences, **settings: Any) -> None:
        super().__init__(access, may_write=fences.may_write, **settings)
        self._fences = fences

    async def request(self, method: str, *what: Any, **settings: Any) -> Answer:
        fence = self._fences.current()
        if fence is None:
            return await super().request(method, *what, **settings)
        fence.check()
        # It may have to wait for a connection.
        settings["may_write"] = lambda: not fence.is_void and self._fences.may_write()
        is_write = method != "GET"
        fence.writing_count += is_write
        try:
            return await super().request(method, *what, **settings)
        except (ApiError, TransportError):
            fence.check()
            raise
        finally:
            fence.writing_count -= is_write
