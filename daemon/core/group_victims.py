"""Who has to go for a pod group, checked on the newest state before anybody does.

As with one pod's victims: they are still there and still less important, whom a group's disruption mode
keeps together goes together, and without them the pods of the group pass every filter where the scorer
put them, one on top of the other.

Rules: pkg/scheduler/framework/preemption/podgrouppreemption.go, v1.36.2.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from daemon.core.cache import Cache
from daemon.core.cached_nodes import CachedPod
from daemon.core.dispatch import Placed
from daemon.core.pod_groups import PodGroups
from shared.framework.cluster_view import ClusterView
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.prepared_pod import prepared, run_filters_with_nominated
from shared.framework.runtime.what_if import WhatIf
from shared.kube.pod_group_rules import goes_as_a_whole, priority_of


def confirmed_victims(
    cache: Cache, groups: PodGroups, priority: int, pod_rows: Sequence[int], generation: int
) -> list[CachedPod] | None:
    """The pods of these rows, if all are what a scorer took them for on a copy of that generation.
    `priority`: of the group for which they are to go."""
    victims = cache.pods_in(pod_rows, generation)
    going = {victim.record.uid for victim in victims or ()}
    for victim in victims or ():
        group = groups.of(victim.record.group_key) if victim.record.group else None
        if group is not None and goes_as_a_whole(group):
            mates = groups.uids(victim.record.group_key)
            is_whole = all(uid in going for uid in mates if cache.get_pod(uid) is not None)
            if not is_whole or priority_of(group) >= priority:
                return None
        elif victim.pod_class.info.priority >= priority:
            return None
    return victims


def fit_without(
    cache: Cache,
    frameworks: Mapping[str, Framework],
    placed: list[Placed],
    victims: Sequence[CachedPod],
) -> bool:
    """Whether all of the pods pass where they would go, once the victims are gone. What they are
    nominated to themselves takes no room from them."""
    view, nodes = cache.view, cache.nodes
    if any(not 0 <= row < nodes.row_count or not nodes.present[row] for _, row in placed):
        return False
    pod_rows = np.array([victim.row for victim in victims], np.intp)
    rows = np.union1d(view.pods.node_row[pod_rows], [row for _, row in placed]).astype(np.intp)
    with _unnominated(view, placed), WhatIf(view, rows, with_pods=True) as what_if:
        what_if.take_off(pod_rows)
        first = 0
        while first < len(placed):
            pod_class = placed[first][0].pod_class
            pod = prepared(frameworks[pod_class.profile], pod_class.info, view)
            end = first + 1 if pod.plan.is_wide else _end_of_run(placed, first)
            asked = np.array([row for _, row in placed[first:end]], np.intp)
            if not run_filters_with_nominated(pod, asked).passes.all():
                return False
            what_if.put_on(np.full(len(asked), pod_class.class_id), asked)
            first = end
    return True


@contextmanager
def in_place(view: ClusterView, placed: Sequence[Placed]) -> Iterator[None]:
    """What if these pods were where they are to go, and whoever has to go for them still there."""
    if not placed:
        yield
        return
    rows = np.array([row for _, row in placed], np.intp)
    with _unnominated(view, placed), WhatIf(view, np.unique(rows), with_pods=True) as what_if:
        what_if.put_on(np.array([attempt.pod_class.class_id for attempt, _ in placed]), rows)
        yield


@contextmanager
def _unnominated(view: ClusterView, placed: Sequence[Placed]) -> Iterator[None]:
    own = [view.nominations.remove(attempt.pod.uid) for attempt, _ in placed]
    try:
        yield
    finally:
        for nomination in filter(None, own):
            view.nominations.put(nomination)


def _end_of_run(placed: list[Placed], first: int) -> int:
    """Up to there all pods are of one class, and no two go to one node."""
    pod_class, rows = placed[first][0].pod_class, set[int]()
    for place, (attempt, row) in enumerate(placed[first:], first):
        if attempt.pod_class is not pod_class or row in rows:
            return place
        rows.add(row)
    return len(placed)
