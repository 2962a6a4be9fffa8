"""Fixtures of the tests that need a binder process."""

from collections.abc import Iterator

import pytest

from tests.support.binder_stage import Stage, World, binder_stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    with binder_stage() as stage:
        yield stage


@pytest.fixture
def world(stage: Stage) -> World:
    """The API server of `stage`."""
    return stage.world
