"""Each file of this folder has processes of its own (`berth`), which its tests share."""

from collections.abc import Iterator

import pytest

from tests.support.live import LiveBerth


@pytest.fixture
def live(berth: LiveBerth) -> Iterator[LiveBerth]:
    """The file's processes, without anything that another test has made."""
    yield berth
    berth.reset()
