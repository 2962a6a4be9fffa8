"""Constraints among the devices of a claim: the same value of an attribute, or different ones.

A constraint keeps track while devices are tried: `add` says whether a device may join, `remove` takes
it out again.

Rules: `matchAttributeConstraint` and `distinctAttributeConstraint` of structured/internal/incubating
in staging/src/k8s.io/dynamic-resource-allocation, v1.36, to the letter: what they forget, these
forget too.
"""

from shared.dra.requests import Alternative
from shared.dra.resource_slices import DeviceView
from shared.dra.search_work import AllocationError
from shared.kube.api.resource_v1 import DeviceConstraint


class Constraint:
    """Holds for the requests that it names, or for all."""

    def __init__(self, stated: DeviceConstraint, claim_text: str, number: int) -> None:
        """AllocationError for a kind not known here."""
        self._are_same = stated.match_attribute is not None
        attribute = stated.match_attribute if self._are_same else stated.distinct_attribute
        if attribute is None:
            raise AllocationError(
                f"{claim_text}, constraint #{number}: empty constraint (unsupported constraint type?)"
            )
        self._attribute = attribute
        self._requests = frozenset(stated.requests or ())
        self._values: dict[str, tuple[str, object]] = {}
        """Kind and value; kind "" for one that cannot be compared. Of different ones only the latest of
        each request is remembered, as upstream has it in v1.36."""
        self._count = 0

    def add(self, asked: Alternative, device: DeviceView) -> bool:
        """Whether the device satisfies the constraint beside those that were added before."""
        if not self._applies(asked):
            return True
        value = device.facts.attributes.get(self._attribute)
        if value is None:
            return False
        if self._count and not all(
            value[0] and (value == each) is self._are_same for each in self._values.values()
        ):
            return False
        self._values["" if self._are_same else asked.request] = value
        self._count += 1
        return True

    def remove(self, asked: Alternative) -> None:
        """Takes back the last successful `add` for the request."""
        if self._applies(asked):
            self._count -= 1
            if not self._are_same:
                self._values.pop(asked.request, None)

    def _applies(self, asked: Alternative) -> bool:
        return not self._requests or asked.is_among(self._requests)
