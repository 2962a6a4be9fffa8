"""Finding the API server: a plain address, the service account of a pod, or kubeconfig files.

Rules: staging/src/k8s.io/client-go/tools/clientcmd and rest/config.go, v1.36.
"""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from shared.errors import ConfigurationError
from shared.kube.cluster_access import ClusterAccess, ServerTls, is_missing, tls_context
from shared.kube.credentials import Credentials

SERVICE_ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def find_access(
    *,
    server: str = "",
    kubeconfig: str = "",
    environment: Mapping[str, str] = os.environ,
) -> ClusterAccess:
    """The API server to talk to: the first that is stated of `kubeconfig`, the pod's service account,
    $KUBECONFIG and ~/.kube/config. `server` is another address for that of `kubeconfig`; alone it needs
    no credentials. Raises `ConfigurationError`.
    """
    if not server and not kubeconfig and is_in_cluster(environment):
        return in_cluster_access(environment, SERVICE_ACCOUNT_FOLDER)
    # In a pod nobody needs what reads kubeconfig files, nor what runs commands for credentials.
    from shared.kube.kubeconfig import stated_access

    return stated_access(server, kubeconfig, environment)


def is_in_cluster(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process runs in a pod, and is not told to look elsewhere."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and not environment.get("KUBECONFIG")


def in_cluster_access(environment: Mapping[str, str], folder: Path) -> ClusterAccess:
    """The API server as the service account of the pod that this process runs in."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    source = "in-cluster configuration"
    if not host or not port.isascii() or not port.isdigit():
        raise ConfigurationError(
            source, ["KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must both be set"]
        )
    token_file, ca_file = folder / "token", folder / "ca.crt"
    problems = [f"{path} is missing" for path in (token_file, ca_file) if is_missing(path)]
    if problems:
        raise ConfigurationError(source, problems)
    access = ClusterAccess(
        host=host,
        port=int(port),
        tls=ServerTls(partial(tls_context, source, str(ca_file), ""), str(ca_file)),
        credentials=Credentials(token_file=token_file),
        source=source,
    )
    if not environment.get("HTTPS_PROXY") and not environment.get("https_proxy"):
        return access
    from shared.kube.proxy import with_proxy  # Few have one.

    return with_proxy(access, environment)
