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
from typing import Final

from shared.columns.pod_log import PodChange
from shared.columns.rows import union_of
from shared.columns.schema import NO_ROWS, Bools, Rows
from shared.engine.class_filters import ClassFilters
from shared.engine.class_scores import ClassScores
from shared.engine.dry_runs import DryRuns
from shared.engine.pods_elsewhere import PodsElsewhere
from shared.engine.row_states import RowStates
from shared.engine.state_answers import StateAnswers
from shared.framework.cluster_view import ClusterView
from shared.framework.follower import Follower
from shared.framework.plugin_api import Delta, Reads
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.diagnosis import FitError
from shared.framework.runtime.filter_outcomes import FilterOutcome
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.plans import EDITED_BITS, MOVING_BITS
from shared.framework.runtime.prepared_pod import counting_own_node, prepared

EVALUATION_BYTES: Final = 8 << 10
"""About what an evaluation takes beside its arrays."""
OUTDATED_MAX: Final = 64
"""So many times an evaluation is brought up to date without being asked why pods fit nowhere."""
_PODS: Final = Reads.PODS.value


class Evaluation:
    """Of pods that are alike to a framework's plugins. Arrays have the table's capacity."""

    __slots__ = ("_answers", "_cluster", "_elsewhere", "_follower", "_is_of_nodes",
                 "_speaks_of_many", "dry_runs", "failure", "filtered", "filters", "framework", "info",
                 "is_wide", "object_kinds", "outcome", "outdated", "pod", "scores",
                 "stale_by")  # fmt: skip

    def __init__(
        self, info: PodInfo, framework: Framework, cluster: ClusterView, own_uid: str = ""
    ) -> None:
        self._cluster = cluster
        pod = prepared(framework, info, cluster, own_uid)
        self.pod = counting_own_node(pod) if own_uid else pod
        """With `own_uid` of a pod that is evaluated by itself, as its own nomination does not count."""
        self.info = info
        self.framework = framework
        self.outcome = self.pod.outcome
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
        self._elsewhere: PodsElsewhere | None = None
        self.failure: FitError | None = None
        """The diagnosis, as long as nothing changed since."""
        self.filtered: FilterOutcome | None = None
        """What the diagnosis sums up, but for the rows in `outdated`."""
        self.outdated: list[Rows] = []
        self.dry_runs: DryRuns | None = None
        """What is known of making room for such pods."""
        self._speaks_of_many = False
        self._follower = Follower(cluster)
        self._follower.note()

    @property
    def feasible(self) -> Bools:
        return self.filters.feasible

    @property
    def feasible_count(self) -> int:
        return self.filters.feasible_count

    @property
    def is_current(self) -> bool:
        return self._follower.saw_all

    def scored(self, states: RowStates) -> ClassScores:
        """Of pods with two feasible nodes. Raises PreScoreError where a plugin cannot rate them."""
        if self.scores is None:
            filters = self.filters
            self.scores = ClassScores(
                self.framework,
                self.info,
                self._cluster,
                filters.static_ok,
                filters.feasible,
                states,
            )
        return self.scores

    def answers(self, scores: ClassScores, states: RowStates) -> StateAnswers:
        """What follows placements as long as the scores are these."""
        answers = self._answers
        if answers is None or answers.scores is not scores:
            answers = self._answers = StateAnswers(self._cluster, states, self.filters, scores)
        return answers

    @property
    def elsewhere(self) -> PodsElsewhere:
        """Who looks at pods elsewhere, as filters and scores are now."""
        elsewhere = self._elsewhere
        if elsewhere is None or elsewhere.scores is not self.scores:
            elsewhere = PodsElsewhere(self._cluster, self.filters, self.scores)
            self._elsewhere = elsewhere
        return elsewhere

    def crowded_domains(self, class_id: int) -> list[Rows] | None:
        """As of `CrowdingFilter`, of all filters."""
        states, crowding = self.outcome.states, self.pod.plan.crowding
        if crowding is None or not self.outcome.status.is_success:
            return None
        found: list[Rows] = []
        for plugin in crowding:
            domains = plugin.crowded_domains(states.get(plugin.NAME), class_id, self._cluster)
            if domains is None:
                return None
            found += domains
        return found

    def speak_of(self, info: PodInfo) -> None:
        """From now on this pod is asked about, of which the plugins say the same."""
        self.info = info
        self.pod = self.pod._replace(info=info)
        self.filters.speak_of(self.pod)
        if self.scores is not None:
            self.scores.pod = info
        self.failure = self.filtered = None
        self._speaks_of_many = True

    def placed(self) -> None:
        """What happened last is contained already."""
        self._follower.note()
        self.failure = self.filtered = None

    def catch_up(self, states: RowStates | None) -> bool:
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
        answers = None if states is None else self._answers_of(states)
        if answers is not None and self.filtered is None and answers.can_follow(len(usage_rows)):
            self.placed()
            return answers.follow(usage_rows.tolist())
        pods: Sequence[PodChange] | None = ()
        if answers is None and (self.filters.is_whole or self.filters.updatable):
            pods = self._heeded_pods()
        if (
            pods is None
            or len(usage_rows) + len(node_rows) > capacity // 4
            or (self.outcome.node_names is not None and len(node_rows))
        ):
            return False
        reads = _reads_changed(follower)
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
        if self.filtered is not None:
            self.outdated.append(refiltered.rows)
            if self.is_wide or len(node_rows) or len(self.outdated) > OUTDATED_MAX:
                self.filtered = None
                self.outdated.clear()
        scores = self.scores
        if scores is not None and (
            scores.stale_by & reads or not scores.update(usage_rows, delta, refiltered)
        ):
            self.scores = None
        return True

    def _rows_of_objects(self) -> Rows | None:
        """The rows that objects are about which changed; None where one changed that the filters read
        otherwise. Drops the scores for those that these read."""
        plan, rows = self.pod.plan, NO_ROWS
        if self._speaks_of_many and self._follower.concerns(self.object_kinds):
            # Whose claims changed is no matter: what those of the next pod come to is asked first.
            for plugin in plan.object_followers:
                more = plugin.rows_of_objects(self.outcome.states.get(plugin.NAME), self._cluster)
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

    def _answers_of(self, states: RowStates) -> StateAnswers | None:
        """None unless all that happened is that pods came and went that matter by the room they take
        alone."""
        scores, follower = self.scores, self._follower
        if scores is None or not follower.saw_nodes:
            return None
        if (self.stale_by | scores.stale_by) & MOVING_BITS:
            return None
        class_ids = follower.classes()
        if class_ids is None or self.elsewhere.heeds_any(class_ids):
            return None
        return self.answers(scores, states)

    def _heeded_pods(self) -> Sequence[PodChange] | None:
        """Those that came and went, if some of them matter elsewhere; None: too many to go through."""
        elsewhere = self.elsewhere
        if not elsewhere.followers:
            return ()
        class_ids = self._follower.classes()
        if class_ids is not None and not elsewhere.heeds_any(class_ids):
            return ()
        return self._follower.pods()


def _reads_changed(follower: Follower) -> int:
    """Bits of Reads."""
    if not follower.saw_nodes:
        return EDITED_BITS
    if not follower.saw_usage:
        return MOVING_BITS
    return 0 if follower.saw_pods else _PODS


class Evaluations:
    """Those in use, up to date when they are asked for: the least recently used go first, and one is
    always kept."""

    def __init__(
        self,
        cluster: ClusterView,
        row_bytes: int,
        bytes_max: int,
        states: RowStates | None = None,
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

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: Hashable, info: PodInfo, framework: Framework) -> Evaluation:
        """The up-to-date evaluation of pods like this one. `key`: of these and no others."""
        kept = self._kept
        found = kept.get(key)
        if found is None:
            while len(kept) >= self.count_max:
                kept.popitem(last=False)
        else:
            kept.move_to_end(key)
        if found is None or not found.catch_up(self._states):
            found = kept[key] = self.alone(info, framework)
        return found

    def of_like(self, key: Hashable, info: PodInfo, framework: Framework) -> Evaluation:
        """As `of`, where pods of the key may have claims of their own."""
        found = self._kept.get(key)
        if found is not None:
            found.speak_of(info)
        return self.of(key, info, framework)

    def alone(self, info: PodInfo, framework: Framework, own_uid: str = "") -> Evaluation:
        """A new one that is not kept."""
        made = Evaluation(info, framework, self._cluster, own_uid)
        if self._states is not None:
            made.filters.fill(self._states)
        return made

    @property
    def count_max(self) -> int:
        """So many are kept."""
        each = EVALUATION_BYTES + self._row_bytes * self._cluster.nodes.capacity
        return max(1, self._bytes_max // each)

    def forget(self, key: Hashable) -> None:
        self._kept.pop(key, None)

    def forget_all(self) -> None:
        self._kept.clear()
