"""`berth replay DIR`: a recorded day (`berth run --record DIR`, with `--observe` beside another
scheduler).

Without `--config`: how berth would have decided each time that a pod was bound (`shadow.py`). With it:
the day once more under the configuration in use and under the other one (`rerun.py`), and what differs.
With `--pod NAMESPACE/POD`: how the nodes were rated when that one was bound.
With `--anonymise OUT` nothing is decided, and the recording is written to OUT without its names
(`anonymity.py`).
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import groupby
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec

from daemon.adapter.kind_feed import KindFeed
from daemon.adapter.recording import read_recording, tell_feed
from daemon.cli import add_output, as_json, show
from daemon.commands.check_config import check
from daemon.commands.option_problems import blamed, option_problems
from daemon.commands.run_flags import GROUP_OPTIONS, add_options
from daemon.commands.text_table import table, table_below
from daemon.trial.anonymity import write_anonymised
from daemon.trial.explain import Explanation, explanation_lines
from daemon.trial.replay_page import Comparison, Moved, both_rows, comparison_html
from daemon.trial.rerun import DayDetail, DayOutcome, Rerun
from daemon.trial.shadow import AS_GOOD, MEANINGS, JudgedBinding, bindings, judged
from daemon.trial.trial import Trial
from daemon.trial.trial_diagnosis import diagnose_pod
from shared import exit_codes
from shared.config import SchedulerConfiguration
from shared.errors import OperationalError
from shared.kube.api_errors import ApiError
from shared.kube.decode import UnreadableAnswerError
from shared.kube.foreign_groups import kinds_with
from shared.kube.resources import custom_kind, is_custom_name
from shared.messages.to_owner import AdapterMessage
from shared.runtime_options import RuntimeOptions

AS_USUAL: Final = RuntimeOptions()
EXAMPLES_MAX: Final = 20


class ShadowReport(msgspec.Struct, frozen=True):
    """How berth would have decided beside whoever did."""

    seconds: float
    bindings: int
    counts: dict[str, int]
    examples: list[JudgedBinding]


def main(arguments: Sequence[str]) -> int:
    """The command; the exit code."""
    parser = argparse.ArgumentParser(prog="berth replay", allow_abbrev=False)
    parser.add_argument("recording", type=Path, metavar="DIR")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--config", default="", metavar="FILE", help="another configuration")
    parser.add_argument(
        "--current-config",
        default="",
        metavar="FILE",
        help="the one in use (default: the defaults)",
    )
    parser.add_argument(
        "--plugin", default="", metavar="DIR", help="a folder that pip install --target made"
    )
    asked.add_argument(
        "--anonymise", type=Path, metavar="OUT", help="write it there, without names"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="with --config: the comparison as a page, too"
    )
    asked.add_argument(
        "--pod", default="", metavar="NAMESPACE/POD", help="how nodes were rated when it was bound"
    )
    add_options(parser, *GROUP_OPTIONS)
    add_output(parser)
    parsed = parser.parse_args(arguments)
    is_comparison = bool(parsed.config or parsed.plugin) and not (parsed.pod or parsed.anonymise)
    if parsed.page and not is_comparison:
        parser.error("--page goes with --config or --plugin")
    if parsed.anonymise:
        count = write_anonymised(parsed.recording, parsed.anonymise)
        show([f"{count} inputs written to {parsed.anonymise}"])
        return exit_codes.OK
    if parsed.plugin:
        sys.path.insert(0, parsed.plugin)
    decided = RuntimeOptions(
        feature_gates=parsed.feature_gates,
        pod_groups=parsed.pod_groups,
        gang_reservation_s=parsed.gang_reservation_s,
    )
    if problems := option_problems(decided):
        parser.error("; ".join(problems))
    current = check(parsed.current_config, parsed.feature_gates).configuration
    found: ShadowReport | Comparison | Explanation
    if parsed.pod:
        found = explain_binding(parsed.recording, current, parsed.pod, decided)
    elif is_comparison:
        other = check(parsed.config, parsed.feature_gates).configuration
        found = compare(parsed.recording, current, other, decided)
    else:
        found = in_the_shadow(parsed.recording, current, decided)
    show([as_json(found)] if parsed.output == "json" else lines_of(found))
    if parsed.page and isinstance(found, Comparison):
        with blamed("--page"):
            parsed.page.write_text(comparison_html(found, parsed.recording.name), "utf-8")
    return exit_codes.OK


def moments(recording: Path, pod_groups: str = "") -> Iterator[tuple[float, list[AdapterMessage]]]:
    """What came at each moment of a recording; `pod_groups` as `--pod-groups` has it."""
    kinds = {kind.plural: kind for kind in kinds_with(pod_groups)}
    feeds: dict[str, KindFeed] = {}
    messages: list[AdapterMessage] = []

    def feed_of(plural: str) -> KindFeed:
        if plural not in feeds:
            kind = custom_kind(plural) if is_custom_name(plural) else kinds[plural]
            feeds[plural] = KindFeed(kind, lambda message, _: messages.append(message))
        return feeds[plural]

    for at_s, entries in groupby(read_recording(recording), attrgetter("at_s")):
        for entry in entries:
            if entry.kind not in kinds and not is_custom_name(entry.kind):
                continue  # Of a berth that watches more than this one.
            # What a failure led to (waiting, listing anew) comes next in the recording.
            with suppress(ApiError, UnreadableAnswerError):
                tell_feed(feed_of(entry.kind), entry)
        if messages:
            yield at_s, messages.copy()
            messages.clear()


def in_the_shadow(
    recording: Path, config: SchedulerConfiguration, decided: RuntimeOptions = AS_USUAL
) -> ShadowReport:
    """Each binding judged."""
    trial = Trial(config, decided, decides=False)
    counts, examples = dict.fromkeys(MEANINGS, 0), list[JudgedBinding]()
    for pod, node in bindings(trial, moments(recording, decided.pod_groups)):
        found = judged(trial, pod, node)
        counts[found.verdict] += 1
        if found.verdict not in AS_GOOD and len(examples) < EXAMPLES_MAX:
            examples.append(found)
    return ShadowReport(trial.now_s, sum(counts.values()), counts, examples)


def explain_binding(
    recording: Path, config: SchedulerConfiguration, key: str, decided: RuntimeOptions = AS_USUAL
) -> Explanation:
    """Of a pod (`namespace/name`) on the cluster right before it was bound; OperationalError if it never
    was."""
    key = key if "/" in key else f"default/{key}"
    trial = Trial(config, decided, decides=False)
    for pod, node in bindings(trial, moments(recording, decided.pod_groups)):
        if pod.key == key:
            profile = pod.info.spec.scheduler_name
            evaluation = trial.engine.evaluate(pod.class_id, pod.info, profile)
            diagnosis = diagnose_pod(trial.view, evaluation, node)
            return Explanation(key, node, profile, None, diagnosis, is_of_then=True)
    raise OperationalError(f"{key} is not bound in {recording}")


def _day(
    recording: Path, config: SchedulerConfiguration, decided: RuntimeOptions
) -> tuple[float, dict[str, str], DayOutcome, DayDetail]:
    trial = Trial(config, decided)
    day = Rerun(trial)
    day.tell(moments(recording, decided.pod_groups))
    return (trial.now_s, day.placements, *day.outcome())


def compare(
    recording: Path,
    current: SchedulerConfiguration,
    other: SchedulerConfiguration,
    decided: RuntimeOptions = AS_USUAL,
) -> Comparison:
    """The day under each, side by side."""
    with ProcessPoolExecutor(1, get_context("spawn")) as beside:
        coming = beside.submit(_day, recording, other, decided)
        seconds, at_now, now, now_detail = _day(recording, current, decided)
        _, at_other, other_outcome, other_detail = coming.result()
    moved = [
        Moved(pod, at_now.get(pod, ""), at_other.get(pod, ""))
        for pod in sorted(at_now.keys() | at_other.keys())
        if at_now.get(pod) != at_other.get(pod)
    ]
    return Comparison(
        seconds,
        now,
        other_outcome,
        now_detail,
        other_detail,
        placed_elsewhere=sum(bool(one.now and one.other) for one in moved),
        placed_now_only=sum(not one.other for one in moved),
        placed_other_only=sum(not one.now for one in moved),
        moved=moved,
    )


def lines_of(found: ShadowReport | Comparison | Explanation) -> list[str]:
    """Tables."""
    match found:
        case ShadowReport():
            return _shadow_lines(found)
        case Comparison():
            return _comparison_lines(found)
        case Explanation():
            return explanation_lines(found)


def _comparison_lines(found: Comparison) -> list[str]:
    told = f"{found.placed_elsewhere} pod(s) elsewhere, {found.placed_now_only} placed now only,"
    head = f"{found.seconds:.0f} s recorded: {told} {found.placed_other_only} with the other only"
    return [head, "", *table(("", "NOW", "OTHER"), both_rows(found))]


def _shadow_lines(found: ShadowReport) -> list[str]:
    counted = [
        (name, f"{count}", f"{100 * count / max(1, found.bindings):.1f} %", MEANINGS[name])
        for name, count in found.counts.items()
    ]
    lines = [f"{found.bindings} bindings in {found.seconds:.0f} s", ""]
    lines += table(("BERTH", "BINDINGS", "SHARE", ""), counted, left={0, 3})
    rows = [
        (one.pod, one.verdict, one.node, one.berths_node, f"{one.score_difference}", one.reason)
        for one in found.examples
    ]
    head = ("POD", "BERTH", "NODE", "BERTH'S", "BY", "REASON")
    return lines + table_below(head, rows, left={0, 1, 2, 3, 5})
