"""What holds for every test: hypothesis judges no speed, tests of a whole berth are marked `live`, a
command that was called leaves the level of the log as it was."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from daemon.core import pod_classes
from shared.framework.runtime.registry import BuiltProfile

# A busy machine may take any time over an example; a hang ends by the limit in pyproject.toml.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples each time: what nobody has named yet is found by a search, not by a gate.
settings.register_profile("gate", settings.get_profile("search"), derandomize=True)
settings.load_profile("gate")


@pytest.fixture(autouse=True)
def level_of_the_log() -> Iterator[None]:
    """As it was before, whatever `start_logging` was asked for in between."""
    logger = logging.getLogger("berth")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def classes_go_with_their_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """No class of pods stays known without any."""
    monkeypatch.setattr(pod_classes, "UNUSED_CLASSES_MAX", 0)


@pytest.fixture
def all_labels_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a plugin that may look at any label of a pod."""
    monkeypatch.setattr(BuiltProfile, "labels_read", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and "live" in item.fixturenames:
            item.add_marker("live")
