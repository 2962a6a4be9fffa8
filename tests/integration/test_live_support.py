"""What the live tests rely on: the cluster's newest word, looks that cannot raise, starts tried anew."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.live import LiveBerth, SharedBerth
from tests.support.live_cluster import LiveCluster, nominated_node, pods_path
from tests.support.waiting import Fields, Listed, condition_of, fields_of

pytestmark = pytest.mark.integration


@pytest.fixture
def cluster() -> Iterator[LiveCluster]:
    cluster = LiveCluster()
    yield cluster
    cluster.close()


def test_what_is_not_there_yet_is_empty_and_no_exception() -> None:
    pod = fields_of(b'{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}')
    assert not pod["status"]["nominatedNodeName"]
    assert not nominated_node(pod)
    assert not pod["spec"]["containers"][0]["resources"]["requests"].get("cpu")["x"]
    assert pod["metadata"].get("name", "q") == "p"
    assert condition_of(pod)["reason"] != "Unschedulable"
    assert not list(pod["status"]["conditions"])
    assert "status" not in pod, "looking changes nothing"
    assert Listed({"a": 1}, 0)["b"] == 0


def test_a_pod_of_the_same_name_is_not_taken_for_the_one_before(cluster: LiveCluster) -> None:
    for _ in range(100):
        uid = cluster.add_pod("p")["metadata"]["uid"]
        assert cluster.pod("p")["metadata"]["uid"] == uid
        assert cluster.wait_pod("p", lambda _: True, "is there")["metadata"]["uid"] == uid
        cluster.delete_pod("p")
        assert cluster.pod_names() == set()
        cluster.gone("p")


def test_a_wait_ends_when_another_changes_the_object(cluster: LiveCluster) -> None:
    cluster.add_pod("p")
    path = f"{pods_path()}/p"
    looks: list[Fields] = []

    def is_labelled(pod: Fields) -> Any:
        looks.append(pod)
        if len(looks) == 1:  # As if another did so between the look and the wait.
            cluster.update(path, lambda p: p["metadata"].update(labels={"a": "b"}))
        return pod["metadata"]["labels"]["a"]

    assert cluster.wait(path, is_labelled, "is labelled")["metadata"]["labels"] == {"a": "b"}
    assert len(looks) == 2


class Stub(LiveBerth):
    """Without processes."""

    def __init__(self) -> None:
        self.reset_count = 0

    def reset(self) -> None:
        self.reset_count += 1

    def close(self) -> None:
        self.reset_count = -1


def test_a_failed_start_is_tried_anew_for_the_next_test() -> None:
    started: list[Stub] = []

    @contextmanager
    def start() -> Iterator[LiveBerth]:
        started.append(Stub())
        assert len(started) > 1, "the first start fails"
        with started[-1] as berth:
            yield berth

    with SharedBerth(start) as shared:
        with pytest.raises(AssertionError, match="the first start fails"), shared.lend():
            pass
        for _ in range(2):
            with shared.lend() as berth:
                assert berth is started[1]
        assert started[1].reset_count == 2
        with pytest.raises(KeyError), shared.lend():
            raise KeyError  # As when it cannot be put back.
        assert started[1].reset_count == -1, "closed"
        with shared.lend() as berth:
            assert berth is started[2]
