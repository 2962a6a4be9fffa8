"""The parts of a kubeconfig file's user that need reading of their own: exec plugins, impersonation.

Apart from the rest because they are long and rare. Problems are told as `ConfigurationError`, each
with its place in the file.

Rules: staging/src/k8s.io/client-go/tools/clientcmd/validation.go, transport/round_trippers.go, v1.36.
"""

import base64
import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from shared.errors import ConfigurationError
from shared.kube.exec_credentials import API_VERSIONS, ExecCommand

EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Name of the cluster's extension that is handed to exec plugins."""

_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")
_SAFE_IN_NAMES: Final = "!#$&'*+-.^_`|~"


def read_exec(stated: Any, cluster: dict[str, Any], path: Path, cluster_config: Any) -> ExecCommand:
    """`user.exec` of the file at `path`."""
    if not isinstance(stated, dict):
        raise ConfigurationError(str(path), ["user.exec: expected a mapping"])
    version = stated.get("apiVersion")
    command = stated.get("command")
    problems = []
    if version not in API_VERSIONS:
        problems.append(
            f"user.exec.apiVersion: {version!r} is not supported; use {' or '.join(API_VERSIONS)}"
        )
    if not isinstance(command, str) or not command:
        problems.append("user.exec.command: missing")
    problems += _mode_problems(stated, version)
    args = stated.get("args") or []
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        problems.append("user.exec.args: expected a list of texts")
    env, env_problems = _read_env(stated.get("env"))
    problems += env_problems
    if problems:
        raise ConfigurationError(str(path), problems)
    assert isinstance(command, str), "checked above"
    if os.sep in command:
        # A path is relative to the file that states it; a bare name is looked up in $PATH.
        command = str(path.parent / command)
    info = None
    if stated.get("provideClusterInfo") is True:
        info = _cluster_info(cluster, path, cluster_config)
    return ExecCommand(
        api_version=str(version),
        command=command,
        args=tuple(args),
        env=env,
        install_hint=str(stated.get("installHint") or "").strip(),
        cluster=info,
        source=f"{path}: user.exec",
    )


def _mode_problems(stated: dict[str, Any], version: Any) -> list[str]:
    mode = stated.get("interactiveMode")
    if mode is None and version == API_VERSIONS[0]:
        return [
            f"user.exec.interactiveMode: must be one of {', '.join(_INTERACTIVE_MODES)} with"
            f" {API_VERSIONS[0]}"
        ]
    if mode is not None and mode not in _INTERACTIVE_MODES:
        return [f"user.exec.interactiveMode: {mode!r} is none of {', '.join(_INTERACTIVE_MODES)}"]
    if mode == "Always":
        return ["user.exec.interactiveMode: Always cannot be had; berth has no terminal to ask at"]
    return []


def _read_env(stated: Any) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    if stated is not None and not isinstance(stated, list):
        return (), ["user.exec.env: expected a list"]
    pairs = []
    for index, entry in enumerate(stated or ()):
        name = entry.get("name") if isinstance(entry, dict) else None
        value = entry.get("value", "") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name or not isinstance(value, str):
            return (), [f"user.exec.env[{index}]: expected a mapping of name and value"]
        pairs.append((name, value))
    return tuple(pairs), []


def _cluster_info(cluster: dict[str, Any], path: Path, config: Any) -> dict[str, Any]:
    """As `Cluster` in pkg/apis/clientauthentication/v1/types.go."""
    info = {
        name: cluster[name]
        for name in ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
        if cluster.get(name)
    }
    if cluster.get("certificate-authority-data"):
        info["certificate-authority-data"] = cluster["certificate-authority-data"]
    elif cluster.get("certificate-authority"):
        try:
            content = (path.parent / cluster["certificate-authority"]).read_bytes()
        except (OSError, ValueError, TypeError) as error:
            told = f"cluster.certificate-authority: {error}"
            raise ConfigurationError(str(path), [told]) from error
        info["certificate-authority-data"] = base64.b64encode(content).decode()
    if cluster.get("disable-compression"):
        info["disable-compression"] = True
    info["config"] = config
    return info


def read_impersonation(user: dict[str, Any], source: str) -> tuple[tuple[str, str], ...]:
    """The headers that say on whose behalf requests are made."""
    name, uid = user.get("as"), user.get("as-uid")
    groups, extra = user.get("as-groups") or [], user.get("as-user-extra") or {}
    if not name:
        if uid or groups or extra:
            told = "user.as: missing; as-uid, as-groups and as-user-extra need it"
            raise ConfigurationError(source, [told])
        return ()
    headers = [("Impersonate-User", str(name))]
    if uid:
        headers.append(("Impersonate-Uid", str(uid)))
    if not isinstance(groups, list):
        raise ConfigurationError(source, ["user.as-groups: expected a list"])
    headers += [("Impersonate-Group", str(group)) for group in groups]
    if not isinstance(extra, dict):
        raise ConfigurationError(source, ["user.as-user-extra: expected a mapping"])
    for key, texts in extra.items():
        escaped = quote(str(key).lower(), safe=_SAFE_IN_NAMES)
        listed = texts if isinstance(texts, list) else [texts]
        headers += [(f"Impersonate-Extra-{escaped}", str(text)) for text in listed]
    return tuple(headers)
