"""What pods share that differ in their own facts alone, as long as one of them is there."""

import gc
from typing import Any

import pytest

from shared.framework.pod_info import PodInfo, PodInfos
from shared.kube.pod_record import decode_template, split_template
from tests.support.builders import make_pod

CLAIM = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}
EPHEMERAL = {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}
READ = (
    "labels", "requests", "fit_filter_requests", "fit_score_requests", "host_ports", "claim_keys",
    "claim_uses", "takes_claims", "takes_more_than_room", "pod_terms", "required_nodes", "term_counts",
    "priority", "spec", "template",
)  # fmt: skip


def raw(name: str, **others: Any) -> bytes:
    return bytes(make_pod(name, **others).template)


@pytest.mark.parametrize("spec", [CLAIM, EPHEMERAL])
def test_pods_with_claims_of_their_own_are_read_once_and_differ_in_what_is_theirs(
    spec: dict[str, Any],
) -> None:
    infos = PodInfos()
    for name in ("a", "b", "a"):
        info = infos.of("default", raw(name, cpu="2", spec=spec))
        alone = PodInfo("default", decode_template(raw(name, cpu="2", spec=spec)))
        assert [getattr(info, each) for each in READ] == [getattr(alone, each) for each in READ]
    first, second = (infos.of("default", raw(name, spec=spec)) for name in "ab")
    assert first.requests is second.requests
    assert first.kin is second.kin is not None
    assert first.template.own != second.template.own


def test_pods_of_another_namespace_or_template_share_nothing() -> None:
    infos = PodInfos()
    first = infos.of("default", raw("a", spec=CLAIM))
    for other in (
        infos.of("other", raw("b", spec=CLAIM)),
        infos.of("default", raw("b", spec=CLAIM, labels={"a": "b"})),
        infos.of("default", raw("b", spec=CLAIM, cpu="3")),
    ):
        assert other.kin is not first.kin


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    infos = PodInfos()
    info = infos.of("default", raw("a", spec=CLAIM))
    assert info.requests.milli_cpu == 100
    assert len(infos._kin) == 1
    del info
    gc.collect()
    assert not len(infos._kin)


def test_a_pod_without_claims_has_nothing_to_itself() -> None:
    template = raw("a", claim="c")
    assert split_template(template) == (template, None)
    assert PodInfos().of("default", template).kin is None
