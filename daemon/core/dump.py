"""Cache and queue as text, for people (kube-scheduler's SIGUSR2 dump)."""

from daemon.core.cache import Cache, NodeInfo
from daemon.core.queue.scheduling_queue import SchedulingQueue


def dump_lines(cache: Cache, queue: SchedulingQueue) -> list[str]:
    """Nodes in order of name, then the queue by place."""
    lines = [f"nodes: {cache.node_count()}, pods: {cache.pod_count()}"]
    for info in sorted(cache.node_infos(), key=lambda i: i.name):
        lines.append(_node_line(cache, info))
        lines.extend(
            f"  pod {pod.record.key} uid {pod.record.uid} phase {pod.phase.value}"
            for pod in info.pods.values()
        )
    lines.append(f"queue: {len(queue)} pods")
    for pod in queue.dump():
        rejected = ",".join(pod.unschedulable_plugins)
        lines.append(
            f"  {pod.place} {pod.key} uid {pod.uid} priority {pod.priority}"
            f" attempts {pod.attempts} rejected by [{rejected}] gated by [{pod.gated_by}]"
        )
    return lines


def _node_line(cache: Cache, info: NodeInfo) -> str:
    table, row = cache.nodes, info.row
    ghost = "" if info.node is not None else " (ghost)"
    amounts = " ".join(
        f"{name} {table.requested[i, row]}/{table.allocatable[i, row]}"
        for i, name in enumerate(table.resources.values)
        if table.requested[i, row] or table.allocatable[i, row]
    )
    pods = f"pods {table.pod_count[row]}/{table.allowed_pod_count[row]}"
    return f"node {info.name}{ghost} generation {table.generation[row]} {pods} {amounts}"
