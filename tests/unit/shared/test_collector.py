"""The cycle collector is out of the way, and only once."""

import gc
from collections.abc import Iterator

import pytest

from shared.collector import YOUNG_OBJECTS_MAX, Collector


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_what_is_there_after_the_first_sync_is_put_aside() -> None:
    gc.unfreeze()
    collector = Collector()
    assert gc.get_threshold()[0] == YOUNG_OBJECTS_MAX
    assert gc.get_freeze_count() == 0
    collector.settled()
    frozen = gc.get_freeze_count()
    assert frozen > 0
    kept = [[n] for n in range(100)]
    collector.settled()
    assert gc.get_freeze_count() <= frozen, "what came later is looked through as ever"
    assert len(kept) == 100
