"""Fixtures of the tests that need processes: a binder, or a whole berth."""

from collections.abc import Iterator

import pytest

from tests.support.binder_stage import Stage, World, binder_stage
from tests.support.live import LiveBerth, SharedBerth


@pytest.fixture
def stage() -> Iterator[Stage]:
    with binder_stage() as stage:
        yield stage


@pytest.fixture
def world(stage: Stage) -> World:
    """The API server of `stage`."""
    return stage.world


@pytest.fixture(scope="module")
def shared_berth(request: pytest.FixtureRequest) -> Iterator[SharedBerth]:
    """Started as the file's `start_berth` says."""
    with SharedBerth(request.module.start_berth) as shared:
        yield shared


@pytest.fixture
def live(shared_berth: SharedBerth) -> Iterator[LiveBerth]:
    """The file's processes, without anything that another test has made."""
    with shared_berth.lend() as live:
        yield live
