"""A pod's watch events, as far as a witness looks at them. Knows nothing of the scheduler."""

import msgspec


class Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class PodClaim(msgspec.Struct, rename="camel", gc=False):
    """A resource claim of a pod, by whichever name there is."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    resource_claims: list[PodClaim] = []


class Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    conditions: list[Condition] = []
    resource_claim_statuses: list[PodClaim] = []
    extended_resource_claim_status: PodClaim | None = None


class WatchedPod(msgspec.Struct):
    """Also an ERROR event's Status: its `status` is a word, and it has a message."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: Spec = msgspec.field(default_factory=Spec)
    status: PodStatus | str = ""
    message: str = ""

    def unscheduled(self) -> Condition | None:
        """The condition by which the scheduler says why the pod has no node."""
        if isinstance(self.status, PodStatus):
            for condition in self.status.conditions:
                if condition.type == "PodScheduled" and condition.status == "False":
                    return condition
        return None


class PodEvent(msgspec.Struct):
    type: str
    object: WatchedPod


class PodList(msgspec.Struct):
    metadata: Metadata
    items: list[WatchedPod]
