"""Plans: what follows from which plugins have a say in a pod.

Who is asked, which changes make them say something else, and whether that takes a new start. It is the
same for all pods of which the same plugins have a say, so it is worked out once for these. Decided from
what the plugins declare (`plugin_api.py`) alone; nobody is asked here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.errors import OperationalError
from shared.framework.plugin_api import (
    ON_NODE,
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
)
from shared.framework.status import SUCCESS, Code, Codes, Status


class PreFilterOutcome(NamedTuple):
    """What PreFilter said of a pod."""

    status: Status = SUCCESS
    """SUCCESS, or the rejection (or error) that counts, with its plugin."""
    each: Mapping[str, Status] = {}
    """Plugin -> its status, for those that ran."""
    states: Mapping[str, Any] = {}
    node_names: frozenset[str] | None = None
    """The intersection of what the plugins narrowed the search to; None: all nodes."""
    narrowed_by: tuple[str, ...] = ()
    """The plugins that narrowed it."""
    final: frozenset[str] = frozenset()
    """The plugins that will not change their mind about this pod, whatever happens."""


class Refuser(NamedTuple):
    """A filter that had something against some row, and the texts that bits of `reasons` stand for."""

    filter_index: int
    texts: tuple[str, ...]


class FilterOutcome(NamedTuple):
    """What Filter said of `rows`; arrays of shape (n,)."""

    rows: Rows
    refused_by: Int64s
    """Index into `refusers` of the first one that failed; -1 where all passed."""
    codes: Codes
    """`Code` of that; 0 where all passed."""
    reasons: Int64s
    """As of `Verdicts`, in its texts."""
    refusers: tuple[Refuser, ...]

    @property
    def passes(self) -> Bools:
        passed: Bools = self.codes == 0
        return passed

    def reason_counts(self) -> Counter[str]:
        """How many rows each reason applies to."""
        counts: Counter[str] = Counter()
        for number, (_, texts) in enumerate(self.refusers):
            told = self.reasons[self.refused_by == number]
            for bit, text in enumerate(texts):
                counts[text] += int(np.count_nonzero(told >> bit & 1))
        return +counts


def told_of(rows: Rows, parts: Iterable[FilterOutcome]) -> FilterOutcome:
    """What the parts say of some of the rows each, which may be named several times; a later one
    prevails, and who is in none passes."""
    place = np.zeros(int(rows.max(initial=0)) + 1, np.intp)
    place[rows] = np.arange(len(rows))
    refused_by = np.full(len(rows), -1, np.int64)
    codes, reasons = np.zeros(len(rows), np.uint8), np.zeros(len(rows), np.int64)
    refusers: dict[Refuser, int] = {}
    for part in parts:
        places = place[part.rows]
        numbers = [refusers.setdefault(each, len(refusers)) for each in part.refusers]
        refused_by[places] = np.array([*numbers, -1])[part.refused_by]
        codes[places], reasons[places] = part.codes, part.reasons
    at = place[rows]  # Who is told of several times is told the same each time.
    return FilterOutcome(rows, refused_by[at], codes[at], reasons[at], tuple(refusers))


class NodeVerdict(NamedTuple):
    """Why one node does not take the pod."""

    row: int
    status: Status


class ScoringPlugin(NamedTuple):
    """A score plugin, and the same again for each other thing that it can do."""

    plugin: ScorePlugin
    weight: int
    """0: it takes part in PreScore alone."""
    state: Any
    """What its PreScore said of the pod."""
    normalizer: NormalizeScorePlugin | None
    follower: UpdatableScore | None
    """If it can bring its state up to date."""
    pre_scorer: PreScorePlugin | None


class PreparedScores(NamedTuple):
    """What PreScore said of a pod."""

    active: list[ScoringPlugin]
    """Those that did not skip it, with their state."""
    skipped_updatable: list[tuple[UpdatableScore, Any]]
    """Plugins that have no say and may come to have one, with their state."""
    stale_by: Reads
    """Changes after which PreScore would have to run again for those that cannot follow."""
    object_kinds: frozenset[str] | None
    """Kinds of objects of which a change makes PreScore run again; None: all."""


class PreScoreError(OperationalError):
    """A pod that cannot be rated; the attempt is an error and no refusal, its text the message."""

    def __init__(self, plugin: str, status: Status) -> None:
        super().__init__(f'running PreScore plugin "{plugin}": {status.message}')


MOVING: Final = Reads.USAGE | Reads.PODS
"""What a placement changes."""
MOVING_BITS: Final[int] = MOVING.value
"""Numbers, for the hot path: operations on the enumeration itself take a microsecond each."""
EDITED_BITS: Final[int] = (MOVING | Reads.NODE | Reads.IMAGES).value
"""What an edited Node object changes: one that takes a row brings its own usage."""


class FilterPlan(NamedTuple):
    """Of the filters; read only."""

    active: list[int]
    """Those that PreFilter did not skip, as indices."""
    groups: tuple[list[int], list[int], list[int]]
    """The same by what makes them change their mind: an edited Node object, or an object of another
    kind; a pod that comes to the row, or leaves it; pods elsewhere."""
    pod_counting: Mapping[int, PreFilterPlugin]
    """Those of them whose PreFilter depends on which pods are where, by index."""
    beyond: list[int]
    """Those of them for which pods elsewhere count, in Filter or in PreFilter; ascending."""
    crowding: Sequence[CrowdingFilter] | None
    """The same; None where one of them cannot tell how far pods keep each other away."""
    moved: frozenset[int]
    """Those of them of which a pod that comes or goes, on the row or elsewhere, may change the mind."""
    settled: frozenset[int]
    """Those before the first of `beyond`: whoever fails one of them fails for that reason, whatever is
    elsewhere."""
    reads_pods: bool
    """Some filter that looks at the node alone looks at the pods themselves, and not only at what they
    take."""
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


def filter_plan(
    pre_filters: Sequence[PreFilterPlugin],
    filters: Sequence[FilterPlugin],
    outcome: PreFilterOutcome,
) -> FilterPlan:
    """Follows from who was asked in PreFilter, who skipped the pod, and whose word is final."""
    active = {
        index: plugin
        for index, plugin in enumerate(filters)
        if outcome.each.get(plugin.NAME, SUCCESS).code is not Code.SKIP
    }
    followers = {i: plugin for i, plugin in active.items() if isinstance(plugin, ObjectFollower)}
    groups: tuple[list[int], list[int], list[int]] = ([], [], [])
    fixed, moving, wide = groups
    for index, plugin in active.items():
        depends = plugin.filter_depends
        if not depends.reads & MOVING and index not in followers:
            fixed.append(index)
        else:
            (moving if depends.scope is Scope.ROW else wide).append(index)
    pod_counting = {
        index: plugin
        for index, plugin in active.items()
        if isinstance(plugin, PreFilterPlugin)
        and plugin.NAME not in outcome.final
        and _reads(plugin.pre_filter_depends, MOVING)
    }
    beyond = sorted({*wide, *pod_counting})
    crowding = [each for i in beyond if isinstance(each := filters[i], CrowdingFilter)]
    asked = [plugin for plugin in pre_filters if plugin.NAME not in outcome.final]
    readers = [
        *(plugin for plugin in asked if _reads(plugin.pre_filter_depends, Reads.OBJECTS)),
        *(plugin for plugin in active.values() if _reads(plugin.filter_depends, Reads.OBJECTS)),
    ]
    return FilterPlan(
        list(active),
        groups,
        pod_counting,
        beyond,
        crowding if len(crowding) == len(beyond) else None,
        frozenset(i for i, p in active.items() if _reads(p.filter_depends, MOVING)) | {*wide},
        frozenset(takewhile(lambda i: i not in beyond, active)),
        any(_reads(active[i].filter_depends, Reads.PODS) for i in moving),
        _stale_by(pre_filters, active.values(), outcome),
        _kinds_read(readers),
        list(followers.values()),
        _kinds_read(readers, followed=True),
    )


def _stale_by(
    pre_filters: Sequence[PreFilterPlugin],
    active: Iterable[FilterPlugin],
    outcome: PreFilterOutcome,
) -> Reads:
    follow = {plugin.NAME for plugin in pre_filters if isinstance(plugin, UpdatableFilter)}
    reads = Reads(0)
    for plugin in pre_filters:
        depends = plugin.pre_filter_depends
        if depends is not None and plugin.NAME in outcome.each.keys() - outcome.final - follow:
            reads |= depends.reads
    for filter_plugin in active:
        if filter_plugin.NAME not in follow:
            reads |= _wide_reads(filter_plugin.filter_depends)
    return reads


def as_scoring_plugin(plugin: ScorePlugin, weight: int) -> ScoringPlugin:
    """The plugin, asked what it can do."""
    return ScoringPlugin(
        plugin,
        weight,
        None,
        plugin if isinstance(plugin, NormalizeScorePlugin) else None,
        plugin if weight and isinstance(plugin, UpdatableScore) else None,
        plugin if isinstance(plugin, PreScorePlugin) else None,
    )


def score_plan(
    scorers: Sequence[ScoringPlugin], are_final: Sequence[bool]
) -> tuple[Reads, frozenset[str] | None]:
    """`stale_by` and `object_kinds` of `PreparedScores`, by whether the PreScore of each was final."""
    stale_by = Reads(0)
    readers: list[ScorePlugin] = []
    for scorer, is_final in zip(scorers, are_final, strict=True):
        plugin, pre_scorer = scorer.plugin, scorer.pre_scorer
        depends = None if pre_scorer is None else pre_scorer.pre_score_depends
        score_depends = plugin.score_depends if scorer.weight else ON_NODE
        if scorer.follower is None:
            stale_by |= _wide_reads(score_depends)
            if depends is not None and not is_final:
                stale_by |= depends.reads
        is_reader = any(_reads(each, Reads.OBJECTS) for each in (score_depends, depends))
        if is_reader and not is_final:
            readers.append(plugin)
    return stale_by, _kinds_read(readers)


def _wide_reads(depends: Dependence) -> Reads:
    return Reads(0) if depends.scope is Scope.ROW else depends.reads


def _reads(depends: Dependence | None, what: Reads) -> bool:
    return depends is not None and bool(depends.reads & what)


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
