"""Who measures a berth waits for one that starts, and not for one of another version."""

import asyncio

import pytest

from bench.watched.owner_status import owner_status
from shared.errors import ProtocolVersionError
from shared.transport.owner_link import NoAnswerError


class FakeLink:
    def __init__(self, cause: Exception) -> None:
        self._cause = cause

    async def ask(self, *_: object) -> object:
        raise NoAnswerError("why") from self._cause


def asked(cause: Exception) -> object:
    return asyncio.run(owner_status(FakeLink(cause)))  # type: ignore[arg-type]  # A fake.


def test_an_owner_that_starts_is_waited_for() -> None:
    assert asked(TimeoutError()) is None


def test_one_of_another_version_is_not() -> None:
    with pytest.raises(NoAnswerError, match="why"):
        asked(ProtocolVersionError("install the same berth"))
