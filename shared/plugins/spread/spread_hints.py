"""Events that help pods that PodTopologySpread rejected: by hard constraints, as soft ones reject none.

Rules: `EventsToRegister` and its hints in pkg/scheduler/framework/plugins/podtopologyspread/plugin.go,
v1.36.2.
"""

from typing import Final

from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import (
    Change,
    ClusterEventWithHint,
    PodView,
    QueueingHint,
    queue_if,
)
from shared.kube.api.core_v1 import Node
from shared.plugins.spread.spread_constraints import HARD, SpreadConstraints
from shared.selectors.label_selector import Labels


class SpreadHints:
    """The plugin's events."""

    def _constraints(self, pod: PodInfo, cluster: ClusterView, action: str) -> SpreadConstraints:
        """Those of a pod with this whenUnsatisfiable: its own, or its profile's."""
        raise NotImplementedError

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        of_pods = Action.ADD, Action.DELETE, Action.UPDATE_POD_LABEL, Action.UPDATE_POD_TOLERATION
        of_nodes = Action.ADD, Action.DELETE, Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT
        return (
            ClusterEventWithHint(Resource.POD, of_pods, self._after_pod_change),
            ClusterEventWithHint(Resource.NODE, of_nodes, self._after_node_change),
        )

    def _after_pod_change(self, pod: PodView, change: Change, cluster: ClusterView) -> QueueingHint:
        """A pod that a constraint counts came, went or changed sides."""
        was, now = change.both(PodView)
        if any(view is not None and not _is_involved(view, pod) for view in (was, now)):
            return QueueingHint.SKIP
        constraints = self._constraints(pod.info, cluster, HARD)
        if was is not None and now is not None:
            return queue_if(_may_help(constraints, was, now, is_self=change.is_of(pod)))
        view = now or was
        assert view is not None, "an event has an object"
        return queue_if(any(c.selector.matches(view.info.labels) for c in constraints))

    def _after_node_change(
        self, pod: PodView, change: Change, cluster: ClusterView
    ) -> QueueingHint:
        """A node with all topology keys came, went, or moved to another domain or taint."""
        was, now = change.both(Node)
        keys = [constraint.key for constraint in self._constraints(pod.info, cluster, HARD)]
        had, has = _labels(was), _labels(now)
        was_counted = was is not None and all(key in had for key in keys)
        is_counted = now is not None and all(key in has for key in keys)
        if was is None or now is None or was_counted != is_counted:
            return queue_if(was_counted or is_counted)
        has_moved = any(had.get(key) != has.get(key) for key in keys)
        has_other_taints = (was.spec.taints or []) != (now.spec.taints or [])
        return queue_if(is_counted and (has_moved or has_other_taints))


def _is_involved(view: PodView, pod: PodView) -> bool:
    if view.record.uid == pod.record.uid:
        return True
    return view.holds_node and view.record.namespace == pod.record.namespace


def _may_help(constraints: SpreadConstraints, was: PodView, now: PodView, *, is_self: bool) -> bool:
    """Whether a pod tolerates more now, or counts for other constraints than before."""
    if (
        is_self
        and was.info.spec.tolerations != now.info.spec.tolerations
        and any(constraint.honors_taints for constraint in constraints)
    ):
        return True
    had, has = was.info.labels, now.info.labels
    return had != has and any(
        c.selector.matches(had) != c.selector.matches(has) for c in constraints
    )


def _labels(node: Node | None) -> Labels:
    return (node.metadata.labels or _NO_LABELS) if node is not None else _NO_LABELS


_NO_LABELS: Final[Labels] = {}
