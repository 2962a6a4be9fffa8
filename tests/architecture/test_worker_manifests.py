"""`docs/manifests-workers`: they fit the manifests that they add to, and berth's command line."""

from pathlib import Path
from typing import Any, cast

from daemon import cli
from shared.transport.remote import split_address
from tests.architecture.test_manifests import MANIFESTS, container, pod
from tests.support.rights import documents

WORKERS = MANIFESTS.with_name("manifests-workers")


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [each for each in documents(WORKERS / "workers.yaml") if each["kind"] == kind]
    return found


def patched() -> dict[str, list[Any]]:
    """What the patch appends, by the last word of the list's path."""
    (patch,) = documents(WORKERS / "entrance.yaml")
    added: dict[str, list[Any]] = {}
    for step in cast("list[dict[str, Any]]", patch):  # A JSON patch is no object.
        assert step["op"] == "add"
        added.setdefault(step["path"].removesuffix("/-").rsplit("/", 1)[1], []).append(
            step["value"]
        )
    return added


def test_the_overlay_stands_on_the_manifests_of_berth() -> None:
    (overlay,) = documents(WORKERS / "kustomization.yaml")
    assert (WORKERS / overlay["resources"][0]).resolve() == MANIFESTS.resolve()
    assert set(overlay["resources"][1:]) | {
        overlay["patches"][0]["path"],
        "kustomization.yaml",
    } == {path.name for path in WORKERS.glob("*.yaml")}


def test_berth_and_workers_meet_at_the_ports_of_the_service() -> None:
    added = patched()
    berth = cli._parser().parse_args([*container()["args"], *added["args"]])
    _, first = split_address(berth.workers_address)
    ports = {port["name"]: port["containerPort"] for port in added["ports"]}
    assert ports == {"work": first, "snapshots": first + 1}
    service = of_kind("Service")
    assert {p["port"]: p["targetPort"] for p in service["spec"]["ports"]} == {
        first: "work",
        first + 1: "snapshots",
    }
    template = of_kind("Deployment")["spec"]["template"]["spec"]
    worker = cli._parser().parse_args(template["containers"][0]["args"])
    host, port = split_address(worker.connect)
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert (host, port) == (f"{name}.{namespace}.svc", first)


def test_every_file_lies_in_what_is_mounted_and_the_secrets_are_apart() -> None:
    added = patched()
    template = of_kind("Deployment")["spec"]["template"]["spec"]
    for args, mounts in (
        (added["args"], added["volumeMounts"]),
        (template["containers"][0]["args"], template["containers"][0]["volumeMounts"]),
    ):
        files = [arg.partition("=")[2] for arg in args if "=/" in arg]
        assert files
        assert {str(Path(file).parent) for file in files} <= {m["mountPath"] for m in mounts}
    secrets = [v["secret"]["secretName"] for v in added["volumes"]]
    of_workers = [v["secret"]["secretName"] for v in template["volumes"] if "secret" in v]
    assert not set(secrets) & set(of_workers)


def test_workers_have_no_rights_and_are_shut_in_as_berth_is() -> None:
    template = of_kind("Deployment")["spec"]["template"]["spec"]
    assert template["automountServiceAccountToken"] is False
    assert template["securityContext"] == pod()["securityContext"]
    assert template["containers"][0]["securityContext"] == container()["securityContext"]
    assert template["containers"][0]["image"] == container()["image"]
