"""The plugins by themselves, over a small cluster: no processes, no API server.

`shared` is berth; a cluster for tests is made of nodes and pods as the API server would send them.
"""

from typing import Any
from unittest.mock import Mock

import msgspec
import numpy as np
import pytest
from berth_example.gold_tier import GoldTier
from berth_example.pod_group import GROUP, SIZE, PodGroup
from berth_example.rack_limit import RackLimit

from daemon.core.cache import Cache
from shared.errors import ConfigurationError
from shared.feature_gates import DEFAULT_GATES
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code
from shared.kube.api.core_v1 import Node, Pod
from shared.kube.pod_record import PodRecord, decode_template, split_pod

ROWS = np.arange(2)


def node(name: str, **labels: str) -> Node:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "status": status}, Node)


def record(name: str, node_name: str = "", **labels: str) -> PodRecord:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    spec = {"nodeName": node_name, "containers": [{"name": "c"}]}
    return split_pod(msgspec.convert({"metadata": metadata, "spec": spec}, Pod))


def info(one: PodRecord) -> PodInfo:
    return PodInfo(one.namespace, decode_template(one.template))


def cluster(nodes: list[Node], pods: list[PodRecord]) -> Cache:
    cache = Cache(DEFAULT_GATES)
    for each in nodes:
        cache.add_node(each)
    for pod in pods:
        cache.add_pod(pod)
    return cache


def test_gold_pods_go_to_gold_nodes_with_few_pods() -> None:
    view = cluster([node("n1", tier="gold"), node("n2")], [record("a", "n1")]).view
    plugin, pod = GoldTier({}), info(record("p", tier="gold"))
    state = plugin.pre_filter(pod, view).state
    codes = plugin.filter(state, pod, view, ROWS).codes.tolist()
    assert codes == [0, Code.UNSCHEDULABLE_AND_UNRESOLVABLE]
    raw = plugin.score(state, pod, view, ROWS)
    assert plugin.normalize(raw, plugin.normalization(state, raw)).tolist() == [0, 100]
    assert plugin.pre_filter(info(record("q")), view).status.code is Code.SKIP


def test_a_node_takes_so_many_pods_of_an_application() -> None:
    pods = [record("a", "n1", app="x"), record("b", "n1", app="x"), record("c", "n2", app="y")]
    view = cluster([node("n1"), node("n2")], pods).view
    plugin, pod = RackLimit({"maxPerNode": 2}), info(record("p", app="x"))
    verdicts = plugin.filter(None, pod, view, ROWS)
    assert verdicts.codes.tolist() == [Code.UNSCHEDULABLE, 0]
    assert verdicts.status(0, "RackLimit").reasons == (
        "node(s) had enough pods of the application",
    )
    assert plugin.score(None, pod, view, ROWS).tolist() == [0, 100]


def test_the_last_pod_of_a_group_lets_the_others_go() -> None:
    view = cluster([node("n1")], []).view
    plugin, peers = PodGroup({"waitSeconds": 5}), list[Mock]()
    plugin.use_handle(Mock(waiting_pods=lambda: iter(peers)))
    first, last = (record(name, **{GROUP: "g", SIZE: "2"}) for name in ("a", "b"))
    assert plugin.permit(first, info(first), view, 0) == ((Code.WAIT, (), ""), 5)
    peers.append(Mock(pod=info(first)))
    assert plugin.permit(last, info(last), view, 0).status.is_success
    plugin.unreserve(last, info(last), view, 0)
    peers[0].allow.assert_called_once_with("PodGroup")
    peers[0].reject.assert_called_once_with("PodGroup", "pod group g did not come together")


@pytest.mark.parametrize(
    ("plugin", "args", "problem"),
    [
        (GoldTier, {"tiers": []}, "pluginConfig[GoldTier].args: tiers: name at least one"),
        (GoldTier, {"tiers": 1}, "pluginConfig[GoldTier].args: tiers: Expected `array`, got `int`"),
        (RackLimit, {"max": 1}, "Object contains unknown field `max`"),
        (PodGroup, {"waitSeconds": 901}, "waitSeconds: 901 must lie in (0, 900]"),
    ],
)
def test_wrong_arguments_are_refused_with_their_place(
    plugin: Any, args: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        plugin(args)
    assert problem in str(caught.value)
