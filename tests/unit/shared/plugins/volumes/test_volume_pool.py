"""Volumes for claims over columns of nodes, against one node and one volume at a time."""

from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.plugins.volumes import volume_pool
from shared.plugins.volumes.affinity_columns import NONE
from shared.plugins.volumes.volume_pool import VolumePool, candidate
from shared.selectors.label_selector import EVERYTHING, Selector
from shared.selectors.node_selector import SelectedColumns
from shared.selectors.requirement import equal_to
from tests.support.builders import table_of
from tests.support.slow_volumes import SlowClaim, SlowVolume, find_volumes

KEYS = ("host", "zone", "nowhere")
VALUES = ("a", "b", "c")
CLAIMS = ("c0", "c1", "c2")
MODES = ("ReadWriteOnce", "ReadOnlyMany")

LABELS = st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(VALUES))
REQUIREMENTS = st.tuples(
    st.sampled_from(KEYS), st.lists(st.sampled_from(VALUES), min_size=1, max_size=2)
)
ACCESS = st.lists(st.sampled_from(MODES), min_size=1, unique=True).map(tuple)


@st.composite
def volume_lists(draw: st.DrawFn) -> list[SlowVolume]:
    count = draw(st.integers(0, 8))
    # No two of one size: which of them is taken is nobody's promise.
    sizes = draw(st.permutations(range(1, 9)))[:count]
    return [
        SlowVolume(
            name=f"v{i}",
            size=size,
            affinity=draw(st.one_of(st.none(), st.lists(REQUIREMENTS, max_size=2))),
            claim=draw(st.sampled_from(("", "", "", *CLAIMS, "other"))),
            mode=draw(st.sampled_from(("Filesystem", "Filesystem", "Block"))),
            access_modes=draw(ACCESS),
            labels=draw(st.dictionaries(st.just("media"), st.sampled_from(VALUES))),
            is_available=draw(st.sampled_from((True, True, True, False))),
            is_deleted=draw(st.sampled_from((False, False, False, True))),
        )
        for i, size in enumerate(sizes)
    ]


@st.composite
def claim_lists(draw: st.DrawFn) -> list[SlowClaim]:
    return [
        SlowClaim(
            name=name,
            size=draw(st.integers(0, 8)),
            mode=draw(st.sampled_from(("Filesystem", "Filesystem", "Block"))),
            access_modes=draw(ACCESS),
            selector=draw(st.one_of(st.none(), st.just({"media": "a"}))),
        )
        # The same claim may stand in a pod twice.
        for name in draw(st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=3))
    ]


def volume_of(slow: SlowVolume) -> PersistentVolume:
    spec: dict[str, Any] = {
        "capacity": {"storage": f"{slow.size}Gi"},
        "accessModes": list(slow.access_modes),
        "volumeMode": slow.mode,
    }
    if slow.claim:
        spec["claimRef"] = {"namespace": "default", "name": slow.claim}
    if slow.affinity is not None:
        terms = [
            {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
            for key, values in slow.affinity
        ]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    body = {
        "metadata": {
            "name": slow.name,
            "labels": dict(slow.labels),
            "deletionTimestamp": "2026-01-01T00:00:00Z" if slow.is_deleted else None,
        },
        "spec": spec,
        "status": {"phase": "Available" if slow.is_available else "Released"},
    }
    return msgspec.convert(body, PersistentVolume)


def claim_of(slow: SlowClaim) -> PersistentVolumeClaim:
    body = {
        "metadata": {"name": slow.name, "namespace": "default", "uid": f"uid-{slow.name}"},
        "spec": {
            "accessModes": list(slow.access_modes),
            "volumeMode": slow.mode,
            "resources": {"requests": {"storage": f"{slow.size}Gi"}},
        },
    }
    return msgspec.convert(body, PersistentVolumeClaim)


def chosen_names(
    pool: VolumePool, claims: list[SlowClaim], labels: list[dict[str, str]]
) -> list[list[str | None]]:
    """By node, then by claim."""
    nodes = table_of(labels)
    rows = np.arange(len(labels))
    taken: list[Any] = []
    for slow in claims:
        selector = EVERYTHING if slow.selector is None else Selector(equal_to(slow.selector))
        taken.append(pool.choose(claim_of(slow), selector, taken, SelectedColumns(nodes, rows)))
    return [
        [
            None if c[row] == NONE else pool.candidates[int(c[row])].volume.metadata.name
            for c in taken
        ]
        for row in range(len(labels))
    ]


LATE_MAX = st.integers(1, 5)


@given(volume_lists(), claim_lists(), st.lists(LABELS, min_size=1, max_size=4), LATE_MAX)
def test_each_claim_gets_the_smallest_volume_that_will_do(
    volumes: list[SlowVolume],
    claims: list[SlowClaim],
    labels: list[dict[str, str]],
    late_max: int,
) -> None:
    pool = VolumePool()
    for volume in volumes:
        pool.put(volume.name, candidate(volume_of(volume)))
    wanted = [find_volumes(claims, volumes, own) for own in labels]
    with patch.object(volume_pool, "LATE_MAX", late_max):
        assert chosen_names(pool, claims, labels) == wanted


@given(st.data())
def test_a_pool_that_changed_chooses_as_a_new_one(data: st.DataObject) -> None:
    with patch.object(volume_pool, "LATE_MAX", data.draw(LATE_MAX)):
        check_a_pool_that_changes(data)


def check_a_pool_that_changes(data: st.DataObject) -> None:
    pool = VolumePool()
    held: dict[str, SlowVolume] = {}
    claims = data.draw(claim_lists())
    labels = data.draw(st.lists(LABELS, min_size=1, max_size=3))
    for _ in range(data.draw(st.integers(1, 4))):
        for volume in data.draw(volume_lists()):
            # A size of its own for each volume, whatever else changes about it.
            volume.size = int(volume.name[1:]) + 1
            held[volume.name] = volume
            pool.put(volume.name, candidate(volume_of(volume)))
        for name in data.draw(st.lists(st.sampled_from(sorted(held)), unique=True)) if held else ():
            del held[name]
            pool.put(name, None)
        in_order = sorted(held.values(), key=lambda volume: volume.size)
        given_twice = {v.claim for v in in_order if v.claim in CLAIMS}
        if any(sum(v.claim == name for v in in_order) > 1 for name in given_twice):
            continue  # Which of two volumes given to one claim comes first is their age.
        wanted = [find_volumes(claims, in_order, own) for own in labels]
        assert chosen_names(pool, claims, labels) == wanted
    assert pool._slot_of.keys() == held.keys()


def test_a_value_that_no_node_has_yet_is_found_once_one_has_it() -> None:
    pool = VolumePool()
    pool.put("v0", candidate(volume_of(SlowVolume("v0", 1, [("host", ["late"])]))))
    claims = [SlowClaim("c0", 1)]
    assert chosen_names(pool, claims, [{"host": "early"}]) == [[None]]
    assert chosen_names(pool, claims, [{"host": "early"}, {"host": "late"}]) == [[None], ["v0"]]


def test_volumes_of_another_storage_class_are_not_chosen() -> None:
    pool = VolumePool()
    for slow in (SlowVolume("v0", 1, None), SlowVolume("v1", 1, None, claim="c1")):
        volume = volume_of(slow)
        spec = msgspec.structs.replace(volume.spec, storage_class_name="fast")
        pool.put(slow.name, candidate(msgspec.structs.replace(volume, spec=spec)))
    claims = [SlowClaim("c0", 1), SlowClaim("c1", 1)]
    assert chosen_names(pool, claims, [{}]) == [[None, None]]
    pool.put("v2", candidate(volume_of(SlowVolume("v2", 2, None))))
    assert chosen_names(pool, claims, [{}]) == [["v2", None]]


def test_one_more_volume_does_not_have_all_others_put_in_order_again() -> None:
    pool = VolumePool()
    volumes = [SlowVolume(f"v{i}", i + 2, None) for i in range(volume_pool.LATE_MAX)]
    for each in volumes:
        pool.put(each.name, candidate(volume_of(each)))
    claims = [SlowClaim("c0", 1)]
    assert chosen_names(pool, claims, [{}]) == [["v0"]]
    pool.put("v0", None)
    pool.put("smallest", candidate(volume_of(SlowVolume("smallest", 1, None))))
    with patch.object(volume_pool, "_Shelf", side_effect=volume_pool._Shelf) as made:
        assert chosen_names(pool, claims, [{}]) == [["smallest"]]
        pool.put("smallest", None)
        assert chosen_names(pool, claims, [{}]) == [["v1"]]
    assert made.call_count == 1


def test_a_volume_that_changed_and_changed_back_stands_once() -> None:
    pool = VolumePool()
    claims = [SlowClaim("c0", 1)]
    there, elsewhere = (SlowVolume("v", 1, [("host", [name])]) for name in ("a", "b"))
    with patch.object(volume_pool, "LATE_MAX", 1):
        pool.put("v", candidate(volume_of(there)))
        assert chosen_names(pool, claims, [{"host": "a"}, {"host": "b"}]) == [["v"], [None]]
    for volume, wanted in ((elsewhere, [[None], ["v"]]), (there, [["v"], [None]])):
        pool.put("v", candidate(volume_of(volume)))
        assert chosen_names(pool, claims, [{"host": "a"}, {"host": "b"}]) == wanted
