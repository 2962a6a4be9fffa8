"""Room is held for a gang that has none, through real processes."""

import pytest

from tests.integration.upstream.test_pod_groups import GATES, GROUPS, add, add_group
from tests.support.live import LiveBerth, configuration, profile

pytestmark = pytest.mark.integration


def start_berth() -> LiveBerth:
    config = configuration(profile("default-scheduler"), podMaxBackoffSeconds=1)
    return LiveBerth(config, feature_gates=GATES, gang_reservation_s=2.0)


def test_its_group_says_so_and_it_is_placed_when_what_it_waits_for_has_ended(
    live: LiveBerth,
) -> None:
    live.add_node("n1", cpu="4")
    live.add_pod("stays", cpu="2")
    live.bound("stays")
    add_group(live, "pg1", 4)
    add(live, "m1", "m2", "m3", "m4")
    live.wait(
        f"{GROUPS}/pg1",
        lambda group: [
            each
            for each in group["status"]["conditions"] or ()
            if each["message"].endswith("; holds room on 1 nodes for 2 s at most")
        ],
        "holds room",
    )
    live.delete_pod("stays")
    assert {live.bound(name) for name in ("m1", "m2", "m3", "m4")} == {"n1"}
