"""VictimGroups: what pod groups mean for who has to go: whose pods go together, and whose go first.

A gang that says that it is elastic has pods that it can do without: those above minCount. They go before
all others of their priority. Which pods these are is a matter of who may go: of those that may, the
least important, so many that minCount stay. The annotation is berth's own, and without it nothing here
differs from upstream.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from shared.columns.pod_table import group_id
from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_group_rules import goes_as_a_whole, is_elastic, priority_of, quorum

GROUPS: Final = "podgroups"
_KEPT: Final = "groups of victims"


class VictimGroups(NamedTuple):
    """By `group_id`."""

    whole: Mapping[int, int]
    """Priority of each group whose pods go together or not at all."""
    elastic: Int64s
    """Ascending."""
    quorums: Int64s
    """Of the elastic ones."""


def victim_groups(cluster: ClusterView) -> VictimGroups:
    """Of all groups that there are."""
    kept: tuple[int, VictimGroups] | None = cluster.kept.get(_KEPT)
    changes = None if kept is None else cluster.objects.changes_since(kept[0])
    is_kept = changes is not None and all(kind != GROUPS for kind, _ in changes)
    groups = kept[1] if kept and is_kept else _made(cluster.objects.all(GROUPS))
    cluster.kept[_KEPT] = cluster.objects.version, groups
    return groups


def _made(objects: Mapping[str, PodGroup]) -> VictimGroups:
    whole = {group_id(k): priority_of(each) for k, each in objects.items() if goes_as_a_whole(each)}
    elastic = sorted((group_id(k), quorum(each)) for k, each in objects.items() if is_elastic(each))
    ids, quorums = np.array(elastic, np.int64).reshape(-1, 2).T
    return VictimGroups(whole, ids, quorums)


def are_spare(cluster: ClusterView, pods: Rows, apart: Rows) -> Bools:
    """Which of these pods an elastic gang can do without, shape (m,), if the others of them stay. They
    are in order of importance, and those with another number in `apart` are another question. Pods that
    are taken off their nodes and not among them are gone; those that are going already are spare."""
    is_spare = np.zeros(len(pods), np.bool_)
    groups, table = victim_groups(cluster), cluster.pods
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
