"""Which claims a pod group has, and in which words a pod is told that they are not known."""

from typing import Any

import msgspec
import pytest

from shared.dra.pod_claims import ClaimError
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.plugins.devices.pod_group_claims import claims_of_group
from tests.support.devices import make_claim

NAMED = {"resourceClaimName": "claim"}
TEMPLATE = {"resourceClaimTemplateName": "t"}
GENERATED = [{"name": "c", "resourceClaimName": "claim"}]


def group(reference: dict[str, Any], statuses: list[dict[str, Any]] = []) -> PodGroup:  # noqa: B006  # Never written.
    body = {
        "metadata": {"name": "pg", "namespace": "default", "uid": "uid-pg"},
        "spec": {"resourceClaims": [{"name": "c", **reference}]},
        "status": {"resourceClaimStatuses": statuses},
    }
    return msgspec.convert(body, PodGroup)


def test_claims_of_a_group_are_found_by_name_and_through_its_status() -> None:
    """NameFromPodGroup, IsForPodGroup"""
    for given, owner, expected in (
        (group(NAMED), "", ["claim"]),
        (group(TEMPLATE, GENERATED), "uid-pg", ["claim"]),
        (group(TEMPLATE, GENERATED), "another", []),
        (group(TEMPLATE, [{"name": "c"}]), "", []),
    ):
        by_key = {"default/claim": make_claim(owner=owner)}
        assert [c.metadata.name for c in claims_of_group(given, by_key.get)] == expected


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (group(NAMED), 'could not find ResourceClaim "default/claim"'),
        (group(TEMPLATE), "PodGroup default/pg: ResourceClaim not created yet"),
        (
            group({}),
            "PodGroup default/pg, spec.resourceClaim c: none of the supported fields are set",
        ),
    ],
)
def test_a_claim_of_a_group_that_is_missing_is_named(given: PodGroup, text: str) -> None:
    with pytest.raises(ClaimError) as raised:
        claims_of_group(given, lambda _: None)
    assert str(raised.value) == text
