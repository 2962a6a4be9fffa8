"""`berth check-config --from-manifest`: kube-scheduler's static pod, as berth's.

What the pod says beside its command stays as it is: volumes with kubeconfig and certificates, probes,
priority, the host's network. Flags are checked as `berth run` would.
"""

import argparse
from pathlib import Path
from typing import Any, Final

import msgspec

from daemon.commands.option_problems import option_problems
from daemon.commands.run_flags import add_run_flags, options_of, with_dashes
from shared.errors import ConfigurationError
from shared.go_yaml import YAML_FAULTS, dumped, loaded, yaml_problem
from shared.yaml_fields import read_text

PROGRAM: Final = "kube-scheduler"
IMAGE: Final = "berth:0.1.0"
RUNTIME_VOLUME: Final = "berth-runtime"
RUNTIME_MOUNT: Final = "/run/berth"
RUNTIME_DIR: Final = f"{RUNTIME_MOUNT}/own"
"""A directory of its own below the volume: it must belong to berth alone (mode 0700)."""
GRACE_S: Final = 40
"""Longer than berth's own patience: 20 s for bindings in flight and 5 s for its processes to end."""


def berths_manifest(path: Path) -> str:
    """The manifest that takes the other's place, with what has no effect in comments on top;
    ConfigurationError names what cannot be used."""
    try:
        pod: Any = loaded(read_text(str(path)))
    except YAML_FAULTS as error:
        raise ConfigurationError(str(path), [yaml_problem(error)]) from error
    try:
        shape = msgspec.convert(pod, _Pod)
    except msgspec.ValidationError as error:
        raise ConfigurationError(str(path), [f"is no pod: {error}"]) from error
    at = _place(shape, path)
    flags = shape.spec.containers[at].words[1:]
    notes = _notes(flags, path)
    spec = pod["spec"]
    container = spec["containers"][at]
    container.pop("args", None)
    container["image"] = IMAGE
    container["command"] = ["berth", "run", *flags, f"--runtime-dir={RUNTIME_DIR}"]
    mount = {"name": RUNTIME_VOLUME, "mountPath": RUNTIME_MOUNT}
    volume = {"name": RUNTIME_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}
    container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
    spec["volumes"] = [*(spec.get("volumes") or []), volume]
    spec["terminationGracePeriodSeconds"] = GRACE_S
    pod.pop("status", None)
    comments = "".join(f"# {note}\n" for note in notes)
    return comments + dumped(pod)


class _Container(msgspec.Struct):
    command: list[str] | None = None
    args: list[str] | None = None
    volumeMounts: list[Any] | None = None  # noqa: N815 - the API's name.

    @property
    def words(self) -> list[str]:
        return [*(self.command or ()), *(self.args or ())]


class _Spec(msgspec.Struct):
    containers: list[_Container]
    volumes: list[Any] | None = None


class _Pod(msgspec.Struct):
    """What has to have its shape."""

    spec: _Spec


def _place(pod: _Pod, path: Path) -> int:
    """Which of its containers is kube-scheduler's."""
    for at, container in enumerate(pod.spec.containers):
        if container.words and Path(container.words[0]).name == PROGRAM:
            return at
    problem = f"is no pod with a container whose command is {PROGRAM}"
    raise ConfigurationError(str(path), [f"{problem}; give the static pod's manifest"])


def _notes(flags: list[str], path: Path) -> tuple[str, ...]:
    """Flags without effect; ConfigurationError for those that cannot be used."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False, add_help=False)
    add_run_flags(parser)
    try:
        parsed, unknown = parser.parse_known_args(with_dashes(flags))
    except argparse.ArgumentError as error:
        raise ConfigurationError(str(path), [str(error)]) from error
    if unknown:
        names = " ".join(unknown)
        raise ConfigurationError(str(path), [f"not flags of kube-scheduler v1.36: {names}"])
    options = options_of(parsed)
    problems = option_problems(options)
    if problems:
        raise ConfigurationError(str(path), problems)
    return options.notes
