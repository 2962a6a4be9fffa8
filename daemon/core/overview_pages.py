"""The cluster as people look at it: how full nodes are, what pending pods wait for, and what all pods
ask for and may use.

Told in pages, so that no turn of the owner becomes long, and made when somebody asks. Pods that come and
go between two pages may be counted twice or not at all: who looks wants to know how things are, and
looks again. What pods ask for is told by the rows of the nodes' table, so that pods that come and go
cost nobody else its place; the last page has the pods without a node.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec
import numpy as np

from daemon.core.cache import Cache
from daemon.core.fit_reasons import reason_of, short_resource
from daemon.core.holdings import Holdings
from daemon.core.queue.queued_pod import Place, QueuedPod
from daemon.core.queue.scheduling_queue import SchedulingQueue
from shared.framework.pod_info import PodInfo
from shared.kube.pod_record import PodRecord
from shared.kube.pod_resources import exact_limits, exact_requests
from shared.kube.quantity import NANOS_PER_UNIT
from shared.messages import admin

NODES_A_PAGE: Final = 5_000
"""Some 2 ms."""
PODS_A_PAGE: Final = 5_000
"""Some 3 ms; three times that where no two are alike, or to tell what each asks for."""
LAST: Final = -1
RESOURCES_MAX: Final = 8
GROUPS_MAX: Final = 100
"""Of a page; what has fewer pods is one group more."""
GANGS_MAX: Final = 20
"""Of a page, those with the most pods that wait: each is asked for who of it has a node."""
GATED: Final = "gated"
FEW: Final = "other reasons"


def node_loads(cache: Cache, start: int) -> admin.NodeLoads:
    """From the node at `start` of the table on."""
    table = cache.nodes
    every = table.present_rows()
    rows = every[max(start, 0) :][:NODES_A_PAGE]
    is_there = table.allocatable[:, : table.row_count].any(axis=1)
    resources = np.flatnonzero(is_there)[: RESOURCES_MAX - 1]
    requested = [*table.requested[resources][:, rows], table.pod_count[rows]]
    allocatable = [*table.allocatable[resources][:, rows], table.allowed_pod_count[rows]]
    names = table.names.values
    following = max(start, 0) + len(rows)
    return admin.NodeLoads(
        next_start=following if following < len(every) else LAST,
        resources=[*(table.resources.values[each] for each in resources.tolist()), "pods"],
        names=[names[each] for each in table.name_id[rows].tolist()],
        zones=cache.tree.zone_names(rows),
        requested=np.concatenate(requested).astype("<i8").tobytes(),
        allocatable=np.concatenate(allocatable).astype("<i8").tobytes(),
    )


def pending_groups(owner: Holdings, start: int, now_s: float) -> admin.PendingGroups:
    """From the pod at `start` of the queue on."""
    queue, groups, start = owner.queue, owner.groups, max(start, 0)
    alike: defaultdict[tuple[int, Place, str], list[QueuedPod]] = defaultdict(list)
    gangs: Counter[str] = Counter()
    for pod in islice(queue, start, start + PODS_A_PAGE):
        alike[pod.class_id, pod.place, pod.gated_by].append(pod)
        if pod.record.group:
            gangs[pod.record.group_key] += 1
    alike_by: dict[tuple[str, str], admin.PendingGroup] = {}
    for pods in alike.values():
        found = _group(pods[0], len(pods))
        kind = (found.place, found.reason)
        alike_by[kind] = alike_by[kind].with_more(found) if kind in alike_by else found
    following = start + PODS_A_PAGE
    return admin.PendingGroups(
        next_start=following if following < len(queue) else LAST,
        groups=most_frequent(list(alike_by.values()), GROUPS_MAX),
        gangs=[
            admin.GangProgress(key, count, groups.scheduled_count(key), groups.wanted_count(key))
            for key, count in gangs.most_common(GANGS_MAX)
        ],
        recent=[
            admin.RecentDecision(now_s - begun_s, *outcome)
            for begun_s, *outcome in (() if start else reversed(owner.counters.recent))
        ],
    )


def _group(pod: QueuedPod, count: int) -> admin.PendingGroup:
    """Of pods of one class that are at one place."""
    reason = _reason(pod)
    resource = short_resource(reason)
    asked = pod.info.fit_filter_requests.of(resource) if resource else 0
    place = GATED if pod.gated_by else pod.place.value
    return admin.PendingGroup(place, reason, count, asked, asked, pod.key)


def _reason(pod: QueuedPod) -> str:
    """Empty for a pod that has its turn, or has not had any."""
    if pod.gated_by:
        return pod.gated_by
    if pod.place not in (Place.UNSCHEDULABLE, Place.BACKOFF):
        return ""
    return reason_of(pod.pod_class.last_message)


def most_frequent(groups: list[admin.PendingGroup], count: int) -> list[admin.PendingGroup]:
    """The largest groups, and all others as one."""
    ordered = sorted(groups, key=lambda each: (-each.pod_count, each.place, each.reason))
    kept, few = ordered[:count], ordered[count:]
    if few:
        pod_count = sum(each.pod_count for each in few)
        kept.append(admin.PendingGroup(few[0].place, FEW, pod_count, 0, 0, few[0].example))
    return kept


def competition(queue: SchedulingQueue, pod: QueuedPod) -> tuple[str, int, int]:
    """What this pod waits for, how many others do for the same, and how many of these matter more."""
    reason = _reason(pod)
    if not reason or pod.gated_by:
        return reason, 0, 0
    rivals: dict[int, bool] = {}
    competitor_count = ahead_count = 0
    for other in queue:
        is_rival = rivals.get(other.class_id)
        if is_rival is None:
            is_rival = reason_of(other.pod_class.last_message) == reason
            rivals[other.class_id] = is_rival
        if is_rival and other is not pod:
            competitor_count += 1
            ahead_count += other.priority > pod.priority
    return reason, competitor_count, ahead_count


# What pods ask for --------------------------------------------------------------------------------


def pod_resources_page(cache: Cache, queue: SchedulingQueue, start: int) -> admin.PodResources:
    """From the node row `start` on."""
    page = admin.PodResources(LAST, [], [])
    numbers: dict[int, int] = {}
    """Id of a class' `PodInfo` -> its template's number."""

    def add(record: PodRecord, info: PodInfo, node_name: str) -> None:
        number = numbers.setdefault(id(info), len(page.templates))
        if number == len(page.templates):
            template, spec = info.template, info.spec
            priority = "" if spec.priority is None else str(spec.priority)
            asked = _units(exact_requests(template).items())
            allowed = _units(exact_limits(template).items())
            told = admin.ResourcesOfTemplate(spec.scheduler_name, priority, asked, allowed)
            page.templates.append(told)
        page.pods.append(admin.ResourcesOfPod(record.namespace, record.name, node_name, number))

    nodes = cache.nodes
    for row in range(max(start, 0), nodes.row_count):
        held = cache.node_info(nodes.name_of(row))
        if held is None or held.row != row:
            continue
        if len(page.pods) >= PODS_A_PAGE:
            return msgspec.structs.replace(page, next_start=row)
        for pod in held.pods.values():
            add(pod.record, pod.pod_class.info, held.name)
    for waiting in queue:
        if cache.get_pod(waiting.record.uid) is None:
            add(waiting.record, waiting.info, "")
    return page


def _units(nanos: Iterable[tuple[str, int]]) -> dict[str, float]:
    return {name: amount / NANOS_PER_UNIT for name, amount in nanos}
