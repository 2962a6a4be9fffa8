"""VolumeZone: zones of bound volumes, against one node at a time."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.cache import Cache
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.plugins.volumes.volume_rules import volume_topologies
from shared.plugins.volumes.volume_zone import VolumeZone, match_volume_zones
from shared.selectors.node_selector import SelectedColumns
from tests.support.builders import make_node
from tests.support.cluster import cluster_of, pod_with, rows_of
from tests.support.slow_volumes import zones_fit
from tests.support.volumes import ZONE, claim_volumes, put_claim, put_class, put_volume

REASON = "node(s) had no available volume zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
KEYS = (ZONE, REGION, BETA_ZONE, "failure-domain.beta.kubernetes.io/region", "other")

NODE_LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("a", "b", "c", "")))
VOLUME_LABELS = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from(("a", "b", "a__b", " a __c", "a__", ""))
)


@given(st.lists(NODE_LABELS, min_size=1, max_size=4), st.lists(VOLUME_LABELS, max_size=2))
def test_nodes_must_lie_where_the_volumes_are(
    nodes: list[dict[str, str]], volumes: list[dict[str, str]]
) -> None:
    cache = cluster_of([make_node(f"n{i}", labels=labels) for i, labels in enumerate(nodes)])
    topologies = tuple(
        topology
        for labels in volumes
        for topology in volume_topologies(
            msgspec.convert({"metadata": {"labels": labels}}, PersistentVolume)
        ).items()
    )
    rows = np.arange(len(nodes))
    got = match_volume_zones(topologies, SelectedColumns(cache.nodes, rows))
    assert got.tolist() == [zones_fit(volumes, labels) for labels in nodes]


def cluster() -> Cache:
    return cluster_of([make_node("n0", labels={ZONE: "a"}), make_node("n1", labels={ZONE: "b"})])


def pod_of(*claims: str) -> PodInfo:
    return pod_with(claim_volumes(*claims))


def test_a_pod_goes_to_the_zone_of_its_volume() -> None:
    cache = cluster()
    put_volume(cache, "pv", labels={ZONE: "b"})
    put_claim(cache, "c", volume="pv")
    before = VolumeZone().pre_filter(pod_of("c"), cache.view)
    verdicts = VolumeZone().filter(before.state, pod_of("c"), cache.view, rows_of(0, 1))
    assert verdicts.passes.tolist() == [False, True]
    assert verdicts.status(0, "x").reasons == (REASON,)
    assert verdicts.status(0, "x").code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_only_a_pod_without_claims_is_never_its_business() -> None:
    cache = cluster()
    assert VolumeZone().pre_filter(pod_with({}), cache.view).is_final
    put_volume(cache, "pv")
    put_claim(cache, "c", volume="pv")
    without_zone = VolumeZone().pre_filter(pod_of("c"), cache.view)
    assert without_zone.status.code is Code.SKIP
    assert not without_zone.is_final


@pytest.mark.parametrize(
    ("claim", "mode", "problem"),
    [
        (None, None, 'persistentvolumeclaim "c" not found'),
        ({"volume": "gone"}, None, 'persistentvolume "gone" not found'),
        ({"class_name": ""}, None, "PersistentVolumeClaim had no pv name and storageClass name"),
        ({"class_name": "no"}, None, 'storageclass.storage.k8s.io "no" not found'),
        ({}, None, 'VolumeBindingMode not set for StorageClass "late"'),
        ({}, "Immediate", "PersistentVolume had no name"),
    ],
)
def test_claims_whose_zone_cannot_be_told(
    claim: dict[str, Any] | None, mode: str | None, problem: str
) -> None:
    cache = cluster()
    put_class(cache, mode=mode)
    if claim is not None:
        put_claim(cache, "c", **claim)
    status = VolumeZone().pre_filter(pod_of("c"), cache.view).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == (problem,)


def test_a_claim_that_waits_for_the_pod_has_no_zone_yet() -> None:
    cache = cluster()
    put_class(cache)
    put_claim(cache, "c")
    assert VolumeZone().pre_filter(pod_of("c"), cache.view).status.code is Code.SKIP
