"""What the simulated cluster holds when the server starts: nodes, and pods that wait.

They are made by the very handlers that serve a POST, so they look like any others.
"""

import time

from bench.apiserver.api_cluster import Cluster
from bench.apiserver.served_resources import NODES, PODS
from bench.apiserver.writes import create
from bench.demo.workload import NAMESPACE, synthetic_workload


def populate(cluster: Cluster, node_count: int, pod_count: int) -> None:
    """Create so many nodes and pending pods, equal ones as in SchedulingBasic (bench.demo)."""
    workload = synthetic_workload(node_count, pod_count)
    now_s = time.time()
    for body in workload.nodes:
        create(cluster, NODES, "", body, now_s)
    for pod in workload.pods:
        create(cluster, PODS, NAMESPACE, pod.body, now_s)
    # Nobody has watched yet.
    cluster.store.changed.clear()
