"""kube-scheduler's static pod becomes berth's."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon import cli
from shared import exit_codes
from shared.go_yaml import composed, value_of

STATIC_POD = """
apiVersion: v1
kind: Pod
metadata:
  name: kube-scheduler
  namespace: kube-system
  labels: {component: kube-scheduler, tier: control-plane}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  containers:
  - name: kube-scheduler
    image: registry.k8s.io/kube-scheduler:v1.36.2
    command:
    - kube-scheduler
    - --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
    - --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
    - --bind-address=127.0.0.1
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    - --leader-elect=true
    livenessProbe:
      httpGet: {host: 127.0.0.1, path: /livez, port: probe-port, scheme: HTTPS}
    ports:
    - {containerPort: 10259, name: probe-port, protocol: TCP}
    volumeMounts:
    - {mountPath: /etc/kubernetes/scheduler.conf, name: kubeconfig, readOnly: true}
  volumes:
  - hostPath: {path: /etc/kubernetes/scheduler.conf, type: FileOrCreate}
    name: kubeconfig
status: {}
"""


def told(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    path = tmp_path / "kube-scheduler.yaml"
    path.write_text(text)
    code = cli.main(["check-config", "--from-manifest", str(path)])
    out, err = capsys.readouterr()
    return code, out, err


def test_what_berth_is_started_with_is_what_kube_scheduler_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = told(tmp_path, STATIC_POD, capsys)
    assert code == exit_codes.OK
    old: dict[str, Any] = yaml.safe_load(STATIC_POD)["spec"]
    new: dict[str, Any] = yaml.safe_load(out)["spec"]
    (container,) = new["containers"]
    flags = old["containers"][0]["command"][1:]
    assert container["command"] == ["berth", "run", *flags, "--runtime-dir=/run/berth/own"]
    assert container["livenessProbe"] == old["containers"][0]["livenessProbe"]
    assert container["volumeMounts"][0] == old["containers"][0]["volumeMounts"][0]
    names = {mount["name"] for mount in container["volumeMounts"]}
    assert names == {volume["name"] for volume in new["volumes"]}
    assert new["hostNetwork"] is True


def test_flags_without_effect_stand_on_top(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = STATIC_POD.replace("--leader-elect=true", "--profiling=true")
    assert told(tmp_path, text, capsys)[1].startswith("# --profiling: no effect; ")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("--leader-elect=true", "--leader-elekt=true", "not flags of kube-scheduler"),
        ("--leader-elect=true", "--secure-port=x", "--secure-port"),
        ("--leader-elect=true", "--secure-port=70000", "must lie in"),
        ("    - kube-scheduler\n", "    - kube-proxy\n", "whose command is kube-scheduler"),
        ("apiVersion: v1", "apiVersion: [", "line"),
        ("  containers:\n", "  containers: 3\n  c:\n", "$.spec.containers"),
        ("    - --bind-address=127.0.0.1\n", "    - 5\n", "$.spec.containers[0].command"),
        (STATIC_POD, "[]", "is no pod"),
        (STATIC_POD, "&a [*a]", "an alias of itself"),
    ],
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, problem: str
) -> None:
    code, _, err = told(tmp_path, STATIC_POD.replace(old, new), capsys)
    assert code == exit_codes.UNUSABLE
    assert problem in err


def test_a_manifest_is_read_and_written_as_go_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = "    env: [{name: A, value: 'y'}, {name: B, value: 1:30}, {name: C, value: '0o17'}]\n"
    _, out, _ = told(tmp_path, STATIC_POD.replace("    ports:\n", f"{env}    ports:\n"), capsys)
    node = composed(out)
    assert node is not None
    (container,) = value_of(node)["spec"]["containers"]
    assert [each["value"] for each in container["env"]] == ["y", "1:30", "0o17"]
