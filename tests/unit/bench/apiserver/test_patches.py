"""The three kinds of patch."""

from copy import deepcopy
from typing import Any

import pytest

from bench.apiserver.api_status import ApiError
from bench.apiserver.patches import apply_json_patch, apply_merge_patch, apply_strategic_patch


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        # The examples of RFC 7386, appendix A, as far as they concern objects.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_follows_the_rfc(target: Any, patch: Any, expected: Any) -> None:
    assert apply_merge_patch(target, patch) == expected


def _pod() -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "finalizers": ["a", "b"]},
        "spec": {
            "containers": [{"name": "c", "image": "i:1", "env": [{"name": "X", "value": "1"}]}],
            "tolerations": [{"key": "a"}],
            "nodeSelector": {"x": "y"},
        },
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "r"}]},
    }


def _strategic(patch: dict[str, Any]) -> dict[str, Any]:
    return apply_strategic_patch(_pod(), patch)


def test_strategic_merge_merges_conditions_by_type() -> None:
    patched = _strategic(
        {
            "status": {
                "conditions": [
                    {"type": "PodScheduled", "status": "False"},
                    {"type": "Ready", "status": "True"},
                ]
            }
        }
    )
    assert patched["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "reason": "r"},
        {"type": "PodScheduled", "status": "False"},
    ]


def test_strategic_merge_merges_containers_by_name_and_their_env() -> None:
    env = [{"name": "Y", "value": "2"}]
    patched = _strategic({"spec": {"containers": [{"name": "c", "image": "i:2", "env": env}]}})
    (container,) = patched["spec"]["containers"]
    assert container["image"] == "i:2"
    assert container["env"] == [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]


def test_strategic_merge_replaces_lists_without_a_merge_key() -> None:
    patched = _strategic({"spec": {"tolerations": [{"key": "b"}]}})
    assert patched["spec"]["tolerations"] == [{"key": "b"}]


def test_strategic_merge_removes_members_and_elements() -> None:
    patched = _strategic(
        {
            "spec": {"nodeSelector": None},
            "status": {"conditions": [{"type": "Ready", "$patch": "delete"}]},
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]},
        }
    )
    assert "nodeSelector" not in patched["spec"]
    assert patched["status"]["conditions"] == []
    assert patched["metadata"]["finalizers"] == ["b", "c"]


def test_strategic_merge_replaces_where_told_to() -> None:
    patched = _strategic(
        {
            "spec": {"nodeSelector": {"$patch": "replace", "z": "1"}},
            "status": {"conditions": [{"$patch": "replace"}, {"type": "New"}]},
        }
    )
    assert patched["spec"]["nodeSelector"] == {"z": "1"}
    assert patched["status"]["conditions"] == [{"type": "New"}]


def test_strategic_merge_orders_a_list_as_told() -> None:
    patched = _strategic(
        {
            "status": {
                "$setElementOrder/conditions": [{"type": "New"}, {"type": "Ready"}],
                "conditions": [{"type": "New"}],
            }
        }
    )
    assert [each["type"] for each in patched["status"]["conditions"]] == ["New", "Ready"]


def test_an_element_without_its_merge_key_is_a_bad_request() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key: type"):
        _strategic({"status": {"conditions": [{"status": "True"}]}})


def test_json_patch_applies_its_operations_in_order() -> None:
    patched = apply_json_patch(
        _pod(),
        [
            {"op": "test", "path": "/metadata/name", "value": "p"},
            {"op": "add", "path": "/metadata/labels", "value": {"a/b": "1"}},
            {"op": "replace", "path": "/metadata/labels/a~1b", "value": "2"},
            {"op": "add", "path": "/metadata/finalizers/-", "value": "z"},
            {"op": "remove", "path": "/metadata/finalizers/0"},
            {"op": "copy", "from": "/metadata/name", "path": "/spec/hostname"},
            {"op": "move", "from": "/spec/nodeSelector", "path": "/spec/moved"},
        ],
    )
    assert patched["metadata"]["labels"] == {"a/b": "2"}
    assert patched["metadata"]["finalizers"] == ["b", "z"]
    assert patched["spec"]["hostname"] == "p"
    assert patched["spec"]["moved"] == {"x": "y"}
    assert "nodeSelector" not in patched["spec"]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/metadata/name", "value": "other"},
        {"op": "remove", "path": "/nothing"},
        {"op": "add", "path": "/metadata/finalizers/9", "value": "x"},
        {"op": "replace", "path": "/spec/nothing", "value": 1},
        {"op": "surprise", "path": "/spec"},
        {"op": "add", "path": "spec", "value": 1},
    ],
)
def test_a_json_patch_that_does_not_fit_is_invalid(operation: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as error:
        apply_json_patch(deepcopy(_pod()), [operation])
    assert (error.value.code, error.value.reason) == (422, "Invalid")
