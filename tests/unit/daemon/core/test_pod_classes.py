"""How long a class of pods is known: as long as the next pod of its Deployment may be a while away."""

import pytest

from daemon.core import pod_classes
from daemon.core.pod_classes import PodClasses
from shared.columns.table import NodeTable
from shared.kube.pod_record import PodRecord
from tests.support.builders import make_pod

ZONE = {"topology.kubernetes.io/zone": "a"}


def classes() -> PodClasses:
    return PodClasses(NodeTable())


def come_and_go(known: PodClasses, record: PodRecord) -> int:
    """The id of the class of a pod that is gone again."""
    pod_class = known.acquire(record)
    known.release(pod_class)
    return pod_class.class_id


def test_the_next_pod_of_a_deployment_finds_its_class() -> None:
    known = classes()
    first = known.acquire(make_pod("p"))
    known.release(first)  # It is of another, labelled with the zone of its node.
    labelled = known.acquire(make_pod("p", node_name="n0", labels=ZONE))
    assert known.acquire(make_pod("q")) is first
    assert first.class_id in known.infos
    assert (known.retired, labelled is first) == ([], False)


def test_the_one_without_pods_for_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_classes, "UNUSED_CLASSES_MAX", 2)
    known = classes()
    ids = [come_and_go(known, make_pod("p", cpu=f"{i + 1}")) for i in range(2)]
    assert come_and_go(known, make_pod("p", cpu="1")) == ids[0]
    ids.append(come_and_go(known, make_pod("p", cpu="3")))
    assert known.retired == [ids[1]]
    assert known.infos.keys() == {ids[0], ids[2]}
    assert come_and_go(known, make_pod("p", cpu="2")) not in ids


def test_what_is_only_on_nodes_or_is_like_no_other_goes_with_its_pods() -> None:
    known = classes()
    gone = [
        come_and_go(known, make_pod("p", node_name="n0")),
        come_and_go(known, make_pod("q", claim="data")),
    ]
    assert known.retired == gone
    assert list(known) == []
