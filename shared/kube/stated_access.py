"""The API server that somebody named: by its address, or in kubeconfig files.

Rules: staging/src/k8s.io/client-go/tools/clientcmd, v1.36.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from shared.errors import ConfigurationError
from shared.kube.cluster_access import ClusterAccess, is_missing
from shared.kube.kubeconfig import load_kubeconfig
from shared.kube.server_url import access_by_url


def stated_access(server: str, kubeconfig: str, environment: Mapping[str, str]) -> ClusterAccess:
    """`kubeconfig`, or the files of the environment if both are empty; `server` is another address for
    that of the file; alone it needs no credentials."""
    if server and not kubeconfig:
        return access_by_url(server, environment)
    paths = [Path(kubeconfig)] if kubeconfig else _paths(environment)
    access = load_kubeconfig(paths, environment=environment)
    return _moved(access, server, environment) if server else access


def _paths(environment: Mapping[str, str]) -> list[Path]:
    named = [Path(p) for p in environment.get("KUBECONFIG", "").split(os.pathsep) if p]
    if named:
        return named
    default = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    if is_missing(default):
        raise ConfigurationError(
            "kubeconfig",
            [f"none given and {default} does not exist; use --kubeconfig FILE or --server URL"],
        )
    return [default]


def _moved(access: ClusterAccess, url: str, environment: Mapping[str, str]) -> ClusterAccess:
    """The same server, with the same credentials, at another address."""
    there = access_by_url(url, environment)
    return replace(
        access,
        host=there.host,
        port=there.port,
        base_path=there.base_path,
        tls=(access.tls or there.tls) if there.tls is not None else None,
        proxy=access.proxy or there.proxy,
    )
