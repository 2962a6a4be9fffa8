"""How long plugins take, and how often they are asked, without a word of it in the code that asks them.

Each method of a plugin is replaced, on that one object, by one that looks at the clock before and after;
in every tenth round only, as kube-scheduler observes every tenth attempt (pluginMetricsSamplePercent in
pkg/scheduler/scheduler.go, v1.36.2). In other rounds plugins are as they were, so that a call costs
nothing more: where each pod is unlike all others, looking at the clock twice a call is a twentieth of a
scorer's work. A round is what its owner says: a batch of pods, or a turn.

A call is about a class of pods and many nodes at once, where kube-scheduler's is about one pod and one
node: its time is that of the call.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from shared.framework.status import CODE_NAMES, Code, Status, Verdicts
from shared.telemetry.metrics import Tally

SAMPLED: Final = 10
"""One round in so many."""
IN_SCORERS: Final = ("pre_filter", "filter", "post_filter", "pre_score", "score", "normalize")
IN_OWNER: Final = ("pre_enqueue", "reserve", "unreserve", "permit")
"""Methods that count; the owner's own filtering is its check of what scorers found."""
EVALUATED: Final = ("PreFilter", "Filter", "PreScore", "Score")
"""Of these calls are counted; a plugin that skips the pod in PreFilter or PreScore was not asked."""
SUCCESS: Final = CODE_NAMES[Code.SUCCESS]


class PluginTimes:
    """Of one process."""

    def __init__(self, stopwatch: Callable[[], float], tally: Tally) -> None:
        """`stopwatch`: seconds since whenever. `tally`: of the process. A call that is counted there
        counts for those of rounds that are not sampled too."""
        self._stopwatch = stopwatch
        self._tally = tally
        self._rounds = 0
        self._is_sampled = True
        self._watched: list[tuple[object, str, Callable[..., Any], Callable[..., Any]]] = []
        """(plugin, method, as it was, timed)"""
        self._took_s: dict[tuple[str, str], list[float]] = {}
        """(extension point, profile) -> since `each_s`, in a list of one: it is added to in place."""
        self._each_s: dict[tuple[str, str], float] = {}

    def watch(self, profile: str, plugins: Iterable[object], methods: Iterable[str]) -> None:
        """Has calls of these methods timed, of those plugins that have them; a plugin that comes several
        times is watched once. Somebody else's that takes no attributes is left as it is."""
        for plugin in {id(each): each for each in plugins}.values():
            if hasattr(plugin, "__dict__"):
                for method in methods:
                    if hasattr(plugin, method):
                        asked, timed = getattr(plugin, method), self._timed(plugin, method, profile)
                        setattr(plugin, method, timed)
                        self._watched.append((plugin, method, asked, timed))

    def begin_round(self) -> None:
        """What follows belongs together; the first round is sampled."""
        was_sampled, self._is_sampled = self._is_sampled, self._rounds % SAMPLED == 0
        self._rounds += 1
        if was_sampled is not self._is_sampled:
            for plugin, method, asked, timed in self._watched:
                setattr(plugin, method, timed if self._is_sampled else asked)

    def each_s(self, point: str, profile: str, count: int) -> float:
        """How long all plugins of an extension point took for each of so many pods since the last time;
        in rounds that are not sampled, as in the latest that was."""
        key = point, profile
        spent = self._took_s.get(key)
        if self._is_sampled and spent is not None:
            self._each_s[key], spent[0] = spent[0] / count, 0.0
        return self._each_s.get(key, 0.0)

    def _timed(self, plugin: Any, method: str, profile: str) -> Callable[..., Any]:
        name, asked = plugin.NAME, getattr(plugin, method)
        # In kube-scheduler's words (pkg/scheduler/metrics/metrics.go): normalising is part of Score.
        part_of = "Score" if method == "normalize" else method.title().replace("_", "")
        point = "ScoreExtensionNormalize" if method == "normalize" else part_of
        spent = self._took_s.setdefault((part_of, profile), [0.0])
        is_counted, may_skip = point in EVALUATED, point.startswith("Pre")
        stopwatch, tally = self._stopwatch, self._tally

        def timed(*arguments: Any, **named: Any) -> Any:
            begun_s = stopwatch()
            result = asked(*arguments, **named)
            call_s = stopwatch() - begun_s
            spent[0] += call_s
            if is_counted and not (may_skip and result.status.code is Code.SKIP):
                tally.count("plugin_evaluations", (name, point, profile), SAMPLED)
            tally.observe("plugin_s", (name, point, _told(result)), call_s)
            return result

        return timed


def _told(result: Any) -> str:
    """What a call came to: of many nodes what became of the best."""
    if isinstance(result, Verdicts):
        is_passed = not len(result.codes) or not result.codes.all()
        return SUCCESS if is_passed else CODE_NAMES[Code(int(result.codes.min()))]
    status = getattr(result, "status", result)
    if isinstance(status, tuple) and not isinstance(status, Status):
        status = status[0]  # Permit's, before its time-out.
    return CODE_NAMES[status.code] if isinstance(status, Status) else SUCCESS
