"""Pods that spread: what the tests of filtering and of scoring have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.support.live import Json, LiveBerth

FOO: Final = {"foo": ""}
Expression = tuple[str, ...]
"""(key, operator, *values)."""


def selector(*expressions: Expression) -> Json:
    parts = [
        {"key": key, "operator": operator, **({"values": values} if values else {})}
        for key, operator, *values in expressions
    ]
    return {"matchExpressions": parts} if parts else {}


def even(topology: str, max_skew: int = 1, *, must: bool, **more: object) -> Json:
    """A constraint on pods with the label "foo"."""
    return {
        "maxSkew": max_skew, "topologyKey": topology,
        "whenUnsatisfiable": "DoNotSchedule" if must else "ScheduleAnyway",
        "labelSelector": selector(("foo", "Exists")), **more,
    }  # fmt: skip


def four_nodes(
    first: int, foo: Sequence[int] = (), taints: Mapping[int, Json] | None = None
) -> dict[str, Json]:
    """Two zones of two nodes each; those of `foo` have the label that pods select."""
    tainted = taints or {}
    return {
        f"node-{number}": {
            "labels": {
                "node": f"node-{number}", "zone": f"zone-{first + index // 2}",
                **(FOO if number in foo else {}),
            },
            "taints": [tainted[number]] if number in tainted else [],
        }
        for index, number in enumerate(range(first, first + 4))
    }  # fmt: skip


@dataclass(frozen=True)
class Spread:
    name: str
    constraints: Sequence[Json]
    there: str
    """Digits: the nodes of pods that are there already."""
    on: str
    """Digits: the nodes that the pod may go to; none if it does not fit."""
    nodes: Mapping[str, Json] = field(default_factory=lambda: four_nodes(0))
    spec: Json = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=lambda: FOO)
    bars: str = ""
    """Of each pod that is there: "b" if it has the label "bar", too."""
    priority: int = 0


def add_spread(live: LiveBerth, case: Spread, scheduler: str = "default-scheduler") -> None:
    """Makes the case's nodes, the pods that are there, and the pod in question: "pod"."""
    for name, given in case.nodes.items():
        live.add_node(name, **given)
    for index, number in enumerate(case.there):
        labels = {**FOO, **({"bar": ""} if case.bars[index : index + 1] == "b" else {})}
        live.add_pod(f"there-{index}", labels=labels, node=f"node-{number}", priority=0)
    live.add_pod(
        "pod", scheduler=scheduler, labels=dict(case.labels), priority=case.priority,
        spec={"topologySpreadConstraints": list(case.constraints), **case.spec},
    )  # fmt: skip


def allowed(case: Spread) -> set[str]:
    return {f"node-{number}" for number in case.on}
