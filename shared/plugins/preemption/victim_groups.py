"""VictimGroups: what pod groups mean for who has to go: whose pods go together, and whose go first.

A gang that says that it is elastic has pods that it can do without: those above minCount. They go before
all others of their priority. Which pods these are is a matter of who may go: of those that may, the
least important, so many that minCount stay. The annotation is berth's own, and without it nothing here
differs from upstream.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from shared.columns.pod_table import group_id
from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.follower import Follower
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_group_rules import goes_as_a_whole, is_elastic, priority_of, quorum
from shared.kube.resources import POD_GROUPS

_KIND: Final = frozenset({POD_GROUPS.plural})


class VictimGroups:
    """Of all groups that there are, by `group_id`."""

    def __init__(self, cluster: ClusterView) -> None:
        self._objects = cluster.objects
        self._follower = Follower(cluster)
        self.whole: Mapping[int, int] = {}
        """Priority of each group whose pods go together or not at all."""
        self.elastic: Int64s = np.zeros(0, np.int64)
        """Ascending."""
        self.quorums: Int64s = self.elastic
        """Of the elastic ones."""

    def catch_up(self) -> None:
        """Reads all of them again where one changed."""
        if self._follower.concerns(_KIND):
            groups: Mapping[str, PodGroup] = self._objects.all(POD_GROUPS.plural)
            whole = {k: priority_of(each) for k, each in groups.items() if goes_as_a_whole(each)}
            self.whole = {group_id(key): priority for key, priority in whole.items()}
            elastic = sorted((group_id(k), quorum(g)) for k, g in groups.items() if is_elastic(g))
            self.elastic, self.quorums = np.array(elastic, np.int64).reshape(-1, 2).T
        self._follower.note_objects()


def are_spare(cluster: ClusterView, pods: Rows, apart: Rows) -> Bools:
    """Which of these pods an elastic gang can do without, shape (m,), if the others of them stay. They
    are in order of importance, and those with another number in `apart` are another question. Pods that
    are taken off their nodes and not among them are gone; those that are going already are spare."""
    is_spare = np.zeros(len(pods), np.bool_)
    groups, table = cluster.derived(VictimGroups), cluster.pods
    if not len(groups.elastic):
        return is_spare
    at = np.flatnonzero(np.isin(table.group_id[pods], groups.elastic))
    is_spare[at] = table.is_terminating[pods[at]]
    at = at[~is_spare[at]]
    there = np.union1d(table.used_rows(), pods)
    there_ids = table.group_id[there[~table.is_terminating[there]]]
    there_ids = there_ids[np.isin(there_ids, groups.elastic)]
    count = len(groups.elastic)
    counts = np.bincount(np.searchsorted(groups.elastic, there_ids), minlength=count)
    gangs = np.searchsorted(groups.elastic, table.group_id[pods[at]])
    asked = apart[at] * count + gangs
    order = np.lexsort((-at, asked))  # Of each gang the least important first.
    from_last = np.arange(len(at)) - np.searchsorted(asked[order], asked[order])
    is_spare[at[order]] = from_last < (counts - groups.quorums)[gangs[order]]
    return is_spare
