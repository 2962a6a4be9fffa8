"""Stretches: pods in a row that are checked by one call.

Each placement may keep away the next: it takes room on its node, and where pods elsewhere matter, it
counts there. Pods that are the same to the checker and come to distinct nodes take no room from each
other, and how many may come where others beyond their node matter, plugins tell by domains
(`CrowdingFilter`). So all of a stretch that pass at its beginning pass in turn, too.
"""

from collections import Counter
from collections.abc import Hashable, Sequence

from daemon.core.checker import Checker
from daemon.core.dispatch import Placed
from daemon.core.pod_classes import PodClass
from shared.columns.topology import NO_DOMAIN
from shared.dra.device_index import takes_devices
from shared.errors import ObjectError
from shared.faults import reading
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Crowding
from shared.framework.pod_info import PodInfo


class Stretch:
    """Rows that pods of a class come to without keeping each other away."""

    __slots__ = ("_are_nominated", "_crowded", "rows")

    def __init__(
        self, class_id: int, info: PodInfo, checker: Checker, view: ClusterView, first_row: int
    ) -> None:
        self.rows = {first_row}
        self._are_nominated = len(view.nominations) > 0
        """Pods that come on top, each where its own node is asked about alone."""
        self._crowded = _crowded_domains(class_id, info, checker, view)
        """Of each topology, and how many have come to its domains; None: no other pod comes in."""
        if not self._takes_domains(first_row):
            self._crowded = None

    def takes(self, row: int) -> bool:
        """Whether a pod that comes to the row goes on with the stretch."""
        if row in self.rows or self._crowded is None or not self._takes_domains(row):
            return False
        self.rows.add(row)
        return True

    def _takes_domains(self, row: int) -> bool:
        """Whether nobody is kept away by who came to the domains of the row; this one has then."""
        for (domain_of_row, room_in), counts in self._crowded or ():
            if not 0 <= row < len(domain_of_row):
                return False  # Of a copy that is not ours.
            domain = domain_of_row.item(row)
            count = counts[domain]
            if count and (self._are_nominated or count >= room_in(domain)):
                return False
            if domain != NO_DOMAIN:
                counts[domain] = count + 1
        return True


def end_of_stretch(known: Sequence[Placed], begin: int, checker: Checker, view: ClusterView) -> int:
    """Where the stretch ends that begins there. It is looked for when the one before is dealt with:
    which pods are the same may have changed by it."""
    nominations = view.nominations if len(view.nominations) else None
    first, first_row = known[begin]
    # The nomination of one pod takes room from the others, not from itself.
    if nominations is not None and nominations.get(first.pod.record.uid) is not None:
        return begin + 1
    first_class, key, stretch = first.pod_class, None, None
    for at in range(begin + 1, len(known)):
        attempt, row = known[at]
        if row == first_row:
            return at
        if attempt.pod_class is not first_class:
            if not first_class.info.takes_claims:
                return at
            key = _key_of(first_class, checker) if key is None else key
            if _key_of(attempt.pod_class, checker) != key:
                return at
        if nominations is not None and nominations.get(attempt.pod.record.uid) is not None:
            return at
        if stretch is None:
            stretch = Stretch(first_class.class_id, first_class.info, checker, view, first_row)
        if not stretch.takes(row):
            return at
    return len(known)


def _key_of(pod_class: PodClass, checker: Checker) -> Hashable:
    try:
        with reading("class", pod_class.class_id):
            return checker.key_of(pod_class.class_id, pod_class.info, pod_class.profile)
    except ObjectError:
        return pod_class.class_id  # And comes out where it is checked.


def _crowded_domains(
    class_id: int, info: PodInfo, checker: Checker, view: ClusterView
) -> list[tuple[Crowding, Counter[int]]] | None:
    profile = info.spec.scheduler_name
    try:
        with reading("class", class_id):
            if takes_devices(info, view):
                return None
            if info.takes_claims and checker.key_of(class_id, info, profile) == class_id:
                return None
            crowded = checker.known(class_id, info, profile).crowded_domains(class_id)
    except ObjectError:
        return None  # And comes out where it is checked.
    return None if crowded is None else [(each, Counter()) for each in crowded]
