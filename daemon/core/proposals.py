"""A worker's proposal against the newest state: accept and assume, or reject.

The simple way is to let a worker's placement stand, since it was right on the worker's copy. But
copies are old by the time their answer arrives, and with several workers two of them find the same
gap. So there is one serial committer, this one: each placement is checked again, with the workers'
own filter code, on the state that contains everything accepted before it. What fails goes back to
the head of the queue and costs one more evaluation, with the fresh row already on its way. Scores
are not computed again: a placement that is no longer the very best is a matter of freshness, one
that does not fit would be a matter of truth.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from daemon.core.cache import Cache
from daemon.core.dispatch import Attempt, Scorer
from daemon.core.nominations import NominationBook
from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.queue.queued_pod import Place, QueuedPod
from shared.dra.device_index import takes_devices
from shared.engine.checker import Checker
from shared.errors import ObjectError
from shared.faults import reading
from shared.framework.cluster_view import ClusterView
from shared.framework.status import Status
from shared.messages.from_scorer import Failure, Placements, Proposals


class Accepted(NamedTuple):
    """The pod is assumed on the node."""

    attempt: Attempt
    node_name: str


class Rejected(NamedTuple):
    """The node does not take the pod any more; it is to be tried again at once."""

    attempt: Attempt


class NotReserved(NamedTuple):
    """A Reserve plugin refused the placement; the pod is unschedulable by it."""

    attempt: Attempt
    status: Status


class Judgement(NamedTuple):
    """What became of one worker's placements."""

    accepted: list[Accepted]
    rejected: list[Rejected]
    not_reserved: list[NotReserved]
    unreadable: list[tuple[Attempt, ObjectError]]
    """Pods that the owner does not know how to check."""
    stale_count: int
    """Answers for attempts that are not out with this worker (any more)."""

    @property
    def any_refused(self) -> bool:
        """Something was not accepted as it was proposed."""
        refused = self.rejected or self.not_reserved or self.unreadable or self.stale_count
        return bool(refused)


def in_order(proposals: Proposals) -> Iterator[tuple[Placements, Failure | None]]:
    """Placements, each time with the preemption that was found on top of them: that may have taken
    back the nomination which keeps what follows away."""
    tickets, rows = proposals.placements.tickets, proposals.placements.node_rows
    first = 0
    for failure in proposals.failures:
        if failure.preemption is not None:
            end = bisect_left(tickets, min(failure.tickets, default=0), first)
            yield Placements(tickets[first:end], rows[first:end]), failure
            first = end
    yield Placements(tickets[first:], rows[first:]), None


def judge(
    cache: Cache,
    checker: Checker,
    plugins: OwnerPlugins,
    nominations: NominationBook,
    scorer: Scorer,
    placements: Placements,
    generation: int,
) -> Judgement:
    """Checks placements in order and assumes what passes. Rejected rows are marked as changed, so
    that the next delta puts the worker's copy of them right. `generation` is that of its copy."""
    accepted: list[Accepted] = []
    rejected: list[Rejected] = []
    not_reserved: list[NotReserved] = []
    unreadable: list[tuple[Attempt, ObjectError]] = []
    known: list[tuple[Attempt, int]] = []
    stale_count = 0
    for ticket, row in zip(placements.tickets, placements.node_rows, strict=True):
        attempt = scorer.settle(ticket)
        if attempt is None:
            stale_count += 1
            _correct(cache, row)
        else:
            known.append((attempt, row))
    for run in _runs(known, checker, cache.view):
        pod_class = run[0][0].pod_class
        try:
            with reading("pod", run[0][0].pod):
                passes = _passing(cache, checker, run, generation)
                if pod_class.is_reserved is None:
                    pod_class.is_reserved = plugins.may_reserve(pod_class.info)
        except ObjectError as error:
            forget_worked_out(cache, checker)
            unreadable += [(attempt, error) for attempt, _ in run]
            for _, row in run:
                _correct(cache, row)
            continue
        is_simple = not pod_class.is_reserved and not len(cache.view.nominations)
        chosen: list[tuple[Attempt, int]] = []
        for (attempt, row), is_ok in zip(run, passes, strict=True):
            if not (is_ok and is_awaited(attempt, cache)):
                rejected.append(Rejected(attempt))
                _correct(cache, row)
                continue
            if is_simple:
                chosen.append((attempt, row))
                continue
            record, info = attempt.pod.record, attempt.pod_class.info
            node_name = cache.nodes.name_of(row)
            cache.assume_pod(record, node_name, attempt.pod_class)
            if cache.view.nominations.get(record.uid) is not None:
                nominations.placed(record.uid)
            status = plugins.run_reserve(record, info, cache.view, row)
            if status.is_success:
                accepted.append(Accepted(attempt, node_name))
            else:
                cache.forget_pod(record.uid)
                nominations.not_placed(attempt.pod)
                not_reserved.append(NotReserved(attempt, status))
        if chosen:
            records = [attempt.pod.record for attempt, _ in chosen]
            names = cache.assume_pods(records, [row for _, row in chosen], pod_class)
            accepted += [
                Accepted(attempt, name) for (attempt, _), name in zip(chosen, names, strict=True)
            ]
    return Judgement(accepted, rejected, not_reserved, unreadable, stale_count)


def takes(cache: Cache, checker: Checker, class_id: int, row: int) -> bool:
    """Whether the node takes a pod of the class in the newest state; no, where that cannot be told."""
    info = cache.classes.infos[class_id]
    if not 0 <= row < cache.nodes.row_count:
        return False
    try:
        with reading("class", class_id):
            profile = info.spec.scheduler_name
            passes = checker.passing(class_id, info, profile, np.array([row], np.intp))
    except ObjectError:
        forget_worked_out(cache, checker)  # The next pod of the class is told.
        return False
    return bool(passes[0])


def forget_worked_out(cache: Cache, checker: Checker) -> None:
    """What was worked out before a check failed: half of it may be of the pod that it failed for."""
    checker.forget_all()
    cache.view.forget_derived()


def is_wanted(pod: QueuedPod, cache: Cache) -> bool:
    """To be scheduled at all: not being deleted, and on no node (skipPodSchedule in
    pkg/scheduler/schedule_one.go, v1.36.2)."""
    return not pod.record.deleted and cache.get_pod(pod.record.uid) is None


def is_awaited(attempt: Attempt, cache: Cache) -> bool:
    """The pod still waits for this answer: it has neither left nor changed since."""
    pod = attempt.pod
    is_same = pod.place is Place.IN_FLIGHT and pod.pod_class is attempt.pod_class
    return is_same and is_wanted(pod, cache)


def _runs(
    known: list[tuple[Attempt, int]], checker: Checker, view: ClusterView
) -> Iterator[list[tuple[Attempt, int]]]:
    """Stretches of one class on distinct rows: these do not influence each other's verdict, and are
    checked by one call. Pods that keep others of their class away, or count for them, go alone."""
    nominations = view.nominations
    run: list[tuple[Attempt, int]] = []
    rows: set[int] = set()
    go_alone: dict[int, bool] = {}
    for attempt, row in known:
        pod_class = attempt.pod_class
        if run:
            goes_on = run[0][0].pod_class is pod_class and row not in rows
            if len(nominations):
                # The nomination of one pod takes room from the others, not from itself.
                goes_on &= nominations.get(attempt.pod.record.uid) is None
                goes_on &= nominations.get(run[0][0].pod.record.uid) is None
            if goes_on:
                goes_alone = go_alone.get(pod_class.class_id)
                if goes_alone is None:
                    try:
                        with reading("class", pod_class.class_id):
                            goes_alone = (
                                pod_class.info.takes_claims
                                or takes_devices(pod_class.info, view)
                                or checker.is_wide(
                                    pod_class.class_id, pod_class.info, pod_class.profile
                                )
                            )
                    except ObjectError:
                        goes_alone = True  # And comes out where it is checked.
                    go_alone[pod_class.class_id] = goes_alone
                goes_on = not goes_alone
            if not goes_on:
                yield run
                run, rows = [], set()
        run.append((attempt, row))
        rows.add(row)
    if run:
        yield run


def _passing(
    cache: Cache, checker: Checker, run: list[tuple[Attempt, int]], generation: int
) -> list[bool]:
    nodes = cache.nodes
    proposed = [row for _, row in run]
    if max(proposed) >= nodes.row_count or min(proposed) < 0:
        return [False] * len(run)  # Of a copy that is not ours; nothing there can be checked.
    rows = np.array(proposed, np.intp)
    pod_class = run[0][0].pod_class
    uid = run[0][0].pod.record.uid
    own_uid = uid if cache.view.nominations.get(uid) is not None else ""
    ok = checker.passing(pod_class.class_id, pod_class.info, pod_class.profile, rows, own_uid)
    # A row that another node has taken since is not the node that the worker meant.
    ok &= nodes.incarnation[rows] <= generation
    passed: list[bool] = ok.tolist()
    return passed


def _correct(cache: Cache, row: int) -> None:
    if 0 <= row < cache.nodes.row_count:
        cache.touch_row(row)
