"""How the corpus writes things: names of kinds and pods, and what is on a node at the end."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from shared.framework.runtime.framework import Framework

Json = dict[str, Any]

_PLURALS: Final = {"pvs": "persistentvolumes", "pvcs": "persistentvolumeclaims",
                   "pdbs": "poddisruptionbudgets"}  # fmt: skip

_NAMED: Final = {"cpu": "milli_cpu", "memory": "memory", "ephemeral-storage": "ephemeral_storage"}


def object_kind(field: str) -> str:
    """The API's plural for a field of the corpus' `objects`."""
    return _PLURALS.get(field, field)


def node_shapes(lines: Iterable[str]) -> dict[str, Json]:
    """`expected.nodes`, from the owner's dump: nodes that the API server shows, by name."""
    shapes: dict[str, Json] = {}
    shape: Json = {}
    for line in lines:
        match line.split():
            case ["node", _, "(ghost)", *_]:
                shape = {"pods": []}
            case ["node", name, "generation", _, "pods", counts, *amounts]:
                shape = shapes[name] = {
                    "requested": _amounts(amounts, 0),
                    "allocatable": _amounts(amounts, 1),
                    "allowed_pods": int(counts.partition("/")[2]),
                    "pods": [],
                    "pod_count": int(counts.partition("/")[0]),
                }
            case ["counted", "in", "scores", "as", "cpu", milli_cpu, "memory", memory]:
                counted = {"milli_cpu": int(milli_cpu), "memory": int(memory)}
                shape["nonzero_requested"] = counted
            case ["port", ip, protocol, port]:
                shape.setdefault("used_ports", []).append(f"{protocol}/{ip}/{port}")
            case ["claim", key, "pods", count]:
                shape.setdefault("pvc_refs", {})[key] = int(count)
            case ["pod", key, "uid", *_]:
                shape["pods"].append(key)
            case _:
                pass  # The cluster as a whole, or the queue.
    for name, shape in shapes.items():
        assert shape.pop("pod_count") == len(shape["pods"]), f"{name}: other pods than are counted"
        shape["pods"].sort()
        if "used_ports" in shape:
            shape["used_ports"].sort()
    return shapes


def _amounts(told: Sequence[str], which: int) -> Json:
    """Names, each followed by what is asked for / allocatable of it."""
    pairs = zip(told[::2], told[1::2], strict=True)
    scalars = {name: int(amount.split("/")[which]) for name, amount in pairs}
    return {**{field: scalars.pop(name, 0) for name, field in _NAMED.items()}, "scalar": scalars}


def weights_of(framework: Framework) -> dict[str, int]:
    """Of the plugins that score; those that take part in PreScore alone have none."""
    return {entry.plugin.NAME: entry.weight for entry in framework.scores if entry.weight}
