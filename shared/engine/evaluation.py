"""Evaluation: what the plugins say of all nodes for pods that are alike, kept from one pod to the next.

The simple way evaluates every node for every pod; at 5,000 nodes that is most of a scheduler's time,
and nearly all of it repeats what was computed for the pod before. Here the results for a class of pods,
or for what a family of them has in common, stay in arrays. A placement changes one row; the logs say
which, and only the plugins that read what changed are asked again, for that row alone. A plugin that
computes its answer from more than the row (`Scope`) names the rows to ask again, or makes the evaluation
start afresh, so that a plugin can be right without being clever.

Scorers have evaluations of all rows, with scores; the owner asks about the few rows that were proposed,
and its evaluations know these and no others. It is the same object, and the same changes make it stale.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from shared.columns.answer_table import REMEMBERED_MAX
from shared.columns.journal import PodChange
from shared.columns.rows import union_of
from shared.columns.schema import NO_NODE, NO_ROWS, Bools, Int32s, Int64s, Rows
from shared.engine.class_filters import ClassFilters
from shared.engine.class_scores import ClassScores
from shared.engine.row_states import RowStates
from shared.engine.state_answers import StateAnswers
from shared.framework.cluster_view import ClusterView, Follower
from shared.framework.plugin_api import Crowding, Delta, Reads
from shared.framework.pod_info import PodInfo
from shared.framework.post_filter import Candidates
from shared.framework.runtime.diagnosis import FitError, diagnose, filter_candidates
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.plans import (
    EDITED_BITS,
    MOVING_BITS,
    FilterOutcome,
    PreScoreError,
    told_of,
)
from shared.framework.runtime.prepared_pod import (
    counting_own_node,
    prepared,
    run_filters_with_nominated,
)
from shared.plugins.preemption.potential_victims import BUDGETS

VICTIMS_WIDTH: Final = 4
"""Room for so many victims a node at first."""
_KINDS: Final = frozenset({BUDGETS})


class DryRuns:
    """Of one class of pods, in one state of everything but nodes, pods and nominations. Arrays have
    the node table's capacity."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._follower = Follower(cluster)
        self._victims: Int32s = np.zeros((0, VICTIMS_WIDTH), np.int32)
        """Shape (capacity, the most victims of a node)."""
        self._forget_all()

    def catch_up(self) -> None:
        """Forgets the nodes on which something changed."""
        follower = self._follower
        rows, pod_rows = follower.rows(), follower.pod_rows()
        if (
            rows is None
            or pod_rows is None
            or len(self._known) != self._cluster.nodes.capacity
            or follower.concerns(_KINDS)
        ):
            self._forget_all()
        else:
            self._known[rows] = False
            on_rows = self._cluster.pods.node_row[pod_rows]
            self._known[on_rows[on_rows != NO_NODE]] = False
        follower.note()

    def unknown(self, rows: Rows) -> Rows:
        """Those of the nodes that are to be tried."""
        unknown: Rows = rows[~self._known[rows]]
        return unknown

    def learn(self, rows: Rows, found: Candidates) -> None:
        """`rows` were tried, and `found` are those of them where it helps."""
        self._known[rows] = True
        self._violations[found.rows] = found.violations
        self._counts[rows] = 0
        self._counts[found.rows] = found.counts
        widest = int(found.counts.max(initial=0))
        if widest > self._victims.shape[1]:
            more = widest - self._victims.shape[1]
            self._victims = np.pad(self._victims, ((0, 0), (0, more)))
        victims = self._victims[found.rows]
        victims[self._is_used(found.counts)] = found.victims
        self._victims[found.rows] = victims

    def candidates(self, rows: Rows) -> Candidates:
        """Of the nodes, which are known, those where it helps, in their order."""
        rows = rows[self._counts[rows] > 0]
        counts = self._counts[rows]
        victims: Rows = self._victims[rows][self._is_used(counts)].astype(np.intp)
        return Candidates(rows, self._violations[rows], counts, victims)

    def _is_used(self, counts: Int64s) -> Bools:
        is_used: Bools = np.arange(self._victims.shape[1]) < counts[:, np.newaxis]
        return is_used

    def _forget_all(self) -> None:
        capacity = self._cluster.nodes.capacity
        self._known = np.zeros(capacity, np.bool_)
        self._violations = np.zeros(capacity, np.int64)
        self._counts = np.zeros(capacity, np.int64)
        """Victims of each; 0: it does not help."""
        self._victims = np.zeros((capacity, VICTIMS_WIDTH), np.int32)


EVALUATION_BYTES: Final = 8 << 10
"""About what an evaluation takes beside its arrays."""
OUTDATED_MAX: Final = 64
"""So many times an evaluation is brought up to date without being asked why pods fit nowhere."""
REFUSERS_MAX: Final = 256
"""So many filters with texts of their own are kept, of which some may have nothing to say any more."""
_PODS: Final = Reads.PODS.value


class Alike(NamedTuple):
    """Pods of which plugins say the same as long as they are on no node, though each has claims of its
    own."""

    key: Hashable


class Evaluation:
    """Of pods that are alike to a framework's plugins. Arrays have the table's capacity."""

    def __init__(
        self,
        info: PodInfo,
        framework: Framework,
        cluster: ClusterView,
        states: RowStates | None = None,
        own_uid: str = "",
    ) -> None:
        """`states`: of all rows; without, of those that are asked about."""
        self._cluster = cluster
        self._states = states
        pod = prepared(framework, info, cluster, own_uid)
        self.pod = counting_own_node(pod) if own_uid else pod
        """With `own_uid` of a pod that is evaluated by itself, as its own nomination does not count."""
        self.filters = ClassFilters(self.pod)
        plan = self.pod.plan
        self.stale_by: int = plan.stale_by.value
        """Changes after which to start afresh, as bits of Reads."""
        self.object_kinds = plan.object_kinds
        """The same for objects; None: of any kind."""
        self._is_of_nodes = not self.stale_by & MOVING_BITS and not self.filters.updatable
        """No pod that comes or goes changes what is known of a few rows."""
        self.is_wide = plan.is_wide
        """Pods elsewhere matter: a verdict holds until the next pod is placed."""
        self.scores: ClassScores | None = None
        """None until a pod has two feasible nodes to choose from."""
        self._answers: StateAnswers | None = None
        self._unheeded: set[int] = set()
        """Classes whose pods matter to none of the plugins that look at pods elsewhere."""
        self.failure: FitError | None = None
        """Why they fit nowhere, as far as that is known and nothing changed since."""
        self._filtered: FilterOutcome | None = None
        """What that sums up, but for the rows in `_outdated`."""
        self._outdated: list[Rows] = []
        self._dry_runs: DryRuns | None = None
        self._speaks_of_many = False
        self._follower = Follower(cluster)
        self._follower.note()
        if states is not None:
            self.filters.fill(states)

    @property
    def feasible(self) -> Bools:
        return self.filters.feasible

    @property
    def feasible_count(self) -> int:
        return self.filters.feasible_count

    @property
    def is_current(self) -> bool:
        return self._follower.saw_all

    def scored(self) -> ClassScores | None:
        """Of pods with two feasible nodes; None, with `failure`, where a plugin cannot rate them."""
        if self.scores is None:
            filters = self.filters
            try:
                self.scores = ClassScores(
                    self.pod, filters.static_ok, filters.feasible, self._states
                )
            except PreScoreError as error:
                self.failure = FitError(self._cluster.node_count, error=str(error))
                return None
            self._unheeded.clear()  # There are other plugins to ask.
        return self.scores

    def fit_error(self) -> FitError:
        """Why the pods fit nowhere."""
        if self.failure is None:
            self.failure = diagnose(self.pod, self.filtered())
        return self.failure

    @property
    def is_error(self) -> bool:
        """Whether something failed; why they fit nowhere is only looked for if that may be so."""
        status = self.pod.outcome.status
        may_be = self.failure is not None or self.pod.has_failed or not status.is_success
        return may_be and bool(self.fit_error().error)

    def filtered(self) -> FilterOutcome:
        """What the filters say of all candidate nodes to pods that fit nowhere."""
        filtered, outdated = self._filtered, self._outdated
        if filtered is not None and not outdated:
            return filtered
        rows = _rows_within(outdated, filtered.rows) if filtered is not None else NO_ROWS
        if (
            filtered is None
            or len(rows) > len(filtered.rows) // 4
            or len(filtered.refusers) > REFUSERS_MAX
        ):
            filtered = filter_candidates(self.pod)
        else:
            asked_again = run_filters_with_nominated(self.pod, rows)
            filtered = told_of(filtered.rows, (filtered, asked_again))
        outdated.clear()
        self._filtered = filtered
        return filtered

    @property
    def dry_runs(self) -> DryRuns | None:
        """What is known of making room for such pods; None for a pod by itself."""
        if self._dry_runs is None and not self.pod.own_uid:
            self._dry_runs = DryRuns(self._cluster)
        return self._dry_runs

    def answers(self, scores: ClassScores) -> StateAnswers:
        """What follows placements as long as the scores are these."""
        answers = self._answers
        if answers is None or answers.scores is not scores:
            assert self._states is not None, "who knows a few rows only does not rate them"
            answers = StateAnswers(self._cluster, self._states, self.filters, scores)
            self._answers = answers
        return answers

    @property
    def _followers(self) -> Sequence[tuple[Any, Any]]:
        """The plugins that look at pods elsewhere, with their state."""
        scores = self.scores
        return (
            self.filters.updatable if scores is None else self.filters.updatable + scores.followers
        )

    def heeded_of(self, class_ids: set[int]) -> set[int]:
        """Those of the classes of which it matters to some plugin that pods come or go elsewhere."""
        if len(self._unheeded) > REMEMBERED_MAX:
            self._unheeded.clear()
        heeded: set[int] = set()
        new = class_ids - self._unheeded
        for plugin, state in self._followers if new else ():
            heeded_by = getattr(plugin, "heeded_classes", None)
            if heeded_by is None:
                return new  # One that is no ClassDiscerning is told of every pod.
            heeded |= heeded_by(state, new - heeded, self._cluster)
        self._unheeded |= new - heeded
        return heeded

    def crowded_domains(self, class_id: int) -> list[Crowding] | None:
        """As of `CrowdingFilter`, of all filters, for pods that come to distinct rows: none where pods
        elsewhere do not matter, or never keep others of the class away."""
        outcome, crowding = self.pod.outcome, self.pod.plan.crowding
        if crowding is None or not outcome.status.is_success:
            return None
        found: list[Crowding] = []
        for plugin in crowding:
            state = outcome.states.get(plugin.NAME)
            domains = plugin.crowded_domains(state, class_id, self._cluster)
            if domains is None:
                return None
            found += domains
        return found

    def speak_of(self, info: PodInfo) -> None:
        """From now on this pod is asked about, of which the plugins say the same."""
        self.pod = self.pod._replace(info=info)
        self.filters.pod = self.pod
        if self.scores is not None:
            self.scores.pod = info
        self.failure = self._filtered = None
        self._speaks_of_many = True

    def placed(self) -> None:
        """What happened last is contained already."""
        self._follower.note()
        self.failure = self._filtered = None

    def catch_up(self) -> bool:
        """Brings everything up to date; False where that takes a new evaluation."""
        follower = self._follower
        if follower.saw_all:
            return True
        capacity = self._cluster.nodes.capacity
        if len(self.filters.static_ok) != capacity:
            return False
        object_rows = NO_ROWS if follower.saw_objects else self._rows_of_objects()
        if object_rows is None:
            return False
        if self._is_of_nodes and follower.saw_nodes and not self.filters.is_whole:
            follower.note()  # What is known of rows holds whatever pods there are.
            return True
        usage_rows = follower.usage_rows() if self.filters.is_whole else NO_ROWS
        node_rows = NO_ROWS if follower.saw_nodes else follower.node_rows()
        if usage_rows is None or node_rows is None:
            return False
        if len(object_rows) and self.filters.is_whole:
            usage_rows = union_of(usage_rows, object_rows)
        answers = self._answers_if_enough()
        if answers is not None and self._filtered is None and answers.can_follow(len(usage_rows)):
            self.placed()
            return answers.follow(usage_rows.tolist())
        pods: Sequence[PodChange] | None = ()
        if answers is None and (self.filters.is_whole or self.filters.updatable):
            pods = self._heeded_pods()
        if (
            pods is None
            or len(usage_rows) + len(node_rows) > capacity // 4
            or (self.pod.outcome.node_names is not None and len(node_rows))
        ):
            return False
        reads = 0 if follower.saw_pods else _PODS
        if not (follower.saw_usage and follower.saw_nodes):
            reads = MOVING_BITS if follower.saw_nodes else EDITED_BITS
        if self.stale_by & reads:
            return False
        follower.note()
        self.failure = None
        if not (self.filters.is_whole or pods or len(node_rows)):
            return True
        delta = Delta(node_rows, pods)
        refiltered = self.filters.update(usage_rows, delta)
        if refiltered is None:
            return False
        if self._filtered is not None:
            self._outdated.append(refiltered.rows)
            if self.is_wide or len(node_rows) or len(self._outdated) > OUTDATED_MAX:
                self._filtered = None
                self._outdated.clear()
        scores = self.scores
        if scores is not None and (
            scores.stale_by & reads or not scores.update(usage_rows, delta, refiltered)
        ):
            self.scores = None
        return True

    def _rows_of_objects(self) -> Rows | None:
        """The rows that objects are about which changed; None where one changed that the filters read
        otherwise. Drops the scores for those that these read."""
        plan, states, rows = self.pod.plan, self.pod.outcome.states, NO_ROWS
        if self._speaks_of_many and self._follower.concerns(self.object_kinds):
            # Whose claims changed is no matter: what those of the next pod come to is asked first.
            for plugin in plan.object_followers:
                more = plugin.rows_of_objects(states.get(plugin.NAME), self._cluster)
                if more is None:
                    return None
                rows = union_of(rows, more)
        kinds = plan.unfollowed_kinds if self._speaks_of_many else self.object_kinds
        if self._follower.concerns(kinds):
            return None
        if self.scores is not None and self._follower.concerns(self.scores.object_kinds):
            self.scores = None
        self._follower.note_objects()
        return rows

    def _answers_if_enough(self) -> StateAnswers | None:
        """None unless all that happened is that pods came and went that matter by the room they take
        alone."""
        scores, follower = self.scores, self._follower
        if scores is None or not follower.saw_nodes:
            return None
        if (self.stale_by | scores.stale_by) & MOVING_BITS:
            return None
        class_ids = follower.classes()
        if class_ids is None or self.heeded_of(class_ids):
            return None
        return self.answers(scores)

    def _heeded_pods(self) -> Sequence[PodChange] | None:
        """Those that came and went, if some of them matter elsewhere; None: too many to go through."""
        if not self._followers:
            return ()
        class_ids = self._follower.classes()
        heeded = None if class_ids is None else self.heeded_of(class_ids)
        return () if heeded == set() else self._follower.pods(heeded)


def _rows_within(outdated: list[Rows], rows: Rows) -> Rows:
    """Those of the rows, which ascend, that are outdated, each once."""
    if not outdated or not len(rows):
        return rows[:0]
    once = np.unique(np.concatenate(outdated))
    at = np.minimum(np.searchsorted(rows, once), len(rows) - 1)
    within: Rows = once[rows[at] == once]
    return within


class Evaluations:
    """Those in use, up to date when they are asked for: where they take too much room the least recently
    used go first, but for one; the others when their class is retired (`forget`)."""

    def __init__(
        self, cluster: ClusterView, row_bytes: int, bytes_max: int, states: RowStates | None = None
    ) -> None:
        """`row_bytes`: of an evaluation, of each row; `bytes_max`: about what all may take. `states`:
        evaluations are of all rows; without, of those that are asked about."""
        self._cluster = cluster
        self._row_bytes = row_bytes
        self._bytes_max = bytes_max
        self._states = states
        self._kept: OrderedDict[Hashable, Evaluation] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def of(self, key: Hashable, info: PodInfo, framework: Framework) -> Evaluation:
        """The up-to-date evaluation of pods like this one. `key`: of these and no others."""
        kept = self._kept
        found = kept.get(key)
        if found is None:
            while len(kept) >= self.count_max:
                kept.popitem(last=False)
        else:
            kept.move_to_end(key)
            if isinstance(key, Alike):
                found.speak_of(info)
        if found is None or not found.catch_up():
            found = kept[key] = self.alone(info, framework)
        return found

    def alone(self, info: PodInfo, framework: Framework, own_uid: str = "") -> Evaluation:
        """A new one that is not kept."""
        return Evaluation(info, framework, self._cluster, self._states, own_uid)

    @property
    def count_max(self) -> int:
        """So many are kept."""
        each = EVALUATION_BYTES + self._row_bytes * self._cluster.nodes.capacity
        return max(1, self._bytes_max // each)

    def forget(self, key: Hashable) -> None:
        self._kept.pop(key, None)

    def forget_all(self) -> None:
        self._kept.clear()
