"""How long pods wait between attempts."""

import pytest

from daemon.core.queue.pod_line import BackoffQueue
from tests.unit.daemon.core.queue.builders import by_priority


@pytest.mark.parametrize(
    ("initial_s", "max_s", "count", "expected_s"),
    [
        (1.0, 10.0, 1, 1.0),
        (1.0, 10.0, 2, 2.0),
        (1.0, 10.0, 4, 8.0),
        (1.0, 10.0, 5, 10.0),
        (1.0, 10.0, 1_000_000, 10.0),
        (3.0, 4.0, 2, 4.0),
        (20.0, 4.0, 1, 4.0),
        (2.0, 16.0, 4, 16.0),
        (0.0, 10.0, 9, 0.0),
    ],
)
def test_the_wait_doubles_up_to_the_maximum(
    initial_s: float, max_s: float, count: int, expected_s: float
) -> None:
    assert BackoffQueue(initial_s, max_s, by_priority).duration_s(count) == expected_s


def test_a_negative_wait_is_refused() -> None:
    with pytest.raises(AssertionError, match="end before it begins"):
        BackoffQueue(-1.0, 10.0, by_priority)
