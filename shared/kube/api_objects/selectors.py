"""Selectors of objects by label, of nodes by label or field."""

from shared.kube.api_objects.base import ApiStruct


class LabelSelectorRequirement(ApiStruct):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(ApiStruct):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorRequirement(ApiStruct):
    key: str
    operator: str
    values: list[str] | None = None


class NodeSelectorTerm(ApiStruct):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(ApiStruct):
    node_selector_terms: list[NodeSelectorTerm] | None = None
