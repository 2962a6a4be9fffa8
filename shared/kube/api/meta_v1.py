"""What objects of all API groups have in common: metadata, conditions, selectors by label.

API objects are here with only the fields that scheduling reads; all others are skipped while decoding. A
module is an API group, called as `apiVersion` says; of two of them what binders need is apart.

The field names are the API's (camelCase in JSON). The same structs travel between our processes as
msgpack maps with defaults left out: a template is then a few hundred bytes, and equal templates are
equal bytes, which is what makes pod classes cheap (see `PodTemplate`).

Lists that the API may send as null are declared optional here only where a real server does so;
Go's `omitempty` leaves empty ones out.
"""

from typing import Annotated, Final

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
INT64_MAX: Final = 2**63 - 1
Int64 = Annotated[int, msgspec.Meta(ge=-INT64_MAX - 1, le=INT64_MAX)]
"""As wide as the API's own fields: a greater number is refused where it is read, by the field's name.
Neither our messages nor our columns would take it."""

Quantity = str | Int64 | float
"""As written in JSON: "250m", "1Gi", 2. Parse with `shared.kube.quantity`."""

ResourceList = dict[str, Quantity]


class ApiStruct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of everything that comes from the API server. An object is a tree: nothing in it leads back,
    so the cycle collector need not look through the hundreds of thousands that a cluster has."""


class ObjectIdentity(ApiStruct):
    """Which object it is, among those of its kind."""

    name: str = ""
    namespace: str = ""
    uid: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(ApiStruct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class PodMeta(ObjectIdentity):
    """Metadata of a pod; without annotations, which nothing reads and which can be large."""

    resource_version: str = ""
    generation: Int64 = 0
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class ObjectMeta(PodMeta):
    """Metadata of all that are no pods: what a pod's has, and more."""

    creation_timestamp: str | None = None
    annotations: dict[str, str] | None = None


class NamedObject(ApiStruct):
    """Base of what stands alone in the API, but for pods."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class Condition(ApiStruct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: Int64 | None = None


def condition_of(conditions: list[Condition] | None, kind: str) -> Condition | None:
    """The first of the type, which counts."""
    for condition in conditions or ():
        if condition.type == kind:
            return condition
    return None


class LabelSelectorRequirement(ApiStruct):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(ApiStruct):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None
