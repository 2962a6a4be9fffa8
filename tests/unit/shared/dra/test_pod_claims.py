"""Which claims a pod has, and in which words it is told that it has none."""

from typing import Any

import msgspec
import pytest

from shared.dra.pod_claims import ClaimError, claims_of, preparation
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.pod_record import PodTemplate
from tests.support.devices import allocated, make_claim


def template(reference: dict[str, Any], statuses: list[dict[str, Any]] = []) -> PodTemplate:  # noqa: B006  # Never written.
    body = {
        "spec": {"resourceClaims": [{"name": "c", **reference}]},
        "own": {"name": "p", "uid": "uid-p", "resourceClaimStatuses": statuses},
    }
    return msgspec.convert(body, PodTemplate)


def found(pod: PodTemplate, *claims: ResourceClaim) -> list[str]:
    by_key = {f"default/{c.metadata.name}": c for c in claims}
    return [c.metadata.name for c in claims_of("default", pod, by_key.get)]


NAMED = {"resourceClaimName": "claim"}
TEMPLATE = {"resourceClaimTemplateName": "t"}
GENERATED = [{"name": "c", "resourceClaimName": "claim"}]


def test_claims_are_found_by_name_and_through_the_status() -> None:
    assert found(template(NAMED), make_claim()) == ["claim"]
    assert found(template(TEMPLATE, GENERATED), make_claim(owner="uid-p")) == ["claim"]
    assert found(template(TEMPLATE, [{"name": "c"}])) == [], "nothing had to be made"


@pytest.mark.parametrize(
    ("pod", "claims", "text"),
    [
        (template(NAMED), [], 'could not find ResourceClaim "default/claim"'),
        (template(TEMPLATE), [], 'pod "default/p": ResourceClaim not created yet'),
        (
            template({}),
            [],
            'pod "default/p", spec.resourceClaim "c": none of the supported fields are set',
        ),
        (
            template(TEMPLATE, GENERATED),
            [make_claim(owner="another")],
            "ResourceClaim default/claim was not created for Pod default/p (Pod is not owner)",
        ),
    ],
)
def test_a_claim_that_is_missing_is_named(
    pod: PodTemplate, claims: list[ResourceClaim], text: str
) -> None:
    with pytest.raises(ClaimError) as raised:
        found(pod, *claims)
    assert str(raised.value) == text


def test_a_claim_on_its_way_out_is_none() -> None:
    claim = make_claim()
    claim.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    with pytest.raises(ClaimError, match='resourceclaim "claim" is being deleted'):
        found(template(NAMED), claim)


def test_a_claim_that_is_named_twice_is_one_claim() -> None:
    pod = template(NAMED)
    pod.spec.resource_claims = 2 * (pod.spec.resource_claims or [])
    assert found(pod, make_claim()) == ["claim"]


def test_of_two_shares_of_a_device_the_first_that_is_told_of_counts() -> None:
    status = allocated("a", "a", pool="n", bindingConditions=["Ready"])
    said_of = {"driver": "gpu.example.com", "pool": "n", "device": "a"}
    ready, not_ready = (
        {**said_of, "conditions": [{"type": "Ready", "status": each}]} for each in ("True", "False")
    )
    for said, expected in (([ready, not_ready], True), ([not_ready, ready], False)):
        claim = make_claim(status={**status, "devices": said})
        assert preparation(claim.status).is_done is expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [([], False), ([("Ready", "True")], False), ([("Failed", "True")], True)],
)
def test_a_driver_may_give_up(conditions: list[tuple[str, str]], expected: bool) -> None:
    status = allocated(
        "a", pool="n", bindingConditions=["Ready"], bindingFailureConditions=["Failed"]
    )
    said = [{"type": kind, "status": state} for kind, state in conditions]
    said_of = {"driver": "gpu.example.com", "pool": "n", "device": "a", "conditions": said}
    claim = make_claim(status={**status, "devices": [said_of]})
    assert (preparation(claim.status).failed is not None) is expected
