"""What must hold between two events. Tests run it after each step, SIGUSR2 on the running owner."""

import numpy as np

from daemon.core.cache import Cache
from daemon.core.queue.queued_pod import Place
from daemon.core.queue.scheduling_queue import SchedulingQueue
from shared.columns.pod_table import group_id_of


def problems(cache: Cache, queue: SchedulingQueue) -> list[str]:
    """Every contradiction found, as a sentence; empty when all is well."""
    found = _node_problems(cache)
    for pod in cache.pods():
        holder = cache.node_info(pod.node_name)
        if holder is None or pod.record.uid not in holder.pods:
            found.append(f"pod {pod.record.key} is not among the pods of node {pod.node_name}")
    found.extend(_group_problems(cache))
    found.extend(_class_problems(cache, queue))
    for queued in queue:
        # A pod in flight may be assumed, or already seen bound while its binder's report is out.
        is_cached = cache.get_pod(queued.record.uid) is not None
        if is_cached and queued.place is not Place.IN_FLIGHT:
            found.append(f"pod {queued.key} is on a node and {queued.place.value} in the queue")
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
    told = cache.grouped
    keys = sorted(by_key.keys() | told.keys())
    wrong = [key for key in keys if sorted(told.get(key, ())) != sorted(by_key.get(key, ()))]
    return found + [f"group {key}: not the pods that are on nodes" for key in wrong]


def _class_problems(cache: Cache, queue: SchedulingQueue) -> list[str]:
    """Which class pods are of, against their templates, and nominations against classes."""
    if cache.classes.labels.has_news:
        return []  # Lists are coming in.
    known, key_of = cache.classes.infos, cache.classes.key_of
    pods = [*cache.pods(), *queue]
    wrong = [pod.record.key for pod in pods if key_of(pod.record) != pod.pod_class.key]
    gone = [each.uid for each in cache.view.nominations.all() if each.class_id not in known]
    return [f"pod {key}: is of another class than its template says" for key in wrong] + [
        f"pod {uid}: is nominated as one of a class that is gone" for uid in gone
    ]


def _node_problems(cache: Cache) -> list[str]:
    """The columns of nodes against the sums over their pods."""
    table, infos = cache.nodes, cache.node_infos()
    found: list[str] = []
    requested = np.zeros_like(table.requested)
    for info in infos:
        row = info.row
        for pod in info.pods.values():
            amounts = pod.pod_class.usage.amounts
            requested[: len(amounts), row] += amounts
        count = table.pod_count.item(row)
        if count != len(info.pods):
            found.append(f"node {info.name}: counts {count} of {len(info.pods)} pods")
        if table.present.item(row) != (info.node is not None):
            found.append(f"node {info.name}: shown and ghost at once")
    rows = [info.row for info in infos]
    differs = requested[:, rows] != table.requested[:, rows]
    for resource, place in zip(*np.nonzero(differs), strict=True):
        told = table.resources.values[resource]
        found.append(f"node {infos[place].name}: requested {told} is not its pods' sum")
    return found
