"""Feature gates as written on a command line."""

import pytest

from shared.errors import ConfigurationError
from shared.feature_gates import (
    BATCHING,
    KNOWN_GATES,
    NOMINATED_NODE_NAME_FOR_EXPECTATION,
    OBEYED,
    OBEYED_UPSTREAM,
    STORAGE_CAPACITY_SCORING,
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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("NoSuchGate=true", "NoSuchGate: kube-scheduler v1.36 has no such gate"),
        ("SidecarContainers=false", "SidecarContainers: cannot be set to false, it is locked"),
        ("wardle:OpenAPIEnums=true", "there is no component wardle"),
    ],
)
def test_a_gate_that_kube_scheduler_would_not_take_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parse_feature_gates(text)


def test_a_gate_that_is_not_obeyed_is_named_where_its_value_is_not_the_default() -> None:
    for name, gate in KNOWN_GATES.items():
        if name == BATCHING:
            continue
        written = str(gate.is_on).lower()
        assert parse_feature_gates(f"kube:{name}={written}").without_effect == []
    gates = parse_feature_gates(
        "CoordinatedLeaderElection=t,SidecarContainers=true,kube:MemoryQoS=1"
    )
    assert gates.without_effect == ["CoordinatedLeaderElection=true", "MemoryQoS=true"]


def test_batches_are_never_made_and_whoever_wants_them_is_told() -> None:
    assert parse_feature_gates("OpportunisticBatching=false").without_effect == []
    told = parse_feature_gates("OpportunisticBatching=true").without_effect
    assert told == ["OpportunisticBatching=true"]


def test_a_gate_is_not_on_without_those_that_it_needs() -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_feature_gates("PodLevelResources=false")
    lacking = "InPlacePodLevelResourcesVerticalScaling: needs PodLevelResources=true"
    assert refused.value.problems == [lacking]
    text = "PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false"
    assert len(parse_feature_gates(text).without_effect) == 2
    parse_feature_gates("AllBeta=false")


def test_gates_that_kube_scheduler_obeys_are_known_and_apart() -> None:
    assert KNOWN_GATES.keys() >= OBEYED | OBEYED_UPSTREAM
    assert not OBEYED & OBEYED_UPSTREAM


def test_gates_of_kubelets_alone_are_taken_as_well() -> None:
    """v1.36.2 knows both (pkg/features/kube_features.go); neither is locked."""
    gates = parse_feature_gates("CustomCPUCFSQuotaPeriod=false,RuntimeClassInImageCriApi=true")
    assert len(gates.without_effect) == 2


def test_a_whole_stage_may_be_set_and_a_gate_that_is_named_keeps_its_own_value() -> None:
    gates = parse_feature_gates(f"{STORAGE_CAPACITY_SCORING}=false,AllAlpha=true")
    assert gates[TAINT_TOLERATION_COMPARISON_OPERATORS]
    assert not gates[STORAGE_CAPACITY_SCORING]
    assert "MemoryQoS=true" in gates.without_effect
    assert not parse_feature_gates("AllBeta=false")[NOMINATED_NODE_NAME_FOR_EXPECTATION]


def test_nodes_are_announced_unless_it_is_switched_off() -> None:
    assert parse_feature_gates("")[NOMINATED_NODE_NAME_FOR_EXPECTATION]
    text = f"{NOMINATED_NODE_NAME_FOR_EXPECTATION}=false"
    assert not parse_feature_gates(text)[NOMINATED_NODE_NAME_FOR_EXPECTATION]
