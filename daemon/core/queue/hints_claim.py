"""Hints of DynamicResources: claims for devices.

Rules: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36.
"""

from daemon.core.queue.queued_pod import PodView, QueuedPod
from daemon.core.queue.wakeups import Change, Hint, as_kind
from shared.framework.cluster_view import ObjectStore
from shared.kube.objects import ResourceClaim
from shared.kube.pod_record import PodRecord, PodTemplate


class DynamicResourcesHints:
    """Looks up the pod's claims: without all of them no change of one can help."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def after_claim_change(self, pod: QueuedPod, change: Change) -> Hint:
        """Some claim freed its devices, or a claim of the pod is new or has another status."""
        was, now = as_kind(ResourceClaim, change.old), as_kind(ResourceClaim, change.new)
        claims = self._claims_of(pod.record, pod.info.template)
        if now is None or claims is None:
            return Hint.SKIP
        if was is not None and was.status.allocation and not now.status.allocation:
            return Hint.QUEUE
        if all(claim.metadata.uid != now.metadata.uid for claim in claims):
            return Hint.SKIP
        return Hint.QUEUE if was is None or was.status != now.status else Hint.SKIP

    def after_own_generated_claim(self, pod: QueuedPod, change: Change) -> Hint:
        """The claims that the pod waited for are made and named in its status."""
        now = as_kind(PodView, change.new)
        if now is None or now.record.uid != pod.record.uid:
            return Hint.SKIP
        is_complete = self._claims_of(now.record, now.info.template) is not None
        return Hint.QUEUE if is_complete else Hint.SKIP

    def _claims_of(self, record: PodRecord, template: PodTemplate) -> list[ResourceClaim] | None:
        """The pod's claims; None while one is missing, on its way out, or another pod's."""
        generated = {}
        if template.status is not None:
            for status in template.status.resource_claim_statuses or ():
                generated[status.name] = status.resource_claim_name
        found = []
        for reference in template.spec.resource_claims or ():
            name = reference.resource_claim_name
            is_generated = name is None
            if is_generated:
                if reference.name not in generated:
                    return None
                name = generated[reference.name]
                if name is None:
                    # Nothing had to be made for this reference.
                    continue
            claim = self._objects.get("resourceclaims", f"{record.namespace}/{name}")
            if claim is None or claim.metadata.deletion_timestamp:
                return None
            if is_generated and not _is_owned_by(claim, record.uid):
                return None
            found.append(claim)
        return found


def _is_owned_by(claim: ResourceClaim, uid: str) -> bool:
    return any(
        owner.controller and owner.uid == uid for owner in claim.metadata.owner_references or ()
    )
