"""PostFilter: what is tried for a pod that fits nowhere, and what is said of it.

Apart from the run of the other extension points because a plugin here is given everything, the
framework itself included: it asks what the filters would say if things were different.

Rules: `RunPostFilterPlugins` in pkg/scheduler/framework/runtime/framework.go, v1.36.2.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

from shared.columns.schema import Rows
from shared.framework.candidates import NO_ROWS
from shared.framework.cluster_view import ClusterView
from shared.framework.dry_runs import DryRuns
from shared.framework.outcomes import FilterOutcome, PreFilterOutcome
from shared.framework.preemption import Preemption, TieBreak
from shared.framework.preemptor import Preemptor
from shared.framework.runtime import Framework
from shared.framework.status import Code, Status


class FailedAttempt(NamedTuple):
    """A pod that fits nowhere, and how that came out."""

    framework: Framework
    pod: Preemptor
    cluster: ClusterView
    outcome: PreFilterOutcome
    filtered: FilterOutcome
    """What the filters said of all candidate nodes; of none, where PreFilter rejected the pod."""
    tie_break: TieBreak
    offset: int = 0
    """Where among the nodes to begin a search."""
    refused: Rows = NO_ROWS
    """Nodes that pass the filters, and were refused by an extender for a reason that may go."""
    dry_runs: DryRuns | None = None
    """What is known from other pods of the class, if somebody keeps it."""


class PostFilterResult(NamedTuple):
    """Success: something was found that makes room; `preemption` says what."""

    status: Status
    preemption: Preemption | None = None
    freed_claims: tuple[str, ...] = ()
    """Keys of resource claims that nobody uses and whose devices the pod could use."""


class PostFilterPlugin(Protocol):
    """May find a way to make room."""

    NAME: ClassVar[str]

    def post_filter(self, attempt: FailedAttempt) -> PostFilterResult: ...


def run_post_filters(
    plugins: Sequence[PostFilterPlugin], attempt: FailedAttempt
) -> PostFilterResult:
    """Asks in order, until one succeeds or fails; what the others said is collected."""
    preemption: Preemption | None = None
    reasons: list[str] = []
    rejected_by = ""
    freed: tuple[str, ...] = ()
    for plugin in plugins:
        result = plugin.post_filter(attempt)
        status = result.status
        preemption = result.preemption or preemption
        freed += result.freed_claims
        if status.is_success:
            return PostFilterResult(status, result.preemption, freed)
        if status.code is not Code.UNSCHEDULABLE:
            return PostFilterResult(status._replace(plugin=plugin.NAME), preemption, freed)
        reasons += status.reasons
        rejected_by = rejected_by or plugin.NAME
    status = Status(Code.UNSCHEDULABLE, tuple(reasons), rejected_by)
    return PostFilterResult(status, preemption, freed)
