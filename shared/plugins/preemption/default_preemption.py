"""DefaultPreemption as a plugin: who may preempt, and how many nodes are looked at.

Rules: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, v1.36.2
(`PodEligibleToPreemptOthers`, `GetOffsetAndNumCandidates`).
"""

from typing import ClassVar, Final

from shared.framework.plugin_args import ArgsStruct, out_of_range
from shared.framework.post_filter import FailedAttempt, PostFilterResult, Preemption
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import Code, Status
from shared.kube.api.meta_v1 import Int32
from shared.plugin_names import DEFAULT_PREEMPTION

NEVER: Final = "Never"
"""The preemptionPolicy of pods that make nobody go."""
NEVER_POLICY: Final = "not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."


class DefaultPreemptionArgs(ArgsStruct):
    min_candidate_nodes_percentage: Int32 = 10
    """Of the nodes that may help, so many percent are tried ..."""
    min_candidate_nodes_absolute: Int32 = 100
    """... but not fewer than this."""

    def problems(self) -> list[str]:
        percentage = self.min_candidate_nodes_percentage
        absolute = self.min_candidate_nodes_absolute
        problems = out_of_range("minCandidateNodesPercentage", percentage, 0, 100)
        if absolute < 0:
            problems.append(f"minCandidateNodesAbsolute: {absolute} must not be negative")
        if percentage == 0 and absolute == 0:
            problems.append(
                "minCandidateNodesPercentage: this and minCandidateNodesAbsolute cannot both be 0"
            )
        return problems


class DefaultPreemption:
    """PostFilter."""

    NAME: ClassVar[str] = DEFAULT_PREEMPTION
    reads_labels: ClassVar[frozenset[str]] = frozenset()
    answers_for_class: ClassVar[bool] = True

    def __init__(self, args: DefaultPreemptionArgs) -> None:
        self._args = args

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """None: the owner itself holds a pod in PreEnqueue while its victims are asked to go."""
        return ()

    def post_filter(self, attempt: FailedAttempt) -> PostFilterResult:
        reason = attempt.forbidden or ineligible_reason(attempt)
        if reason:
            preemption = Preemption(refusal(reason), ineligible_reason=reason)
        else:
            preemption = attempt.preempt(attempt, self.candidates_wanted)
        return PostFilterResult(preemption.status, preemption)

    def candidates_wanted(self, potential_count: int) -> int:
        """After so many candidates the search ends."""
        args = self._args
        wanted = potential_count * args.min_candidate_nodes_percentage // 100
        return min(max(wanted, args.min_candidate_nodes_absolute), potential_count)


def refusal(text: str) -> Status:
    """What PostFilter says where no room is made."""
    return Status(Code.UNSCHEDULABLE, (f"preemption: {text}",), DEFAULT_PREEMPTION)


def ineligible_reason(attempt: FailedAttempt) -> str:
    """Why the pod may not preempt now; empty if it may."""
    pod = attempt.pod
    if pod.info.spec.preemption_policy == NEVER:
        return NEVER_POLICY
    cluster, row = pod.cluster, pod.nominated_row
    if row < 0 or not cluster.nodes.present[row]:
        return ""
    if _code_of(row, attempt) == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    pods = cluster.pods
    going = pods.rows_on(row)
    going = going[pods.is_preempted[going]]
    is_lower = cluster.usages.priorities(pods.class_id[going]) < pod.info.priority
    return VICTIMS_TERMINATING if is_lower.any() else ""


def _code_of(row: int, attempt: FailedAttempt) -> int:
    """The code of one node; nodes that were not looked at have that of PreFilter. One that passes the
    filters was refused by an extender: for good, unless it said otherwise."""
    status, filtered = attempt.pod.outcome.status, attempt.filtered
    if not status.is_success:
        return status.code
    if row in attempt.refused:
        return Code.UNSCHEDULABLE
    code = filtered.codes[filtered.rows == row]
    return int(code[0]) if code.any() else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
