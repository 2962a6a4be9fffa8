"""Label and field selectors."""

import pytest

from bench.apiserver.api_status import ApiError
from bench.apiserver.selection import label_selector_matches, parse_fields, parse_labels
from bench.apiserver.served_resources import NODES, PODS
from tests.unit.bench.apiserver.api_caller import ApiCaller

_LABELS = {"app": "a", "tier": "web", "size": "10"}


@pytest.mark.parametrize(
    ("selector", "is_match"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("!other", True),
        ("app=a", True),
        ("app==a", True),
        ("app=b", False),
        ("app!=b", True),
        ("other!=b", True),
        ("app in (a,b)", True),
        ("app in (b)", False),
        ("app notin (b, c)", True),
        ("other notin (a)", True),
        ("app notin (a)", False),
        ("app in (a),!b", True),
        ("app=a,tier=db", False),
        (" app = a , tier in ( web ) ", True),
        ("size>9", True),
        ("size<9", False),
        ("app>9", False),
        ("example.com/x", False),
    ],
)
def test_a_label_selector_selects(selector: str, is_match: bool) -> None:
    assert all(each.matches(_LABELS) for each in parse_labels(selector)) is is_match


@pytest.mark.parametrize(
    "selector", ["app in a", "app in (a", "app,", "=a", "a b", "app in", "(a)", "a=b=c"]
)
def test_a_selector_that_cannot_be_read_is_a_bad_request(selector: str) -> None:
    with pytest.raises(ApiError) as error:
        parse_labels(selector)
    assert (error.value.code, error.value.reason) == (400, "BadRequest")


def test_an_empty_value_selects_the_empty_label() -> None:
    (part,) = parse_labels("app==")
    assert part.matches({"app": ""})
    assert not part.matches({"app": "a"})
    assert not part.matches({})


def test_fields_of_pods_are_selected() -> None:
    api = ApiCaller()
    api.create_pod("free")
    api.create_pod("bound")
    api.bind("bound", "n0")
    stored = api.cluster.pods.objects

    def chosen(selector: str) -> list[str]:
        parsed = parse_fields(selector, PODS)
        return [each.name for each in stored.values() if all(part.matches(each) for part in parsed)]

    assert chosen("spec.nodeName=") == ["free"]
    assert chosen("spec.nodeName!=") == ["bound"]
    assert chosen("spec.nodeName==n0,metadata.namespace=default") == ["bound"]
    assert chosen("status.phase!=Succeeded,status.phase!=Failed") == ["free", "bound"]
    assert chosen("metadata.name=free") == ["free"]
    assert chosen("spec.schedulerName=other") == []


def test_a_field_that_cannot_be_selected_by_is_a_bad_request() -> None:
    with pytest.raises(ApiError, match=r"field label not supported: spec\.foo"):
        parse_fields("spec.foo=x", PODS)
    with pytest.raises(ApiError, match="can't understand"):
        parse_fields("spec.nodeName", PODS)
    assert parse_fields("spec.unschedulable=true", NODES)


def test_field_values_may_be_escaped() -> None:
    (part,) = parse_fields(r"metadata.name=a\,b\=c", PODS)
    assert part.value == "a,b=c"


def test_label_selector_objects_select() -> None:
    selector = {
        "matchLabels": {"app": "a"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["web"]}],
    }
    assert label_selector_matches(selector, _LABELS)
    assert not label_selector_matches(selector, {"app": "a"})
    assert label_selector_matches({}, {})
