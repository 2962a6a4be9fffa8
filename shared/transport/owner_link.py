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
from shared.transport.channels import Channel, Connected

OpenPeer = Callable[[Path, str], AsyncPeer[AdminRequest, AdminAnswer]]

A = TypeVar("A", bound=Message)
P = TypeVar("P", bound=AnswerPage)


class NoAnswerError(OperationalError):
    """The owner is not there, or does not answer."""


def admin_peer(runtime_dir: Path, identity: str) -> AsyncPeer[AdminRequest, AdminAnswer]:
    """A connection for questions to the owner."""
    return AsyncPeer(runtime_dir, Channel.ADMIN, identity, ADMIN_REQUEST, ADMIN_ANSWER)


class OwnerLink:
    """Each question has a connection of its own, so that no answer can be taken for that of another."""

    def __init__(self, runtime_dir: Path, open_peer: OpenPeer = admin_peer) -> None:
        self._runtime_dir = runtime_dir
        self._open_peer = open_peer

    async def ask(self, request: AdminRequest, kind: type[A], timeout_s: float) -> A:
        """The answer, of the kind that the question has; NoAnswerError after `timeout_s`. Asked again
        where the owner goes in between: what one that is gone would have said comes nowhere."""
        is_asked = False
        name = f"admin-{os.getpid()}-{secrets.token_hex(4)}"
        peer = self._open_peer(self._runtime_dir, name)
        try:
            async with asyncio.timeout(timeout_s):
                while isinstance(answer := await peer.recv(), Connected):
                    is_asked = peer.send_nowait(request)
        except TimeoutError:
            if is_asked:
                raise NoAnswerError(f"the owner gave no answer in {timeout_s:g} s") from None
            address = Channel.ADMIN.address(self._runtime_dir)
            raise NoAnswerError(f"no owner at {address}; is berth running there?") from None
        except ProtocolVersionError as error:
            raise NoAnswerError(f"the owner is another berth's: {error}") from error
        finally:
            peer.close()
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

    def ask_now(self, request: AdminRequest, kind: type[A], timeout_s: float) -> A:
        """As `ask`, for who has no event loop."""
        return asyncio.run(self.ask(request, kind, timeout_s))
