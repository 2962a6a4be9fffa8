"""What is to be written to the status of pending pods (why one was not placed, where it is nominated),
and of pod groups, until a binder is told.

What a turn says of a pod is one patch, whoever says it, as it is one request upstream: `updatePod` in
pkg/scheduler/schedule_one.go, v1.36.2.
"""

import msgspec

from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_record import PodRecord, why_digest
from shared.kube.well_known import POD_GROUP_SCHEDULED
from shared.limits import VERDICT_LENGTH_MAX, VERDICTS_MAX
from shared.messages.to_binder import StatusPatch


class StatusPatches:
    """Those that no binder was told yet: one of each pod."""

    def __init__(self) -> None:
        self.by_uid: dict[str, StatusPatch] = {}

    def add(self, patch: StatusPatch) -> None:
        older = self.by_uid.pop(patch.uid, None)
        self.by_uid[patch.uid] = patch if older is None else patch.over(older)
        if len(self.by_uid) > VERDICTS_MAX:
            del self.by_uid[next(iter(self.by_uid))]

    def drop(self, uid: str) -> None:
        """The pod is gone, or on its way to a node: what is written after its binding would stay."""
        self.by_uid.pop(uid, None)

    def recall(self, uid: str) -> bool:
        """Takes back that the pod is nominated; says whether there was something to be taken back."""
        patch = self.by_uid.get(uid)
        if patch is None or not patch.nominated_node_name:
            return False
        self.by_uid[uid] = msgspec.structs.replace(patch, nominated_node_name=None)
        if not patch.reason:
            del self.by_uid[uid]
        return True

    def take(self) -> list[StatusPatch]:
        """All of them, by age; they are somebody else's from now on."""
        patches = list(self.by_uid.values())
        self.by_uid.clear()
        return patches


def verdict_of(
    ticket: int, record: PodRecord, profile: str, message: str, *, is_error: bool
) -> StatusPatch:
    """Of a pod that no node takes, or that could not be looked at."""
    reason = "SchedulerError" if is_error else "Unschedulable"
    message = message[:VERDICT_LENGTH_MAX]
    told = record.told_why
    return StatusPatch(
        profile=profile,
        namespace=record.namespace,
        name=record.name,
        uid=record.uid,
        reason=reason,
        message=message,
        write_event=True,
        resource_version=record.resource_version,
        observed_generation=record.generation,
        ticket=ticket,
        is_same_status=bool(told),
        is_told=bool(told) and told == why_digest(reason, message),
    )


def nomination_of(ticket: int, record: PodRecord, node_name: str) -> StatusPatch:
    """Of a pod that has room kept on a node; on none any more, if that is empty."""
    who = record.namespace, record.name, record.uid
    return StatusPatch("", *who, ticket=ticket, nominated_node_name=node_name)


def group_verdict(
    group: PodGroup, message: str, *, is_scheduled: bool, is_error: bool = False
) -> StatusPatch | None:
    """Of a group that was tried. None where its condition says so already, or says that it was scheduled
    before, which later pods of it do not take back (updatePodGroupCondition in
    pkg/scheduler/schedule_one_podgroup.go, v1.36.2)."""
    meta = group.metadata
    verdict = StatusPatch(
        profile="",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        reason="Scheduled" if is_scheduled else "SchedulerError" if is_error else "Unschedulable",
        message=message[:VERDICT_LENGTH_MAX],
        write_event=False,
        observed_generation=meta.generation,
        is_group=True,
        is_scheduled=is_scheduled,
    )
    for held in group.status.conditions or ():
        if held.type == POD_GROUP_SCHEDULED:
            is_same = (held.reason, held.message) == (verdict.reason, verdict.message)
            is_same &= (held.observed_generation or 0) == meta.generation
            is_same_status = held.status == ("True" if is_scheduled else "False")
            if (is_same_status and is_same) or (held.status == "True" and not is_scheduled):
                return None
            return msgspec.structs.replace(verdict, is_same_status=is_same_status)
    return verdict
