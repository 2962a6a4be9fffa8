"""A kubeconfig with one cluster and one user, as a file or a client library takes it."""

from typing import Any


def kubeconfig_of(
    cluster: dict[str, Any], user: dict[str, Any] | None = None, **context: str
) -> dict[str, Any]:
    """`context`: of its fields those beyond cluster and user."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **context}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
    }
