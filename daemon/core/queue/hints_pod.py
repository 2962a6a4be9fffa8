"""Hints of the plugins that compare pods with pods: inter-pod affinity and topology spread.

Files of the rules (under pkg/scheduler/framework/plugins, v1.36) are named with each.
"""

from collections.abc import Sequence
from typing import Final

from daemon.core.queue.queued_pod import PodView, QueuedPod
from daemon.core.queue.selectors import Labels, selects
from daemon.core.queue.wakeups import Change, Hint, as_kind
from shared.framework.pod_info import PodInfo
from shared.kube.objects import (
    Node,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
)

_NO_LABELS: Final[Labels] = {}


# InterPodAffinity: interpodaffinity/plugin.go -----------------------------------------------------


def affinity_after_pod_change(pod: QueuedPod, change: Change) -> Hint:
    """A pod came that this one wants to be with, or went that it cannot be with.

    All terms together are compared: the plugin looks for one pod that satisfies all of them.
    """
    was, now = as_kind(PodView, change.old), as_kind(PodView, change.new)
    if now is not None and now.record.uid == pod.record.uid:
        return Hint.QUEUE
    if any(view is not None and not view.holds_node for view in (was, now)):
        return Hint.SKIP
    wanted, unwanted = _affinity_terms(pod.info), _anti_affinity_terms(pod.info)
    has_come = _matches_all(wanted, pod, now) and not _matches_all(wanted, pod, was)
    has_gone = _matches_all(unwanted, pod, was) and not _matches_all(unwanted, pod, now)
    if has_come or has_gone:
        return Hint.QUEUE
    is_released = now is None and was is not None and _keeps_off(was, pod.view)
    return Hint.QUEUE if is_released else Hint.SKIP


def _keeps_off(holder: PodView, view: PodView) -> bool:
    """Whether a pod's own anti-affinity refuses the company of another pod."""
    terms = _anti_affinity_terms(holder.info)
    return bool(terms) and all(_matches(term, holder.record.namespace, view) for term in terms)


def affinity_after_node_change(pod: QueuedPod, change: Change) -> Hint:
    """A topology domain that the pod's terms name gained or lost a node.

    Affinity is helped by a node that joins a domain, anti-affinity also by one that leaves it.
    """
    was, now = as_kind(Node, change.old), as_kind(Node, change.new)
    had = _labels(was)
    has = _labels(now)
    for term in _affinity_terms(pod.info):
        key = term.topology_key
        if key in has and has[key] != had.get(key):
            return Hint.QUEUE
    for term in _anti_affinity_terms(pod.info):
        key = term.topology_key
        if was is None or (key in had and had[key] != has.get(key)):
            return Hint.QUEUE
    return Hint.SKIP


def _affinity_terms(info: PodInfo) -> Sequence[PodAffinityTerm]:
    affinity = info.spec.affinity
    return _required(affinity.pod_affinity if affinity is not None else None)


def _anti_affinity_terms(info: PodInfo) -> Sequence[PodAffinityTerm]:
    affinity = info.spec.affinity
    return _required(affinity.pod_anti_affinity if affinity is not None else None)


def _required(affinity: PodAffinity | None) -> Sequence[PodAffinityTerm]:
    if affinity is None:
        return ()
    return affinity.required_during_scheduling_ignored_during_execution or ()


def _matches_all(terms: Sequence[PodAffinityTerm], pod: QueuedPod, view: PodView | None) -> bool:
    if view is None or not terms:
        return False
    return all(_matches(term, pod.record.namespace, view) for term in terms)


def _matches(term: PodAffinityTerm, own_namespace: str, view: PodView) -> bool:
    """A namespaceSelector is asked about no labels at all, as the plugin's hint does upstream."""
    namespaces: Sequence[str] = term.namespaces or ()
    if not namespaces and term.namespace_selector is None:
        namespaces = (own_namespace,)
    if view.record.namespace not in namespaces and not selects(term.namespace_selector, _NO_LABELS):
        return False
    return selects(term.label_selector, view.info.labels)


# PodTopologySpread: podtopologyspread/plugin.go ---------------------------------------------------


class PodTopologySpreadHints:
    """Hard constraints only: a soft one never rejects a pod."""

    def __init__(self, *, has_hard_defaults: bool) -> None:
        self._has_hard_defaults = has_hard_defaults
        """Configured default constraints that reject. Their selectors come from services and
        workloads; rather than looking these up, every event wakes the pods that they apply to."""

    def after_pod_change(self, pod: QueuedPod, change: Change) -> Hint:
        """A pod that a constraint counts came, went or changed sides."""
        was, now = as_kind(PodView, change.old), as_kind(PodView, change.new)
        if any(view is not None and not _is_involved(view, pod) for view in (was, now)):
            return Hint.SKIP
        if self._is_defaulted(pod.info):
            return Hint.QUEUE
        constraints = _hard_constraints(pod.info)
        if was is not None and now is not None:
            return _after_pod_update(pod, constraints, was, now)
        view = now or was
        assert view is not None, "an event has an object"
        is_counted = any(_counts(c, pod.info, view.info.labels) for c in constraints)
        return Hint.QUEUE if is_counted else Hint.SKIP

    def after_node_change(self, pod: QueuedPod, change: Change) -> Hint:
        """A node with all topology keys came, went, or moved to another domain or taint."""
        if self._is_defaulted(pod.info):
            return Hint.QUEUE
        was, now = as_kind(Node, change.old), as_kind(Node, change.new)
        keys = [constraint.topology_key for constraint in _hard_constraints(pod.info)]
        was_counted = was is not None and _has_all(keys, _labels(was))
        is_counted = now is not None and _has_all(keys, _labels(now))
        if was is None or now is None or was_counted != is_counted:
            return Hint.QUEUE if was_counted or is_counted else Hint.SKIP
        has_moved = any(_labels(was).get(key) != _labels(now).get(key) for key in keys)
        has_other_taints = (was.spec.taints or []) != (now.spec.taints or [])
        return Hint.QUEUE if is_counted and (has_moved or has_other_taints) else Hint.SKIP

    def _is_defaulted(self, info: PodInfo) -> bool:
        return self._has_hard_defaults and not info.spec.topology_spread_constraints


def _after_pod_update(
    pod: QueuedPod,
    constraints: Sequence[TopologySpreadConstraint],
    was: PodView,
    now: PodView,
) -> Hint:
    is_self = now.record.uid == pod.record.uid
    has_new_tolerations = was.info.spec.tolerations != now.info.spec.tolerations
    if (
        is_self
        and has_new_tolerations
        and any(c.node_taints_policy == "Honor" for c in constraints)
    ):
        return Hint.QUEUE
    if was.info.labels == now.info.labels:
        return Hint.SKIP
    for constraint in constraints:
        was_counted = _counts(constraint, pod.info, was.info.labels)
        if was_counted != _counts(constraint, pod.info, now.info.labels):
            return Hint.QUEUE
    return Hint.SKIP


def _is_involved(view: PodView, pod: QueuedPod) -> bool:
    if view.record.uid == pod.record.uid:
        return True
    return view.holds_node and view.record.namespace == pod.record.namespace


def _hard_constraints(info: PodInfo) -> list[TopologySpreadConstraint]:
    constraints = info.spec.topology_spread_constraints or ()
    return [c for c in constraints if c.when_unsatisfiable == "DoNotSchedule"]


def _counts(constraint: TopologySpreadConstraint, info: PodInfo, labels: Labels) -> bool:
    """Whether a pod with these labels counts for the constraint of the pod that has it."""
    if not selects(constraint.label_selector, labels):
        return False
    keys = [key for key in constraint.match_label_keys or () if key in info.labels]
    return all(labels.get(key) == info.labels[key] for key in keys)


def _has_all(keys: Sequence[str], labels: Labels) -> bool:
    return all(key in labels for key in keys)


def _labels(node: Node | None) -> Labels:
    return (node.metadata.labels or _NO_LABELS) if node is not None else _NO_LABELS
