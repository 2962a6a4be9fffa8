"""Questions to an owner that is started anew in between."""

import asyncio
from collections import deque
from pathlib import Path
from typing import Final

import pytest

from shared.errors import ProtocolVersionError
from shared.messages.admin import (
    AdminAnswer,
    AdminRequest,
    CompareRequest,
    DumpRequest,
    StatusRequest,
    StopRequest,
    TextAnswer,
)
from shared.transport.channels import Connected
from shared.transport.owner_link import NoAnswerError, OwnerLink

NOWHERE: Final = Path("/nowhere")


class Owners:
    """The owners of one runtime directory, one after the other. Each answers every question."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.restarts_at_question = 0

    def connect(self, *_: object) -> "Peer":
        self.peers.append(Peer(self))
        self.peers[-1].come(Connected())
        return self.peers[-1]

    def restart(self) -> None:
        for peer in self.peers:
            peer.come(Connected())


class Peer:
    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._came: deque[AdminAnswer | Connected] = deque()
        self._is_closed = False

    def come(self, one: AdminAnswer | Connected) -> None:
        if not self._is_closed:
            self._came.append(one)

    def send_nowait(self, request: AdminRequest) -> bool:
        self._owners.restarts_at_question -= 1
        if self._owners.restarts_at_question == 0:
            self._owners.restart()
        self.come(TextAnswer([repr(request)]))
        return True

    async def recv(self) -> AdminAnswer | Connected:
        return self._came.popleft()

    def close(self) -> None:
        self._is_closed = True
        self._came.clear()


@pytest.fixture
def owners() -> Owners:
    return Owners()


def asked(link: OwnerLink, request: AdminRequest) -> AdminAnswer:
    return asyncio.run(link.ask(request, TextAnswer, timeout_s=60))


def told(request: AdminRequest) -> TextAnswer:
    return TextAnswer([repr(request)])


def test_each_question_has_its_own_answer_after_a_restart_that_nobody_asked_in(
    owners: Owners,
) -> None:
    link = OwnerLink(NOWHERE, owners.connect)  # type: ignore[arg-type]  # The peer is ours.
    assert asked(link, StatusRequest()) == told(StatusRequest())
    owners.restart()
    for request in (StatusRequest(), DumpRequest(), CompareRequest(), StopRequest()):
        assert asked(link, request) == told(request)


def test_each_question_has_its_own_answer_after_a_restart_in_the_middle_of_one(
    owners: Owners,
) -> None:
    link = OwnerLink(NOWHERE, owners.connect)  # type: ignore[arg-type]  # The peer is ours.
    owners.restarts_at_question = 2
    for request in (StatusRequest(), DumpRequest(), CompareRequest(), StopRequest()):
        assert asked(link, request) == told(request)


def test_without_an_owner_the_question_says_where_it_was_asked(owners: Owners) -> None:
    peer = owners.connect()

    async def never() -> AdminAnswer | Connected:
        await asyncio.Event().wait()
        raise AssertionError

    peer.recv = never
    link = OwnerLink(NOWHERE, lambda *_: peer)  # type: ignore[arg-type]  # The peer is ours.
    with pytest.raises(NoAnswerError, match=r"no owner at ipc:///nowhere/admin\.sock"):
        asyncio.run(link.ask(StatusRequest(), TextAnswer, timeout_s=0.01))


def test_an_owner_of_another_version_is_none_that_answers(owners: Owners) -> None:
    peer = owners.connect()

    async def refused() -> AdminAnswer | Connected:
        raise ProtocolVersionError("install the same berth")

    peer.recv = refused
    link = OwnerLink(NOWHERE, lambda *_: peer)  # type: ignore[arg-type]  # The peer is ours.
    with pytest.raises(NoAnswerError, match="install the same berth"):
        asked(link, StatusRequest())
