"""VolumeBinding: claims that keep a pod waiting, where volumes can be, what a placement takes."""

from typing import Any

import msgspec
import pytest

from daemon.core.cache import Cache
from shared.errors import ConfigurationError
from shared.feature_gates import STORAGE_CAPACITY_SCORING, FeatureGates
from shared.framework.normalize import UtilizationShapePoint
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code
from shared.plugins.volumes.volume_binding import VolumeBinding, VolumeBindingArgs
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, filtered, pod_info, pod_with, rated, rows_of
from tests.support.volumes import (
    SELECTED,
    ZONE,
    claim_volumes,
    put_capacity,
    put_claim,
    put_class,
    put_csi_node,
    put_driver,
    put_volume,
)

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"


def plugin() -> VolumeBinding:
    return VolumeBinding(VolumeBindingArgs(), FeatureGates())


def three_nodes() -> Cache:
    cache = cluster_of([make_node(f"n{i}", labels={ZONE: f"z{i % 2}"}) for i in range(3)])
    put_class(cache)
    return cache


def pod_of(*claims: str) -> PodInfo:
    return pod_with(claim_volumes(*claims))


def reasons(cache: Cache, pod: PodInfo) -> list[tuple[str, ...]]:
    """What PreFilter and Filter say of each node together."""
    before = plugin().pre_filter(pod, cache.view)
    assert before.status.is_success, before.status
    verdicts = plugin().filter(before.state, pod, cache.view, rows_of(0, 1, 2))
    return [verdicts.status(i, "x").reasons for i in range(3)]


# PreFilter ------------------------------------------------------------------------------------------


def test_pods_without_claims_are_none_of_its_business() -> None:
    cache = three_nodes()
    result = plugin().pre_filter(pod_with({}), cache.view)
    assert result.status.code is Code.SKIP
    assert result.is_final


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"phase": "Lost", "volume": "pv"},
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "pv"',
        ),
        ({"deleted": "2026-01-01T00:00:00Z"}, 'persistentvolumeclaim "c" is being deleted'),
        ({"class_name": "now"}, "pod has unbound immediate PersistentVolumeClaims"),
        ({"class_name": "unknown"}, "pod has unbound immediate PersistentVolumeClaims"),
        ({"class_name": ""}, "pod has unbound immediate PersistentVolumeClaims"),
        (
            {"volume": "pv", "annotations": {}},
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
)
def test_a_claim_that_is_not_ready_keeps_the_pod_waiting(
    options: dict[str, Any], problem: str
) -> None:
    cache = three_nodes()
    put_class(cache, "now", mode="Immediate")
    put_claim(cache, "c", **options)
    status = plugin().pre_filter(pod_of("c"), cache.view).status
    assert status.reasons == (problem,)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_a_claim_that_is_not_there_keeps_the_pod_waiting() -> None:
    cache = three_nodes()
    status = plugin().pre_filter(pod_of("c"), cache.view).status
    assert status.reasons == ('persistentvolumeclaim "c" not found',)


def test_an_ephemeral_claim_is_awaited_and_must_be_the_pods() -> None:
    cache = three_nodes()
    pod = pod_info(make_pod("p", spec={"volumes": [{"name": "tmp", "ephemeral": {}}]}))
    awaited = plugin().pre_filter(pod, cache.view).status
    assert awaited.reasons == (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-tmp"',
    )
    put_claim(cache, "p-tmp", owner="somebody")
    foreign = plugin().pre_filter(pod, cache.view).status
    assert foreign.reasons == (
        "PVC default/p-tmp was not created for pod default/p (pod is not owner)",
    )
    put_claim(cache, "p-tmp", owner="uid-default-p")
    assert plugin().pre_filter(pod, cache.view).status.is_success


def test_a_storage_class_without_a_mode_is_an_error() -> None:
    cache = three_nodes()
    put_class(cache, mode=None)
    put_claim(cache, "c")
    status = plugin().pre_filter(pod_of("c"), cache.view).status
    assert status.code is Code.ERROR
    assert status.reasons == ('VolumeBindingMode not set for StorageClass "late"',)


# Filter ---------------------------------------------------------------------------------------------


def test_bound_volumes_are_reached_from_some_nodes() -> None:
    cache = three_nodes()
    put_volume(cache, "pv", hosts=["n0", "n2"], claim="c")
    put_claim(cache, "c", volume="pv")
    assert reasons(cache, pod_of("c")) == [(), (NODE_CONFLICT,), ()]


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_what_a_volume_says_of_its_nodes_name_is_not_asked(operator: str) -> None:
    here = [{"key": "metadata.name", "operator": operator, "values": ["n0"]}]
    zone = [{"key": ZONE, "operator": "In", "values": ["z1"]}]
    for term, expected in (
        ({"matchFields": here}, [(), (), ()]),
        ({"matchFields": here, "matchExpressions": zone}, [(NODE_CONFLICT,), (), (NODE_CONFLICT,)]),
    ):
        cache = three_nodes()
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
        put_volume(cache, "bound", source=affinity, claim="c")
        put_claim(cache, "c", volume="bound")
        assert reasons(cache, pod_of("c")) == expected


def test_a_free_volume_for_a_named_node_is_found_from_all() -> None:
    cache = three_nodes()
    put_class(cache, provisioner="kubernetes.io/no-provisioner")
    here = [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]
    terms = {"nodeSelectorTerms": [{"matchFields": here}]}
    put_volume(cache, "free", source={"nodeAffinity": {"required": terms}})
    put_claim(cache, "c")
    assert reasons(cache, pod_of("c")) == [(), (), ()]


def test_a_volume_that_is_gone_is_reached_from_none() -> None:
    cache = three_nodes()
    put_volume(cache, "near", hosts=["n0"], claim="a")
    put_claim(cache, "a", volume="near")
    put_claim(cache, "b", volume="gone")
    lost = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    # Where the first volume is out of reach, the second is not looked at.
    assert reasons(cache, pod_of("a", "b")) == [(lost,), (NODE_CONFLICT,), (NODE_CONFLICT,)]


def test_in_tree_volumes_are_reached_as_their_driver_says_where_it_has_taken_over() -> None:
    nodes = [
        make_node("n0", labels={"topology.ebs.csi.aws.com/zone": "z"}),
        make_node("n1", labels={ZONE: "z"}),
        make_node("n2"),
    ]
    cache = cluster_of(nodes)
    source = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    put_volume(cache, "pv", labels={ZONE: "z"}, source=source, claim="c")
    put_claim(cache, "c", volume="pv")
    assert reasons(cache, pod_of("c")) == [(), (), ()]
    for name in ("n0", "n1"):
        put_csi_node(cache, name, migrated="kubernetes.io/gce-pd,kubernetes.io/aws-ebs")
    assert reasons(cache, pod_of("c")) == [(), (NODE_CONFLICT,), ()]


def test_a_volume_that_cannot_be_translated_is_an_error_where_it_would_be() -> None:
    cache = three_nodes()
    source = {"awsElasticBlockStore": {"volumeID": "aws://x"}}
    put_volume(cache, "pv", source=source, claim="c")
    put_claim(cache, "c", volume="pv")
    put_csi_node(cache, "n1", migrated="kubernetes.io/aws-ebs")
    pod = pod_of("c")
    verdicts = filtered(plugin(), pod, cache.view, rows_of(0, 1, 2))
    assert [verdicts.status(i, "x").code for i in range(3)] == [
        Code.SUCCESS, Code.ERROR, Code.SUCCESS,
    ]  # fmt: skip
    (told,) = verdicts.status(1, "x").reasons
    assert told.startswith("could not translate pv: failed to translate Kubernetes ID")


def test_free_volumes_are_taken_where_they_are() -> None:
    cache = three_nodes()
    put_class(cache, provisioner="kubernetes.io/no-provisioner")
    put_volume(cache, "small", hosts=["n0"], size="1Gi")
    put_volume(cache, "large", hosts=["n1"], size="9Gi")
    put_claim(cache, "c", size="2Gi")
    assert reasons(cache, pod_of("c")) == [(NO_VOLUME,), (), (NO_VOLUME,)]


def test_what_finds_no_volume_is_provisioned_where_the_class_allows() -> None:
    cache = three_nodes()
    put_class(cache, zones=["z0"])
    put_claim(cache, "c")
    assert reasons(cache, pod_of("c")) == [(), (NO_VOLUME,), ()]


def test_a_term_of_the_class_with_a_value_that_no_label_can_have_allows_nothing() -> None:
    cache = three_nodes()
    put_class(cache, zones=["z0", "us east/1"])
    put_claim(cache, "c")
    assert reasons(cache, pod_of("c")) == [(NO_VOLUME,)] * 3


def test_a_claim_with_a_selected_node_goes_nowhere_else() -> None:
    cache = three_nodes()
    put_claim(cache, "c", annotations={SELECTED: "n1"})
    assert reasons(cache, pod_of("c")) == [(NO_VOLUME,), (), (NO_VOLUME,)]


def test_storage_is_counted_where_the_driver_counts_it() -> None:
    cache = three_nodes()
    put_claim(cache, "c", size="5Gi")
    put_capacity(cache, "near", "5Gi", host="n1")
    assert reasons(cache, pod_of("c")) == [(), (), ()]
    put_driver(cache)
    assert reasons(cache, pod_of("c")) == [(NO_SPACE,), (), (NO_SPACE,)]
    put_capacity(cache, "near", "4Gi", host="n1")
    put_capacity(cache, "far", "100Gi", host="n2")
    assert reasons(cache, pod_of("c")) == [(NO_SPACE,), (NO_SPACE,), ()]
    put_capacity(cache, "everywhere", "6Gi")
    assert reasons(cache, pod_of("c")) == [(), (), ()]
    cache.objects.remove("csistoragecapacities", "kube-system/everywhere")
    assert reasons(cache, pod_of("c")) == [(NO_SPACE,), (NO_SPACE,), ()]


def test_storage_whose_selector_cannot_be_read_is_within_nobodys_reach() -> None:
    cache = three_nodes()
    put_claim(cache, "c", size="5Gi")
    put_driver(cache)
    put_capacity(cache, "elsewhere", "5Gi", but=["n0"])
    assert reasons(cache, pod_of("c")) == [(NO_SPACE,), (), ()]
    for unreadable in ([], ["n0", "-"]):
        put_capacity(cache, "elsewhere", "5Gi", but=unreadable)
        assert reasons(cache, pod_of("c")) == [(NO_SPACE,)] * 3


def test_a_volume_whose_size_cannot_be_read_is_no_volume() -> None:
    cache = three_nodes()
    put_class(cache, provisioner="kubernetes.io/no-provisioner")
    put_volume(cache, "odd", size="a lot")
    put_claim(cache, "c")
    assert reasons(cache, pod_of("c")) == [(NO_VOLUME,)] * 3


def test_a_claim_whose_size_cannot_be_read_is_an_error() -> None:
    cache = three_nodes()
    put_claim(cache, "c", size="a lot")
    verdicts = filtered(plugin(), pod_of("c"), cache.view, rows_of(0, 1))
    assert [verdicts.status(i, "x").code for i in range(2)] == [Code.ERROR] * 2
    assert "a lot" in verdicts.status(0, "x").reasons[0]


# Reserve --------------------------------------------------------------------------------------------


def place(cache: Cache, pod: PodInfo, row: int, uid: str = "u") -> None:
    record = make_pod("p", uid=uid)
    assert plugin().reserve(record, pod, cache.view, row).is_success


def assumed(cache: Cache) -> dict[str, list[str]]:
    objects = cache.objects
    kinds = [kind for kind in objects.assumed_kinds() if objects.assumed(kind)]
    return {kind: sorted(objects.assumed(kind)) for kind in kinds}


def test_a_volume_that_was_taken_is_not_there_for_the_next_pod() -> None:
    cache = three_nodes()
    put_class(cache, provisioner="kubernetes.io/no-provisioner")
    put_volume(cache, "pv", hosts=["n0"])
    put_claim(cache, "a")
    put_claim(cache, "b")
    assert reasons(cache, pod_of("b"))[0] == ()
    place(cache, pod_of("a"), 0)
    assert assumed(cache) == {"persistentvolumes": ["pv"]}
    assert reasons(cache, pod_of("b"))[0] == (NO_VOLUME,)
    # The pod itself, should it be tried again, gets the same volume and no other.
    assert reasons(cache, pod_of("a")) == [(), (NO_VOLUME,), (NO_VOLUME,)]
    volume = cache.objects.latest("persistentvolumes", "pv")
    assert volume is not None
    assert volume.spec.claim_ref.name == "a"
    assert volume.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}


def test_a_claim_to_be_provisioned_keeps_its_node() -> None:
    cache = three_nodes()
    put_claim(cache, "c")
    place(cache, pod_of("c"), 2)
    assert assumed(cache) == {"persistentvolumeclaims": ["default/c"]}
    assert reasons(cache, pod_of("c")) == [(NO_VOLUME,), (NO_VOLUME,), ()]


def test_unreserve_gives_back_what_the_pod_took_and_nothing_else() -> None:
    cache = three_nodes()
    for name in ("a", "b"):
        put_claim(cache, name)
    place(cache, pod_of("a"), 0, "pod-a")
    place(cache, pod_of("b"), 1, "pod-b")
    plugin().unreserve(make_pod("p", uid="pod-a"), pod_of("a"), cache.view, 0)
    assert assumed(cache) == {"persistentvolumeclaims": ["default/b"]}
    plugin().unreserve(make_pod("p", uid="pod-a"), pod_of("a"), cache.view, 0)
    assert reasons(cache, pod_of("a")) == [(), (), ()]


def test_the_api_servers_newer_word_ends_an_assumption() -> None:
    cache = three_nodes()
    put_claim(cache, "c")
    place(cache, pod_of("c"), 2)
    put_claim(cache, "c", version="1")
    assert reasons(cache, pod_of("c"))[0] == (NO_VOLUME,)
    put_claim(cache, "c", version="2")
    assert assumed(cache) == {}
    assert reasons(cache, pod_of("c")) == [(), (), ()]


def test_a_bound_claim_takes_nothing() -> None:
    cache = three_nodes()
    put_volume(cache, "pv", claim="c")
    put_claim(cache, "c", volume="pv")
    place(cache, pod_of("c"), 0)
    assert assumed(cache) == {}


def test_reserve_refuses_what_filter_would_refuse() -> None:
    cache = three_nodes()
    put_claim(cache, "c", annotations={SELECTED: "n1"})
    status = plugin().reserve(make_pod("p"), pod_of("c"), cache.view, 0)
    assert not status.is_success
    assert assumed(cache) == {}


def test_two_claims_take_two_volumes() -> None:
    cache = three_nodes()
    put_class(cache, provisioner="kubernetes.io/no-provisioner")
    put_volume(cache, "small", hosts=["n0", "n1"], size="1Gi")
    put_volume(cache, "large", hosts=["n0"], size="5Gi")
    put_claim(cache, "a", size="1Gi")
    put_claim(cache, "b", size="1Gi")
    assert reasons(cache, pod_of("a", "b")) == [(), (NO_VOLUME,), (NO_VOLUME,)]
    place(cache, pod_of("a", "b"), 0)
    assert assumed(cache) == {"persistentvolumes": ["large", "small"]}


# Score ----------------------------------------------------------------------------------------------


def scorer(shape: list[dict[str, int]] | None = None) -> VolumeBinding:
    gates = FeatureGates({STORAGE_CAPACITY_SCORING: True})
    return VolumeBinding(msgspec.convert({"shape": shape or []}, VolumeBindingArgs), gates)


def test_without_the_gate_it_has_no_shape_not_even_an_empty_one() -> None:
    scoring = FeatureGates({STORAGE_CAPACITY_SCORING: True})
    shapes: tuple[None, list[UtilizationShapePoint]] = (None, [])
    for shape in shapes:
        VolumeBinding(VolumeBindingArgs(shape=shape), scoring)
    VolumeBinding(VolumeBindingArgs(), FeatureGates())
    with pytest.raises(ConfigurationError) as caught:
        VolumeBinding(VolumeBindingArgs(shape=[]), FeatureGates())
    assert len(caught.value.problems) == 1


def test_without_the_gate_it_does_not_score() -> None:
    cache = three_nodes()
    put_claim(cache, "c")
    result = plugin().pre_score(pod_of("c"), cache.view, rows_of(0, 1, 2))
    assert result.status.code is Code.SKIP
    assert result.is_final


def test_emptier_storage_scores_higher() -> None:
    cache = three_nodes()
    put_class(cache, provisioner="kubernetes.io/no-provisioner")
    put_volume(cache, "full", hosts=["n0"], size="1Gi")
    put_volume(cache, "half", hosts=["n1"], size="2Gi")
    put_claim(cache, "c", size="1Gi")
    rated = scorer()
    state = rated.pre_score(pod_of("c"), cache.view, rows_of(0, 1)).state
    assert rated.score(state, pod_of("c"), cache.view, rows_of(0, 1, 2)).tolist() == [0, 50, 0]
    steep = scorer([{"utilization": 0, "score": 0}, {"utilization": 50, "score": 10}])
    assert steep.score(state, pod_of("c"), cache.view, rows_of(0, 1)).tolist() == [100, 100]


@pytest.mark.parametrize(
    ("size", "held", "score"),
    [("100Pi", "200Pi", 100), ("1Ei", "2Ei", 98), ("3Ei", "4Ei", 100), ("150Pi", "160Pi", 100)],
)
def test_a_hundred_times_as_much_as_64_bits_hold_wraps_around(
    size: str, held: str, score: int
) -> None:
    """Utilisations of -31, 2, -1 and -8: a negative one scores as the first point of the shape."""
    cache = three_nodes()
    put_class(cache, provisioner="kubernetes.io/no-provisioner")
    put_volume(cache, "near", hosts=["n0"], size=held)
    put_volume(cache, "vast", hosts=["n1"], size="7Ei")
    put_claim(cache, "c", size=size)
    scores = rated(scorer(), pod_of("c"), cache.view, rows_of(0, 1))
    assert scores.tolist() == [score, 100]


def test_new_volumes_are_rated_by_the_storage_they_come_from() -> None:
    cache = three_nodes()
    put_driver(cache)
    put_capacity(cache, "a", "10Gi", host="n0")
    put_capacity(cache, "b", "4Gi", host="n1")
    put_claim(cache, "c", size="1Gi")
    put_claim(cache, "d", size="1Gi")
    scores = rated(scorer(), pod_of("c", "d"), cache.view, rows_of(0, 1, 2))
    assert scores.tolist() == [80, 50, 0]
