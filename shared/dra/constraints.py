"""Constraints among the devices of a claim: the same value of an attribute, or different ones.

A constraint keeps track while devices are tried: `add` says whether a device may join, `remove` takes
it out again.

Rules: `matchAttributeConstraint` and `distinctAttributeConstraint` of structured/internal/incubating
in staging/src/k8s.io/dynamic-resource-allocation, v1.36, to the letter: what they forget, these
forget too (see `DistinctAttribute`).
"""

from shared.dra.allocation_errors import AllocationError
from shared.dra.resource_slices import DeviceView
from shared.kube.api.resource_v1 import DeviceConstraint

Value = tuple[str, object]
"""Kind and value; kind "" for one that cannot be compared."""


class Constraint:
    """Holds for the requests that it names, or for all."""

    def __init__(self, requests: list[str], attribute: str) -> None:
        self._requests = frozenset(requests)
        self._attribute = attribute

    def add(self, request: str, sub_request: str, device: DeviceView) -> bool:
        """Whether the device satisfies the constraint beside those that were added before."""
        if not self._applies(request, sub_request):
            return True
        value = device.facts.attributes.get(self._attribute)
        return value is not None and self._joins(request, value)

    def remove(self, request: str, sub_request: str) -> None:
        """Takes back the last successful `add` for the request."""
        if self._applies(request, sub_request):
            self._leaves(request)

    def _applies(self, request: str, sub_request: str) -> bool:
        named = self._requests
        return (
            not named
            or request in named
            or (bool(sub_request) and f"{request}/{sub_request}" in named)
        )

    def _joins(self, request: str, value: Value) -> bool:
        raise NotImplementedError

    def _leaves(self, request: str) -> None:
        raise NotImplementedError


class MatchAttribute(Constraint):
    """All devices have the same value."""

    def __init__(self, requests: list[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._value: Value = ("", None)
        self._count = 0

    def _joins(self, request: str, value: Value) -> bool:  # noqa: ARG002  # The base's signature.
        if self._count == 0:
            self._value = value
        elif value != self._value or not value[0]:
            return False
        self._count += 1
        return True

    def _leaves(self, request: str) -> None:  # noqa: ARG002  # The base's signature.
        self._count -= 1


class DistinctAttribute(Constraint):
    """Devices have different values.

    Of the devices of one request only the latest is remembered, as upstream has it in v1.36.
    """

    def __init__(self, requests: list[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, Value] = {}
        self._count = 0

    def _joins(self, request: str, value: Value) -> bool:
        if self._count and any(not value[0] or value == each for each in self._values.values()):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def _leaves(self, request: str) -> None:
        self._values.pop(request, None)
        self._count -= 1


def make_constraint(constraint: DeviceConstraint, claim_key: str, number: int) -> Constraint:
    """The constraint, ready for a first device; AllocationError for a kind not known here."""
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.requests or [], constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(constraint.requests or [], constraint.distinct_attribute)
    raise AllocationError(
        f"claim {claim_key}, constraint #{number}: empty constraint (unsupported constraint type?)"
    )
