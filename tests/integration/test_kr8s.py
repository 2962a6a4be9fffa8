"""kr8s with the kubeconfig that `berth simulate` writes, over TLS and with a token.

A third client that we did not write, with its own reading of kubeconfig files and its own watch.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import kr8s
import pytest
from kr8s import objects

from tests.wire.server_process import running_server

pytestmark = [
    pytest.mark.integration,
    # It names the versions that it knows, of which the newest is not one.
    pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning"),
    # Its connections are closed by the interpreter's end.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "made", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "pause"}]},
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    kubeconfig: Path = tmp_path_factory.mktemp("kr8s") / "kubeconfig"
    options = ("--tls", "--token=secret", f"--write-kubeconfig={kubeconfig}")
    with running_server(*options, "--nodes=3", "--pods=2"):
        yield kr8s.api(kubeconfig=str(kubeconfig))


def test_it_lists_and_watches(api: Any) -> None:
    assert [node.name for node in api.get("nodes")] == [f"node-{n:06d}" for n in range(3)]
    events = [(kind, pod.name) for kind, pod in islice(api.watch("pods", namespace="default"), 2)]
    assert events == [("ADDED", "pod-0000000"), ("ADDED", "pod-0000001")]


def test_it_creates_patches_and_deletes(api: Any) -> None:
    pod = objects.Pod(POD, api=api)
    pod.create()
    pod.patch({"metadata": {"labels": {"of": "kr8s"}}})
    pod.refresh()
    assert dict(pod.labels) == {"of": "kr8s"}
    with pytest.raises(kr8s.ServerError, match="already exists"):
        objects.Pod(POD, api=api).create()
    pod.delete(grace_period=0)
    assert not pod.exists()
