"""Scenarios decided by cache, framework and engine in this process, without queue or messages.

Each attempt is decided twice: by the framework over all nodes with every detail, and by the engine
that keeps results from one attempt to the next. Where they disagree, the decision says so in a
field that the corpus does not have (`engine`), and so fails.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import numpy as np

from bench.conformance.claims import bind_claims
from bench.conformance.evaluator import Outcome
from bench.conformance.nominated_pods import NominatedPods, status_shape
from bench.conformance.scenario import ClusterObjects, Scenario, as_listed, other_objects
from bench.conformance.shapes import FINISHED, object_kind
from daemon.core.cache import Cache
from daemon.core.pod_classes import PodClass
from shared.columns.schema import CPU, EPHEMERAL_STORAGE, MEMORY, Int64s, Rows
from shared.columns.table import NodeTable
from shared.config import API_VERSION, KIND, parse_configuration
from shared.framework.best_rows import Ties
from shared.framework.diagnosis import (
    FitError,
    diagnose,
    filter_candidates,
    node_verdicts,
    rows_without_verdict,
)
from shared.framework.engine import Choice, ClassEvaluation, Engine
from shared.framework.feature_gates import FeatureGates
from shared.framework.nominated_pods import run_filters_with_nominated
from shared.framework.outcomes import PreFilterOutcome, PreScoreError
from shared.framework.post_filter import FailedAttempt, run_post_filters
from shared.framework.preemption import Preemption
from shared.framework.profiles import ProfileConfig
from shared.framework.registry import BuiltProfile, Registry
from shared.framework.score_range import out_of_range
from shared.framework.status import SUCCESS
from shared.kube.objects import Pod
from shared.kube.pod_record import PodRecord, split_pod
from shared.plugin_names import DEFAULT_PREEMPTION
from shared.plugins.dynamic_resources import DynamicResources

Json = dict[str, Any]

NO_NODES: Final = "no nodes available to schedule pods"
BEING_DELETED: Final = "pod is being deleted"
FIRST_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Start of the pod that is bound first; each further one starts a minute later."""


class EngineEvaluator:
    """All fields of a decision are seen."""

    observes: frozenset[str] = frozenset(
        {
            "pod",
            "requests",
            "result",
            "pre_enqueue",
            "pre_filter",
            "pre_filter_status",
            "pre_filter_nodes",
            "filter",
            "filter_each",
            "used_nominated_node",
            "feasible",
            "scores",
            "node",
            "message",
            "message_without_preemption",
            "unschedulable_plugins",
            "pending_plugins",
            "feasible_count",
            "total",
            "post_filter",
            "nominated_node",
            "claims",
            "pre_bind",
        }
    )

    def run(self, scenario: Scenario, *, is_compact: bool) -> Outcome:
        """Decides all attempts of a scenario."""
        gates = FeatureGates(scenario.feature_gates)
        profile = Registry(gates, entry_points=()).build(_profile(scenario))
        cache = _filled_cache(scenario.objects)
        session = _Session(cache, profile, scenario.preemption_mode)
        pods = {_key(pod): split_pod(pod) for pod in scenario.pending}
        session.nominate_all(pods.values())
        decisions = []
        for key in scenario.attempts or list(pods):
            if session.is_bound(pods[key]):
                continue
            decide = session.decide_compactly if is_compact else session.decide
            decisions.append({"pod": key, **decide(pods[key])})
        weights = {entry.plugin.NAME: entry.weight for entry in profile.framework.scores}
        return Outcome(decisions, _node_states(cache), weights)


class _ScoreOutOfRange(Exception):  # noqa: N818  # Never leaves this module: a step's way to its end.
    """The nodes cannot be compared."""


def _profile(scenario: Scenario) -> ProfileConfig:
    document = {"apiVersion": API_VERSION, "kind": KIND, **scenario.config}
    text = msgspec.json.encode(document).decode()  # JSON is YAML.
    return parse_configuration(text, f"{scenario.name}.config").profiles[0]


def _filled_cache(objects: ClusterObjects) -> Cache:
    cache = Cache()
    for field, key, item in other_objects(objects):
        cache.objects.put(object_kind(field), key, item)
    for node in as_listed(objects.nodes):
        cache.add_node(node)
    for pod in objects.pods:
        if pod.status.phase not in FINISHED:
            cache.add_pod(split_pod(pod))
    return cache


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


class _Session:
    """The attempts of one scenario, one after the other on the same cache."""

    def __init__(self, cache: Cache, profile: BuiltProfile, preemption_mode: str) -> None:
        self._cache = cache
        self._nominated = NominatedPods(cache, preemption_mode)
        self._bound_uids: set[str] = set()
        self._profile = profile
        self._framework = profile.framework
        frameworks = {profile.scheduler_name: profile.framework}
        self._engine = Engine(cache.view, cache.journal, frameworks)

    def nominate_all(self, records: Iterable[PodRecord]) -> None:
        """Nominations stand from the start, whoever comes first."""
        for record in records:
            if record.nominated_node_name:
                pod_class = self._cache.classes.acquire(record)
                self._nominated.nominate(record, pod_class, record.nominated_node_name)

    def is_bound(self, record: PodRecord) -> bool:
        """Also a pod that was bound and became a victim since: it is gone."""
        return record.uid in self._bound_uids

    def decide(self, record: PodRecord) -> Json:
        """One attempt with every detail."""
        pod_class = self._cache.classes.acquire(record)
        refused = self._refused_early(record, pod_class)
        if refused is not None:
            return {**refused, "requests": _requests(pod_class)}
        outcome = self._framework.run_pre_filters(pod_class.info, self._cache.view)
        decision: Json = {
            "requests": _requests(pod_class),
            "pre_filter": {name: _pre_filter(name, outcome) for name in outcome.each},
        }
        if outcome.status.is_success and outcome.node_names is not None:
            decision["pre_filter_nodes"] = sorted(outcome.node_names)
        if not outcome.status.is_success:
            decision["pre_filter_status"] = status_shape(outcome.status, outcome.status.plugin)
            return {**decision, **self._unschedulable(record, pod_class, outcome)}
        nominated = self._takes_nominated(record, pod_class, outcome, decision)
        if nominated is not None:
            feasible = nominated
        else:
            feasible = self._filtered(record, pod_class, outcome, decision)
        if self._framework.has_failed(outcome):
            failed = self._failed(record, pod_class, outcome, decision)
            if failed is not None:
                return failed
        if not len(feasible):
            return {**decision, **self._unschedulable(record, pod_class, outcome)}
        if len(feasible) == 1:
            choice = Choice(int(feasible[0]), 0, 1)
        else:
            try:
                choice = self._scored(pod_class, feasible, decision)
            except (PreScoreError, _ScoreOutOfRange) as error:
                return {**decision, "result": "error", "message": str(error)}
        decision.update(self._engine_disagreement(record, pod_class, choice))
        return {**decision, **self._bound(record, pod_class, choice.row)}

    def decide_compactly(self, record: PodRecord) -> Json:
        """One attempt by the engine alone."""
        pod_class = self._cache.classes.acquire(record)
        refused = self._refused_early(record, pod_class)
        if refused is not None:
            return refused
        evaluation, choice = self._engines_choice(record, pod_class)
        if choice is None:
            error = self._engine.failure(evaluation)
            if error.error:
                return {"result": "error", "message": error.error}
            preemptor = self._nominated.preemptor(record, pod_class)
            result = self._engine.post_filter(evaluation, preemptor, self._first_by_name)
            if result.preemption is not None:
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
        for plugin in self._profile.plugins_at["preEnqueue"]:
            status = plugin.pre_enqueue(pod_class.info, self._cache.view)
            if not status.is_success:
                return {"result": "gated", "pre_enqueue": status_shape(status, status.plugin)}
        if not len(self._cache.nodes.order):
            self._nominated.nominate(record, pod_class, "")
            return {"result": "unschedulable", "message": NO_NODES, "nominated_node": ""}
        return None

    def _takes_nominated(
        self, record: PodRecord, pod_class: PodClass, outcome: PreFilterOutcome, decision: Json
    ) -> Rows | None:
        """The node that the pod is nominated to, where it is enough; None otherwise."""
        row = self._nominated.preemptor(record, pod_class).nominated_row
        if row < 0 or not self._cache.nodes.present[row]:
            return None
        rows = np.array([row], np.intp)
        view = self._cache.view
        filtered = run_filters_with_nominated(
            self._framework, pod_class.info, view, outcome, rows, record.uid
        )
        if not filtered.passes.all():
            return None
        name = self._cache.nodes.name_of(row)
        decision["filter"] = {name: {"code": "Success"}}
        decision["feasible"] = [name]
        decision["used_nominated_node"] = True
        return rows

    def _filtered(
        self, record: PodRecord, pod_class: PodClass, outcome: PreFilterOutcome, decision: Json
    ) -> Rows:
        """The feasible rows; writes what the filters said into the decision."""
        framework, view = self._framework, self._cache.view
        nodes = self._cache.nodes
        rows = framework.candidate_rows(outcome, view)
        filtered = run_filters_with_nominated(
            framework, pod_class.info, view, outcome, rows, record.uid
        )
        feasible = rows_without_verdict(filtered)
        names = [nodes.name_of(row) for row in feasible.tolist()]
        said = {name: {"code": "Success"} for name in names}
        for verdict in node_verdicts(framework, filtered):
            said[nodes.name_of(verdict.row)] = status_shape(verdict.status, verdict.status.plugin)
        decision["filter"] = said
        decision["feasible"] = sorted(names)
        decision["filter_each"] = self._each_filter(pod_class, outcome, rows)
        return feasible

    def _each_filter(self, pod_class: PodClass, outcome: PreFilterOutcome, rows: Rows) -> Json:
        """Node -> plugin -> status, for every filter that would reject the node on its own."""
        each: dict[str, Json] = {}
        for index in self._framework.plan(outcome).active:
            plugin = self._framework.filters[index]
            state = outcome.states.get(plugin.NAME)
            verdicts = plugin.filter(state, pod_class.info, self._cache.view, rows)
            for position in np.flatnonzero(verdicts.codes).tolist():
                name = self._cache.nodes.name_of(int(rows[position]))
                status = verdicts.status(position, plugin.NAME)
                each.setdefault(name, {})[plugin.NAME] = status_shape(status)
        return each

    def _failed(
        self, record: PodRecord, pod_class: PodClass, outcome: PreFilterOutcome, decision: Json
    ) -> Json | None:
        """The attempt as an error, where a filter came to one on a node that it was asked about."""
        framework, info, view = self._framework, pod_class.info, self._cache.view
        filtered = filter_candidates(framework, info, view, outcome, record.uid)
        error = diagnose(framework, info, view, outcome, filtered)
        if not error.error:
            return None
        kept = {field: decision[field] for field in ("requests", "pre_filter")}
        evaluation, chosen = self._engines_choice(record, pod_class)
        if chosen is not None:
            kept["engine"] = f"chose {chosen}, the framework failed"
        else:
            kept.update(self._failure_disagreement(self._engine.failure(evaluation), error))
        return {**kept, "result": "error", "message": error.error}

    def _scored(self, pod_class: PodClass, feasible: Rows, decision: Json) -> Choice:
        framework, view = self._framework, self._cache.view
        active, skipped = framework.run_pre_score(pod_class.info, view, feasible)
        raws, normalized, totals = framework.run_scores(pod_class.info, view, active, feasible)
        problem = out_of_range(active, normalized)
        if problem:
            raise _ScoreOutOfRange(problem)
        plugins = {}
        for entry, raw, score in zip(active, raws, normalized, strict=True):
            plugins[entry.plugin.NAME] = {
                "weight": entry.weight,
                "raw": self._by_node(feasible, raw),
                "normalized": self._by_node(feasible, score),
            }
        decision["scores"] = {
            "plugins": plugins,
            "skipped": sorted(skipped),
            "total": self._by_node(feasible, totals),
        }
        best = int(totals.max())
        row = self._first_by_name(feasible[totals == best])
        return Choice(row, best, len(feasible))

    def _engines_choice(
        self, record: PodRecord, pod_class: PodClass
    ) -> tuple[ClassEvaluation, Choice | None]:
        """What the engine makes of the same pod."""
        info, profile = pod_class.info, self._profile.scheduler_name
        evaluation = self._engine.evaluate(pod_class.class_id, info, profile)
        if self._nominated.node_of(record):
            row = self._nominated.preemptor(record, pod_class).nominated_row
            if self._engine.takes_nominated(evaluation, row, record.uid):
                return evaluation, Choice(row, 0, 1)
            evaluation = self._engine.evaluate_alone(info, profile, record.uid)
        return evaluation, self._engine.choose(evaluation, self._first_by_name)

    def _engine_disagreement(self, record: PodRecord, pod_class: PodClass, choice: Choice) -> Json:
        _, chosen = self._engines_choice(record, pod_class)
        if chosen == choice:
            return {}
        return {"engine": f"chose {chosen}, the framework {choice}"}

    def _unschedulable(
        self, record: PodRecord, pod_class: PodClass, outcome: PreFilterOutcome
    ) -> Json:
        framework, info, view = self._framework, pod_class.info, self._cache.view
        filtered = filter_candidates(framework, info, view, outcome, record.uid)
        error = diagnose(framework, info, view, outcome, filtered)
        if error.error:
            return {"result": "error", "message": error.error}
        decision: Json = {
            "result": "unschedulable",
            "message_without_preemption": error.message(),
            "unschedulable_plugins": sorted(error.plugins),
        }
        if error.pending_plugins:
            decision["pending_plugins"] = sorted(error.pending_plugins)
        evaluation, _ = self._engines_choice(record, pod_class)
        decision.update(self._failure_disagreement(self._engine.failure(evaluation), error))
        if framework.post_filters:
            attempt = FailedAttempt(
                framework,
                self._nominated.preemptor(record, pod_class),
                view,
                outcome,
                filtered,
                self._first_by_name,
            )
            decision.update(self._post_filtered(record, pod_class, error, attempt))
        return decision

    def _post_filtered(
        self, record: PodRecord, pod_class: PodClass, error: FitError, attempt: FailedAttempt
    ) -> Json:
        """What PostFilter found, and carries it out."""
        result = run_post_filters(self._framework.post_filters, attempt)
        decision: Json = {"message": error.message(result.status.message)}
        # Where another plugin ended PostFilter, the corpus says nevertheless who could preempt.
        preemption = result.preemption or self._preemption_alone(attempt)
        said = status_shape(result.status, result.status.plugin)
        decision["post_filter"] = {"status": said}
        if preemption is not None:
            decision["post_filter"] = self._nominated.shape(pod_class, preemption, said)
        if result.preemption is not None:
            self._nominated.carry_out(record, pod_class, result.preemption)
        decision["nominated_node"] = self._nominated.node_of(record)
        return decision

    def _preemption_alone(self, attempt: FailedAttempt) -> Preemption | None:
        plugins = [p for p in self._framework.post_filters if p.NAME == DEFAULT_PREEMPTION]
        return run_post_filters(plugins, attempt).preemption

    @staticmethod
    def _failure_disagreement(engines: FitError, full: FitError) -> Json:
        return {} if engines == full else {"engine": f"failed with {engines}, not {full}"}

    def _bound(self, record: PodRecord, pod_class: PodClass, row: int) -> Json:
        """Assumes and then confirms the pod on its node, as the API server would."""
        name = self._cache.nodes.name_of(row)
        self._cache.assume_pod(record, name, pod_class)
        for plugin in self._profile.plugins_at["reserve"]:
            status = plugin.reserve(record, pod_class.info, self._cache.view, row)
            if not status.is_success:
                self._cache.forget_pod(record.uid)
                return {"result": "reserve_failed", "message": status.message}
        decision: Json = {"result": "scheduled", "node": name}
        for plugin in self._profile.plugins_at["reserve"]:
            if isinstance(plugin, DynamicResources):
                decision |= bind_claims(plugin, record, pod_class.info, self._cache, row)
        started = FIRST_START + timedelta(minutes=len(self._bound_uids))
        self._bound_uids.add(record.uid)
        self._nominated.nominate(record, pod_class, "")
        self._cache.add_pod(
            msgspec.structs.replace(record, node_name=name, started=started.isoformat())
        )
        return decision

    def _first_by_name(self, rows: Rows | Ties) -> int:
        named: list[int] = rows.tolist()
        return min(named, key=self._cache.nodes.name_of)

    def _by_node(self, rows: Rows, values: Int64s) -> dict[str, int]:
        names = (self._cache.nodes.name_of(row) for row in rows.tolist())
        return dict(zip(names, values.tolist(), strict=True))


# Shapes of the corpus -------------------------------------------------------------------------------


def _pre_filter(name: str, outcome: PreFilterOutcome) -> Json:
    shape = status_shape(outcome.each.get(name, SUCCESS))
    names = outcome.each_node_names.get(name)
    if names is not None:
        shape["nodes"] = sorted(names)
    return shape


def _requests(pod_class: PodClass) -> Json:
    requests = pod_class.info.requests
    shape: Json = {
        "milli_cpu": requests.milli_cpu,
        "memory": requests.memory_bytes,
        "ephemeral_storage": requests.ephemeral_storage_bytes,
        "nonzero_milli_cpu": requests.nonzero_milli_cpu,
        "nonzero_memory": requests.nonzero_memory_bytes,
    }
    if requests.scalars:
        shape["scalar"] = requests.scalars
    return shape


def _node_states(cache: Cache) -> dict[str, Json]:
    states: dict[str, Json] = {}
    nodes = cache.nodes
    for info in cache.node_infos():
        if info.node is None:
            continue
        row = info.row
        state: Json = {
            "requested": _amounts(nodes, nodes.requested[:, row]),
            "allocatable": _amounts(nodes, nodes.allocatable[:, row]),
            "nonzero_requested": {
                "milli_cpu": nodes.nonzero_cpu_milli.item(row),
                "memory": nodes.nonzero_memory_bytes.item(row),
            },
            "allowed_pods": nodes.allowed_pod_count.item(row),
            "pods": sorted(pod.record.key for pod in info.pods.values()),
        }
        state["requested"]["scalar"].update(cache.asked_in_vain(info))
        ports = nodes.ports.values[nodes.ports_id.item(row)]
        if ports:
            state["used_ports"] = sorted(f"{protocol}/{ip}/{port}" for ip, protocol, port in ports)
        if info.pvc_refs:
            state["pvc_refs"] = dict(info.pvc_refs)
        states[info.name] = state
        assert nodes.pod_count.item(row) == len(info.pods), "pod_count disagrees with the pods"
    return states


def _amounts(nodes: NodeTable, column: Int64s) -> Json:
    amounts = column.tolist()
    base = len((CPU, MEMORY, EPHEMERAL_STORAGE))
    names = nodes.resources.values
    return {
        "milli_cpu": amounts[CPU],
        "memory": amounts[MEMORY],
        "ephemeral_storage": amounts[EPHEMERAL_STORAGE],
        "scalar": {
            name: amount
            for name, amount in zip(names[base:], amounts[base:], strict=False)
            if amount
        },
    }
