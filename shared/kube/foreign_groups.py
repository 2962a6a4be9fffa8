"""Pod groups of other schedulers, read as gangs: with `--pod-groups`, in place of those of Kubernetes.

Such a PodGroup is a custom resource whose `spec.minMember` is the quorum, and a pod names its group by a
label or an annotation. What is decoded here is a PodGroup and a Pod as all others know them, so nobody
else knows of it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from shared.kube.api.core_v1 import Pod, PodSchedulingGroup
from shared.kube.api.meta_v1 import Int32, PodMeta
from shared.kube.api.scheduling_v1alpha2 import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
)
from shared.kube.resources import ALL_KINDS, POD_GROUPS, PODS, ResourceKind


class ForeignGroups(NamedTuple):
    api_path: str
    named_by: str
    """Label or annotation of a pod."""


FOREIGN_GROUPS: Final[Mapping[str, ForeignGroups]] = {
    "coscheduling": ForeignGroups(
        "/apis/scheduling.x-k8s.io/v1alpha1", "scheduling.x-k8s.io/pod-group"
    ),
    "koordinator": ForeignGroups(
        "/apis/scheduling.sigs.k8s.io/v1alpha1", "pod-group.scheduling.sigs.k8s.io"
    ),
    "volcano": ForeignGroups("/apis/scheduling.volcano.sh/v1beta1", "scheduling.k8s.io/group-name"),
}
"""By what `--pod-groups` calls it."""


class _ForeignSpec(PodGroupSpec):
    min_member: Int32 = 0


class ForeignPodGroup(PodGroup):
    """Its status is another's, and not looked at."""

    spec: _ForeignSpec = msgspec.field(default_factory=_ForeignSpec)  # type: ignore[mutable-override] # Decoded, and no more written.
    status: PodGroupStatus = msgspec.field(name="noStatus", default_factory=PodGroupStatus)

    def __post_init__(self) -> None:
        if self.spec.min_member > 0:
            gang = GangSchedulingPolicy(min_count=self.spec.min_member)
            self.spec.scheduling_policy.gang = gang


class _MemberMeta(PodMeta):
    annotations: dict[str, str] | None = None


def _member_type(named_by: str) -> type[Pod]:
    """A pod that finds its group when it is decoded."""

    class Member(Pod):
        metadata: _MemberMeta = msgspec.field(default_factory=_MemberMeta)  # type: ignore[mutable-override] # The same.

        def __post_init__(self) -> None:
            meta = self.metadata
            name = {**(meta.annotations or {}), **(meta.labels or {})}.get(named_by, "")
            self.spec.scheduling_group = PodSchedulingGroup(pod_group_name=name) if name else None
            meta.annotations = None  # They can be large, and nobody else reads them.

    return Member


def kinds_with(pod_groups: str) -> tuple[ResourceKind, ...]:
    """All kinds, with the pod groups that `--pod-groups` names; empty: those of Kubernetes."""
    if not pod_groups:
        return ALL_KINDS
    foreign = FOREIGN_GROUPS[pod_groups]
    replaced = {
        POD_GROUPS.plural: msgspec.structs.replace(
            POD_GROUPS, api_path=foreign.api_path, struct_type=ForeignPodGroup
        ),
        PODS.plural: msgspec.structs.replace(PODS, struct_type=_member_type(foreign.named_by)),
    }
    return tuple(replaced.get(kind.plural, kind) for kind in ALL_KINDS)
