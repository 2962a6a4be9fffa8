"""What the owner counts since its start, by the names under which status and metrics show it."""

from collections import Counter


class Counters(Counter[str]):
    """Counts by name. Names are declared here, so that a reader finds them all.

    scheduled: placements that were assumed
    bound: bindings that the API server accepted
    unschedulable: attempts that ended without a node
    errors: attempts that ended with a plugin's error
    proposals_rejected: placements that did not pass the owner's check
    proposals_stale: answers for attempts that were not out any more
    binds_failed: bindings that were refused or lost
    binds_repeated: orders sent again because their binder was lost
    disagreements: contradictions between cache and API server, repaired
    missed_deletes: objects that a re-list no longer showed, and that no watch event had removed
    adapter_batches: messages of the watch adapter that were applied
    foreign_binds: pods that another scheduler bound
    foreign_pods: pending pods of other schedulers, left alone
    objects_rejected: API objects left out because they could not be understood
    assumed_expired: assumed pods dropped because no confirmation came
    resyncs: full snapshots sent to workers
    snapshots: deltas published
    """
