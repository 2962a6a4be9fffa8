"""Plans: what follows from which plugins have a say in a pod.

Who is asked, which changes make them say something else, and whether that takes a new start. It is the
same for all pods of which the same plugins have a say, so it is worked out once for these. Decided from
what the plugins declare (`plugin_api.py`) alone; nobody is asked here.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from shared.framework.plugin_api import (
    CrowdingFilter,
    Dependence,
    FilterPlugin,
    NormalizeScorePlugin,
    ObjectFollower,
    ObjectReader,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Scope,
    ScorePlugin,
    UpdatableFilter,
    UpdatableScore,
    WhatIfPlugin,
)
from shared.framework.runtime.filter_outcomes import PreFilterOutcome
from shared.framework.status import SUCCESS, Code

MOVING: Final = Reads.USAGE | Reads.PODS
"""What a placement changes."""
MOVING_BITS: Final[int] = MOVING.value
"""Numbers, for the hot path: operations on the enumeration itself take a microsecond each."""
EDITED_BITS: Final[int] = (MOVING | Reads.NODE | Reads.IMAGES).value
"""What an edited Node object changes: one that takes a row brings its own usage."""
PLANS_MAX: Final = 1024


class FilterGroups(NamedTuple):
    """The filters that PreFilter did not skip, as indices, by what makes them change their mind."""

    fixed: list[int]
    """An edited Node object, or an object of another kind."""
    moving: list[int]
    """A pod that comes to the row, or leaves it."""
    wide: list[int]
    """Pods elsewhere."""


class PodCountingFilter(NamedTuple):
    """A filter whose PreFilter depends on which pods are where, and what it can do about changes."""

    filter_index: int
    name: str
    pre_filter: PreFilterPlugin
    follower: UpdatableFilter | None
    what_if: WhatIfPlugin | None


class FilterPlan(NamedTuple):
    """Of the filters; read only."""

    active: list[int]
    """Those that PreFilter did not skip, as indices."""
    groups: FilterGroups
    """The same."""
    pod_counting: list[PodCountingFilter]
    """Those of them whose PreFilter looked at pods."""
    beyond: list[int]
    """Those of them for which pods elsewhere count, in Filter or in PreFilter; ascending."""
    crowding: list[CrowdingFilter] | None
    """The same; None where one of them cannot tell how far pods keep each other away."""
    reads_pods: bool
    """Some filter looks at the pods themselves, and not only at what they take."""
    stale_by: Reads
    """Changes after which PreFilter, or a wide filter, has to start anew for the plugins that cannot
    follow."""
    object_kinds: frozenset[str] | None
    """Kinds of objects of which a change may make a filter, or PreFilter, say something else; None:
    all."""
    object_followers: list[ObjectFollower]
    """Those of the filters."""
    unfollowed_kinds: frozenset[str] | None
    """As `object_kinds`, without those that these follow and nobody else reads."""

    @property
    def is_wide(self) -> bool:
        """Whether pods elsewhere count for what some filter says of a row: then one cannot ask about
        changes on many rows at a time, as each question is about one change alone."""
        return bool(self.beyond)


class FilterPlans:
    """The plans for the pods of one profile."""

    def __init__(
        self,
        pre_filters: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
    ) -> None:
        self._pre_filters = pre_filters
        self._filters = filters
        # Looked up once: asking a Protocol what an object can do takes several microseconds.
        self._pod_counting = [
            counting
            for index, plugin in enumerate(filters)
            if (counting := _as_pod_counting(index, plugin)) is not None
        ]
        self._object_followers: dict[int, ObjectFollower] = {
            index: plugin
            for index, plugin in enumerate(filters)
            if isinstance(plugin, ObjectFollower)
        }
        self._crowding = {
            index: plugin
            for index, plugin in enumerate(filters)
            if isinstance(plugin, CrowdingFilter)
        }
        self._follows = {
            plugin.NAME for plugin in pre_filters if isinstance(plugin, UpdatableFilter)
        }
        self._plans: dict[tuple[tuple[str, ...], frozenset[str], int], FilterPlan] = {}

    def of(self, outcome: PreFilterOutcome) -> FilterPlan:
        skipped = tuple([name for name, status in outcome.each.items() if status.code is Code.SKIP])
        key = (skipped, outcome.final, len(outcome.each))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            plan = self._plans[key] = self._made(outcome)
        return plan

    def _made(self, outcome: PreFilterOutcome) -> FilterPlan:
        active = [
            index
            for index, plugin in enumerate(self._filters)
            if outcome.each.get(plugin.NAME, SUCCESS).code is not Code.SKIP
        ]
        groups = FilterGroups([], [], [])
        for index in active:
            depends = self._filters[index].filter_depends
            if not depends.reads & MOVING and index not in self._object_followers:
                groups.fixed.append(index)
            elif depends.scope is Scope.ROW:
                groups.moving.append(index)
            else:
                groups.wide.append(index)
        pod_counting = [
            plugin
            for plugin in self._pod_counting
            if plugin.filter_index in active and plugin.name not in outcome.final
        ]
        beyond = sorted({*groups.wide, *(plugin.filter_index for plugin in pod_counting)})
        can_tell = self._crowding.keys() >= set(beyond)
        readers = _object_readers(
            [plugin for plugin in self._pre_filters if plugin.NAME not in outcome.final],
            [self._filters[index] for index in active],
        )
        return FilterPlan(
            active,
            groups,
            pod_counting,
            beyond,
            [self._crowding[index] for index in beyond] if can_tell else None,
            any(self._filters[index].filter_depends.reads & Reads.PODS for index in active),
            self._stale_by(outcome, active),
            _kinds_read(readers),
            [self._object_followers[index] for index in active if index in self._object_followers],
            _kinds_read(readers, followed=True),
        )

    def _stale_by(self, outcome: PreFilterOutcome, active: Sequence[int]) -> Reads:
        reads = Reads(0)
        for plugin in self._pre_filters:
            depends = plugin.pre_filter_depends
            if depends is None or plugin.NAME in outcome.final or plugin.NAME not in outcome.each:
                continue
            if plugin.NAME not in self._follows:
                reads |= depends.reads
        for index in active:
            filter_plugin = self._filters[index]
            if filter_plugin.NAME not in self._follows:
                reads |= _wide_reads(filter_plugin.filter_depends)
        return reads


def unfollowed_kinds(
    pre_filters: Sequence[PreFilterPlugin], filters: Sequence[FilterPlugin]
) -> frozenset[str] | None:
    """As of a plan, of pods of which all of them have a say."""
    return _kinds_read(_object_readers(pre_filters, filters), followed=True)


def _object_readers(
    pre_filters: Sequence[PreFilterPlugin], filters: Sequence[FilterPlugin]
) -> list[PreFilterPlugin | FilterPlugin]:
    return [
        *(plugin for plugin in pre_filters if _reads_objects(plugin.pre_filter_depends)),
        *(plugin for plugin in filters if _reads_objects(plugin.filter_depends)),
    ]


class ScoringPlugin(NamedTuple):
    """A score plugin, and the same again for each other thing that it can do."""

    plugin: ScorePlugin
    weight: int
    pre_scorer: PreScorePlugin | None
    normalizer: NormalizeScorePlugin | None
    updatable: UpdatableScore | None


def as_scoring_plugin(plugin: ScorePlugin, weight: int) -> ScoringPlugin:
    """The plugin, asked what it can do."""
    return ScoringPlugin(
        plugin,
        weight,
        plugin if isinstance(plugin, PreScorePlugin) else None,
        plugin if isinstance(plugin, NormalizeScorePlugin) else None,
        plugin if isinstance(plugin, UpdatableScore) else None,
    )


ScorePlan = tuple[Reads, frozenset[str] | None]
"""`stale_by` and `object_kinds` of `PreparedScores`."""


def score_plan(scorers: Sequence[ScoringPlugin], are_final: Sequence[bool]) -> ScorePlan:
    """`are_final`: whether the PreScore of each was."""
    stale_by = Reads(0)
    readers: list[ScorePlugin] = []
    for scorer, is_final in zip(scorers, are_final, strict=True):
        plugin, pre_scorer = scorer.plugin, scorer.pre_scorer
        depends = None if pre_scorer is None else pre_scorer.pre_score_depends
        if scorer.updatable is None:
            stale_by |= _wide_reads(plugin.score_depends)
            if depends is not None and not is_final:
                stale_by |= depends.reads
        is_reader = _reads_objects(plugin.score_depends) or _reads_objects(depends)
        if is_reader and not is_final:
            readers.append(plugin)
    return stale_by, _kinds_read(readers)


def _as_pod_counting(index: int, plugin: FilterPlugin) -> PodCountingFilter | None:
    """The same plugin, if what its PreFilter says depends on which pods are where."""
    if not isinstance(plugin, PreFilterPlugin):
        return None
    depends = plugin.pre_filter_depends
    if depends is None or not depends.reads & MOVING:
        return None
    return PodCountingFilter(
        index,
        plugin.NAME,
        plugin,
        plugin if isinstance(plugin, UpdatableFilter) else None,
        plugin if isinstance(plugin, WhatIfPlugin) else None,
    )


def _wide_reads(depends: Dependence) -> Reads:
    return Reads(0) if depends.scope is Scope.ROW else depends.reads


def _reads_objects(depends: Dependence | None) -> bool:
    return depends is not None and bool(depends.reads & Reads.OBJECTS)


def _kinds_read(plugins: Sequence[object], *, followed: bool = False) -> frozenset[str] | None:
    """`followed`: without those that a plugin follows itself."""
    kinds: frozenset[str] = frozenset()
    for plugin in plugins:
        if not isinstance(plugin, ObjectReader):
            return None
        more = plugin.object_kinds
        if followed and isinstance(plugin, ObjectFollower):
            more -= plugin.followed_kinds
        kinds |= more
    return kinds
