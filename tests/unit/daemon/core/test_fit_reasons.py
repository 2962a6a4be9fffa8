"""Messages that differ in numbers alone come to the same phrase."""

from collections import Counter

import pytest

from daemon.core.fit_reasons import reason_of, reasons_in, short_resource
from shared.framework.runtime.diagnosis import FitError


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "0/1523 nodes are available: 1496 Insufficient nvidia.com/gpu, 267 Insufficient cpu.",
            "Insufficient nvidia.com/gpu",
        ),
        (
            "0/9 nodes are available: 8 node(s) didn't match Pod's node affinity/selector,"
            " 1 Insufficient cpu. preemption: 0/9 nodes are available: 9 Preemption is not helpful.",
            "Insufficient cpu",
        ),
        (
            "0/3 nodes are available: 1 node(s) were unschedulable,"
            " 2 node(s) had untolerated taint {a: b, c}.",
            "node(s) had untolerated taint {a: b, c}",
        ),
        (
            f"0/3 nodes are available: 3 not now, {'9' * 5000} others.",
            f"not now, {'9' * 5000} others",
        ),
        ("0/3 nodes are available: pod has unbound claims.", "pod has unbound claims."),
        ('running Permit plugin "P": boom', 'running Permit plugin "P": boom'),
        ("x" * 500, "x" * 160 + "..."),
        ("", ""),
    ],
)
def test_the_reason_is_what_is_short_or_what_most_nodes_say(message: str, reason: str) -> None:
    assert reason_of(message) == reason


def test_reasons_are_read_as_they_were_written() -> None:
    reasons = Counter({"Insufficient a.b/c": 4, "node(s) had taint {x: 1, 2 y}": 3, "other": 12})
    error = FitError(20, "", reasons, frozenset(), frozenset())
    told = reasons_in(error.message("preemption: 0/20 nodes are available: 20 No."))
    assert told["Insufficient a.b/c"] == 4
    assert told["other"] == 12


def test_what_is_short_is_named() -> None:
    assert short_resource("Insufficient memory") == "memory"
    assert short_resource("Too many pods") == ""
