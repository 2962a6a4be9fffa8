"""What the engine makes of one pod, told so that a person can act on it.

kube-scheduler's message counts reasons, each node by the first plugin that refuses it. Here every filter
is asked about every node, so that it can be seen which refusals stand alone, and how little is missing
where least is.
"""

from typing import Final

import msgspec
import numpy as np

from daemon.overview.pending import amount_text
from shared.columns.rows import rows_where
from shared.columns.schema import CPU, Bools, Rows
from shared.columns.usage import PodUsage, usage_of
from shared.engine.evaluation import Evaluation
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.status import Verdicts
from shared.plugin_names import NODE_RESOURCES_FIT

EXAMPLES_MAX: Final = 2
NEAREST_MAX: Final = 3
SCORES_MAX: Final = 5
"""Nodes in a score table, the pod's own included."""


class NodeReason(msgspec.Struct, frozen=True):
    node: str
    reason: str


class Rejection(msgspec.Struct, frozen=True):
    """What one plugin has against the nodes."""

    plugin: str
    node_count: int
    alone_count: int
    """Of these, nodes that every other plugin would take."""
    examples: list[NodeReason]


class NodeScore(msgspec.Struct, frozen=True):
    """How one node is rated: weighted scores by plugin."""

    node: str
    total: int
    scores: dict[str, int]


class Diagnosis(msgspec.Struct, frozen=True):
    """One pod on a whole cluster, or on one node of it."""

    node_count: int
    feasible_count: int
    message: str
    """kube-scheduler's, of a pod that fits nowhere; else empty."""
    rejections: list[Rejection]
    nearest: list[NodeReason]
    """Where least is in the way, and what."""
    scores: list[NodeScore]
    """The best nodes; with the pod's own, wherever that comes."""


def diagnose_pod(
    cluster: ClusterView, evaluation: Evaluation, own_node: str = "", only_node: str = ""
) -> Diagnosis:
    """Of a class that was evaluated. `own_node`: is in the score table; `only_node`: is asked alone."""
    framework, outcome, info = evaluation.pod.framework, evaluation.pod.outcome, evaluation.pod.info
    rows = framework.candidate_rows(outcome, cluster)
    if only_node:
        rows = rows[rows == cluster.nodes.row_of(only_node)]
    fits = evaluation.feasible[rows] if outcome.status.is_success else np.zeros(len(rows), np.bool_)
    rejections: list[Rejection] = []
    nearest: list[NodeReason] = []
    if not outcome.status.is_success:
        reason = NodeReason("(every node)", outcome.status.message)
        rejections = [Rejection(outcome.status.plugin, len(rows), len(rows), [reason])]
    elif not fits.all():
        refused = rows[~fits]
        said = {
            plugin.NAME: plugin.filter(outcome.states.get(plugin.NAME), info, cluster, refused)
            for plugin in (framework.filters[index] for index in framework.plan(outcome).active)
        }
        rejections = _rejections(cluster, refused, said)
        if only_node or not fits.any():
            nearest = _nearest(info, cluster, refused, said)
    is_refused = evaluation.feasible_count == 0 or not outcome.status.is_success
    return Diagnosis(
        len(cluster.nodes.order),
        int(fits.sum()),
        evaluation.fit_error().message() if is_refused else "",
        rejections,
        nearest,
        _scores(evaluation, cluster, rows[fits], own_node),
    )


def _rejections(cluster: ClusterView, rows: Rows, said: dict[str, Verdicts]) -> list[Rejection]:
    against = sum((~verdicts.passes).astype(np.int64) for verdicts in said.values())
    found = []
    for plugin, verdicts in said.items():
        refuses = ~verdicts.passes
        if not refuses.any():
            continue
        alone = refuses & (against == 1)
        # Examples that stand alone tell more than those that others refuse as well.
        ranked = np.argsort(against + np.where(refuses, 0, len(said) + 1), kind="stable")
        examples = [
            NodeReason(cluster.nodes.name_of(rows.item(at)), verdicts.status(at, plugin).message)
            for at in ranked[: min(EXAMPLES_MAX, int(refuses.sum()))].tolist()
        ]
        found.append(Rejection(plugin, int(refuses.sum()), int(alone.sum()), examples))
    return sorted(found, key=lambda one: (-one.node_count, one.plugin))


def _nearest(
    info: PodInfo, cluster: ClusterView, rows: Rows, said: dict[str, Verdicts]
) -> list[NodeReason]:
    usage = usage_of(cluster.nodes, info.requests, info.host_ports)
    against = sum((~verdicts.passes).astype(np.float64) for verdicts in said.values())
    ranked = np.argsort(against + _short_share(cluster, usage, rows), kind="stable")
    found = []
    for at in ranked[:NEAREST_MAX].tolist():
        row = rows.item(at)
        texts: list[str] = []
        for plugin, verdicts in said.items():
            if verdicts.codes[at] == 0:
                continue
            missing = _missing(info, cluster, usage, row) if plugin == NODE_RESOURCES_FIT else []
            texts += missing or [verdicts.status(at, plugin).message]
        found.append(NodeReason(cluster.nodes.name_of(row), "; ".join(texts)))
    return found


def _short_share(cluster: ClusterView, usage: PodUsage, rows: Rows) -> np.ndarray:
    """What is missing on each row by what the pod asks for, 0 to below 1, averaged over resources."""
    nodes, count = cluster.nodes, len(usage.amounts)
    free = nodes.allocatable[:count, rows] - nodes.requested[:count, rows]
    asked = usage.amounts[:, np.newaxis]
    short = np.clip(asked - np.maximum(free, 0), 0, None) / np.maximum(asked, 1)
    share: np.ndarray = short.sum(axis=0) / (count + 1)
    return share


def _missing(info: PodInfo, cluster: ClusterView, usage: PodUsage, row: int) -> list[str]:
    nodes = cluster.nodes
    found = []
    for index, amount in enumerate(usage.amounts.tolist()):
        short = amount - max(0, int(nodes.allocatable[index, row] - nodes.requested[index, row]))
        if amount and short > 0:
            name = nodes.resources.values[index]
            told = f"{short}m" if index == CPU else amount_text(name, short)
            found.append(f"needs {told} more {name}")
    known = set(nodes.resources.values)
    found += [f"has no {name}" for name in sorted(info.requests.scalars) if name not in known]
    if nodes.pod_count[row] >= nodes.allowed_pod_count[row]:
        found.append(f"has its {nodes.allowed_pod_count[row]} pods")
    return found


def _scores(
    evaluation: Evaluation, cluster: ClusterView, rows: Rows, own_node: str
) -> list[NodeScore]:
    if not len(rows):
        return []
    framework, info = evaluation.pod.framework, evaluation.pod.info
    feasible = rows_where(evaluation.feasible)
    active = framework.prepare_scores(info, cluster, feasible).active
    _, scores, total = framework.run_scores(info, cluster, active, feasible)
    names = [cluster.nodes.name_of(row) for row in feasible.tolist()]
    wanted: Bools = np.isin(feasible, rows)
    ranked = sorted(wanted.nonzero()[0].tolist(), key=lambda at: (-total.item(at), names[at]))
    shown = ranked[:SCORES_MAX]
    own = [at for at in ranked if names[at] == own_node]
    if own and own[0] not in shown:
        shown = [*shown[: SCORES_MAX - 1], own[0]]
    return [
        NodeScore(
            names[at],
            total.item(at),
            {
                entry.plugin.NAME: score.item(at) * entry.weight
                for entry, score in zip(active, scores, strict=True)
                if entry.weight
            },
        )
        for at in shown
    ]
