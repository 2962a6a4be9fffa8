"""Engine, and framework asked about one node at a time, on clusters made up at random.

`berth conformance --generate 100000` is the nightly size.
"""

import pytest

from bench.conformance.generated import differing

PARTS = 4
CLUSTERS_A_PART = 50


@pytest.mark.conformance
@pytest.mark.parametrize("part", range(PARTS))
def test_both_ways_come_to_the_same(part: int) -> None:
    first = part * CLUSTERS_A_PART
    found = differing(1, range(first, first + CLUSTERS_A_PART))
    assert [(each.document["name"], each.differences[:3], each.line) for each in found] == []
