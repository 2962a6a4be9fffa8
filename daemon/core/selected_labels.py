"""Which labels of pods matter: those whose keys some selector names.

Pods of an indexed Job, of a StatefulSet or of thousands of Jobs are equal but for labels of their own
(an index, the name of the pod, the UID of the Job), and the API server labels a pod with zone and region
as it binds it. Where nobody selects by such a label, pods that differ in it alone are of one class.
Which keys are named is known before anything is evaluated: pods' own terms and constraints come with
their class, objects that select pods with their kind. A key stays named until the owner ends.
"""

from collections.abc import Callable, Iterable, Iterator

from shared.errors import UNDECODABLE
from shared.framework.pod_info import PodInfo
from shared.kube.api.apps_v1 import ReplicaSet, StatefulSet
from shared.kube.api.core_v1 import ReplicationController, Service
from shared.kube.api.meta_v1 import LabelSelector, OwnerReference
from shared.kube.api.policy_v1 import PodDisruptionBudget
from shared.kube.pod_record import PodRecord, with_fewer_labels
from shared.kube.resources import CONTROLLER_KINDS
from shared.limits import SELECTED_KEYS_MAX


class SelectedLabels:
    """The keys that are named, and templates of pods without the other labels."""

    def __init__(self, labels_read: frozenset[str] | None) -> None:
        """`labels_read`: plugins look at these besides; None: at any."""
        self.are_all = labels_read is None
        """All labels matter."""
        self._named = set(labels_read or ())
        self._news: set[str] = set()
        """Keys that were named since somebody last took them."""

    def name(self, keys: Iterable[str]) -> bool:
        """Some selector names these; says whether any is new."""
        new = set() if self.are_all else set(keys) - self._named
        self._named |= new
        self._news |= new
        self.are_all = self.are_all or len(self._named) > SELECTED_KEYS_MAX
        return bool(new)

    def without_others(self, template: bytes) -> bytes:
        """What matters of a pod's template."""
        if self.are_all:
            return template
        try:
            return with_fewer_labels(template, self._named, _is_selecting)
        except UNDECODABLE:
            return template  # Whoever reads it says what is wrong.

    @property
    def has_news(self) -> bool:
        """Pods may be of other classes than they were."""
        return bool(self._news)

    def take_news(self) -> Callable[[PodRecord], bool] | None:
        """Says of a pod whether it may be of another class by the keys that were named since this was
        last asked. Of all pods, so without reading them. None: no key was."""
        if not self.has_news:
            return None
        news = [b"" if self.are_all else key.encode() for key in self._news]
        self._news = set()

        def may_differ(record: PodRecord) -> bool:
            template = bytes(record.template)
            return any(key in template for key in news)

        return may_differ


def keys_of_pod(pod: PodInfo) -> Iterator[str]:
    """The keys by which a pod selects others, or says by which of its own it is like them."""
    for constraint in pod.spec.topology_spread_constraints or ():
        yield from _keys_of(constraint.label_selector)
        yield from constraint.match_label_keys or ()
    for term in pod.pod_terms.all:
        yield from (requirement.key for requirement in term.selector.requirements)


def keys_of_object(value: object) -> Iterator[str]:
    """The keys by which an object selects pods; none where it is of another kind."""
    match value:
        case Service() | ReplicationController():
            yield from value.spec.selector or ()
        case ReplicaSet() | StatefulSet() | PodDisruptionBudget():
            yield from _keys_of(value.spec.selector)
        case _:
            pass


def _keys_of(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels or ()
        for expression in selector.match_expressions or ():
            yield expression.key


def _is_selecting(controller: OwnerReference) -> bool:
    return (controller.api_version, controller.kind) in CONTROLLER_KINDS
