"""FitError: why a pod fits nowhere, in kube-scheduler's words.

The message is read by people and matched by tools, so it is equal to the last character
(pkg/scheduler/framework/types.go, `FitError.Error`, v1.36.2).
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from shared.columns.schema import Rows
from shared.framework.runtime.framework import Framework, out_of_range
from shared.framework.runtime.plans import FilterOutcome, NodeVerdict, PreFilterOutcome
from shared.framework.runtime.prepared_pod import PreparedPod, run_filters_with_nominated
from shared.framework.status import Code, Status, Verdicts


class FitError(NamedTuple):
    """No node takes the pod."""

    node_count: int
    pre_filter_message: str = ""
    reasons: Mapping[str, int] = {}
    """Reason -> nodes that gave it."""
    plugins: frozenset[str] = frozenset()
    """Unschedulable plugins: those whose change of mind would help."""
    pending_plugins: frozenset[str] = frozenset()
    error: str = ""
    """A plugin failed: the attempt is an error, not a refusal."""

    def message(self, post_filter_message: str = "") -> str:
        """As in the PodScheduled condition."""
        text = f"0/{self.node_count} nodes are available:"
        if self.pre_filter_message:
            text += f" {self.pre_filter_message}."
        else:
            histogram = sorted(f"{count} {reason}" for reason, count in self.reasons.items())
            if histogram:
                text += f" {', '.join(histogram)}."
        if post_filter_message:
            text += f" {post_filter_message}"
        return text


def filter_candidates(pod: PreparedPod) -> FilterOutcome:
    """Runs the filters over all candidate nodes; over none for a pod that PreFilter rejected."""
    return run_filters_with_nominated(pod, pod.candidate_rows())


def diagnose(pod: PreparedPod, filtered: FilterOutcome) -> FitError:
    """Sums up what was said of all candidate nodes, `filtered`."""
    outcome, node_count = pod.outcome, pod.cluster.node_count
    if not outcome.status.is_success:
        return _rejected_by_pre_filter(outcome, node_count)
    plugins = set(outcome.narrowed_by)
    pending: set[str] = set()
    for number, refuser in enumerate(filtered.refusers):
        name = pod.framework.filters[refuser.filter_index].NAME
        codes = filtered.codes[filtered.refused_by == number]
        if (codes == Code.PENDING).any():
            pending.add(name)
        if (codes > Code.ERROR).any():
            plugins.add(name)
    reasons = reasons_of(pod, filtered)
    error = _first_error(pod, filtered)
    return FitError(node_count, "", reasons, frozenset(plugins), frozenset(pending), error)


def reasons_of(pod: PreparedPod, filtered: FilterOutcome, others: int = 0) -> Counter[str]:
    """How many nodes have which reason; extenders have told what they have against so many `others`."""
    reasons = filtered.reason_counts()
    if pod.outcome.node_names is not None:
        left_out = pod.cluster.node_count - int((~filtered.passes).sum()) - others
        if left_out > 0:
            names = " ".join(pod.outcome.narrowed_by)
            reasons[f"node(s) didn't satisfy plugin(s) [{names}]"] += left_out
    return reasons


def invalid_score(pod: PreparedPod, feasible: Rows) -> str:
    """Upstream's words for a score out of range, where a total came out as INVALID."""
    active = pod.framework.prepare_scores(pod.info, pod.cluster, feasible).active
    _, scores, _ = pod.framework.run_scores(pod.info, pod.cluster, active, feasible)
    problem = out_of_range(active, scores)
    assert problem, "some total is INVALID, and nothing changed since"
    return problem


def node_verdicts(framework: Framework, filtered: FilterOutcome) -> list[NodeVerdict]:
    """The status of each row that failed."""
    failed = filtered.codes.nonzero()[0].tolist()
    return [NodeVerdict(filtered.rows.item(p), status_of(framework, filtered, p)) for p in failed]


def status_of(framework: Framework, filtered: FilterOutcome, position: int) -> Status:
    """Of a row that failed, by the first filter that failed it; an error in upstream's words."""
    index, texts = filtered.refusers[filtered.refused_by.item(position)]
    name = framework.filters[index].NAME
    status = Verdicts(filtered.codes, filtered.reasons, texts).status(position, name)
    if status.code is not Code.ERROR:
        return status
    return status._replace(reasons=(f'running "{name}" filter plugin: {status.message}',))


def _rejected_by_pre_filter(outcome: PreFilterOutcome, node_count: int) -> FitError:
    status = outcome.status
    if status.code is Code.ERROR:
        error = f'running PreFilter plugin "{status.plugin}": {status.message}'
        return FitError(node_count, error=error)
    names = frozenset((status.plugin,)) if status.plugin else frozenset[str]()
    if not status.plugin or status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        # An unresolvable rejection ends PreFilter at once and alone counts; any other leaves the
        # plugins that narrowed the search responsible as well.
        names |= frozenset(outcome.narrowed_by)
    return FitError(node_count, status.message, plugins=names)


def _first_error(pod: PreparedPod, filtered: FilterOutcome) -> str:
    """Of the node whose name comes first, so that it does not matter in which order nodes were asked."""
    failed = (filtered.codes == Code.ERROR).nonzero()[0].tolist()
    if not failed:
        return ""
    name_of = pod.cluster.nodes.name_of
    first = min(failed, key=lambda position: name_of(filtered.rows.item(position)))
    return status_of(pod.framework, filtered, first).message
