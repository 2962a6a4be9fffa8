"""What is said to extenders and what they answer, as JSON; pure.

Pods and nodes that are sent whole come from the API server and go out as they came (`msgspec.Raw`):
an extender may look at anything in them. Shapes: staging/src/k8s.io/kube-scheduler/extender/v1/types.go,
v1.36.2.
"""

from typing import Final, NamedTuple, TypeVar

import msgspec

from shared.errors import OperationalError
from shared.kube.objects import ApiStruct

MAX_EXTENDER_PRIORITY: Final = 10
MAX_NODE_SCORE: Final = 100


class ExtenderError(OperationalError):
    """An extender said no to the question itself, or said nothing that can be used."""


class PodName(NamedTuple):
    """Which pod it is."""

    namespace: str
    name: str
    uid: str


class _NodeItems(msgspec.Struct):
    items: list[msgspec.Raw]


class _Args(msgspec.Struct, omit_defaults=True):
    pod: msgspec.Raw
    nodes: _NodeItems | None = None
    nodenames: list[str] | None = None


class _NamedMeta(ApiStruct):
    name: str = ""


class _NamedNode(ApiStruct):
    metadata: _NamedMeta = msgspec.field(default_factory=_NamedMeta)


class _NodeList(ApiStruct):
    items: list[_NamedNode] | None = None


class FilterResult(msgspec.Struct):
    """ExtenderFilterResult."""

    nodes: _NodeList | None = None
    nodenames: list[str] | None = None
    failed: dict[str, str] | None = msgspec.field(default=None, name="failedNodes")
    unresolvable: dict[str, str] | None = msgspec.field(
        default=None, name="failedAndUnresolvableNodes"
    )
    error: str | None = None


class HostPriority(msgspec.Struct):
    host: str
    score: int


class MetaPod(msgspec.Struct):
    uid: str = ""


class _Victims(msgspec.Struct):
    pods: list[msgspec.Raw]
    num_pdb_violations: int = msgspec.field(name="numPDBViolations")


class MetaVictims(msgspec.Struct):
    """Victims on one node, by uid."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = msgspec.field(default=0, name="numPDBViolations")


class _PreemptArgs(msgspec.Struct, omit_defaults=True):
    pod: msgspec.Raw
    victims: dict[str, _Victims] | None = msgspec.field(default=None, name="nodeNameToVictims")
    meta_victims: dict[str, MetaVictims] | None = msgspec.field(
        default=None, name="nodeNameToMetaVictims"
    )


class _PreemptResult(msgspec.Struct):
    victims: dict[str, MetaVictims] | None = msgspec.field(
        default=None, name="nodeNameToMetaVictims"
    )


class _BindArgs(ApiStruct):
    pod_name: str = msgspec.field(name="podName")
    pod_namespace: str = msgspec.field(name="podNamespace")
    pod_uid: str = msgspec.field(name="podUID")
    node: str


class _BindResult(ApiStruct):
    error: str | None = None


_T = TypeVar("_T")
_encoder: Final = msgspec.json.Encoder()


def node_names_args(pod: bytes, names: list[str]) -> bytes:
    """ExtenderArgs for an extender that knows the nodes."""
    return _encoder.encode(_Args(msgspec.Raw(pod), nodenames=names))


def whole_nodes_args(pod: bytes, nodes: list[bytes]) -> bytes:
    """ExtenderArgs with the nodes themselves."""
    items = [msgspec.Raw(node) for node in nodes]
    return _encoder.encode(_Args(msgspec.Raw(pod), nodes=_NodeItems(items)))


def filter_result(body: bytes, asked: list[str], *, is_cache_capable: bool) -> FilterResult:
    """The answer to filter; `nodenames` are those left of the nodes asked about, in its order."""
    result = _decoded(body, FilterResult, "the answer to filter")
    if result.error:
        raise ExtenderError(result.error)
    names: list[str] = []
    if is_cache_capable and result.nodenames is not None:
        names = result.nodenames
    elif result.nodes is not None:
        names = [node.metadata.name for node in result.nodes.items or ()]
    known = set(asked)
    for name in names:
        if name not in known:
            raise ExtenderError(
                f'claims a filtered node "{name}" which is not found in the input node list'
            )
    result.nodenames = names
    return result


def priorities(body: bytes, weight: int) -> dict[str, int]:
    """Node -> what the answer to prioritize adds to its total."""
    scale = weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
    totals: dict[str, int] = {}
    for each in _decoded(body, list[HostPriority], "the answer to prioritize"):
        totals[each.host] = totals.get(each.host, 0) + each.score * scale
    return totals


def meta_preempt_args(pod: bytes, victims: dict[str, MetaVictims]) -> bytes:
    """ExtenderPreemptionArgs for an extender that knows nodes and pods."""
    return _encoder.encode(_PreemptArgs(msgspec.Raw(pod), meta_victims=victims))


def whole_preempt_args(
    pod: bytes, victims: dict[str, MetaVictims], pods: dict[str, bytes]
) -> bytes:
    """ExtenderPreemptionArgs with the victims themselves; `pods` by uid."""
    whole = {
        node: _Victims(
            [msgspec.Raw(pods[each.uid]) for each in on_node.pods or ()],
            on_node.num_pdb_violations,
        )
        for node, on_node in victims.items()
    }
    return _encoder.encode(_PreemptArgs(msgspec.Raw(pod), victims=whole))


def preempt_result(body: bytes) -> dict[str, MetaVictims]:
    """Node -> victims that are left to choose from."""
    victims = _decoded(body, _PreemptResult, "the answer to preempt").victims or {}
    for name, on_node in victims.items():
        if not on_node.pods:
            raise ExtenderError(f'expected at least one victim pod on node "{name}"')
    return victims


def bind_args(pod: PodName, node_name: str) -> bytes:
    """ExtenderBindingArgs."""
    return _encoder.encode(
        _BindArgs(pod_name=pod.name, pod_namespace=pod.namespace, pod_uid=pod.uid, node=node_name)
    )


def check_bind_result(body: bytes) -> None:
    """Raises `ExtenderError` unless the pod was bound."""
    result = _decoded(body, _BindResult, "the answer to bind")
    if result.error:
        raise ExtenderError(result.error)


def _decoded(body: bytes, kind: type[_T], what: str) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExtenderError(f"{what} cannot be used: {error}") from error
