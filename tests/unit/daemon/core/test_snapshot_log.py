"""What copies of the cluster are told."""

from daemon.core.cache import Cache
from daemon.core.snapshot_log import SnapshotLog
from shared.feature_gates import DEFAULT_GATES


def test_of_an_empty_cluster_there_is_no_delta_and_a_full_snapshot() -> None:
    log = SnapshotLog(Cache(DEFAULT_GATES), epoch=1)
    assert log.delta({}, next_ticket=1) is None
    message, _ = log.full({}, next_ticket=1)
    assert (message.sequence, message.generation) == (0, 0)
