"""What all API objects are built on."""

from typing import Annotated

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""As wide as the API's own fields: a greater number is refused where it is read, by the field's name.
Neither our messages nor our columns would take it."""

Quantity = str | Int64 | float
"""As written in JSON: "250m", "1Gi", 2. Parse with `shared.kube.quantity`."""

ResourceList = dict[str, Quantity]


class ApiStruct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of everything that comes from the API server. An object is a tree: nothing in it leads back,
    so the cycle collector need not look through the hundreds of thousands that a cluster has."""
