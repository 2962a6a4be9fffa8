"""What goes wrong in an allocation, as far as it is not simply "no"."""

from shared.errors import OperationalError


class AllocationError(OperationalError):
    """Something is wrong with a claim, a class or a device: the attempt is an error, wherever the pod
    might otherwise go."""


class NodeAllocationError(OperationalError):
    """Something is wrong with what this node offers: the pod does not fit here, and this is why."""
