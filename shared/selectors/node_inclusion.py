"""Which nodes a topology spread constraint looks at: nodeAffinityPolicy and nodeTaintsPolicy.

Rules: `matchNodeInclusionPolicies` in pkg/scheduler/framework/plugins/podtopologyspread/common.go,
v1.36.2. Node affinity terms that cannot be parsed match no node, and nobody is told.
"""

from typing import NamedTuple

import numpy as np

from shared.columns.answer_table import AnswerTable
from shared.columns.rows import RowIndex
from shared.columns.schema import Bools
from shared.columns.table import NodeTable, TaintTuple
from shared.kube.api.core_v1 import PodSpec
from shared.selectors.node_selector import match_any, match_term
from shared.selectors.node_terms import LabelRequirement, Operator, Term, Terms, parse_selector


class RequiredNodeAffinity(NamedTuple):
    labels: Term | None
    terms: Terms | None

    @property
    def is_empty(self) -> bool:
        return self.labels is None and self.terms is None


def required_node_affinity(spec: PodSpec) -> RequiredNodeAffinity:
    """nodeSelector and required node affinity."""
    labels = terms = None
    if spec.node_selector:  # Every label must be there with exactly this value.
        equal = (LabelRequirement(k, Operator.IN, (v,)) for k, v in spec.node_selector.items())
        labels = Term(tuple(equal), (), ())
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None:
        selector = affinity.required_during_scheduling_ignored_during_execution
        terms = None if selector is None else parse_selector(selector)
    return RequiredNodeAffinity(labels, terms)


def included_rows(
    nodes: NodeTable,
    index: RowIndex,
    count: int,
    affinity: RequiredNodeAffinity | None,
    repelled: AnswerTable[tuple[TaintTuple, ...]] | None,
) -> Bools:
    """Rows that count, shape (count,). `affinity` and `repelled` are None where not honoured."""
    included = np.ones(count, np.bool_)
    if affinity is not None:
        if affinity.labels is not None:
            included &= match_term(affinity.labels, nodes, index, count)
        if affinity.terms is not None:
            included &= match_any(affinity.terms, nodes, index, count)
    if repelled is not None:
        included &= ~repelled.covering(nodes.taints.values)[nodes.taints_id[index]]
    return included
