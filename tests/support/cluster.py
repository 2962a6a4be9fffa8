"""A small cluster with everything that the plugins read, and pods as plugins see them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from daemon.core.cache import Cache
from shared.columns.schema import Int64s, Rows
from shared.feature_gates import DEFAULT_GATES
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code, Verdicts
from shared.kube.api.core_v1 import Node
from shared.kube.pod_record import PodRecord, decode_template
from shared.plugins.interpod.inter_pod_affinity import InterPodAffinity
from shared.plugins.spread.pod_topology_spread import PodTopologySpread
from tests.support.builders import make_pod


def cluster_of(nodes: Sequence[Node], pods: Sequence[PodRecord] = ()) -> Cache:
    """A cache with these nodes in rows 0, 1, ... and these pods on them."""
    cache = Cache(DEFAULT_GATES)
    for node in nodes:
        cache.add_node(node)
    for pod in pods:
        cache.add_pod(pod)
    return cache


def pod_info(record: PodRecord) -> PodInfo:
    return PodInfo(record.namespace, decode_template(record.template))


def pod_with(spec: Mapping[str, Any], **others: Any) -> PodInfo:
    """A pod with one container that asks for nothing, unless `spec` says otherwise."""
    containers = [{"name": "c", "image": "img"}]
    return pod_info(make_pod("p", spec={"containers": containers, **spec}, **others))


def all_pass(count: int) -> Verdicts:
    """Verdicts of a filter that has nothing against any of `count` nodes."""
    return Verdicts(np.zeros(count, np.uint8), np.zeros(count, np.int64), ())


def filtered(plugin: Any, pod: PodInfo, view: ClusterView, rows: Rows) -> Verdicts:
    """What a filter says by itself; it has nothing against nodes where its PreFilter skips the pod."""
    result = plugin.pre_filter(pod, view)
    if result.status.code is Code.SKIP:
        return all_pass(len(rows))
    verdicts: Verdicts = plugin.filter(result.state, pod, view, rows)
    return verdicts


def filter_reasons(
    plugin: InterPodAffinity | PodTopologySpread, pod: PodInfo, cache: Cache, unresolvable: str
) -> dict[str, str] | None:
    """Node -> reason of those that are filtered out; None where PreFilter skips.

    Each has one reason, and is unresolvable exactly where it is that one.
    """
    result = plugin.pre_filter(pod, cache.view)
    if result.status.code is Code.SKIP:
        return None
    rows = cache.nodes.present_rows()
    verdicts = plugin.filter(result.state, pod, cache.view, rows)
    reasons: dict[str, str] = {}
    for position, row in enumerate(rows.tolist()):
        status = verdicts.status(position, plugin.NAME)
        if not status.is_success:
            (reason,) = status.reasons
            is_unresolvable = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            assert is_unresolvable is (reason == unresolvable)
            reasons[cache.nodes.name_of(row)] = reason
    return reasons


def rows_of(*rows: int) -> Rows:
    return np.array(rows, np.intp)


def rated(plugin: Any, pod: PodInfo, view: ClusterView, rows: Rows) -> Int64s:
    """Raw scores, as PreScore and Score come to them."""
    scores: Int64s = plugin.score(plugin.pre_score(pod, view, rows).state, pod, view, rows)
    return scores
