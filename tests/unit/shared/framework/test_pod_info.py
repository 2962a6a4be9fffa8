"""What pods share that differ in their own facts alone, as long as one of them is there."""

import gc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.framework.pod_info import PodInfo, PodInfos
from shared.kube.pod_record import (
    decode_shared,
    decode_template,
    split_template,
    with_fewer_labels,
    with_own,
)
from tests.support.builders import make_pod
from tests.support.volumes import claim_volumes

CLAIM = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}
EPHEMERAL = {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}
READ = (
    "labels", "requests", "fit_filter_requests", "fit_score_requests", "host_ports", "claim_keys",
    "claim_uses", "takes_claims", "pod_terms", "required_nodes", "term_counts",
    "priority", "spec", "template",
)  # fmt: skip


def raw(name: str, **others: Any) -> bytes:
    return bytes(make_pod(name, **others).template)


def named(pod: str) -> dict[str, Any]:
    """Two volumes that name claims of the pod's own."""
    return claim_volumes(f"{pod}-0", f"{pod}-1") | {"nodeSelector": {"disk": "ssd"}}


@pytest.mark.parametrize("spec_of", [lambda _: CLAIM, lambda _: EPHEMERAL, named])
def test_pods_with_claims_of_their_own_are_read_once_and_differ_in_what_is_theirs(
    spec_of: Callable[[str], dict[str, Any]],
) -> None:
    infos = PodInfos()
    for name in ("a", "b", "a"):
        info = infos.of("default", raw(name, cpu="2", spec=spec_of(name)))
        alone = PodInfo("default", decode_template(raw(name, cpu="2", spec=spec_of(name))))
        assert [getattr(info, each) for each in READ] == [getattr(alone, each) for each in READ]
    first, second = (infos.of("default", raw(name, spec=spec_of(name))) for name in "ab")
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
    assert info.requests.amounts["cpu"] == 100
    assert len(infos._kin) == 1
    del info
    gc.collect()
    assert not len(infos._kin)


def test_a_pod_without_claims_has_nothing_to_itself() -> None:
    template = raw("a")
    assert split_template(template) == (template, None)
    assert PodInfos().of("default", template).kin is None


LABELS = st.dictionaries(st.sampled_from("abc"), st.text(max_size=40), max_size=3)
OWNERS = st.sampled_from(
    [
        None,
        {"kind": "Job", "apiVersion": "batch/v1", "name": "it"},
        {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "it"},
    ]
)


@given(LABELS, OWNERS, st.booleans(), st.sets(st.sampled_from("abcd")), st.booleans())
def test_a_template_without_some_labels_is_what_it_was_in_all_else(
    labels: dict[str, str], owner: dict[str, str] | None, has_own: bool, kept: set[str], keeps: bool
) -> None:
    """In its bytes, as if it had been written anew."""
    whole = raw("a", labels=labels, owner=owner, spec=named("a") if has_own else None)
    fewer = with_fewer_labels(whole, kept, lambda who: keeps and who.kind == "ReplicaSet")
    template = decode_template(whole)
    controller = template.controller
    expected = msgspec.structs.replace(
        template,
        labels={key: value for key, value in labels.items() if key in kept} if labels else None,
        controller=controller if controller and keeps and controller.kind != "Job" else None,
    )
    assert decode_template(fewer) == expected
    assert split_template(fewer)[1] == split_template(whole)[1]
    assert (fewer is whole) == (expected == template)


def test_names_of_claims_are_where_they_were() -> None:
    info = PodInfos().of("default", raw("a", spec=named("a")))
    sources = [volume.persistent_volume_claim for volume in info.spec.volumes or ()]
    assert [source and source.claim_name for source in sources] == ["a-0", "a-1"]
    assert info.claim_keys == ("default/a-0", "default/a-1")


def test_a_template_that_names_more_claims_than_it_has_volumes_is_refused() -> None:
    _, own = split_template(raw("a", spec=named("a")))
    assert own is not None
    shared = decode_shared(raw("b", spec=claim_volumes("b")))
    with pytest.raises(ValueError, match="longer"):
        with_own(shared, own)
