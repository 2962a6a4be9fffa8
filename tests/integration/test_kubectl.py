"""kubectl, which others wrote and built, with the kubeconfig that `berth simulate` writes.

Over TLS with an authority made at the start, and with a token: kubectl verifies both, so a file or a
certificate that only our own client understands fails here. Where kubectl is not installed the tests
are skipped and say so.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import HANG_S
from tests.wire.server_process import running_server

pytestmark = pytest.mark.integration

TIMEOUT_S = int(HANG_S)


class Kubectl:
    """Runs kubectl in a home of its own."""

    def __init__(self, program: str, kubeconfig: Path, home: Path) -> None:
        self._command = [
            program,
            "--kubeconfig",
            str(kubeconfig),
            f"--request-timeout={TIMEOUT_S}s",
        ]
        self._environment = {"HOME": str(home), "PATH": os.environ["PATH"]}

    def __call__(self, *arguments: str, given: Any = None, code: int = 0) -> str:
        """What it prints; on standard error if it fails as it should."""
        finished = subprocess.run(
            [*self._command, *arguments],
            input=None if given is None else json.dumps(given),
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert finished.returncode == code, finished.stderr
        return finished.stdout if code == 0 else finished.stderr


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed (Debian: apt-get install kubernetes-client)")
    folder = tmp_path_factory.mktemp("kubectl")
    kubeconfig = folder / "kubeconfig"
    options = ("--tls", "--token=secret", f"--write-kubeconfig={kubeconfig}")
    with running_server(*options, "--nodes=3", "--pods=2") as server:
        assert server.address.startswith("https://")
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        yield Kubectl(program, kubeconfig, folder)


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "pause"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_it_lists_what_the_server_began_with(kubectl: Kubectl) -> None:
    assert kubectl("get", "nodes", "-o", "name").split() == [
        f"node/node-{number:06d}" for number in range(3)
    ]
    pending = kubectl("get", "pods", "--field-selector=spec.nodeName=", "-o", "json")
    assert {item["status"]["phase"] for item in json.loads(pending)["items"]} == {"Pending"}


def test_it_shows_how_pods_and_nodes_are_and_where(kubectl: Kubectl) -> None:
    head, *rows = kubectl("get", "pods").splitlines()
    assert head.split() == ["NAME", "STATUS", "NODE", "CREATED"]
    assert {tuple(row.split()[1:3]) for row in rows} == {("Pending", "<none>")}
    head, *rows = kubectl("get", "nodes").splitlines()
    assert head.split() == ["NAME", "STATUS", "CREATED"]
    assert len(rows) == 3
    kubectl("cordon", "node-000001")
    (_, row) = kubectl("get", "node", "node-000001").splitlines()
    assert row.split()[:2] == ["node-000001", "Ready,SchedulingDisabled"]
    kubectl("uncordon", "node-000001")
    assert len(kubectl("get", "namespaces").splitlines()) > 1, "these have no table"


def test_it_discovers_what_is_served(kubectl: Kubectl) -> None:
    listed = kubectl("api-resources", "-o", "name").split()
    assert {"pods", "nodes", "leases.coordination.k8s.io"} <= set(listed)
    assert kubectl("get", "--raw", "/livez") == "ok"


def test_a_pod_s_life(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=pod("life"))
    refused = kubectl("create", "-f", "-", given=pod("life"), code=1)
    assert "AlreadyExists" in refused
    kubectl("label", "pod", "life", "of=a-pod")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "life", "annotations": {"berth.dev/decision": "{}"}},
        "target": {"kind": "Node", "name": "node-000001"},
    }
    path = "/api/v1/namespaces/default/pods/life/binding"
    kubectl("create", "--raw", path, "-f", "-", given=binding)
    # It lists and watches until it is so.
    kubectl("wait", "--for=condition=PodScheduled", "pod/life", f"--timeout={TIMEOUT_S}s")
    seen = json.loads(kubectl("get", "pod", "life", "-o", "json"))
    assert seen["spec"]["nodeName"] == "node-000001"
    assert seen["metadata"]["labels"] == {"of": "a-pod"}
    assert seen["metadata"]["annotations"] == {"berth.dev/decision": "{}"}
    assert "node-000001" in kubectl("describe", "pod", "life")
    kubectl("delete", "pod", "life", "--grace-period=0", "--force")
    assert "NotFound" in kubectl("get", "pod", "life", code=1)


def test_it_applies_and_changes(kubectl: Kubectl) -> None:
    wanted = pod("applied")
    assert "created" in kubectl("apply", "-f", "-", given=wanted)
    assert "unchanged" in kubectl("apply", "-f", "-", given=wanted)
    wanted["metadata"]["labels"] = {"round": "2"}
    assert "configured" in kubectl("apply", "-f", "-", given=wanted)
    seen = json.loads(kubectl("get", "pod", "applied", "-o", "json"))
    assert seen["metadata"]["labels"] == {"round": "2"}
    of_group = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "applied"},
        "value": 7,
    }
    assert "created" in kubectl("apply", "-f", "-", given=of_group)


def test_it_keeps_pods_off_a_node(kubectl: Kubectl) -> None:
    kubectl("cordon", "node-000002")
    seen = json.loads(kubectl("get", "node", "node-000002", "-o", "json"))
    assert seen["spec"]["unschedulable"] is True
    kubectl("uncordon", "node-000002")


def test_without_the_token_it_is_not_let_in(kubectl: Kubectl) -> None:
    assert "Unauthorized" in kubectl("--token=other", "get", "pods", code=1)
