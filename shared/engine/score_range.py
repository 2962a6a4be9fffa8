"""Scores that some plugin gives beyond 0 to 100.

If some plugin gives a node that takes the pod less than 0 or more than 100, the attempt fails with an
error, whichever node would have been the best. To ask that of every node for every pod would cost more
than placing it. So a score like that is carried along as INVALID, which no total reaches otherwise: it
comes to the top by itself, and who takes the best total looks at that number alone. Plugins that cannot
leave the range (`scores_within_range`) are not looked at.

Rules: RunScorePlugins in pkg/scheduler/framework/runtime/framework.go, v1.36.2.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from shared.columns.schema import Int64s, Rows
from shared.framework.normalize import SCORE_MAX
from shared.framework.plugin_api import ScorePlugin
from shared.framework.runtime.filter_outcomes import ScoringPlugin
from shared.framework.runtime.prepared_pod import PreparedPod

INVALID: Final = 1 << 56
"""In place of a score times its weight. Totals stay below 2^44 (20 plugins, weights of 31 bits), and a
hundred of these within 64 bits."""


def weighted(plugin: ScorePlugin, scores: Int64s, weight: int) -> Int64s:
    """Scores, normalised, times the weight; INVALID where they are out of range. May be `scores`."""
    found = scores if weight == 1 else scores * weight
    if getattr(plugin, "scores_within_range", False) or _are_within_range(scores):
        return found
    return np.where((scores < 0) | (scores > SCORE_MAX), INVALID, found)


def _are_within_range(scores: Int64s) -> bool:
    if len(scores) == 1:
        return 0 <= scores.item(0) <= SCORE_MAX
    return bool(scores.min(initial=0) >= 0 and scores.max(initial=0) <= SCORE_MAX)


def out_of_range(active: Sequence[ScoringPlugin], scores: Sequence[Int64s]) -> str:
    """Upstream's words for the first score, of each plugin for the nodes that take the pod, that is
    out of range; empty where there is none."""
    for entry, of_plugin in zip(active, scores, strict=True):
        wrong = of_plugin[(of_plugin < 0) | (of_plugin > SCORE_MAX)]
        if len(wrong):
            return (
                f'applying score defaultWeights on Score plugins: plugin "{entry.plugin.NAME}" '
                f"returns an invalid score {wrong.item(0)}, it should in the range of "
                f"[0, {SCORE_MAX}] after normalizing"
            )
    return ""


def invalid_score(pod: PreparedPod, feasible: Rows) -> str:
    """The same where a total came out as INVALID."""
    active = pod.framework.prepare_scores(pod.info, pod.cluster, feasible).active
    _, scores, _ = pod.framework.run_scores(pod.info, pod.cluster, active, feasible)
    problem = out_of_range(active, scores)
    assert problem, "some total is INVALID, and nothing changed since"
    return problem
