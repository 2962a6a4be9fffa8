"""A small cluster with everything that the plugins read, and pods as plugins see them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from daemon.core.cache import Cache
from shared.columns.schema import Rows
from shared.framework.pod_info import PodInfo
from shared.kube.objects import Node
from shared.kube.pod_record import PodRecord, decode_template
from tests.support.builders import make_pod


def cluster_of(nodes: Sequence[Node], pods: Sequence[PodRecord] = ()) -> Cache:
    """A cache with these nodes in rows 0, 1, ... and these pods on them."""
    cache = Cache()
    for node in nodes:
        cache.add_node(node)
    for pod in pods:
        cache.add_pod(pod)
    cache.refresh_order()
    return cache


def pod_info(record: PodRecord) -> PodInfo:
    return PodInfo(record.namespace, decode_template(record.template))


def pod_with(spec: Mapping[str, Any], **others: Any) -> PodInfo:
    """A pod with one container that asks for nothing, unless `spec` says otherwise."""
    containers = [{"name": "c", "image": "img"}]
    return pod_info(make_pod("p", spec={"containers": containers, **spec}, **others))


def rows_of(*rows: int) -> Rows:
    return np.array(rows, np.intp)
