"""Scenarios decided by owner, scoring worker and null binder as real processes.

This process plays the cluster. A scenario is what a watch would tell: the objects of the one before
go, its own come, then its pending pods appear one at a time, each when its turn comes; a pod that
was bound comes back with its node, as the API server would show it. All pods exist from the start in
the scenario, but only those with a nomination count for others, and these are shown from the start
with a scheduling gate, so that they are known and not tried.

A pod whose attempt failed is taken away and, if the owner gave it a nomination, shown with the gate
again. When its next turn comes, it appears as if it were new, with the same uid: a second attempt
starts from nothing, and does not wait for back-off or for an event.

Not seen from outside, and counted as left out by the runner: everything that a plugin said of a
single node or before Filter, and scores. What is seen: result, node, message, the plugins that
rejected the pod, nominations, and at the end what is on each node in the owner's cache.
"""

import queue
import time
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any, Final, assert_never

import msgspec

from bench.conformance.claims import shown_claims, written_claim
from bench.conformance.corpus_evaluator import UNSEEN, Outcome, Unseen
from bench.conformance.pipeline_processes import PipelineError, PipelineProcesses
from bench.conformance.pipeline_profiles import Profile, ProfileBook, Setting
from bench.conformance.scenario import (
    Change,
    ClusterObjects,
    Scenario,
    as_listed,
    other_objects,
    pod_key,
    still_going,
)
from bench.conformance.scripted_extenders import ScriptedExtenders
from bench.conformance.shapes import node_shapes, object_kind
from bench.null_binder import Bound, Evicted, Line, Nominated, Refused, Released
from shared.dra.device_index import CLAIMS
from shared.errors import OperationalError
from shared.feature_gates import SCHEDULER_ASYNC_PREEMPTION
from shared.kube.api.core_v1 import FINISHED_PHASES, Pod, PodSchedulingGate
from shared.kube.pod_record import PodRecord, split_pod
from shared.messages.admin import PendingPod, QueueAnswer
from shared.messages.to_owner import (
    AdapterMessage,
    NodeChanged,
    NodeDeleted,
    ObjectChanged,
    ObjectDeleted,
    PodChanged,
    PodDeleted,
)

Json = dict[str, Any]

HOLD: Final = PodSchedulingGate("berth.conformance/not-yet")
FIRST_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
ASK_AFTER_S: Final = 0.004
"""Gated and skipped pods cause no message: when nothing was heard for so long, the owner is asked
what became of the pod. The answer decides, not the time that went by."""
ASK_AFTER_S_MAX: Final = 0.5
ATTEMPT_S_MAX: Final = 120.0
REJECTIONS_MAX: Final = 16
"""Proposals that the owner refused in one scenario. None is right, and many mean that owner and worker
will never agree."""

BETRAYING: Final = (
    "proposals_rejected", "proposals_stale", "binds_failed", "binds_repeated", "disagreements",
    "foreign_binds", "foreign_pods", "objects_rejected", "assumed_expired", "missed_deletes",
)  # fmt: skip
"""Counters of the owner that stand still as long as all is well, with one worker and one binder."""
BINDS_FAILED: Final = "binds_failed"
"""The one of them that moves where an extender refuses to bind."""

COMPACT: Final = frozenset({"pod", "result", "node", "message", "message_without_preemption"})
"""What compact decisions record of what is seen here."""

_encoder: Final = msgspec.msgpack.Encoder()


class UnexpectedError(OperationalError):
    """The processes did what a scenario does not allow for; they go on."""


class PipelineEvaluator:
    """Runs on several sets of processes at a time, one for each lane; `run` may be called by so many
    threads. To be closed."""

    asks_extenders = True
    observes = frozenset((
        "pod", "result", "node", "message", "message_without_preemption", "unschedulable_plugins",
        "pending_plugins", "nominated_node", "pre_enqueue", "post_filter", "claims",
    ))  # fmt: skip

    def __init__(self, book: ProfileBook, lane_count: int) -> None:
        self._lanes: queue.Queue[_Lane] = queue.Queue()
        self._all_lanes = [_Lane(book) for _ in range(lane_count)]
        for lane in self._all_lanes:
            self._lanes.put(lane)
        self._book = book

    def run(self, scenario: Scenario, *, is_compact: bool) -> Outcome:
        """Decides all attempts of a scenario."""
        profile = self._book.profile_of(scenario.config, scenario.feature_gates)
        lane = self._lanes.get()
        try:
            outcome = lane.run(scenario, profile)
        finally:
            self._lanes.put(lane)
        if not is_compact:
            return outcome
        compact = [
            {field: value for field, value in decision.items() if field in COMPACT}
            for decision in outcome.decisions
        ]
        return outcome._replace(decisions=compact)

    def close(self) -> None:
        for lane in self._all_lanes:
            lane.close()


RECORDED: Final = ((SCHEDULER_ASYNC_PREEMPTION, False),)
"""Gates with which all scenarios were recorded."""


class _Lane:
    """One set of processes at a time, replaced when a scenario wants other gates or extenders."""

    def __init__(self, book: ProfileBook) -> None:
        self._book = book
        self._setting = Setting()
        self._extenders = ScriptedExtenders()
        self._processes: PipelineProcesses | None = None

    def run(self, scenario: Scenario, profile: Profile) -> Outcome:
        processes = self._ready(profile.setting)
        self._extenders.play(scenario.answers, _by_path(scenario))
        try:
            return self._as_written(_Replay(scenario, profile, processes).run())
        except UnexpectedError:
            raise
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        self._end()
        self._extenders.close()

    def _end(self) -> None:
        if self._processes is not None:
            self._processes.close()
        self._processes = None

    def _ready(self, setting: Setting) -> PipelineProcesses:
        if self._processes is None or self._setting != setting:
            self._end()
            gates = (*RECORDED, *setting.gates)
            text = ",".join(f"{name}={str(is_on).lower()}" for name, is_on in gates)
            document = msgspec.json.encode(self._book.document(setting)).decode()  # JSON is YAML.
            located = self._extenders.located(document).encode()
            self._processes = PipelineProcesses(located, text, self._extenders.address)
            self._setting = setting
        return self._processes

    def _as_written(self, outcome: Outcome) -> Outcome:
        """With the extenders' URLs as the scenario has them."""
        for decision in outcome.decisions:
            if isinstance(decision.get("message"), str):
                decision["message"] = self._extenders.as_written(decision["message"])
        return outcome


class PendingInScenario:
    """A pod of the scenario on its way to a node."""

    def __init__(self, pod: Pod, scheduler_name: str) -> None:
        pod.spec.scheduler_name = scheduler_name
        self._pod = pod
        self.record = split_pod(deepcopy(pod))  # Which empties the one that it is given.
        self.is_bound = False
        self.shown: PodRecord | None = None
        """As the owner knows it now."""
        self.is_held = False
        """It is shown with a gate."""

    @property
    def claim_names(self) -> list[str | None]:
        """Of the resource claims that the pod names directly."""
        return [each.resource_claim_name for each in self._pod.spec.resource_claims or ()]

    def held(self) -> PodRecord:
        """The pod with a gate that keeps it from being tried."""
        spec = self._pod.spec
        gates = [*(spec.scheduling_gates or ()), HOLD]
        held = msgspec.structs.replace(spec, scheduling_gates=gates)
        record = split_pod(deepcopy(msgspec.structs.replace(self._pod, spec=held)))
        nominated = self.record.nominated_node_name
        return msgspec.structs.replace(record, nominated_node_name=nominated)


class _Replay:
    """One scenario on one set of processes."""

    def __init__(self, scenario: Scenario, profile: Profile, processes: PipelineProcesses) -> None:
        self._scenario = scenario
        self._profile = profile
        self._processes = processes
        self._pods = {
            pod_key(pod): PendingInScenario(pod, profile.name_for(pod.spec.scheduler_name))
            for pod in scenario.pending
        }
        self._uids = {
            pod_key(pod): pod.metadata.uid for pod in (*scenario.objects.pods, *scenario.pending)
        }
        self._bound_count = 0
        self._claims = {claim.metadata.key: claim for claim in scenario.objects.resourceclaims}
        """As they were shown last."""
        self._rejected_max = 0
        self._to_tell: list[AdapterMessage] = []
        """Changes that go out with the next pod."""

    def run(self) -> Outcome:
        before = self._processes.ask_queue().counters
        self._rejected_max = before.get("proposals_rejected", 0) + REJECTIONS_MAX
        self._to_tell = [*self._processes.farewell(), *_arrivals(self._scenario.objects)]
        for pending in self._pods.values():
            if pending.record.nominated_node_name:
                self._hold(pending)
        decisions = []
        for number, key in enumerate(self._scenario.order):
            for change in self._scenario.changes_before(number):
                self._processes.feed(self._to_tell)
                self._to_tell = self._changed(change)
            if not self._pods[key].is_bound:
                decisions.append({"pod": key, **self._attempt(self._pods[key])})
        self._processes.feed(self._to_tell)
        settled = self._at_rest()
        nodes = node_shapes(self._processes.ask_dump())
        self._check_counters(before, settled.counters)
        return Outcome(decisions, nodes, self._profile.weights)

    def _changed(self, change: Change) -> list[AdapterMessage]:
        """What a watch tells of a change."""
        kind, key, item = change.kind, change.key, change.item
        if kind == "nodes":
            return [NodeDeleted(key) if item is None else NodeChanged(item)]
        if kind == "pods" and item is None:
            gone = self._processes.shown_pod(self._uids.get(key, ""))
            return [] if gone is None or not gone.node_name else [PodDeleted(gone)]
        if kind == "pods":
            self._uids[key] = item.metadata.uid
            held = self._processes.shown_pod(item.metadata.uid)
            return [PodChanged(still_going(split_pod(item), held))]
        if item is None:
            return [ObjectDeleted(object_kind(kind), key)]
        body = msgspec.Raw(_encoder.encode(item))
        return [ObjectChanged(object_kind(kind), key, body)]

    # One attempt ---------------------------------------------------------------------------------

    def _attempt(self, pending: PendingInScenario) -> Json:
        self._withdraw(pending)
        self._show(pending, pending.record)
        self._processes.feed(self._to_tell)
        self._to_tell = []
        line = self._outcome_of(pending.record)
        if isinstance(line, Bound):
            return self._bound(pending, line)
        decision: Json
        if isinstance(line, Refused):
            decision = self._refused(pending, line)
        elif line is not None and not pending.record.deleted:
            decision = {"result": "gated", "pre_enqueue": UNSEEN}
        elif line is not None:
            # Being deleted is looked at when the pod is taken from the queue, and a gated pod never
            # is; the scenario looks at it first.
            decision = {"result": UNSEEN, "message": UNSEEN, "pre_enqueue": UNSEEN}
        else:
            decision = {"result": "skipped", "message": UNSEEN}
        self._withdraw(pending)
        if pending.record.nominated_node_name:
            self._hold(pending)
        return decision

    def _outcome_of(self, record: PodRecord) -> Line | PendingPod | None:
        """What became of the pod: the binder's line, the pod if it is gated, None if skipped."""
        deadline_s = time.monotonic() + ATTEMPT_S_MAX
        wait_s = ASK_AFTER_S
        while True:
            line = self._next_line(record, wait_s)
            if line is not None:
                return line
            wait_s = min(2 * wait_s, ASK_AFTER_S_MAX)
            answer = self._processes.ask_queue()
            held = _find(answer, record.uid)
            if time.monotonic() > deadline_s:
                place = "not in the queue" if held is None else held.place
                raise PipelineError(f"{record.key} is still {place}; {answer.counters}")
            if not self._processes.has_heard_all(answer):
                continue
            if answer.counters.get("proposals_rejected", 0) > self._rejected_max:
                raise PipelineError(f"the owner refuses what the worker proposes for {record.key}")
            if held is None and not answer.binds_in_flight:
                # Bound meanwhile? Then the line was written before the owner heard of it.
                return self._next_line(record, 0.0)
            if held is None:
                continue  # The order is on its way to the binder, or its answer to the owner.
            if held.gated_by:
                return held
            self._processes.check()

    def _next_line(self, record: PodRecord, timeout_s: float) -> Line | None:
        while True:
            line = self._processes.next_line(timeout_s)
            match line:
                case Evicted():
                    self._evict(line.uid)
                case Nominated():
                    self._nominate(line)
                case Released():
                    pass  # In the corpus it has no effect on later attempts.
                case None:
                    return None
                case Bound() | Refused():
                    if line.uid != record.uid:
                        raise PipelineError(f"while {record.key} was tried, {line.pod} got {line}")
                    return line
                case _:
                    assert_never(line)

    def _evict(self, uid: str) -> None:
        """Does to a victim what the scenario says."""
        victim = self._processes.shown_pod(uid)
        if victim is None:
            return
        going = msgspec.structs.replace(victim, deleted=_time(0), is_preempted=True)
        becomes: dict[str, list[AdapterMessage]] = {
            # The owner takes it for one that goes, unless it hears of it anew.
            "none": [PodDeleted(victim), PodChanged(victim)],
            "nominate": [PodChanged(going)],
            "evict": [PodDeleted(victim)],
        }
        changes = becomes[self._scenario.preemption_mode]
        if changes[0] not in self._to_tell:
            self._to_tell += changes

    def _nominate(self, line: Nominated) -> None:
        """A nomination of another pod is ended by a preemptor."""
        pending = next((p for p in self._pods.values() if p.record.uid == line.uid), None)
        if pending is None:
            return
        if self._scenario.preemption_mode != "none":
            pending.record = msgspec.structs.replace(pending.record, nominated_node_name=line.node)
        if pending.is_held:
            # Where nothing is to happen, the owner is told anew what it has just given up.
            self._withdraw(pending)
            if pending.record.nominated_node_name:
                self._hold(pending)

    def _bound(self, pending: PendingInScenario, line: Bound) -> Json:
        for work in line.claims:
            key = f"{work.namespace}/{work.name}"
            claim = written_claim(work, self._claims.get(key), pending.record)
            self._claims[key] = claim
            self._to_tell.append(ObjectChanged(CLAIMS, key, msgspec.Raw(_encoder.encode(claim))))
        self._at_rest()  # As where it was recorded: the next attempt begins when this binding is over.
        started = _time(self._bound_count)
        self._bound_count += 1
        pending.is_bound = True
        bound = msgspec.structs.replace(pending.record, node_name=line.node, started=started)
        self._show(pending, bound)
        claims = shown_claims(pending.record.namespace, pending.claim_names, self._claims)
        return {"result": "scheduled", "node": line.node, **claims}

    def _refused(self, pending: PendingInScenario, line: Refused) -> Json:
        held = _find(self._processes.ask_queue(), pending.record.uid)
        if held is None:
            raise PipelineError(f"{line.pod} got a verdict and is not in the queue")
        if self._scenario.preemption_mode != "none" or not held.nominated_node:
            # Where preemptions are not carried out, a nomination may still come to its end.
            pending.record = msgspec.structs.replace(
                pending.record, nominated_node_name=held.nominated_node
            )
        # Those that were going away already are not ordered to go, and are victims nevertheless.
        for uid in held.awaited_victims:
            self._evict(uid)
        if line.reason != "Unschedulable":
            return {"result": "error", "message": line.message}
        decision: Json = {"result": "unschedulable", **self._after_filters(line.message, held)}
        if held.unschedulable_plugins:
            decision["unschedulable_plugins"] = held.unschedulable_plugins
        if held.pending_plugins:
            decision["pending_plugins"] = held.pending_plugins
        return decision

    def _after_filters(self, message: str, held: PendingPod) -> Json:
        return {
            "message": message,
            "message_without_preemption": UNSEEN,
            "nominated_node": self._nominated_node(held),
            "post_filter": UNSEEN,
        }

    def _nominated_node(self, held: PendingPod) -> str | Unseen:
        """The owner nominates whenever it preempts, also where the scenario says that it shall not."""
        return UNSEEN if self._scenario.preemption_mode == "none" else held.nominated_node

    # What the cluster shows ----------------------------------------------------------------------

    def _show(self, pending: PendingInScenario, record: PodRecord) -> None:
        pending.shown = record
        pending.is_held = False
        self._to_tell.append(PodChanged(record))

    def _hold(self, pending: PendingInScenario) -> None:
        """Twice: a pod that comes with a gate is not nominated yet, one that is updated is."""
        held = pending.held()
        self._show(pending, held)
        newer = f"{held.resource_version}0"
        self._show(pending, msgspec.structs.replace(held, resource_version=newer))
        pending.is_held = True

    def _withdraw(self, pending: PendingInScenario) -> None:
        if pending.shown is not None:
            self._to_tell.append(PodDeleted(pending.shown))
            pending.shown = None

    # At the end ----------------------------------------------------------------------------------

    def _at_rest(self) -> QueueAnswer:
        """Until the owner has heard everything and nothing is on its way."""
        deadline_s = time.monotonic() + ATTEMPT_S_MAX
        while True:
            answer = self._processes.ask_queue()
            if self._processes.has_heard_all(answer) and not answer.binds_in_flight:
                return answer
            self._processes.check()
            if time.monotonic() > deadline_s:
                raise PipelineError(f"the owner does not come to rest; {answer.counters}")

    def _check_counters(self, before: dict[str, int], after: dict[str, int]) -> None:
        moved = {
            name: after.get(name, 0) - before.get(name, 0)
            for name in BETRAYING
            if not (name == BINDS_FAILED and self._scenario.answers)
            if after.get(name, 0) != before.get(name, 0)
        }
        if moved:
            told = ", ".join(f"{name} by {count}" for name, count in moved.items())
            raise UnexpectedError(f"the owner's counters rose: {told}")


def _arrivals(objects: ClusterObjects) -> list[AdapterMessage]:
    """The cluster at the start: other kinds, then nodes, then bound pods."""
    messages: list[AdapterMessage] = []
    for field, key, item in other_objects(objects):
        body = msgspec.Raw(_encoder.encode(item))
        messages.append(ObjectChanged(object_kind(field), key, body))
    messages += [NodeChanged(node) for node in as_listed(objects.nodes)]
    messages += [
        PodChanged(split_pod(pod))
        for pod in objects.pods
        if pod.status.phase not in FINISHED_PHASES
    ]
    return messages


def _by_path(scenario: Scenario) -> dict[str, bytes]:
    """What is read whole where extenders are asked."""
    if not scenario.answers:
        return {}
    encode = msgspec.json.Encoder().encode
    found = {f"/api/v1/nodes/{n.metadata.name}": encode(n) for n in scenario.objects.nodes}
    for pod in (*scenario.objects.pods, *scenario.pending):
        found[f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"] = encode(pod)
    return found


def _time(minutes: int) -> str:
    return f"{FIRST_START + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"


def _find(answer: QueueAnswer, uid: str) -> PendingPod | None:
    return next((pod for pod in answer.pods if pod.uid == uid), None)
