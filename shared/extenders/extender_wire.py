"""What is said to extenders and what they answer, as JSON; pure.

The structs of the protocol have no JSON names, so members have the names of the Go fields ("NodeNames"),
and all are written, with null for what is not given. Answers are read as Go's decoder reads them:
whatever the case of a member's name, null leaves what was there, half of a character is the replacement
character, and what follows the first value is not looked at. Pods and nodes that are sent whole come
from the API server and go out as they came (`msgspec.Raw`): an extender may look at anything in them.

Shapes: staging/src/k8s.io/kube-scheduler/extender/v1/types.go, v1.36.2.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import msgspec
from msgspec import inspect

from shared.errors import OperationalError
from shared.framework.binding_api import Binding
from shared.kube.api.meta_v1 import ApiStruct, Int64, ObjectIdentity

MAX_EXTENDER_PRIORITY: Final = 10
MAX_NODE_SCORE: Final = 100


class ExtenderError(OperationalError):
    """An extender said no to the question itself, or said nothing that can be used."""


class PodName(NamedTuple):
    namespace: str
    name: str
    uid: str


class _GoStruct(msgspec.Struct, rename="pascal"):
    """Without JSON names, as Go writes it."""


class _NamedNode(ApiStruct):
    metadata: ObjectIdentity = msgspec.field(default_factory=ObjectIdentity)


class _NodeList(ApiStruct):
    items: list[_NamedNode] | None = None


class _FilterResult(_GoStruct):
    """ExtenderFilterResult."""

    nodes: _NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class _HostPriority(_GoStruct):
    host: str = ""
    score: Int64 = 0


class MetaPod(_GoStruct):
    uid: str = msgspec.field(default="", name="UID")


class MetaVictims(_GoStruct):
    """Victims on one node, by uid."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: Int64 = msgspec.field(default=0, name="NumPDBViolations")


class _PreemptResult(_GoStruct):
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class _BindResult(_GoStruct):
    error: str = ""


class FilterAnswer(NamedTuple):
    """Which nodes an extender leaves, in its order, and what is said of the others."""

    node_names: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    are_bare: bool = False
    """It answered with Node objects: what follows knows of no pods on them (`HTTPExtender.Filter` in
    pkg/scheduler/extender.go, v1.36.2)."""


class ExtenderVerdicts(msgspec.Struct):
    """What the extenders said of the nodes that they were asked about, by name
    (`findNodesThatPassExtenders`, `prioritizeNodes` in pkg/scheduler/schedule_one.go, v1.36.2)."""

    passing: list[str]
    refused: dict[str, str] = msgspec.field(default_factory=dict)
    """Node -> why. Removing pods might change their mind."""
    unresolvable: dict[str, str] = msgspec.field(default_factory=dict)
    scores: Counter[str] = msgspec.field(default_factory=Counter)
    """Node -> what is added to its total."""
    are_bare: bool = False
    """The last to filter answered with Node objects: they are scored without pods and images."""

    def take(self, answer: FilterAnswer) -> None:
        """One more extender has filtered. What it calls unresolvable is not merely refused."""
        for name, reason in answer.unresolvable.items():
            self.unresolvable[name] = reason
            self.refused.pop(name, None)
        for name, reason in answer.failed.items():
            if name not in answer.unresolvable:
                self.refused[name] = reason
                self.unresolvable.pop(name, None)
        self.passing = answer.node_names
        self.are_bare |= answer.are_bare

    def reasons(self) -> Counter[str]:
        """How often each reason was given, each for another node."""
        return Counter((*self.unresolvable.values(), *self.refused.values()))


_T = TypeVar("_T")
_encoder: Final = msgspec.json.Encoder()


def node_args(pod: bytes, names: list[str] | None, nodes: Sequence[bytes] = ()) -> bytes:
    """ExtenderArgs: with names for an extender that knows the nodes, else (None) with the nodes."""
    whole = {"metadata": {}, "items": list(map(msgspec.Raw, nodes))} if names is None else None
    return _encoder.encode({"Pod": msgspec.Raw(pod), "Nodes": whole, "NodeNames": names})


def filter_answer(
    body: bytes, asked: list[str], url_prefix: str, *, is_cache_capable: bool
) -> FilterAnswer:
    """The answer to filter; `ExtenderError` where it leaves nodes that nobody asked about. Of whole
    nodes these are passed over if there are others; kube-scheduler takes them in any case."""
    result = _decoded(body, _FilterResult, "the answer to filter")
    if result.error:
        raise ExtenderError(result.error)
    names, are_bare = result.node_names, False
    if names is None or not is_cache_capable:
        nodes = (result.nodes.items or ()) if result.nodes is not None else ()
        names, are_bare = [node.metadata.name for node in nodes], True
    known = set(asked)
    left = [name for name in names if name in known]
    if len(left) < len(names) and not (are_bare and left):
        unknown = next(name for name in names if name not in known)
        raise ExtenderError(
            f'extender "{url_prefix}" claims a filtered node "{unknown}" which is not found in'
            " the input node list"
        )
    failed, unresolvable = result.failed_nodes or {}, result.failed_and_unresolvable_nodes or {}
    return FilterAnswer(left, failed, unresolvable, are_bare)


_TOTAL_MAX: Final = 2**53
"""A thousand extenders' make no more than 64 bits."""


def priorities(body: bytes, weight: int) -> Counter[str]:
    """Node -> what the answer to prioritize adds to its total, which stays a number of the columns
    whatever an extender says."""
    scale = weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
    totals: Counter[str] = Counter()
    for each in _decoded(body, list[_HostPriority], "the answer to prioritize"):
        total = totals[each.host] + each.score * scale
        totals[each.host] = max(-_TOTAL_MAX, min(total, _TOTAL_MAX))
    return totals


def preempt_args(
    pod: bytes, victims: dict[str, MetaVictims], pods: dict[str, bytes] | None = None
) -> bytes:
    """ExtenderPreemptionArgs, with the victims themselves (`pods`, by uid) for an extender that does not
    know nodes and pods."""
    args: dict[str, Any] = {"NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    if pods is not None:
        whole = {
            node: {
                "Pods": [msgspec.Raw(pods[each.uid]) for each in on_node.pods or ()],
                "NumPDBViolations": on_node.num_pdb_violations,
            }
            for node, on_node in victims.items()
        }
        args = {"NodeNameToVictims": whole, "NodeNameToMetaVictims": None}
    return _encoder.encode({"Pod": msgspec.Raw(pod), **args})


def preempt_result(body: bytes, *, is_ignorable: bool) -> dict[str, MetaVictims]:
    """Node -> victims that are left to choose from. A node without victims is an error, or, of an
    extender that may be ignored, only no candidate (`callExtenders` in framework/preemption)."""
    result = _decoded(body, _PreemptResult, "the answer to preempt")
    victims = result.node_name_to_meta_victims or {}
    empty = [name for name, on_node in victims.items() if not on_node.pods]
    if empty and not is_ignorable:
        raise ExtenderError(f'expected at least one victim pod on node "{empty[0]}"')
    return {name: on_node for name, on_node in victims.items() if on_node.pods}


def bind_args(order: Binding) -> bytes:
    """ExtenderBindingArgs."""
    whose = {"PodName": order.name, "PodNamespace": order.namespace, "PodUID": order.uid}
    return _encoder.encode({**whose, "Node": order.node_name})


def check_bind_result(body: bytes) -> None:
    """Raises `ExtenderError` unless the pod was bound."""
    result = _decoded(body, _BindResult, "the answer to bind")
    if result.error:
        raise ExtenderError(result.error)


def _decoded(body: bytes, kind: type[_T], what: str) -> _T:
    try:
        found, _ = _json.raw_decode(body.decode(errors="replace").lstrip(_JSON_SPACE))
        known: Any = kind  # Not hashable, mypy says.
        return msgspec.convert(_as_go_reads(found, _type_info(known)), kind)
    except (ValueError, RecursionError) as error:  # msgspec's and json's errors are ValueErrors.
        raise ExtenderError(f"{what} cannot be used: {error}") from error


_type_info: Final = cache(inspect.type_info)  # Takes milliseconds.


def _as_go_reads(found: Any, kind: inspect.Type) -> Any:
    """The value with each member's name as `kind` has it, without unknown and null members."""
    match kind:
        case inspect.UnionType():
            (wanted,) = (one for one in kind.types if not isinstance(one, inspect.NoneType))
            return None if found is None else _as_go_reads(found, wanted)
        case inspect.StructType() if isinstance(found, dict):
            fields = {field.encode_name.lower(): field for field in kind.fields}
            return {
                field.encode_name: _as_go_reads(value, field.type)
                for name, value in found.items()
                if value is not None and (field := fields.get(name.lower())) is not None
            }
        case _ if found is None:
            return _ZEROS.get(type(kind), dict)()
        case inspect.ListType() if isinstance(found, list):
            return [_as_go_reads(value, kind.item_type) for value in found]
        case inspect.DictType() if isinstance(found, dict):
            return {
                _whole(name): _as_go_reads(value, kind.value_type) for name, value in found.items()
            }
        case _ if isinstance(found, str):
            return _whole(found)
        case _:
            return found


def _whole(text: str) -> str:
    """Without halves of characters (lone surrogates), which no message can hold."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_ZEROS: Final[dict[type[inspect.Type], Callable[[], Any]]] = {
    inspect.ListType: list,
    inspect.StrType: str,
    inspect.IntType: int,
}
"""What null leaves where something is expected that has no null."""


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_JSON_SPACE: Final = " \t\r\n"
_json: Final = json.JSONDecoder(parse_constant=_refuse_constant)
