"""A recorded day once more, decided by a configuration: what came to the cluster is the recording's, and
where pods went is not.

Pods that were there, bound, when the recording begins stay where they are. Of the others only that they
came, changed and went counts. A pod that preemption evicts here is gone; nobody makes it again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from time import process_time
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from daemon.overview.pending import PendingReason, put_together
from daemon.trial.trial import Trial
from shared.columns.schema import CPU
from shared.columns.usage import usage_of
from shared.framework.pod_info import PodInfo
from shared.kube.pod_record import decode_template
from shared.messages.admin import PendingGroup, PendingGroups, PendingGroupsRequest
from shared.messages.to_owner import AdapterMessage, PodChanged, PodDeleted


class DayOutcome(msgspec.Struct, frozen=True):
    came: int
    placed: int
    never_placed: int
    """Pending at the end, or when they were deleted."""
    evicted: int
    mean_wait_s: float
    p99_wait_s: float
    nodes_in_use: int
    """With a pod that the day brought, at its end."""
    cpu_share_of_nodes_in_use: float
    """Asked for by their pods, of what they have, 0 to 1: the higher, the fewer nodes are paid for."""
    stranded_cpu_share: float
    """Of the CPU that is free at the end, what a pod of the day cannot have where it is, 0 to 1, on the
    average over its pods: fragmentation."""


class DayDetail(msgspec.Struct, frozen=True):
    """The same day as pictures show it."""

    waits_s: list[float]
    """The percentiles 0 to 100 of those that found a node."""
    pending: list[PendingReason]
    """At the end, by reason."""
    cpu_shares: dict[str, float]
    """Node -> what is asked for of its CPU at the end, 0 to 1."""
    cpu_ms_a_pod: float
    """What it took to decide all of it, by the pods that came."""


SIZES_MAX: Final = 500
"""Templates by which it is judged what room is good for; the most frequent."""


class Rerun:
    def __init__(self, trial: Trial) -> None:
        """`trial` decides."""
        self._trial = trial
        self._came_s: dict[str, float] = {}
        self._sizes: Counter[tuple[str, bytes]] = Counter()
        """Namespace and template -> pods that came with them."""
        self._took_s = 0.0

    def tell(self, moments: Iterable[tuple[float, list[AdapterMessage]]]) -> None:
        """What came, moment by moment; what was due before each is done first."""
        for at_s, messages in moments:
            begun_s = process_time()
            self._trial.pass_time(at_s)
            self._trial.tell(self._as_decided_here(messages, at_s), at_s)
            self._took_s += process_time() - begun_s

    def _as_decided_here(
        self, messages: Iterable[AdapterMessage], now_s: float
    ) -> Iterator[AdapterMessage]:
        placed, evicted = self._trial.placed, self._trial.evicted
        for message in messages:
            if not isinstance(message, PodChanged | PodDeleted):
                yield message
                continue
            pod = message.pod
            if pod.uid in evicted:
                continue
            if (
                isinstance(message, PodChanged)
                and not pod.node_name
                and pod.uid not in self._came_s
            ):
                self._came_s[pod.uid] = now_s
                self._sizes[pod.namespace, bytes(pod.template)] += 1
            if pod.uid in self._came_s:
                here = placed.get(pod.uid)
                node = "" if here is None else here.node_name
                pod = replace(pod, node_name=node, nominated_node_name="", is_preempted=False)
            yield replace(message, pod=pod)

    @property
    def placements(self) -> dict[str, str]:
        """Pod -> its node, of all that found one."""
        placed, evicted = self._trial.placed, self._trial.evicted
        return {each.key: each.node_name for uid, each in placed.items() if uid not in evicted}

    def outcome(self) -> tuple[DayOutcome, DayDetail]:
        """So far."""
        placed, came_s = self._trial.placed, self._came_s
        # How long those that found a node were pending.
        waits_s = [each.at_s - came_s.get(uid, each.at_s) for uid, each in placed.items()]
        waits = np.array(waits_s or [0.0])
        cache, nodes = self._trial.state.cache, self._trial.view.nodes
        names = {pod.node_name for pod in cache.pods() if pod.record.uid in came_s}
        rows = np.array(sorted(nodes.row_of(name) for name in names), np.intp)
        has = nodes.allocatable[CPU, rows].sum()
        asked = nodes.requested[CPU, rows].sum()
        outcome = DayOutcome(
            came=len(came_s),
            placed=len(placed),
            never_placed=len(came_s.keys() - placed.keys()),
            evicted=len(self._trial.evicted),
            mean_wait_s=round(float(waits.mean()), 3),
            p99_wait_s=round(float(np.percentile(waits, 99)), 3),
            nodes_in_use=len(names),
            cpu_share_of_nodes_in_use=round(float(asked / has), 3) if has else 0.0,
            stranded_cpu_share=round(self._stranded(), 3),
        )
        shares = nodes.requested[CPU] / np.maximum(nodes.allocatable[CPU], 1)
        return outcome, DayDetail(
            [round(float(one), 3) for one in np.percentile(waits, range(101))],
            put_together(self._pending()),
            {nodes.name_of(row): round(float(shares[row]), 3) for row in nodes.order.tolist()},
            round(1000 * self._took_s / max(1, len(came_s)), 3),
        )

    def _stranded(self) -> float:
        nodes = self._trial.view.nodes
        free = (nodes.allocatable - nodes.requested)[:, nodes.order]
        whole = free[CPU].sum()
        if not whole:
            return 0.0
        stranded, pod_count = 0.0, 0
        for (namespace, template), count in self._sizes.most_common(SIZES_MAX):
            info = PodInfo(namespace, decode_template(template))
            asked = usage_of(nodes, info.requests, info.host_ports).amounts
            fits = (free >= asked[: len(free), np.newaxis]).all(axis=0)
            stranded += count * (1.0 - float(free[CPU, fits].sum() / whole))
            pod_count += count
        return stranded / max(1, pod_count)

    def _pending(self) -> Iterator[PendingGroup]:
        start = 0
        while start >= 0:
            answer = self._trial.ask(PendingGroupsRequest(start), self._trial.now_s)
            assert isinstance(answer, PendingGroups), "as it was asked"
            yield from answer.groups
            start = answer.next_start
