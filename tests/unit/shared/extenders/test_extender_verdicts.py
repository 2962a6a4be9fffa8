"""Who is interested in a pod, and how answers add up; TestIsInterested and TestFindNodesThatPass-
Extenders of pkg/scheduler."""

from collections import Counter

import pytest

from shared.extenders.extender_config import (
    ExtenderConfig,
    asked_of_scorers,
    binders_of,
    is_interested,
)
from shared.extenders.extender_wire import ExtenderVerdicts, FilterAnswer
from shared.framework.pod_info import PodInfo
from shared.kube.pod_record import decode_template
from tests.support.builders import make_pod

FOO = "memory.example.com/foo"


def pod(**container: object) -> PodInfo:
    record = make_pod("p", spec={"containers": [{"name": "c", **container}]})
    return PodInfo("default", decode_template(record.template))


def init_pod(**container: object) -> PodInfo:
    spec = {"containers": [{"name": "c"}], "initContainers": [{"name": "i", **container}]}
    return PodInfo("default", decode_template(make_pod("p", spec=spec).template))


@pytest.mark.parametrize(
    ("managed", "info", "is_asked"),
    [
        (frozenset[str](), pod(), True),
        ({FOO}, pod(), False),
        ({FOO}, pod(resources={"requests": {FOO: "0"}}), True),
        ({FOO}, pod(resources={"limits": {FOO: "1"}}), True),
        ({FOO}, init_pod(resources={"limits": {FOO: "1"}}), True),
        ({FOO}, pod(resources={"requests": {"cpu": "1"}}), False),
    ],
)
def test_interest(managed: set[str], info: PodInfo, is_asked: bool) -> None:
    extender = ExtenderConfig(
        url_prefix="http://a", filter_verb="f", bind_verb="b", managed_resources=frozenset(managed)
    )
    assert is_interested(extender, info.spec) is is_asked
    assert asked_of_scorers([extender], info.spec) is is_asked
    assert binders_of([extender], info.spec) == ([0] if is_asked else [])


def test_who_only_binds_is_not_asked_before() -> None:
    extender = ExtenderConfig(url_prefix="http://a", bind_verb="b")
    assert not asked_of_scorers([extender], pod().spec)


def test_what_is_unresolvable_is_not_merely_refused() -> None:
    verdicts = ExtenderVerdicts(["a", "b", "c"])
    verdicts.take(FilterAnswer(["a", "b"], {"c": "full"}, {"c": "never"}))
    assert (verdicts.refused, verdicts.unresolvable) == ({}, {"c": "never"})
    verdicts.take(FilterAnswer([], {"a": "full", "b": "full"}, {}))
    assert verdicts.passing == []
    assert verdicts.refused == {"a": "full", "b": "full"}
    assert verdicts.reasons() == Counter({"full": 2, "never": 1})


def test_scores_of_several_extenders_add_up() -> None:
    verdicts = ExtenderVerdicts(["a"])
    verdicts.scores.update({"a": 100, "b": 10})
    verdicts.scores.update({"a": 5})
    assert verdicts.scores == {"a": 105, "b": 10}
