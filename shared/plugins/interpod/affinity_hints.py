"""Events that help pods that InterPodAffinity rejected.

Rules: `EventsToRegister` and its hints in pkg/scheduler/framework/plugins/interpodaffinity/plugin.go,
v1.36.2.
"""

from collections.abc import Sequence
from typing import Final

from shared.errors import ObjectError
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView
from shared.kube.api.core_v1 import Node
from shared.selectors.label_selector import Labels
from shared.selectors.pod_terms import NO_LABELS, PodTerm, PodTerms


def after_pod_change(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """A pod came that this one wants to be with, or went that it cannot be with.

    All terms together are compared: the plugin looks for one pod that satisfies all of them.
    """
    was, now = change.both(PodView)
    if change.is_of(pod):
        return True
    if any(view is not None and not view.holds_node for view in (was, now)):
        return False
    terms = _terms(pod.info)
    has_come = _mean(terms.affinity, now) and not _mean(terms.affinity, was)
    has_gone = _mean(terms.anti_affinity, was) and not _mean(terms.anti_affinity, now)
    if has_come or has_gone:
        return True
    return now is None and was is not None and _mean(_terms(was.info).anti_affinity, pod)


def classes_meant(change: Change, cluster: ClusterView) -> set[int] | None:
    """Those with terms about the pod that came or went, as far as its own do not matter."""
    was, now = change.both(PodView)
    if now is None and was is not None and was.info.pod_terms.anti_affinity:
        return None
    index = cluster.class_index
    return {
        class_id
        for view in (was, now)
        if view is not None
        for class_id, _ in index.with_terms_about(view.record.namespace, view.info.labels)
    }


def after_node_change(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """A topology domain that the pod's terms name gained or lost a node.

    Affinity is helped by a node that joins a domain, anti-affinity also by one that leaves it.
    """
    was, now = change.both(Node)
    had, has = _labels(was), _labels(now)
    terms = _terms(pod.info)
    for term in terms.affinity:
        key = term.topology_key
        if key in has and has[key] != had.get(key):
            return True
    for term in terms.anti_affinity:
        key = term.topology_key
        if was is None or (key in had and had[key] != has.get(key)):
            return True
    return False


EVENTS: Final = (
    ClusterEventWithHint(
        Resource.POD,
        (Action.ADD, Action.DELETE, Action.UPDATE_POD_LABEL),
        after_pod_change,
        classes=classes_meant,
    ),
    ClusterEventWithHint(Resource.NODE, (Action.ADD, Action.UPDATE_NODE_LABEL), after_node_change),
)


def _terms(pod: PodInfo) -> PodTerms:
    terms = pod.pod_terms
    if terms.errors:
        raise ObjectError("pod affinity", "; ".join(terms.errors))
    return terms


def _mean(terms: Sequence[PodTerm], view: PodView | None) -> bool:
    """Whether the pod is one of those that all of the terms mean. A namespaceSelector is asked about no
    labels at all, as the plugin's hint does upstream."""
    if view is None or not terms:
        return False
    return all(term.matches(view.record.namespace, NO_LABELS, view.info.labels) for term in terms)


def _labels(node: Node | None) -> Labels:
    return (node.metadata.labels or NO_LABELS) if node is not None else NO_LABELS
