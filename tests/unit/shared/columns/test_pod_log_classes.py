"""The classes of pods that came and went lately, told quickly however many there were."""

import pytest

from shared.columns.journal import FEW_ENTRIES, PodLog, pod_code


@pytest.mark.parametrize("count", [1, FEW_ENTRIES, FEW_ENTRIES + 1, 5 * FEW_ENTRIES])
def test_the_classes_of_what_came_and_what_went_are_named(count: int) -> None:
    log = PodLog()
    log.append(pod_code(999, 0, False))
    before = log.position
    for i in range(count):
        log.append((-1 if i % 2 else 1) * pod_code(i % 7, i, i % 3 == 0))
    assert log.classes_since(before, count) == {i % 7 for i in range(count)}
    assert log.classes_since(before, count - 1) is None
