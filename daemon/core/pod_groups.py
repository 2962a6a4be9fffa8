"""Pod groups: whose pods are tried together, and when.

A group is a unit of work. When a pod of it is popped, all of it that waits leaves the queue with it and
goes to one scorer as one batch (`units`), and the committer lets all of that pass or none
(`group_commits.py`). So nobody waits at Permit for others, and two gangs never hold half of what each
needs. Pods that come while their group is out with a scorer wait until that is settled.

What is known of a group here is which pods name it. The rest is asked when it is needed: the cache says
who has a node, the PodGroup how many are wanted.

Rules: pkg/scheduler/schedule_one_podgroup.go, backend/cache/podgroupstate.go, v1.36.2.
"""

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from daemon.core.cache import Cache
from daemon.core.queue.queued_pod import QueuedPod
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_group_rules import (
    lets_in,
    needed,
    not_found,
    priority_of,
    quorum,
    topology_keys_of,
)
from shared.kube.pod_record import PodRecord
from shared.kube.resources import POD_GROUPS
from shared.messages.to_scorer import GroupPreemption, GroupTask, PlacementTask, TopologyLevel
from shared.plugin_names import GANG_SCHEDULING
from shared.plugins.preemption.default_preemption import NEVER, NEVER_POLICY

NO_PREEMPTION: Final = (
    "default preemption plugin is not registered, workload aware preemption is disabled"
)
NOT_WITH_CONSTRAINTS: Final = (
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)
NO_GROUP: Final = "pod group for pod not found"
NOT_ELIGIBLE: Final = "not eligible due to placement-based pod group scheduling limitation"
AS_A_WHOLE: Final = "not eligible due to workload aware preemption enabled"


class GroupSettings(msgspec.Struct, frozen=True):
    gating_profiles: frozenset[str] = frozenset()
    """Those with GangScheduling's PreEnqueue: in others no pod waits until a quorum is there."""
    gang_profiles: frozenset[str] = frozenset()
    """Those with its Permit: in others no pod waits until a quorum has found a place."""
    placing_profiles: frozenset[str] | None = None
    """With the gate TopologyAwareWorkloadScheduling: those with the plugin TopologyPlacementGenerator,
    in which topology constraints count."""
    preempting_profiles: frozenset[str] | None = None
    """With the gate WorkloadAwarePreemption: those that have the plugin DefaultPreemption anywhere. Room
    is made for a group as a whole then. None: for each of its pods by itself."""
    are_foreign: bool = False
    """Other schedulers', who write their status, and do not know their priority."""
    reservation_s: float = 0.0
    """How long a gang waits before room is held for it, and for how long; 0: never."""
    is_on: bool = True
    """The gate GenericWorkload; without it pods are placed one by one, whatever group they name."""


NO_GROUPS: Final = GroupSettings(is_on=False)


class Unit(msgspec.Struct):
    """Pods that are tried in one go, in order."""

    pods: list[QueuedPod]
    key: str = ""
    """Of their group; empty for pods that are in none."""


class PodGroups:
    def __init__(self, cache: Cache, settings: GroupSettings) -> None:
        self._cache = cache
        self._settings = settings
        self._preempts_as_a_whole = settings.preempting_profiles is not None
        self._pods: dict[str, dict[str, None]] = {}
        """Key -> uids."""
        self._late: dict[str, list[QueuedPod]] = {}
        """Key of a group that is out with a scorer -> pods of it that came since."""
        self._refused: dict[str, frozenset[str]] = {}
        """Key -> pods (uids) without which the next try is, as for `tried_without`."""
        self._left_out: dict[str, frozenset[str]] = {}
        """The same of the try that is under way, or was the last."""

    @property
    def is_used(self) -> bool:
        return bool(self._pods)

    def of(self, key: str) -> PodGroup | None:
        group: PodGroup | None = self._cache.objects.get(POD_GROUPS.plural, key)
        return group

    def add(self, record: PodRecord) -> Collection[str]:
        """A pod is there. Returns the pods (uids) that it may let in: all, if it completes a quorum."""
        key = record.group_key
        pods = self._pods.setdefault(key, {})
        if record.uid in pods:
            return ()
        pods[record.uid] = None
        return pods if len(pods) == quorum(self.of(key)) else ()

    def remove(self, record: PodRecord) -> None:
        pods = self._pods.get(record.group_key)
        if pods is not None:
            pods.pop(record.uid, None)
            if not pods:
                del self._pods[record.group_key]
                self._refused.pop(record.group_key, None)
                self._left_out.pop(record.group_key, None)

    def uids(self, key: str) -> Collection[str]:
        return self._pods.get(key, {})

    def gate_of(self, pod: QueuedPod) -> str | None:
        """GangScheduling, if it keeps the pod out."""
        if pod.pod_class.profile not in self._settings.gating_profiles:
            return None
        key = pod.record.group_key
        is_let_in = lets_in(self.of(key), len(self._pods.get(key, ())))
        return None if is_let_in else GANG_SCHEDULING

    def units(self, popped: Iterable[QueuedPod]) -> list[Unit]:
        """Pods as they were popped, those of a group where the first of it was. What is left out are
        pods of groups that are out with a scorer: they are told of by `settled`."""
        units: list[Unit] = []
        by_key: dict[str, Unit] = {}
        for pod in popped:
            key = pod.record.group_key if pod.record.group else ""
            if key in self._late:
                self._late[key].append(pod)
            elif key in by_key:
                by_key[key].pods.append(pod)
            elif not key and units and not units[-1].key:
                units[-1].pods.append(pod)
            else:
                units.append(Unit([pod], key))
                if key:
                    by_key[key] = units[-1]
        return units

    def tried_without(self, key: str, uids: Iterable[str]) -> None:
        """Reserve or Permit has refused these pods, and others of their group are tried again at once,
        as what was found for them counted on these. Together they would be tried for ever, each time in
        the same way; upstream asks these plugins before it looks at the next pod."""
        self._refused[key] = frozenset(uids) | self._left_out.get(key, frozenset())

    def mates(self, key: str) -> list[str]:
        """The pods (uids) of a group that are tried when one of them is."""
        refused = self._left_out[key] = self._refused.pop(key, frozenset())
        return [uid for uid in self.uids(key) if uid not in refused]

    def begin(self, unit: Unit, *, may_hold: bool = False) -> GroupTask | str:
        """A group goes out with a scorer, its pods in the order of podGroupInfoForPod upstream; or why
        it cannot be tried as a whole. `may_hold`: room may be held for it."""
        # Between pods of one moment, too, the order is that of the last attempt: what one was given room
        # for beside the others would not do otherwise.
        places = {uid: place for place, uid in enumerate(self.uids(unit.key))}
        unit.pods.sort(
            key=lambda pod: (-pod.priority, pod.initial_attempt_s or 0.0, places.get(pod.uid, 0))
        )
        profiles = dict.fromkeys(pod.pod_class.profile for pod in unit.pods)
        if len(profiles) > 1:
            first, second, *_ = profiles
            told = "all pods in a single pod group should have the same .spec.schedulerName set"
            return f'{told}, got: "{first}" and "{second}"'
        placements = self._placements(unit)
        if isinstance(placements, str):
            return placements
        self._late[unit.key] = []
        needed_count = self.needed(unit.key, unit.pods[0])
        hold = None
        if may_hold:
            hold = GroupPreemption("", 1 + min(pod.priority for pod in unit.pods))
        forbidden = self._why_no_pod_preempts(self.of(unit.key), placements)
        return GroupTask(needed_count, placements, self._preemption(unit), hold, forbidden)

    def _placements(self, unit: Unit) -> PlacementTask | str | None:
        placing = self._settings.placing_profiles
        if placing is None:
            return None
        group = self.of(unit.key)
        is_placed = unit.pods[0].pod_class.profile in placing
        if is_placed and group is None:
            return not_found(unit.key)
        levels: list[TopologyLevel] = []
        problem = ""
        for topology_key in topology_keys_of(group) if is_placed else ():
            domain, problem = self._domain(unit.key, topology_key)
            if not problem:  # Else its pods are spread wider than that already.
                levels.append(TopologyLevel(topology_key, domain))
        if problem:  # Of the last level they have to be in one domain.
            return f"cannot determine domain for already scheduled pods: {problem}"
        return PlacementTask(levels, self.scheduled_count(unit.key))

    def _domain(self, key: str, topology_key: str) -> tuple[str | None, str]:
        """Where the pods of a group are that have a node (getScheduledPodsTopologyDomain upstream); or
        why that cannot be said."""
        domain: str | None = None
        for held in self._cache.grouped.get(key, {}).values():
            info = self._cache.node_info(held.node_name)
            if info is None or info.node is None:
                problem = f'nodeinfo not found for node name "{held.node_name}"'
                return None, f"getting node for pod {held.record.key}: {problem}"
            found = (info.node.metadata.labels or {}).get(topology_key)
            if found is None:
                return None, f"no topology domain found for pod {held.record.key}"
            if domain not in (None, found):
                return None, f"more than 1 domain found for pod group: {domain}, {found}"
            domain = found
        return domain, ""

    def preemptor_uid(self, record: PodRecord) -> str:
        """Who makes room where a pod has none: the pod, or its group as a whole."""
        group = self.of(record.group_key) if record.group and self._preempts_as_a_whole else None
        return record.uid if group is None else group.metadata.uid

    def preemption_problem(self, key: str, pod: QueuedPod) -> str:
        """Why nobody can say whether room is to be made for the group of `pod`; empty where somebody
        can, or none is ever made."""
        preempting = self._settings.preempting_profiles or ()
        if pod.pod_class.profile not in preempting or self.of(key) is not None:
            return ""
        return f"failed to get pod group object: {not_found(key)}"

    def permit_problem(self, key: str, pod: QueuedPod) -> str:
        """Why nobody can say whether `pod`, of that group, may have the place that it found; empty where
        somebody can."""
        if pod.pod_class.profile not in self._settings.gang_profiles or self.of(key) is not None:
            return ""
        running = f'running Permit plugin "{GANG_SCHEDULING}"'
        return f"{running}: failed to get podGroup {key}: {not_found(key)}"

    def _preemption(self, unit: Unit) -> GroupPreemption | None:
        if not self._preempts_as_a_whole:
            return None
        group = self.of(unit.key)
        refusal = self._why_nobody_goes(unit, group)
        if refusal or group is None:
            return GroupPreemption(refusal)
        return GroupPreemption("", self.priority(group, unit.pods))

    def _why_no_pod_preempts(self, group: PodGroup | None, placements: PlacementTask | None) -> str:
        """By itself, in upstream's order (PostFilter of DefaultPreemption). Constraints count there
        without a key, too."""
        if placements is not None and group is None:
            return NO_GROUP
        constraints = None if group is None else group.spec.scheduling_constraints
        if placements is not None and (placements.levels or constraints is not None):
            return NOT_ELIGIBLE
        return AS_A_WHOLE if self._preempts_as_a_whole else ""

    def _why_nobody_goes(self, unit: Unit, group: PodGroup | None) -> str:
        """In upstream's order (`runWorkloadAwarePreemption`, `preemptorEligibleToPreemptOthers`)."""
        if unit.pods[0].pod_class.profile not in (self._settings.preempting_profiles or ()):
            return NO_PREEMPTION
        if topology_keys_of(group):
            return NOT_WITH_CONSTRAINTS
        if any(pod.info.spec.preemption_policy == NEVER for pod in unit.pods):
            return NEVER_POLICY
        return ""

    def priority(self, group: PodGroup, pods: Iterable[QueuedPod]) -> int:
        """Of a group as a whole, of which these pods are to be placed. Other schedulers have none but
        that of pods (Volcano a class, which pods have as well): then nobody goes who matters as much as
        any of them."""
        if self._settings.are_foreign:
            return min(pod.priority for pod in pods)
        return priority_of(group)

    def needed(self, key: str, pod: QueuedPod) -> int:
        """So many of the pods of `pod`'s group have to find a place now."""
        has_quorums = pod.pod_class.profile in self._settings.gang_profiles
        group = self.of(key) if has_quorums else None
        return needed(group, self.scheduled_count(key))

    def wanted_count(self, key: str) -> int:
        """So many pods of a group have to find a place together; 0: each may alone."""
        return quorum(self.of(key))

    def scheduled_count(self, key: str) -> int:
        """Pods of a group that are on a node, or assumed."""
        return len(self._cache.grouped.get(key, {}))

    def unplaced_uid(self, record: PodRecord) -> str:
        """The uid of a pod's group, of which no pod has a node; empty: there is none, or some has."""
        group = self.of(record.group_key) if record.group else None
        is_placed = group is None or self.scheduled_count(record.group_key) > 0
        return "" if group is None or is_placed else group.metadata.uid

    def settled(self, key: str) -> list[QueuedPod]:
        """A group is not out with a scorer any more. Returns the pods that waited for that."""
        return self._late.pop(key, [])
