"""Resource claims that are made for a pod: by the controller of claims, and by the scheduler. Pure.

As pkg/controller/resourceclaim/controller.go makes them of templates, v1.36.2; only that names are not
random: a pod's claims are called after it and after how it calls them.
"""

from typing import Final

import msgspec

from bench.perf.object_template import JsonObject
from shared.kube.binding_work import ClaimWork
from shared.kube.well_known import EXTENDED_RESOURCE_CLAIM, IS_ONE

POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
POD_MARK: Final = "berth-stand-in-for-the-pod"
POD_UID_MARK: Final = "berth-stand-in-for-the-uid-of-the-pod"


def templates_of(pod_spec: JsonObject) -> tuple[tuple[str, str], ...]:
    """By which name the pod knows each claim that is to be made for it, and the template's name."""
    return tuple(
        (each["name"], each["resourceClaimTemplateName"])
        for each in pod_spec.get("resourceClaims") or ()
        if each.get("resourceClaimTemplateName")
    )


def generated_claim(
    template: JsonObject, pod_claim_name: str, pod_name: str, pod_uid: str
) -> JsonObject:
    """What a template comes to for a pod, without a name."""
    content = template["spec"]
    metadata = content.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), POD_CLAIM_NAME: pod_claim_name}
    owner = {**_owner(pod_name, pod_uid), "blockOwnerDeletion": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**metadata, "annotations": annotations, "ownerReferences": [owner]},
        "spec": content["spec"],
    }


def made_claim(work: ClaimWork, pod_name: str, pod_uid: str) -> JsonObject:
    """The scheduler's own claim for extended resources that devices provide."""
    assert work.generated is not None, f"claim {work.name} is somebody else's"
    metadata = {
        "annotations": {EXTENDED_RESOURCE_CLAIM: IS_ONE},
        "ownerReferences": [_owner(pod_name, pod_uid)],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": msgspec.to_builtins(work.generated.spec),
    }


def _owner(pod_name: str, pod_uid: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod_name,
        "uid": pod_uid,
        "controller": True,
    }
