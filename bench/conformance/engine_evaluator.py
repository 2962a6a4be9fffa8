"""Scenarios decided by cache, framework and engine in this process, without queue or messages.

Each attempt is decided twice: by the framework asked about one node at a time, with every detail, and
by the engine that keeps results from one attempt to the next. Where they disagree, the decision says so
in a field that the corpus does not have (`engine`), and so fails.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import numpy as np

from bench.conformance.claims import bind_claims
from bench.conformance.corpus_evaluator import Outcome
from bench.conformance.nominated_family import NominatedPods, status_shape
from bench.conformance.one_by_one import FastWays, SlowAttempt, disagreements
from bench.conformance.scenario import (
    Change,
    ClusterObjects,
    Scenario,
    as_listed,
    other_objects,
    pod_key,
    still_going,
)
from bench.conformance.shapes import node_shapes, object_kind, weights_of
from daemon.core.administration import node_lines
from daemon.core.cache import Cache
from daemon.core.pod_classes import PodClass
from daemon.owner.owner_assembly import with_method
from shared.columns.schema import Int64s, Rows
from shared.config import API_VERSION, KIND, parse_configuration
from shared.engine.best_rows import Ties
from shared.engine.evaluation import Evaluation
from shared.feature_gates import DEFAULT_GATES, FeatureGates
from shared.framework.runtime.diagnosis import node_verdicts
from shared.framework.runtime.prepared_pod import prepared
from shared.framework.runtime.registry import BuiltProfile
from shared.kube.api.core_v1 import FINISHED_PHASES
from shared.kube.pod_record import PodRecord, scheduler_name_of, split_pod
from shared.plugin_names import DEFAULT_PREEMPTION
from shared.plugins.devices.dynamic_resources import DynamicResources
from shared.plugins.in_tree import InTreeRegistry
from workers.scorer.engine import Choice
from workers.scorer.evaluator import post_filter

Json = dict[str, Any]

NO_NODES: Final = "no nodes available to schedule pods"
BEING_DELETED: Final = "pod is being deleted"
FIRST_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Start of the pod that is bound first; each further one starts a minute later."""


class EngineEvaluator:
    """All fields of a decision are seen."""

    asks_extenders = False
    observes = frozenset((
        "pod", "requests", "result", "pre_enqueue", "pre_filter", "pre_filter_status",
        "pre_filter_nodes", "filter", "filter_each", "used_nominated_node", "feasible", "scores",
        "node", "message", "message_without_preemption", "unschedulable_plugins", "pending_plugins",
        "feasible_count", "total", "post_filter", "nominated_node", "claims", "pre_bind",
    ))  # fmt: skip

    def run(self, scenario: Scenario, *, is_compact: bool) -> Outcome:
        """Decides all attempts of a scenario."""
        profiles = _profiles(scenario)
        cache = filled_cache(scenario.objects, FeatureGates(scenario.feature_gates))
        session = _Session(cache, profiles, scenario)
        decisions = []
        for number, key in enumerate(scenario.order):
            session.change(scenario.changes_before(number))
            if session.is_bound(key):
                continue
            decide = session.decide_compactly if is_compact else session.decide
            decisions.append({"pod": key, **decide(key)})
        weights = weights_of(next(iter(profiles.values())).framework)
        return Outcome(decisions, node_shapes(node_lines(cache)), weights)


def _profiles(scenario: Scenario) -> dict[str, BuiltProfile]:
    """By schedulerName, the first one first."""
    document = {"apiVersion": API_VERSION, "kind": KIND, **scenario.config}
    text = msgspec.json.encode(document).decode()  # JSON is YAML.
    registry = InTreeRegistry(FeatureGates(scenario.feature_gates), entry_points=())
    configured = parse_configuration(text, f"{scenario.name}.config").profiles
    built = [registry.build(profile) for profile in configured]
    return {each.scheduler_name: each for each in built}


def filled_cache(objects: ClusterObjects, gates: FeatureGates = DEFAULT_GATES) -> Cache:
    """The owner's cache of a scenario, before its first attempt."""
    cache = Cache(gates)
    for field, key, item in other_objects(objects):
        cache.objects.put(object_kind(field), key, item)
    for node in as_listed(objects.nodes):
        cache.add_node(node)
    for pod in objects.pods:
        if pod.status.phase not in FINISHED_PHASES:
            cache.add_pod(split_pod(pod))
    return cache


class _Session:
    """The attempts of one scenario, one after the other on the same cache."""

    def __init__(self, cache: Cache, profiles: dict[str, BuiltProfile], scenario: Scenario) -> None:
        self._cache = cache
        self._nominated = NominatedPods(cache, scenario.preemption_mode)
        self._bound_uids: set[str] = set()
        self._profiles = profiles
        self._first = next(iter(profiles))
        frameworks = {name: profile.framework for name, profile in profiles.items()}
        self._fast = FastWays(cache.view, frameworks)
        self._engine = self._fast.engine
        self._uids = {
            pod_key(pod): pod.metadata.uid for pod in (*scenario.objects.pods, *scenario.pending)
        }
        self._pods = {pod_key(pod): split_pod(pod) for pod in scenario.pending}
        for record in self._pods.values():
            # Nominations stand from the start, whoever comes first.
            if record.nominated_node_name:
                pod_class = cache.classes.acquire(record)
                self._nominated.nominate(record, pod_class, record.nominated_node_name)

    def is_bound(self, key: str) -> bool:
        """Also a pod that was bound and became a victim since: it is gone."""
        return self._pods[key].uid in self._bound_uids

    def change(self, changes: Iterable[Change]) -> None:
        """Does to the cluster what happens before an attempt."""
        cache = self._cache
        for kind, key, item in ((change.kind, change.key, change.item) for change in changes):
            if kind == "nodes" and item is None:
                cache.remove_node(key)
                self._nominated.refresh()
            elif kind == "nodes":
                cache.add_node(item)
                self._nominated.refresh()
            elif kind == "pods" and item is None:
                cache.remove_pod(self._uids.get(key, ""))
            elif kind == "pods":
                self._uids[key] = item.metadata.uid
                held = cache.get_pod(item.metadata.uid)
                cache.add_pod(still_going(split_pod(item), None if held is None else held.record))
            elif item is None:
                cache.objects.remove(object_kind(kind), key)
            else:
                cache.objects.put(object_kind(kind), key, item)

    def decide(self, key: str) -> Json:
        """One attempt with every detail."""
        record = self._pods[key]
        pod_class = self._cache.classes.acquire(record)
        refused = self._refused_early(record, pod_class)
        if refused is not None:
            return {**refused, "requests": _requests(pod_class)}
        uid = self._nominated.own_uid(record)
        profile = self._profile_of(record)
        pod = prepared(profile.framework, pod_class.info, self._cache.view, uid)
        slow = SlowAttempt(pod, self._first_by_name)
        decision = {"requests": _requests(pod_class), **self._decided(slow)}
        found = disagreements(slow, self._fast, pod_class.class_id, profile.scheduler_name)
        if found:
            decision["engine"] = found
        choice = slow.choice
        if choice is not None:
            decision |= self._bound(record, pod_class, choice.row)
        elif slow.error:
            self._nominated.nominate(record, pod_class, "")
        else:
            decision |= self._unschedulable(record, pod_class, slow)
        return decision

    def _decided(self, slow: SlowAttempt) -> Json:
        """What led to the decision, and the error where it is one."""
        outcome = slow.outcome
        pre_filter = {name: self._pre_filter(name, slow) for name in outcome.each}
        decision: Json = {"pre_filter": pre_filter}
        if outcome.status.is_success and outcome.node_names is not None:
            decision["pre_filter_nodes"] = sorted(outcome.node_names)
        if not outcome.status.is_success:
            decision["pre_filter_status"] = status_shape(outcome.status, outcome.status.plugin)
            if slow.error:
                decision |= {"result": "error", "message": slow.error}
            return decision
        if slow.filter_error:
            kept = {"pre_filter": decision["pre_filter"]}
            return {**kept, "result": "error", "message": slow.filter_error}
        names = self._names(slow.feasible)
        decision["feasible"] = names
        if slow.takes_nominated:
            decision |= {"filter": {names[0]: {"code": "Success"}}, "used_nominated_node": True}
        else:
            decision |= self._filtered(slow, names)
        if slow.error:
            return {**decision, "result": "error", "message": slow.error}
        if len(names) > 1:
            decision["scores"] = self._scores(slow)
        return decision

    def decide_compactly(self, key: str) -> Json:
        """One attempt by the engine alone."""
        record = self._pods[key]
        pod_class = self._cache.classes.acquire(record)
        refused = self._refused_early(record, pod_class)
        if refused is not None:
            return refused
        evaluation, choice = self._engines_choice(record, pod_class)
        if choice is None:
            error = evaluation.fit_error()
            if error.error:
                self._nominated.nominate(record, pod_class, "")
                return {"result": "error", "message": error.error}
            result = post_filter(evaluation, self._first_by_name)
            self._nominated.carry_out(record, pod_class, result.preemption)
            return {"result": "unschedulable", "message": error.message(result.status.message)}
        decision: Json = {"feasible_count": choice.feasible_count}
        if choice.feasible_count > 1:
            decision["total"] = choice.score
        return {**decision, **self._bound(record, pod_class, choice.row)}

    # Steps ------------------------------------------------------------------------------------------

    def _refused_early(self, record: PodRecord, pod_class: PodClass) -> Json | None:
        """What is decided before any node is looked at."""
        if record.deleted:
            return {"result": "skipped", "message": BEING_DELETED}
        for plugin in with_method(self._profile_of(record), "preEnqueue"):
            status = plugin.pre_enqueue(pod_class.info, self._cache.view)
            if not status.is_success:
                return {"result": "gated", "pre_enqueue": status_shape(status, status.plugin)}
        if not len(self._cache.nodes.order):
            self._nominated.nominate(record, pod_class, "")
            return {"result": "unschedulable", "message": NO_NODES, "nominated_node": ""}
        return None

    def _filtered(self, slow: SlowAttempt, feasible: list[str]) -> Json:
        """What the filters said of each node."""
        said = {name: {"code": "Success"} for name in feasible}
        for verdict in node_verdicts(slow.framework, slow.filtered):
            name = self._cache.nodes.name_of(verdict.row)
            said[name] = status_shape(verdict.status, verdict.status.plugin)
        each = self._each_filter(slow)
        wanted = slow.outcome.node_names
        if wanted is not None:  # Not the pod's own node, which is asked wherever it is.
            said = {name: status for name, status in said.items() if name in wanted}
            each = {name: statuses for name, statuses in each.items() if name in wanted}
        return {"filter": said, "filter_each": each}

    def _pre_filter(self, name: str, slow: SlowAttempt) -> Json:
        shape = status_shape(slow.outcome.each[name])
        if name in slow.outcome.narrowed_by:
            plugin = next(each for each in slow.framework.pre_filters if name == each.NAME)
            named = plugin.pre_filter(slow.pod.info, self._cache.view).node_names
            shape["nodes"] = sorted(named or ())
        return shape

    def _each_filter(self, slow: SlowAttempt) -> Json:
        """Node -> plugin -> status, for every filter that would reject the node on its own."""
        each: dict[str, Json] = {}
        rows, framework = slow.filtered.rows, slow.framework
        for index in framework.plan(slow.outcome).active:
            plugin = framework.filters[index]
            state = slow.outcome.states.get(plugin.NAME)
            verdicts = plugin.filter(state, slow.pod.info, self._cache.view, rows)
            for position in np.flatnonzero(verdicts.codes).tolist():
                name = self._cache.nodes.name_of(int(rows[position]))
                status = verdicts.status(position, plugin.NAME)
                each.setdefault(name, {})[plugin.NAME] = status_shape(status)
        return each

    def _scores(self, slow: SlowAttempt) -> Json:
        scored, feasible = slow.scored, slow.feasible
        plugins = {}
        for entry, raw, score in zip(scored.active, scored.raws, scored.normalized, strict=True):
            plugins[entry.plugin.NAME] = {
                "weight": entry.weight,
                "raw": self._by_node(feasible, raw),
                "normalized": self._by_node(feasible, score),
            }
        return {
            "plugins": plugins,
            "skipped": sorted(weights_of(slow.framework).keys() - plugins.keys()),
            "total": self._by_node(feasible, scored.totals),
        }

    def _engines_choice(
        self, record: PodRecord, pod_class: PodClass
    ) -> tuple[Evaluation, Choice | None]:
        """What the engine makes of the same pod."""
        info, profile = pod_class.info, self._profile_of(record).scheduler_name
        evaluation = self._engine.evaluate(pod_class.class_id, info, profile)
        if self._nominated.node_of(record):
            row = self._cache.view.nominations.row_of(record.uid)
            if self._engine.takes_nominated(evaluation, row, record.uid):
                return evaluation, Choice(row, 0, 1)
            evaluation = self._engine.evaluate(pod_class.class_id, info, profile, record.uid)
        return evaluation, self._engine.choose(evaluation, self._first_by_name)

    def _unschedulable(self, record: PodRecord, pod_class: PodClass, slow: SlowAttempt) -> Json:
        error = slow.failure
        decision: Json = {
            "result": "unschedulable",
            "message_without_preemption": error.message(),
            "unschedulable_plugins": sorted(error.plugins),
        }
        if error.pending_plugins:
            decision["pending_plugins"] = sorted(error.pending_plugins)
        if slow.framework.post_filters:
            return decision | self._post_filtered(record, pod_class, slow)
        self._nominated.nominate(record, pod_class, "")
        return decision | {"message": error.message(), "nominated_node": ""}

    def _post_filtered(self, record: PodRecord, pod_class: PodClass, slow: SlowAttempt) -> Json:
        """What PostFilter found, and carries it out."""
        result = slow.post_filtered
        decision: Json = {"message": slow.failure.message(result.status.message)}
        # Where another plugin ended PostFilter, the corpus says nevertheless who could preempt.
        alone = [p for p in slow.framework.post_filters if p.NAME == DEFAULT_PREEMPTION]
        preemption = result.preemption or slow.post_filter(alone).preemption
        told = status_shape(result.status, result.status.plugin)
        decision["post_filter"] = {"status": told}
        if preemption is not None:
            decision["post_filter"] = self._nominated.shape(pod_class, preemption, told)
        self._nominated.carry_out(record, pod_class, result.preemption)
        decision["nominated_node"] = self._nominated.node_of(record)
        return decision

    def _bound(self, record: PodRecord, pod_class: PodClass, row: int) -> Json:
        """Assumes and then confirms the pod on its node, as the API server would."""
        name = self._cache.nodes.name_of(row)
        self._cache.assume_pod(record, name, pod_class)
        for plugin in self._profile_of(record).plugins_at["reserve"]:
            status = plugin.reserve(record, pod_class.info, self._cache.view, row)
            if not status.is_success:
                self._cache.forget_pod(record.uid)
                return {"result": "reserve_failed", "message": status.message}
        decision: Json = {"result": "scheduled", "node": name}
        for plugin in self._profile_of(record).plugins_at["reserve"]:
            if isinstance(plugin, DynamicResources):
                decision |= bind_claims(plugin, record, pod_class.info, self._cache, row)
        started = FIRST_START + timedelta(minutes=len(self._bound_uids))
        self._bound_uids.add(record.uid)
        self._nominated.nominate(record, pod_class, "")
        self._cache.add_pod(
            msgspec.structs.replace(record, node_name=name, started=started.isoformat())
        )
        return decision

    def _profile_of(self, record: PodRecord) -> BuiltProfile:
        """A pod of no profile here is one of the only profile, as the corpus calls them all alike."""
        return self._profiles.get(scheduler_name_of(record.template), self._profiles[self._first])

    def _names(self, rows: Rows) -> list[str]:
        return sorted(self._cache.nodes.name_of(row) for row in rows.tolist())

    def _first_by_name(self, rows: Rows | Ties) -> int:
        named: list[int] = rows.tolist()
        return min(named, key=self._cache.nodes.name_of)

    def _by_node(self, rows: Rows, values: Int64s) -> dict[str, int]:
        names = (self._cache.nodes.name_of(row) for row in rows.tolist())
        return dict(zip(names, values.tolist(), strict=True))


# Shapes of the corpus -------------------------------------------------------------------------------


def _requests(pod_class: PodClass) -> Json:
    requests = pod_class.info.requests
    shape: Json = {
        "milli_cpu": requests.of("cpu"),
        "memory": requests.of("memory"),
        "ephemeral_storage": requests.of("ephemeral-storage"),
        "nonzero_milli_cpu": requests.nonzero_milli_cpu,
        "nonzero_memory": requests.nonzero_memory_bytes,
    }
    if requests.scalars:
        shape["scalar"] = requests.scalars
    return shape
