"""Label selectors against plain Python, and what upstream makes of odd ones."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.sim import slow_topology as slow
from shared.kube.api.apps_v1 import ReplicaSet
from shared.kube.api.core_v1 import ReplicationController, Service
from shared.kube.api.meta_v1 import LabelSelector
from shared.plugins.spread.spread_constraints import default_selector, workload_selector
from shared.selectors.label_selector import (
    EVERYTHING,
    NOTHING,
    Selector,
    SelectorError,
    parse_label_selector,
)
from shared.selectors.requirement import equal_to
from tests.support.builders import make_pod
from tests.support.cluster import cluster_of, pod_info

KEYS = ("a", "b")
VALUES = ("1", "2", "")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
WITH_VALUES = st.fixed_dictionaries(
    {
        "key": st.sampled_from(KEYS),
        "operator": st.sampled_from(("In", "NotIn")),
        "values": st.lists(st.sampled_from(VALUES), min_size=1),
    }
)
WITHOUT_VALUES = st.fixed_dictionaries(
    {"key": st.sampled_from(KEYS), "operator": st.sampled_from(("Exists", "DoesNotExist"))}
)
SELECTORS = st.fixed_dictionaries(
    {
        "matchLabels": LABELS,
        "matchExpressions": st.lists(WITH_VALUES | WITHOUT_VALUES, max_size=3),
    }
)


def parsed(body: dict[str, Any]) -> Selector:
    return parse_label_selector(msgspec.convert(body, LabelSelector))


@given(SELECTORS, LABELS)
def test_all_conditions_must_hold(selector: dict[str, Any], labels: dict[str, str]) -> None:
    assert parsed(selector).matches(labels) is slow.selects(selector, labels)


@given(SELECTORS, SELECTORS, LABELS, LABELS)
def test_selectors_are_joined_by_all_their_conditions(
    one: dict[str, Any], other: dict[str, Any], more: dict[str, str], labels: dict[str, str]
) -> None:
    both = slow.selects(one, labels) and slow.selects(other, labels)
    assert parsed(one).and_selector(parsed(other)).matches(labels) is both
    has_more = all(labels.get(key) == value for key, value in more.items())
    assert parsed(one).and_equal(more).matches(labels) is (slow.selects(one, labels) and has_more)


def test_absent_selects_nothing_and_empty_everything() -> None:
    assert parse_label_selector(None) == NOTHING
    assert parsed({}) == EVERYTHING
    assert not NOTHING.matches({})
    assert EVERYTHING.matches({})
    assert EVERYTHING.is_empty
    assert not NOTHING.is_empty


def test_what_selects_nothing_selects_no_more_for_labels_but_adds_none_to_another() -> None:
    assert NOTHING.and_equal({"a": "1"}) == NOTHING._replace(requirements=equal_to({"a": "1"}))
    assert not NOTHING.and_equal({"a": "1"}).matches({"a": "1"})
    assert parsed({"matchLabels": {"a": "1"}}).and_selector(NOTHING).matches({"a": "1"})


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ({"key": "a", "operator": "Gt", "values": ["1"]}, '"Gt" is not a valid label selector'),
        (
            {"key": "a", "operator": "In", "values": []},
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            {"key": "a", "operator": "Exists", "values": ["2", "1"]},
            'values: Invalid value: ["2","1"]: values set must be empty for exists and does not exist',
        ),
        (
            {"key": "a/b/c", "operator": "DoesNotExist"},
            'key: Invalid value: "a/b/c": cannot be the key of a label',
        ),
        (
            {"key": "a", "operator": "NotIn", "values": ["1", "-"]},
            'values[1][a]: Invalid value: "-": a valid label must be an empty string or consist of',
        ),
        (
            {"key": "a", "operator": "Exists", "values": ["1", "-"]},
            '[values: Invalid value: ["1","-"]: values set must be empty for exists and does not exist,'
            ' values[1][a]: Invalid value: "-": a valid label must be an empty string or consist of',
        ),
    ],
)
def test_what_the_api_server_would_refuse_is_refused(
    expression: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SelectorError, match=re.escape(problem)):
        parsed({"matchExpressions": [expression]})


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"a": "v w"}, 'values[0][a]: Invalid value: "v w": a valid label must be'),
        ({"k l": "v"}, 'key: Invalid value: "k l": cannot be the key of a label'),
    ],
)
def test_what_cannot_be_a_key_or_a_value_selects_nobody(
    labels: dict[str, str], problem: str
) -> None:
    with pytest.raises(SelectorError, match=re.escape(problem)):
        parsed({"matchLabels": labels})


# What services and controllers say ------------------------------------------------------------


def service(selector: dict[str, str] | None) -> Service:
    return msgspec.convert({"spec": {"selector": selector}}, Service)


def test_only_services_that_select_the_pod_say_something() -> None:
    services = [service({"a": "1"}), service({"b": "2"}), service(None), service({})]
    found = workload_selector({"a": "1"}, services, None)
    assert found == Selector(equal_to({"a": "1"}))


def test_a_controller_adds_its_own() -> None:
    controller = msgspec.convert({"spec": {"selector": {"b": "2"}}}, ReplicationController)
    found = workload_selector({"a": "1"}, [service({"a": "1"})], controller)
    assert found.matches({"a": "1", "b": "2"})
    assert not found.matches({"a": "1"})
    body = {"spec": {"selector": {"matchExpressions": [{"key": "c", "operator": "Exists"}]}}}
    found = workload_selector({}, [], msgspec.convert(body, ReplicaSet))
    assert found.matches({"c": ""})
    assert not found.matches({})


def test_a_controller_whose_selector_cannot_be_read_says_nothing() -> None:
    body = {"spec": {"selector": {"matchExpressions": [{"key": "c", "operator": "Near"}]}}}
    assert workload_selector({}, [], msgspec.convert(body, ReplicaSet)).is_empty
    assert workload_selector({}, [], msgspec.convert({"spec": {}}, ReplicaSet)).is_empty


@pytest.mark.parametrize(
    ("owner", "kind"),
    [
        (None, ""),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet"}, "replicasets"),
        ({"apiVersion": "apps/v1", "kind": "StatefulSet"}, "statefulsets"),
        ({"apiVersion": "v1", "kind": "ReplicationController"}, "replicationcontrollers"),
        ({"apiVersion": "extensions/v1beta1", "kind": "ReplicaSet"}, ""),
        ({"apiVersion": "batch/v1", "kind": "Job"}, ""),
    ],
)
def test_controllers_that_count(owner: dict[str, str] | None, kind: str) -> None:
    cache = cluster_of([])
    for plural in ("replicasets", "statefulsets", "replicationcontrollers", "jobs"):
        is_old = plural == "replicationcontrollers"
        labels: dict[str, Any] = {"of": plural}
        body = {"spec": {"selector": labels if is_old else {"matchLabels": labels}}}
        controller = msgspec.convert(body, ReplicationController if is_old else ReplicaSet)
        cache.objects.put(plural, "default/owner", controller)
    pod = pod_info(make_pod("p", owner=owner and {**owner, "name": "owner"}))
    found = default_selector(pod, cache.view)
    assert found == (Selector(equal_to({"of": kind})) if kind else Selector(()))
