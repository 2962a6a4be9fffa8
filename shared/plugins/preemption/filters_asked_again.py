"""Which filters preemption has to ask again, and about how many nodes at a time.

The simple way asks every filter about every node after every pod that is taken off or put back. But
what only a Node object changes is settled by the first answer; and where a filter looks beyond the node
(spread, affinity), nodes can be asked about together if it works out for many of them at once what would
be if each one's pods were gone (`FilterWithoutPods`). Else each question is put by itself, with all
counts made to follow.

Callers may rely on: nothing here changes an answer, only how many questions lead to it.
"""

from shared.framework.plugin_api import (
    Reads,
    Scope,
)
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.plans import MOVING
from shared.framework.runtime.prepared_pod import PreparedPod


def moving_part(framework: Framework) -> Framework:
    """The same without the filters that no pod moves. It passes the rows that the whole framework
    passed before, and passes now; its reasons are not those of the whole."""
    filters = [
        plugin
        for plugin in framework.filters
        if plugin.filter_depends.reads & MOVING or plugin.filter_depends.scope is not Scope.ROW
    ]
    return Framework(framework.profile_name, framework.pre_filters, filters, ())


def settled_by_row(pod: PreparedPod) -> Framework:
    """The active filters up to the first that looks beyond the row, in Filter or in PreFilter: whoever
    fails one of them fails for that reason, whatever is elsewhere."""
    plan = pod.plan
    wide = tuple(counting.filter_index for counting in plan.pod_counting)
    return pod.framework.derived(_before_any_wide, tuple(plan.active), wide)


def _before_any_wide(
    framework: Framework, active: tuple[int, ...], wide: tuple[int, ...]
) -> Framework:
    filters = []
    for index in active:
        plugin = framework.filters[index]
        if plugin.filter_depends.scope is not Scope.ROW or index in wide:
            break
        filters.append(plugin)
    return Framework(framework.profile_name, framework.pre_filters, filters, ())


def row_filters_read_pods(pod: PreparedPod) -> bool:
    """Whether some filter that looks at the node alone looks at the pods themselves, and not only at
    what they take."""
    depends = [pod.framework.filters[i].filter_depends for i in pod.plan.active]
    return any(each.scope is Scope.ROW and each.reads & Reads.PODS for each in depends)
