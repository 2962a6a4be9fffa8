"""The manifests of `docs/manifests`: they name one another, and what they tell berth it understands."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from daemon import cli
from shared.config import parse_configuration
from shared.limits import CHILD_STOP_S, DRAIN_S
from tests.support.rights import documents

ROOT: Final = Path(__file__).parents[2]
MANIFESTS: Final = ROOT / "docs" / "manifests"


def only(name: str) -> dict[str, Any]:
    (found,) = documents(MANIFESTS / name)
    return found


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = only("deployment.yaml")["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    (found,) = pod()["containers"]
    return dict(found)


def test_every_manifest_is_applied_with_the_others() -> None:
    listed = only("kustomization.yaml")["resources"]
    there = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(listed) == there


def test_all_objects_lie_in_one_namespace_or_in_none() -> None:
    for name in only("kustomization.yaml")["resources"]:
        for each in documents(MANIFESTS / name):
            is_of_the_cluster = each["kind"].startswith("Cluster")
            wanted = None if is_of_the_cluster else "kube-system"
            assert each["metadata"].get("namespace") == wanted, each["metadata"]


def test_the_configuration_elects_by_the_lease_that_the_role_grants() -> None:
    configuration = parse_configuration(only("config.yaml")["data"]["berth.yaml"], "config.yaml")
    election = configuration.leader_election
    assert election.leader_elect
    roles = [each for each in documents(MANIFESTS / "rbac.yaml") if each["kind"] == "Role"]
    names = [rule["resourceNames"] for rule in roles[0]["rules"] if "resourceNames" in rule]
    assert names == [[election.resource_name]]
    assert roles[0]["metadata"]["namespace"] == election.resource_namespace
    assert [p.scheduler_name for p in configuration.profiles] == ["berth"]


def test_the_arguments_are_those_of_berth_and_point_into_what_is_mounted() -> None:
    arguments = container()["args"]
    cli._parser().parse_args(arguments)
    mounts = {mount["mountPath"] for mount in container()["volumeMounts"]}
    for argument in arguments:
        path = argument.partition("=")[2]
        if path.startswith("/"):
            # The runtime directory is made below its volume, for a volume's mode is not 0700.
            assert str(Path(path).parent) in mounts
    assert {mount["name"] for mount in container()["volumeMounts"]} == {
        volume["name"] for volume in pod()["volumes"]
    }


def test_the_probes_ask_the_port_that_is_served() -> None:
    (port,) = container()["ports"]
    assert f"--secure-port={port['containerPort']}" in container()["args"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container()[probe]["httpGet"]["port"] == port["name"]


def test_a_drain_ends_before_the_kubelet_kills() -> None:
    assert pod()["terminationGracePeriodSeconds"] > DRAIN_S + CHILD_STOP_S


def test_nothing_runs_as_root_or_writes_outside_its_volumes() -> None:
    assert pod()["securityContext"]["runAsNonRoot"] is True
    security = container()["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("package", ["daemon", "workers", "shared"])
def test_the_image_gets_every_package(package: str) -> None:
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    assert f"COPY {package} {package}" in lines


def test_the_image_runs_as_the_user_of_the_manifest_on_the_python_that_is_tested() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert f"USER {pod()['securityContext']['runAsUser']}:" in text
    images = set(re.findall(r"^FROM (\S+)", text, re.MULTILINE))
    assert len(images) == 1, "the virtual environment works only on the Python that it was made by"
