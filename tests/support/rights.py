"""Rights as a role grants them, and the right that a request needs: RBAC as kube-apiserver reads it.

Rules: staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go and
plugin/pkg/auth/authorizer/rbac/rbac.go, v1.36.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from bench.apiserver.router import Request, parse_path

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Right(NamedTuple):
    """What may be done; empty: in all namespaces, to objects of any name."""

    verb: str
    group: str
    resource: str
    """With its subresource: pods/status."""
    namespace: str = ""
    name: str = ""

    def covers(self, needed: "Right") -> bool:
        """Whether a request that needs this may be made by whoever has the right."""
        what = (self.verb, self.group, self.resource)
        return (
            what == (needed.verb, needed.group, needed.resource)
            and self.namespace in ("", needed.namespace)
            and self.name in ("", needed.name)
        )


def right_needed(request: Request) -> Right | None:
    """None for paths that are no resource (/version, /readyz, ...)."""
    path, _, query = request.target.partition("?")
    target = parse_path(path)
    if target is None:
        return None
    verb = _VERBS.get(request.method, "get")
    if request.method == "GET" and target.name is None:
        verb = "watch" if "watch=" in query else "list"
    resource = target.resource.plural
    if target.subresource:
        resource += f"/{target.subresource}"
    # The object of a create is in the body, where no authorizer looks; its subresource has one.
    return Right(verb, target.resource.group, resource, target.namespace or "", target.name or "")


def documents(path: Path) -> list[dict[str, Any]]:
    """The objects of a manifest."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def rights_of(account: str, manifest: Path) -> Iterator[Right]:
    """What the roles that the manifest binds to a service account grant it."""
    objects = documents(manifest)
    roles = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    for binding in objects:
        if not binding["kind"].endswith("RoleBinding"):
            continue
        if account not in [subject["name"] for subject in binding["subjects"]]:
            continue
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        namespace = binding["metadata"].get("namespace", "")
        for rule in role["rules"]:
            for name in rule.get("resourceNames", [""]):
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        for verb in rule["verbs"]:
                            yield Right(verb, group, resource, namespace, name)
