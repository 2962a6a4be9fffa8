"""What PostFilter came to, as values that can be compared."""

from typing import Any

from shared.framework.post_filter import PostFilterResult


def said(result: PostFilterResult) -> tuple[Any, ...]:
    """All that anybody is told; why nodes failed only where none is a candidate, since a search that
    found some did not look at each."""
    preemption = result.preemption
    if preemption is None:
        return (result.status, result.freed_claims)
    candidates = preemption.candidates.all()
    return (
        result.status, result.freed_claims, preemption.potential.tolist(), candidates,
        preemption.best, preemption.tied, preemption.is_open, preemption.ends_nomination,
        [] if candidates else list(preemption.failed),
    )  # fmt: skip
