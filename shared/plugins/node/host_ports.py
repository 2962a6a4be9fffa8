"""Host ports: whether those that a pod wants are free among those that a node's pods use.

Rule: `HostPortInfo.CheckConflict` in staging/src/k8s.io/kube-scheduler/framework/types.go, v1.36.
"""

from collections.abc import Iterable
from typing import Final

from shared.columns.table import PortTuple

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # An API value, nothing is bound to it here.


def conflicts(wanted: Iterable[PortTuple], used: frozenset[PortTuple]) -> bool:
    """Whether a wanted port is taken: same protocol and number, and one IP or either is any."""
    return any(_is_taken(port, used) for port in wanted)


def _is_taken(port: PortTuple, used: frozenset[PortTuple]) -> bool:
    ip, protocol, number = port
    if number <= 0:
        return False
    if ip == ANY_ADDRESS:
        return any(p[1] == protocol and p[2] == number for p in used)
    return port in used or (ANY_ADDRESS, protocol, number) in used
