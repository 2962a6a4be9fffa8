"""What is told of a pod that was not placed: its PodScheduled condition and event."""

from shared.kube.pod_record import PodRecord
from shared.messages.to_binder import PodVerdict


def verdict_of(record: PodRecord, profile: str, message: str, *, is_error: bool) -> PodVerdict:
    """Of a pod that no node takes, or that could not be looked at."""
    return PodVerdict(
        profile=profile,
        namespace=record.namespace,
        name=record.name,
        uid=record.uid,
        reason="SchedulerError" if is_error else "Unschedulable",
        message=message,
        write_event=True,
        resource_version=record.resource_version,
        observed_generation=record.generation,
    )
