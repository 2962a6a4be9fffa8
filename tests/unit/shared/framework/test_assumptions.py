"""What is assumed of objects: on top of the API server's word, and carried to other stores."""

from collections.abc import Sequence
from typing import Any

import msgspec

from shared.dra.device_index import CLAIMS
from shared.framework.object_store import CHANGES_MAX, ObjectStore
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.resource_v1 import ResourceClaim

KIND = "persistentvolumes"


def volume(version: str = "1", **labels: str) -> PersistentVolume:
    meta = {"name": "pv", "resourceVersion": version, "labels": labels}
    return msgspec.convert({"metadata": meta}, PersistentVolume)


def labels_of(found: Any) -> dict[str, str]:
    labels: dict[str, str] = found.metadata.labels
    return labels


def store() -> ObjectStore:
    objects = ObjectStore()
    objects.put(KIND, "pv", volume(said="x"))
    objects.assume(KIND, "pv", volume(assumed="x"), "pod")
    return objects


def test_an_assumption_lies_on_top() -> None:
    objects = store()
    assert labels_of(objects.latest(KIND, "pv")) == {"assumed": "x"}
    assert labels_of(objects.get(KIND, "pv")) == {"said": "x"}
    objects.forget_assumed(KIND, "pv")
    objects.forget_assumed(KIND, "pv")
    assert labels_of(objects.latest(KIND, "pv")) == {"said": "x"}
    assert objects.latest(KIND, "other") is None


def test_a_newer_object_ends_it_and_the_same_one_does_not() -> None:
    objects = store()
    objects.put(KIND, "pv", volume("1", again="x"))
    assert labels_of(objects.latest(KIND, "pv")) == {"assumed": "x"}
    objects.put(KIND, "pv", volume("2", newer="x"))
    assert labels_of(objects.latest(KIND, "pv")) == {"newer": "x"}
    assert not objects.assumed(KIND)


def claim(version: str, *, is_allocated: bool = True, users: Sequence[str] = ()) -> ResourceClaim:
    status: dict[str, Any] = {"allocation": {}} if is_allocated else {}
    status["reservedFor"] = [{"resource": "pods", "name": uid, "uid": uid} for uid in users]
    meta = {"namespace": "ns", "name": "c", "uid": "u", "resourceVersion": version}
    return msgspec.convert({"metadata": meta, "status": status}, ResourceClaim)


def test_what_is_allocated_for_a_pod_outlives_late_news_of_an_earlier_one() -> None:
    objects = ObjectStore()
    objects.put(CLAIMS, "ns/c", claim("1", is_allocated=False))
    objects.assume(CLAIMS, "ns/c", claim("1"), "pod")
    for late in (
        claim("2", is_allocated=False),  # With its finalizer.
        claim("3", users=["earlier"]),
        claim("4", is_allocated=False),
    ):
        objects.put(CLAIMS, "ns/c", late)
        held: Any = objects.latest(CLAIMS, "ns/c")
        assert held.status.allocation is not None
    objects.put(CLAIMS, "ns/c", claim("5", users=["other", "pod"]))
    assert not objects.assumed(CLAIMS)


def test_it_goes_with_its_object() -> None:
    objects = store()
    objects.remove(KIND, "pv")
    assert objects.latest(KIND, "pv") is None
    assert not objects.assumed(KIND)


def test_every_change_raises_the_version_and_is_remembered() -> None:
    objects = ObjectStore()
    version = objects.version
    objects.put(KIND, "pv", volume())
    objects.assume(KIND, "pv", volume(), "pod")
    objects.forget_assumed(KIND, "pv")
    objects.remove(KIND, "none")
    assert objects.version == version + 3
    assert objects.changes_since(version) == [(KIND, "pv")] * 3
    assert objects.changes_since(objects.version) == []
    for _ in range(CHANGES_MAX):
        objects.put(KIND, "pv", volume())
    assert objects.changes_since(version) is None


def test_it_lasts_as_long_as_any_pod_that_shares_it() -> None:
    objects = store()
    objects.share_assumed(KIND, "pv", "other")
    for pod_uid in ("pod", "other"):
        assert labels_of(objects.assumed_for(KIND, pod_uid)["pv"]) == {"assumed": "x"}
    version = objects.version
    objects.forget_assumed_for(KIND, "pod")
    assert objects.assumed(KIND)["pv"].pod_uids == ("other",)
    assert not objects.assumed_for(KIND, "pod")
    assert objects.version == version, "it is as it was"
    objects.forget_assumed_for(KIND, "other")
    assert not objects.assumed(KIND)
    assert objects.version > version


def test_what_is_assumed_for_a_group_is_shared_while_it_is_tried() -> None:
    objects = store()
    objects.put(KIND, "new", volume())
    with objects.for_one_group():
        assert objects.shared(KIND, "pv") is None, "assumed before"
        objects.assume(KIND, "new", volume(assumed="y"), "pod")
        assert labels_of(objects.shared(KIND, "new")) == {"assumed": "y"}
        objects.forget_assumed(KIND, "new")
        assert objects.shared(KIND, "new") is None
        objects.assume(KIND, "new", volume(assumed="z"), "pod")
        version = objects.version
    assert objects.shared(KIND, "new") is None
    assert objects.changes_since(version) == [(KIND, "new")], "whoever found it shared asks again"


def test_another_store_is_told_what_is_assumed_now() -> None:
    objects, other = store(), ObjectStore()
    objects.share_assumed(KIND, "pv", "another")
    other.put(KIND, "pv", volume(said="x"))
    first = objects.take_news()
    assert first == objects.all_assumptions()
    for change in first:
        other.assume_told(*change)
    assert other.assumed(KIND) == objects.assumed(KIND)
    assert objects.take_news() == []
    objects.forget_assumed(KIND, "pv")
    (gone,) = objects.take_news()
    other.assume_told(*gone)
    assert not other.assumed(KIND)
    assert objects.all_assumptions() == []


def test_what_a_worker_assumes_gives_way_to_what_the_owner_does() -> None:
    """Two pods share a claim: that of the one is refused, the other's is still assumed."""
    copy = ObjectStore()
    copy.put(KIND, "pv", volume(said="x"))
    (told,) = store().all_assumptions()
    copy.assume_told(*told)
    copy.assume(KIND, "pv", volume(own="x"), "ticket 1")
    assert labels_of(copy.latest(KIND, "pv")) == {"own": "x"}
    for _ in range(2):  # The second time there is nothing of its own.
        copy.forget_assumed_for(KIND, "ticket 1")
        assert copy.assumed(KIND) == store().assumed(KIND)
    copy.assume(KIND, "pv", volume(own="x"), "ticket 2")
    kind, key, _ = told
    copy.assume_told(kind, key, b"")
    assert not copy.assumed(KIND)
