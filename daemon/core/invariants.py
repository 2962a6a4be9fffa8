"""What must hold between two events. Tests run it after each step, SIGUSR2 on the running owner."""

import numpy as np

from daemon.core.cache import Cache
from daemon.core.cached_nodes import NodeInfo
from daemon.core.queue.queued_pod import Place
from daemon.core.queue.scheduling_queue import SchedulingQueue
from shared.columns.pod_table import group_id_of


def problems(cache: Cache, queue: SchedulingQueue) -> list[str]:
    """Every contradiction found, as a sentence; empty when all is well."""
    found: list[str] = []
    for info in cache.node_infos():
        found.extend(_node_problems(cache, info))
    for pod in cache.pods():
        holder = cache.node_info(pod.node_name)
        if holder is None or pod.record.uid not in holder.pods:
            found.append(f"pod {pod.record.key} is not among the pods of node {pod.node_name}")
    found.extend(_group_problems(cache))
    for queued in queue:
        # A pod in flight may be assumed, or already seen bound while its binder's report is out.
        is_cached = cache.get_pod(queued.record.uid) is not None
        if is_cached and queued.place is not Place.IN_FLIGHT:
            found.append(
                f"pod {queued.record.key} is on a node and {queued.place.value} in the queue"
            )
    try:
        queue.check_invariants()
    except AssertionError as error:
        found.append(f"queue: {error}")
    return found


def _group_problems(cache: Cache) -> list[str]:
    """What is kept of groups, and their column, against the pods on nodes."""
    by_key: dict[str, list[str]] = {}
    found: list[str] = []
    for pod in cache.pods():
        if pod.record.group:
            by_key.setdefault(pod.record.group_key, []).append(pod.record.uid)
        if cache.pod_table.group_id[pod.row] != group_id_of(pod.record):
            found.append(f"pod {pod.record.key}: the table has it in another group")
    keys = by_key.keys() | cache.grouped.keys()
    wrong = [
        key for key in keys if sorted(cache.grouped.get(key, ())) != sorted(by_key.get(key, ()))
    ]
    return found + [f"group {key}: not the pods that are on nodes" for key in sorted(wrong)]


def _node_problems(cache: Cache, info: NodeInfo) -> list[str]:
    """The columns of a node against the sums over its pods."""
    table, row = cache.nodes, info.row
    requested = np.zeros(len(table.requested), np.int64)
    for pod in info.pods.values():
        amounts = pod.pod_class.usage.amounts
        requested[: len(amounts)] += amounts
    found: list[str] = []
    differs = requested != table.requested[:, row]
    if differs.any():
        wrong = [table.resources.values[i] for i in np.flatnonzero(differs).tolist()]
        found.append(f"node {info.name}: requested {', '.join(wrong)} is not its pods' sum")
    if table.pod_count[row] != len(info.pods):
        found.append(f"node {info.name}: counts {table.pod_count[row]} of {len(info.pods)} pods")
    if bool(table.present[row]) != (info.node is not None):
        found.append(f"node {info.name}: shown and ghost at once")
    return found
