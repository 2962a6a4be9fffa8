"""Feature gates as written on a command line."""

import pytest

from shared.errors import ConfigurationError
from shared.framework.feature_gates import (
    NOMINATED_NODE_NAME_FOR_EXPECTATION,
    TAINT_TOLERATION_COMPARISON_OPERATORS,
    parse_feature_gates,
)


def test_gates_are_read_and_the_others_keep_their_defaults() -> None:
    assert not parse_feature_gates("")[TAINT_TOLERATION_COMPARISON_OPERATORS]
    text = f" {TAINT_TOLERATION_COMPARISON_OPERATORS}=True "
    assert parse_feature_gates(text)[TAINT_TOLERATION_COMPARISON_OPERATORS]


@pytest.mark.parametrize("text", ["A", "A=yes", f"{TAINT_TOLERATION_COMPARISON_OPERATORS}="])
def test_what_is_no_boolean_is_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match=text.partition("=")[0]):
        parse_feature_gates(text)


def test_a_gate_that_berth_does_not_obey_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="NoSuchGate"):
        parse_feature_gates("NoSuchGate=true")


def test_nodes_are_announced_unless_it_is_switched_off() -> None:
    assert parse_feature_gates("")[NOMINATED_NODE_NAME_FOR_EXPECTATION]
    text = f"{NOMINATED_NODE_NAME_FOR_EXPECTATION}=false"
    assert not parse_feature_gates(text)[NOMINATED_NODE_NAME_FOR_EXPECTATION]
