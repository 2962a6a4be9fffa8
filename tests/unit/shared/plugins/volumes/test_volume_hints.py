"""Whom hints of volumes are asked about: never fewer than they may help, and of many that wait few."""

from typing import Any

import msgspec
import pytest

from daemon.core.cache import Cache
from shared.feature_gates import DEFAULT_GATES
from shared.framework.cluster_event import Action, ClusterEvent, Resource
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.pod_record import PodRecord
from shared.plugins.volumes.volume_hints import RESTRICTIONS_EVENTS, ZONE_EVENTS
from tests.support.builders import make_pod
from tests.support.volumes import claim_volumes

DISK = {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "disk"}}]}
SPECS: dict[str, dict[str, Any]] = {
    "none": {},
    "a": claim_volumes("a"),
    "b": claim_volumes("b"),
    "a and b": claim_volumes("a", "b"),
    "ephemeral": {"volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
    "disk": DISK,
}
DELETED = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
CLAIM_ADDED = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
NARROWED = [line for line in (*RESTRICTIONS_EVENTS, *ZONE_EVENTS) if line.classes is not None]


def claim(name: str, namespace: str = "default") -> PersistentVolumeClaim:
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": namespace}}, PersistentVolumeClaim
    )


class Waiting:
    """A pod of each kind in two namespaces, each of its own class."""

    def __init__(self) -> None:
        self.cache = Cache(DEFAULT_GATES)
        self.pods = {
            (namespace, kind): self.made(kind, namespace)
            for namespace in ("default", "other")
            for kind in SPECS
        }

    def made(self, kind: str, namespace: str = "default", **others: Any) -> tuple[int, PodView]:
        pod: PodRecord = make_pod(kind, namespace=namespace, spec=SPECS[kind], **others)
        found = self.cache.classes.acquire(pod)
        info: PodInfo = found.info
        return found.class_id, PodView(pod, info)

    def concerned(self, line: ClusterEventWithHint, change: Change) -> set[tuple[str, str]]:
        """Those that the line says may be helped; checked against what its hint says."""
        assert line.classes is not None
        assert line.hint is not None
        ids = line.classes(change, self.cache.view)
        for class_id, pod in self.pods.values():
            is_helped = line.hint(pod, change, self.cache.view) is True
            assert not is_helped or ids is None or class_id in ids
        return {key for key, (class_id, _) in self.pods.items() if ids is None or class_id in ids}


@pytest.mark.parametrize("line", [each for each in NARROWED if each.resource is not Resource.POD])
def test_a_claim_concerns_those_that_name_it(line: ClusterEventWithHint) -> None:
    waiting = Waiting()
    change = Change(CLAIM_ADDED, None, claim("a"))
    assert waiting.concerned(line, change) == {("default", "a"), ("default", "a and b")}
    assert not waiting.concerned(line, Change(CLAIM_ADDED, None, claim("c")))
    assert not waiting.concerned(line, Change(CLAIM_ADDED, claim("a"), None))


@pytest.mark.parametrize(
    ("kind", "concerned"),
    [("none", ()), ("a", ("a", "a and b")), ("a and b", ("a", "b", "a and b")), ("ephemeral", ())],
)
def test_a_pod_that_goes_concerns_those_that_name_its_claims(
    kind: str, concerned: tuple[str, ...]
) -> None:
    waiting = Waiting()
    (line,) = (each for each in NARROWED if each.resource is Resource.POD)
    _, gone = waiting.made(kind, node_name="n", uid="gone", labels={"is": "gone"})
    found = waiting.concerned(line, Change(DELETED, gone, None))
    assert found == {("default", kind) for kind in concerned}


def test_a_pod_with_a_disk_of_its_own_may_concern_all() -> None:
    waiting = Waiting()
    (line,) = (each for each in NARROWED if each.resource is Resource.POD)
    _, gone = waiting.made("disk", node_name="n", uid="gone", labels={"is": "gone"})
    assert waiting.concerned(line, Change(DELETED, gone, None)) == set(waiting.pods)


@pytest.mark.usefixtures("classes_go_with_their_pods")
def test_a_class_that_is_gone_is_not_named() -> None:
    waiting = Waiting()
    index = waiting.cache.view.class_index
    class_id, pod = waiting.pods["default", "a"]
    assert class_id in index.with_claims(["default/a"])
    waiting.cache.classes.release(waiting.cache.classes.acquire(pod.record))
    waiting.cache.classes.release(waiting.cache.classes.acquire(pod.record))
    assert class_id in index.with_claims(["default/a"])
    (held,) = (each for each in waiting.cache.classes if each.class_id == class_id)
    waiting.cache.classes.release(held)
    assert class_id not in index.with_claims(["default/a"])
