"""Faults that the simulation must find, each with a seed that does."""

from typing import NamedTuple


class Plant(NamedTuple):
    module: str
    before: str
    after: str
    found_by: int = 0
    """A seed that finds it, as things are."""


PLANTS = {
    "the owner does not check a placement again": Plant(
        "daemon.core.committer",
        "    passed: list[bool] = checker.passing(*asked, rows, own_uid).tolist()\n",
        "    passed: list[bool] = [True] * len(stretch)\n",
        found_by=5,
    ),
    "a placement that came to nothing is not forgotten": Plant(
        "daemon.core.cache",
        "self._assumed.get(uid)\n        if pod is not None:\n            self._drop(pod)\n",
        "self._assumed.get(uid)\n",
        found_by=5,
    ),
    "a worker ignores a gap": Plant(
        "workers.scorer.replica",
        "message.epoch != self.epoch or message.sequence != self.sequence + 1",
        "message.epoch != self.epoch",
        found_by=3,
    ),
    "a binding is posted again after a timeout": Plant(
        "workers.binder.bind_call",
        'seen = await self.look(f"{error}; then ")',
        "seen: Outcome | None = None",
        found_by=24,
    ),
    "nobody is told of objects that berth does not know": Plant(
        "daemon.core.cluster_changes",
        "    return kind if known is None and is_custom(kind) else known\n",
        "    return known\n",
        found_by=161,
    ),
    "held orders are reversed": Plant(
        "daemon.core.bindings",
        "order = waiting.popleft()",
        "order = waiting.pop()",
        found_by=5,
    ),
    "what a list does not show stays": Plant(
        "daemon.core.adapter_links",
        "        for key in missed:\n",
        "        for key in ():\n",
        found_by=5,
    ),
    "what devices share is not counted": Plant(
        "shared.dra.allocator",
        "        is_enough = all(left.get(where, 0) >= 0 for where, _ in counters)\n",
        "        is_enough = True\n",
        found_by=113,
    ),
    "a node that took another's row is taken for it": Plant(
        "daemon.core.committer",
        "        if nodes.incarnation.item(row) > generation:\n",
        "        if False:\n",
        found_by=276,
    ),
    "a pod that was marked is confirmed as it was": Plant(
        "daemon.core.cache",
        "                or record.is_preempted != before.is_preempted\n",
        "",
        found_by=261,
    ),
    "an adapter does not look whose epoch it is after its connection broke": Plant(
        "daemon.adapter.process",
        "        if self._is_rejoining and order.epoch == self._outbox.epoch:\n",
        "        if False:\n",
        found_by=27,
    ),
    "room that is kept for nominated pods is given away": Plant(
        "shared.framework.runtime.prepared_pod",
        "    if not nominations or not len(rows) or not pod.may_pass:\n        return NO_ROWS",
        "    if True:\n        return NO_ROWS",
        found_by=33,
    ),
    "nobody is put back who need not go": Plant(
        "shared.plugins.preemption.victim_selector",
        "for rank in range(int(counts[fits].max(initial=0))):",
        "for rank in range(0):",
        found_by=10,
    ),
    "who waits for room is not told of any": Plant(
        "daemon.core.cluster_changes",
        "        self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, gone, "
        "None, now_s, but=but)\n",
        "        pass\n",
        found_by=25,
    ),
    "placements that are settled stay on top of the copy": Plant(
        "workers.scorer.replica",
        "        self._tentative = [t for t in self._tentative if t.proposal_sequence > done]\n",
        "        pass\n",
        found_by=5,
    ),
    "orders die with their binder": Plant(
        "daemon.core.bindings",
        "        self._unassigned += [*again, *binder.waiting]\n",
        "        self._unassigned += [*binder.waiting]\n",
        found_by=42,
    ),
    "an order that may have been carried out is given again as if new": Plant(
        "daemon.core.bindings",
        "        again = [_with_a_look(order) for order in binder.orders.values()]",
        "        again = list(binder.orders.values())",
        found_by=66,
    ),
    "one pod is enough for a gang": Plant(
        "daemon.core.pod_groups",
        "        return needed(group, self.scheduled_count(key))\n",
        "        return 1\n",
        found_by=11,
    ),
    "nodes that extenders refuse are taken": Plant(
        "workers.scorer.extended_pods",
        "        rows = np.sort(self._rows_of(verdicts.passing))\n",
        "        rows = np.flatnonzero(evaluation.feasible)\n",
        found_by=106,
    ),
    "extenders have no say in who has to go": Plant(
        "workers.scorer.extended_pods",
        "            candidates = self._candidates(task, answer.victims or {}, message, changes)\n",
        "            candidates = found\n",
        found_by=674,
    ),
    "a pod whose nodes filled up while extenders were asked is not answered": Plant(
        "workers.scorer.extended_pods",
        "        if isinstance(found, Proposals):\n            self._settled.append(found)\n",
        "        if isinstance(found, Proposals):\n"
        "            self._settled += [] if found.skipped else [found]\n",
        found_by=99,
    ),
    "of a group that extenders have a say in nobody is asked": Plant(
        "workers.scorer.group_hearing",
        "        if self.error or not set(",
        "        self.verdicts.passing = names\n        if self.error or not set(",
        found_by=501,
    ),
    "an extender that denies a binding has bound the pod": Plant(
        "shared.extenders.extender_wire",
        '"the answer to bind")\n    if result.error:\n',
        '"the answer to bind")\n    if False:\n',
        found_by=25,
    ),
    "what a group was given goes with a pod of it that is not bound": Plant(
        "workers.binder.claim_free",
        "            if is_unbound and (work.group is None or is_unready):\n",
        "            if is_unbound:\n",
        found_by=475,
    ),
}
