"""`berth check-config --from-manifest`: kube-scheduler's static pod, as berth's.

What the pod says beside its command stays as it is: volumes with kubeconfig and certificates, probes,
priority, the host's network. Flags are checked as `berth run` would.
"""

import argparse
from pathlib import Path
from typing import Any, Final

import yaml

from daemon.commands.run_flags import add_run_flags, options_of, with_dashes
from shared.errors import ConfigurationError
from shared.yaml_fields import YAML_FAULTS, yaml_problem

PROGRAM: Final = "kube-scheduler"
IMAGE: Final = "berth:0.1.0"
RUNTIME_VOLUME: Final = "berth-runtime"
RUNTIME_MOUNT: Final = "/run/berth"
RUNTIME_DIR: Final = f"{RUNTIME_MOUNT}/own"
"""A directory of its own below the volume: it must belong to berth alone (mode 0700)."""
GRACE_S: Final = 40
"""Longer than berth's own patience: 20 s for bindings in flight and 5 s for its processes to end."""


def berths_manifest(path: Path, image: str = IMAGE) -> str:
    """The manifest that takes the other's place, with what has no effect in comments on top.

    ConfigurationError names what cannot be used.
    """
    try:
        pod = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except YAML_FAULTS as error:
        raise ConfigurationError(str(path), [yaml_problem(error)]) from error
    container = _container(pod, path)
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    flags = [str(word) for word in words[1:]]
    notes = _notes(flags, path)
    container.pop("args", None)
    container["image"] = image
    container["command"] = ["berth", "run", *flags, f"--runtime-dir={RUNTIME_DIR}"]
    mounts = container.setdefault("volumeMounts", [])
    mounts.append({"name": RUNTIME_VOLUME, "mountPath": RUNTIME_MOUNT})
    volumes = pod["spec"].setdefault("volumes", [])
    volumes.append({"name": RUNTIME_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}})
    pod["spec"]["terminationGracePeriodSeconds"] = GRACE_S
    pod.pop("status", None)
    comments = "".join(f"# {note}\n" for note in notes)
    return comments + yaml.safe_dump(pod, sort_keys=False)


def _container(pod: Any, path: Path) -> dict[str, Any]:
    """That of kube-scheduler."""
    containers = pod.get("spec", {}).get("containers", []) if isinstance(pod, dict) else []
    for container in containers:
        words = [*(container.get("command") or []), *(container.get("args") or [])]
        if words and Path(str(words[0])).name == PROGRAM:
            assert isinstance(container, dict), "what has a command is one"
            return container
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
        told = " ".join(unknown)
        raise ConfigurationError(str(path), [f"not flags of kube-scheduler v1.36: {told}"])
    options = options_of(parsed)
    problems = options.problems()
    if problems:
        raise ConfigurationError(str(path), problems)
    return options.notes
