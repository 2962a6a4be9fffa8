"""What all API objects are built on."""

import msgspec

Quantity = str | int | float
"""As written in JSON: "250m", "1Gi", 2. Parse with `shared.kube.quantity`."""

ResourceList = dict[str, Quantity]


class ApiStruct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of everything that comes from the API server. An object is a tree: nothing in it leads back,
    so the cycle collector need not look through the hundreds of thousands that a cluster has."""
