"""An extender: who is asked about pods over HTTP, and how.

Apart from what reads the configuration (`extender_fields.py`) and from the client that makes the calls,
so that deciding code may know an extender without knowing either.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from shared.kube.api.core_v1 import PodSpec

TIMEOUT_S: Final = 5.0
"""DefaultExtenderTimeout."""

EXTENDER: Final = "Extender"
"""Stands among the plugins that rejected a pod if an extender refused a node (framework.ExtenderName):
any event may help then."""


class ExtenderTls(msgspec.Struct, frozen=True, kw_only=True):
    """Certificates: `...File` are paths, `...data` the contents in PEM."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderConfig(msgspec.Struct, frozen=True, kw_only=True):
    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    """Verbs are the last part of the URL; an empty one means that the extender is not asked that."""
    weight: int = 0
    enable_https: bool = False
    tls_config: ExtenderTls | None = None
    http_timeout_s: float = TIMEOUT_S
    node_cache_capable: bool = False
    """It knows the nodes itself: it is sent their names, else the whole objects."""
    managed_resources: frozenset[str] = frozenset()
    """It is asked about pods only that name one of these; empty: about all pods."""
    ignored_by_scheduler: frozenset[str] = frozenset()
    """Those of them that no node needs to have in the eyes of NodeResourcesFit."""
    ignorable: bool = False
    """A pod does not fail because this extender does."""

    @property
    def is_asked_by_scorers(self) -> bool:
        return bool(self.filter_verb or self.prioritize_verb or self.preempt_verb)


def is_interested(extender: ExtenderConfig, spec: PodSpec) -> bool:
    """Whether the extender is asked about the pod: it manages a resource that one of its containers
    requests or limits, or it manages none, and is asked about all (`IsInterested` in
    pkg/scheduler/extender.go, v1.36.2)."""
    managed = extender.managed_resources
    return not managed or any(
        not managed.isdisjoint(amounts or ())
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        if (resources := container.resources) is not None
        for amounts in (resources.requests, resources.limits)
    )


def asked_of_scorers(extenders: Sequence[ExtenderConfig], spec: PodSpec) -> bool:
    """Whether somebody has to be asked before the pod can be placed."""
    return any(each.is_asked_by_scorers and is_interested(each, spec) for each in extenders)


def binders_of(extenders: Sequence[ExtenderConfig], spec: PodSpec) -> list[int]:
    """Positions of the extenders that bind the pod in place of the Bind plugins."""
    return [i for i, each in enumerate(extenders) if each.bind_verb and is_interested(each, spec)]
