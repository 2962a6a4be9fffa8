"""VolumeRestrictions: disks that are in use on a node, claims that are in use anywhere."""

from typing import Any

import numpy as np

from daemon.core.cache import Cache
from shared.framework.plugin_api import Delta
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.what_if import WhatIf
from shared.framework.status import Code
from shared.plugins.volumes.volume_restrictions import VolumeRestrictions
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, pod_with, rows_of
from tests.support.volumes import claim_volumes, put_claim

NO_DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)
EBS = {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "d"}}]}


def cluster(**specs: dict[str, Any]) -> Cache:
    """Nodes n0, n1, and a pod of each name with its spec on the node that it ends in."""
    pods = [
        make_pod(name, node_name=f"n{name[-1]}", spec={**spec, "nodeName": f"n{name[-1]}"})
        for name, spec in specs.items()
    ]
    cache = cluster_of([make_node("n0"), make_node("n1")], pods)
    put_claim(cache, "single", access_modes=["ReadWriteOncePod"])
    put_claim(cache, "shared")
    return cache


def reasons(cache: Cache, pod: PodInfo) -> list[tuple[str, ...]]:
    plugin = VolumeRestrictions()
    before = plugin.pre_filter(pod, cache.view)
    if before.status.code is Code.SKIP:
        return [(), ()]
    assert before.status.is_success
    verdicts = plugin.filter(before.state, pod, cache.view, rows_of(0, 1))
    assert all(verdicts.status(i, "x").code in (Code.SUCCESS, Code.UNSCHEDULABLE) for i in range(2))
    return [verdicts.status(i, "x").reasons for i in range(2)]


def test_pods_without_volumes_are_none_of_its_business() -> None:
    cache = cluster()
    assert VolumeRestrictions().pre_filter(pod_with({}), cache.view).is_final
    image = pod_with({"volumes": [{"name": "v", "image": {"reference": "i"}}]})
    assert VolumeRestrictions().pre_filter(image, cache.view).is_final


def test_a_disk_in_use_keeps_others_off_the_node() -> None:
    cache = cluster(p1=EBS)
    assert reasons(cache, pod_with(EBS)) == [(), (NO_DISK,)]
    cache.remove_pod("uid-default-p1")
    assert reasons(cache, pod_with(EBS)) == [(), ()]


def test_a_claim_for_a_single_pod_keeps_others_off_all_nodes() -> None:
    wanted = pod_with(claim_volumes("single"))
    assert reasons(cluster(), wanted) == [(), ()]
    assert reasons(cluster(p1=claim_volumes("single")), wanted) == [(IN_USE,), (IN_USE,)]
    shared = pod_with(claim_volumes("shared"))
    assert reasons(cluster(p1=claim_volumes("shared")), shared) == [(), ()]


def test_the_disk_is_the_first_reason() -> None:
    both = {"volumes": [*EBS["volumes"], *claim_volumes("single")["volumes"]]}
    assert reasons(cluster(p1=both), pod_with(both)) == [(IN_USE,), (NO_DISK,)]


def test_a_pod_on_a_node_that_is_gone_uses_no_claim() -> None:
    cache = cluster(p1=claim_volumes("single"))
    cache.remove_node("n1")
    result = VolumeRestrictions().pre_filter(pod_with(claim_volumes("single")), cache.view)
    assert result.status.code is Code.SKIP


def test_a_missing_claim_is_reported_here() -> None:
    status = VolumeRestrictions().pre_filter(pod_with(claim_volumes("none")), cluster().view).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ('persistentvolumeclaim "none" not found',)


def test_without_one_of_two_users_the_claim_counts_as_free() -> None:
    """As upstream, which counts a used claim once and every pod that goes."""
    cache = cluster(p0=claim_volumes("single"), q1=claim_volumes("single"))
    plugin, wanted = VolumeRestrictions(), pod_with(claim_volumes("single"))
    before, state = (plugin.pre_filter(wanted, cache.view).state for _ in range(2))
    victim = cache.get_pod("uid-default-q1")
    assert victim is not None
    with WhatIf(cache.view, rows_of(1), with_pods=True) as what_if:
        what_if.take_off(np.array([victim.row]))
        delta = Delta(rows_of(), [], is_what_if=True)
        assert plugin.update_filter(state, wanted, cache.view, delta) is not None
        assert plugin.filter(state, wanted, cache.view, rows_of(1)).passes.all()
    assert not plugin.filter(before, wanted, cache.view, rows_of(1)).passes.any()


def test_a_state_is_good_until_an_exclusive_claim_is_taken() -> None:
    cache = cluster()
    plugin = VolumeRestrictions()
    for claim, holds in (("shared", True), ("single", False)):
        pod = pod_with(claim_volumes(claim))
        state = plugin.pre_filter(pod, cache.view).state
        cache.add_pod(make_pod(f"{claim}0", node_name="n0", claim=claim))
        rows = plugin.update_filter(state, pod, cache.view, Delta(rows_of(), []))
        assert (rows is not None) is holds
