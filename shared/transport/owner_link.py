"""Questions to the owner and its answers: how it is, what it holds, and to stop giving out work."""

import asyncio
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from shared.errors import OperationalError, ProtocolVersionError
from shared.messages.admin import ADMIN_ANSWER, ADMIN_REQUEST, AdminAnswer, AdminRequest, AnswerPage
from shared.messages.codec import Message
from shared.transport.async_peer import AsyncPeer
from shared.transport.channels import Channel
from shared.transport.connection import Closing, Connected

OpenPeer = Callable[[Path, str], AsyncPeer[AdminRequest, AdminAnswer]]

A = TypeVar("A", bound=Message)
P = TypeVar("P", bound=AnswerPage)


class NoAnswerError(OperationalError):
    """The owner is not there, or does not answer."""


def admin_peer(runtime_dir: Path, identity: str) -> AsyncPeer[AdminRequest, AdminAnswer]:
    """A connection for questions to the owner."""
    return AsyncPeer(runtime_dir, Channel.ADMIN, identity, ADMIN_REQUEST, ADMIN_ANSWER)


class OwnerLink(Closing):
    """One question at a time; belongs to one event loop."""

    def __init__(self, runtime_dir: Path, open_peer: OpenPeer = admin_peer) -> None:
        self._runtime_dir = runtime_dir
        self._open_peer = open_peer
        self._peer: AsyncPeer[AdminRequest, AdminAnswer] | None = None
        self._is_asked = False
        self._turn = asyncio.Lock()

    async def ask(self, request: AdminRequest, kind: type[A], timeout_s: float) -> A:
        """The answer, of the kind that the question has; NoAnswerError after `timeout_s`, or when the
        connection is lost."""
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                self._is_asked = False
                answer = await self._send_and_wait(request)
        except TimeoutError:
            if self._is_asked:
                raise NoAnswerError(f"the owner gave no answer in {timeout_s:g} s") from None
            address = Channel.ADMIN.address(self._runtime_dir)
            raise NoAnswerError(f"no owner at {address}; is berth running there?") from None
        except ProtocolVersionError as error:
            self.close()
            raise NoAnswerError(f"the owner is another berth's: {error}") from error
        assert isinstance(answer, kind), "the owner answers a question with its answer"
        return answer

    async def ask_pages(
        self, request: Callable[[int], AdminRequest], kind: type[P], timeout_s: float
    ) -> list[P]:
        """All pages of an answer that is told in pages; `timeout_s` is for each."""
        pages = [await self.ask(request(0), kind, timeout_s)]
        while pages[-1].next_start >= 0:
            pages.append(await self.ask(request(pages[-1].next_start), kind, timeout_s))
        return pages

    async def _send_and_wait(self, request: AdminRequest) -> AdminAnswer:
        while True:
            peer = self._peer
            if peer is None:
                name = f"admin-{os.getpid()}-{secrets.token_hex(4)}"
                peer = self._peer = self._open_peer(self._runtime_dir, name)
            try:
                while not peer.is_connected:
                    await peer.recv()
                if not peer.send_nowait(request):
                    raise NoAnswerError("the owner is gone")
                self._is_asked = True
                answer = await peer.recv()
            except asyncio.CancelledError:
                # Nobody waits any more. A late answer must not be taken for that of the next question.
                self.close()
                raise
            if not isinstance(answer, Connected):
                return answer
            # A new connection, and nobody can tell which of the two took the question. Asked again on
            # it, one question might have two answers, and each later one that of the question before.
            self.close()

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


class AdminClient(Closing):
    """The same for who has no event loop; any number of them may exist at the same time."""

    def __init__(self, runtime_dir: Path) -> None:
        self._runner = asyncio.Runner()
        self._link = OwnerLink(runtime_dir)

    def ask(self, request: AdminRequest, kind: type[A], timeout_s: float) -> A:
        return self._runner.run(self._link.ask(request, kind, timeout_s))

    def close(self) -> None:
        self._link.close()
        self._runner.close()
