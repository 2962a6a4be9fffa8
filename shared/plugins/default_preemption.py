"""DefaultPreemption: makes room for a pod by letting less important ones go.

The search is `shared.framework.preemption`; this is its place in a profile, and its arguments.
Rules: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, v1.36.2.
"""

from typing import ClassVar

from shared.framework.plugin_args import DefaultPreemptionArgs
from shared.framework.post_filter import FailedAttempt, PostFilterResult
from shared.framework.preemption import PreemptionSettings, preempt
from shared.plugin_names import DEFAULT_PREEMPTION


class DefaultPreemption:
    """PostFilter."""

    NAME: ClassVar[str] = DEFAULT_PREEMPTION

    def __init__(self, args: DefaultPreemptionArgs) -> None:
        self._settings = PreemptionSettings(
            args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        )

    def post_filter(self, attempt: FailedAttempt) -> PostFilterResult:
        preemption = preempt(
            attempt.framework,
            attempt.pod,
            attempt.cluster,
            attempt.outcome,
            attempt.filtered,
            self._settings,
            attempt.tie_break,
            attempt.offset,
            attempt.refused,
            attempt.dry_runs,
        )
        return PostFilterResult(preemption.status, preemption)
