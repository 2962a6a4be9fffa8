"""What is told of a pod that was not placed (its PodScheduled condition and event), and of a pod group
(its PodGroupScheduled condition)."""

import msgspec

from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_record import PodRecord
from shared.limits import VERDICT_LENGTH_MAX, VERDICTS_MAX
from shared.messages.to_binder import POD_GROUP_SCHEDULED, PodVerdict


class PodVerdicts:
    """Those that no binder was told yet: the last of each pod."""

    def __init__(self) -> None:
        self._by_uid: dict[str, PodVerdict] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def add(self, verdict: PodVerdict) -> None:
        self._by_uid.pop(verdict.uid, None)
        self._by_uid[verdict.uid] = verdict
        if len(self._by_uid) > VERDICTS_MAX:
            del self._by_uid[next(iter(self._by_uid))]

    def take(self) -> list[PodVerdict]:
        """All of them, by age; they are somebody else's from now on."""
        verdicts = list(self._by_uid.values())
        self._by_uid.clear()
        return verdicts


def verdict_of(
    ticket: int, record: PodRecord, profile: str, message: str, *, is_error: bool
) -> PodVerdict:
    """Of a pod that no node takes, or that could not be looked at."""
    return PodVerdict(
        profile=profile,
        namespace=record.namespace,
        name=record.name,
        uid=record.uid,
        reason="SchedulerError" if is_error else "Unschedulable",
        message=message[:VERDICT_LENGTH_MAX],
        write_event=True,
        resource_version=record.resource_version,
        observed_generation=record.generation,
        ticket=ticket,
    )


def group_verdict(
    group: PodGroup, message: str, *, is_scheduled: bool, is_error: bool = False
) -> PodVerdict | None:
    """Of a group that was tried. None where its condition says so already, or says that it was scheduled
    before, which later pods of it do not take back (updatePodGroupCondition in
    pkg/scheduler/schedule_one_podgroup.go, v1.36.2)."""
    meta = group.metadata
    verdict = PodVerdict(
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
