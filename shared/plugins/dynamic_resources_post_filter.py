"""What DynamicResources says in PostFilter of pods without claims.

Apart from the plugin, which is not built yet, because its words stand in the message of every pod
that fits nowhere, also where nobody uses claims. It goes when DynamicResources comes.
Rules: `PostFilter` in pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36.2.
"""

from collections.abc import Collection
from typing import ClassVar, Final

from shared.framework.post_filter import FailedAttempt, PostFilterResult
from shared.framework.status import Code, Status
from shared.plugin_names import DYNAMIC_RESOURCES

NO_CLAIMS: Final = Status(Code.UNSCHEDULABLE, ("no new claims to deallocate",))
NO_STATE: Final = Status(Code.ERROR, ("not found",))
"""PreFilter ended before this plugin had its turn, so it does not find what it would have kept."""


class DynamicResourcesPostFilter:
    """PostFilter alone."""

    NAME: ClassVar[str] = DYNAMIC_RESOURCES

    def __init__(self, earlier_plugins: Collection[str]) -> None:
        """`earlier_plugins` run their PreFilter before this one would."""
        self._earlier = frozenset(earlier_plugins)

    def post_filter(self, attempt: FailedAttempt) -> PostFilterResult:
        outcome = attempt.outcome
        is_cut_short = outcome.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        if is_cut_short and next(reversed(outcome.each), "") in self._earlier:
            return PostFilterResult(NO_STATE)
        return PostFilterResult(NO_CLAIMS)
