"""A plugin that takes part in PreScore and not in Score, as the framework runs one that does both.

What is remembered of scores is remembered by score plugin, each with its PreScore. So one that only
wants a look at the feasible nodes (or to fail the attempt) becomes a score plugin that always says
Skip.
"""

from typing import Any, ClassVar

import numpy as np

from shared.columns.schema import Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_NODE, Dependence, PreScorePlugin, PreScoreResult
from shared.framework.pod_info import PodInfo
from shared.framework.status import SKIP


class PreScoreAlone:
    """Passes PreScore on; never scores."""

    NAME: ClassVar[str]
    pre_score_depends: ClassVar[Dependence | None]
    score_depends: ClassVar[Dependence] = ON_NODE

    def __init__(self, plugin: PreScorePlugin) -> None:
        # Each wrapper has its plugin's.
        vars(self).update(NAME=plugin.NAME, pre_score_depends=plugin.pre_score_depends)
        self._plugin = plugin

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        result = self._plugin.pre_score(pod, cluster, feasible)
        return result._replace(status=SKIP) if result.status.is_success else result

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:  # noqa: ARG002  # The extension point's signature.
        return np.zeros(len(rows), np.int64)
