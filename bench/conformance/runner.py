"""`berth conformance FILE_OR_FOLDER...`: replays the corpus and reports passed and failed.

By default the engine decides in this process; with `--pipeline` the processes of a berth do. The
families that are not about placing pods (quantities, queue, hints) are the same in both.
`berth conformance --generate N --seed S` makes clusters up instead, and compares the engine with the
framework asked about one node at a time.

The last line is always `N passed, M failed`, and the exit code 1 if anything failed.
"""

import argparse
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from bench.conformance import compare_decisions as compare
from bench.conformance import quantities
from bench.conformance.corpus_evaluator import Evaluator, Outcome
from bench.conformance.engine_evaluator import EngineEvaluator
from bench.conformance.generated import differing
from bench.conformance.pipeline_evaluator import PipelineEvaluator
from bench.conformance.pipeline_profiles import ProfileBook
from bench.conformance.queue_replay import hint_differences, queue_differences
from bench.conformance.scenario import (
    CorpusError,
    Entry,
    family_of,
    find_files,
    read_configurations,
    read_entries,
    read_plain,
)
from shared.errors import OperationalError

QUANTITIES: Final = "quantities"
REPLAYED: Final = {"hints": hint_differences, "queue": queue_differences}
"""Families that are run by a function of their own."""
NO_EXTENDERS: Final = "scenario: has extenders, which only --pipeline asks"
LANES_MAX: Final = 8
LOOK_AHEAD: Final = 4
"""Scenarios that are read ahead of each lane."""
SWITCH_INTERVAL_S: Final = 0.0005
"""How long a thread may keep the others waiting when their message has come; Python's own 5 ms are
several times what an attempt takes."""
EXIT_FAILED: Final = 1
EXIT_UNUSABLE: Final = 2


class Failure(NamedTuple):
    """A scenario that came out otherwise."""

    name: str
    details: list[str]


class FamilyResult(NamedTuple):
    """How one family went."""

    name: str
    passed: int
    failures: list[Failure]

    @property
    def total(self) -> int:
        return self.passed + len(self.failures)


class Filters(NamedTuple):
    """Which families and scenarios to run; empty: all."""

    families: frozenset[str] = frozenset()
    scenarios: frozenset[str] = frozenset()


class Report(NamedTuple):
    """How everything went."""

    families: list[FamilyResult]
    left_out: compare.LeftOut


def run(
    files: Sequence[Path], evaluator: Evaluator, filters: Filters, lane_count: int = 1
) -> Report:
    """Runs all files; CorpusError for one that cannot be read.

    `lane_count` scenarios are decided at a time; the evaluator must bear so many threads.
    """
    results: list[FamilyResult] = []
    left_out: compare.LeftOut = Counter()
    for path in files:
        family = family_of(path)
        if filters.families and family not in filters.families:
            continue
        if family in REPLAYED:
            results.append(_run_replayed(family, path, filters))
        elif family == QUANTITIES:
            results.append(_run_quantities(family, path, filters))
        else:
            decided = _decided(path, evaluator, filters, lane_count, left_out)
            results.append(_compared(family, decided, evaluator, left_out))
    return Report(results, left_out)


def _compared(
    family: str,
    decided: Iterator[tuple[Entry, Outcome | OperationalError]],
    evaluator: Evaluator,
    left_out: compare.LeftOut,
) -> FamilyResult:
    passed = 0
    failures: list[Failure] = []
    for entry, outcome in decided:
        if isinstance(outcome, OperationalError):
            # Such as a profile that is not possible here: a difference too.
            details = [f"{type(outcome).__name__}: {outcome}"]
        else:
            found = compare.differences(entry.expected, outcome, evaluator.observes, left_out)
            details = [str(difference) for difference in found]
        if details:
            failures.append(Failure(entry.scenario.name, details))
        else:
            passed += 1
    return FamilyResult(family, passed, failures)


def _decided(
    path: Path,
    evaluator: Evaluator,
    filters: Filters,
    lane_count: int,
    left_out: compare.LeftOut,
) -> Iterator[tuple[Entry, Outcome | OperationalError]]:
    """The scenarios of a file in its order, and what was decided."""

    def decide(entry: Entry) -> Outcome | OperationalError:
        try:
            return evaluator.run(entry.scenario, is_compact=entry.is_compact)
        except OperationalError as error:
            return error

    def is_asked(entry: Entry) -> bool:
        if filters.scenarios and entry.scenario.name not in filters.scenarios:
            return False
        if entry.scenario.answers and not evaluator.asks_extenders:
            left_out[NO_EXTENDERS] += 1
            return False
        return True

    entries = filter(is_asked, read_entries(path))
    if lane_count == 1:
        for entry in entries:
            yield entry, decide(entry)
        return
    with ThreadPoolExecutor(lane_count) as pool:
        waiting: deque[tuple[Entry, Future[Outcome | OperationalError]]] = deque()
        for entry in entries:
            waiting.append((entry, pool.submit(decide, entry)))
            if len(waiting) > LOOK_AHEAD * lane_count:
                first, future = waiting.popleft()
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()


def _run_replayed(family: str, path: Path, filters: Filters) -> FamilyResult:
    differences = REPLAYED[family]
    passed = 0
    failures: list[Failure] = []
    for number, line in read_plain(path):
        if not isinstance(line.get("scenario"), dict) or not isinstance(line.get("expected"), dict):
            raise CorpusError(f"{path}, line {number}: has no `scenario` with `expected`")
        name = f"{line['scenario'].get('name')}"
        if filters.scenarios and name not in filters.scenarios:
            continue
        details = differences(line["scenario"], line["expected"])
        if details:
            failures.append(Failure(name, details))
        else:
            passed += 1
    return FamilyResult(family, passed, failures)


def _run_quantities(family: str, path: Path, filters: Filters) -> FamilyResult:
    passed = 0
    failures: list[Failure] = []
    for number, line in read_plain(path):
        text = line.get("text")
        if not isinstance(text, str):
            raise CorpusError(f"{path}, line {number}: has no `text`")
        if filters.scenarios and text not in filters.scenarios:
            continue
        details = quantities.differences(line)
        if details:
            failures.append(Failure(text, details))
        else:
            passed += 1
    return FamilyResult(family, passed, failures)


# Printing -------------------------------------------------------------------------------------------


def report_lines(report: Report, show: int) -> list[str]:
    """The report as text; `show` is how many differences to spell out."""
    lines: list[str] = []
    width = max((len(result.name) for result in report.families), default=0)
    lines += [f"{r.name:<{width}} {r.passed}/{r.total}" for r in report.families]
    lines += _differences(report, show)
    lines += [f"left out {count:6} x {what}" for what, count in sorted(report.left_out.items())]
    passed = sum(result.passed for result in report.families)
    failed = sum(len(result.failures) for result in report.families)
    lines.append(f"{passed} passed, {failed} failed")
    return lines


def _differences(report: Report, show: int) -> list[str]:
    lines: list[str] = []
    left = show
    for result in report.families:
        for failure in result.failures:
            if left <= 0:
                return lines
            lines.append(f"{result.name}/{failure.name}: {len(failure.details)} differences")
            lines += [f"  {detail}" for detail in failure.details[:left]]
            left -= len(failure.details)
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 all passed, 1 some failed, 2 nothing could be read or run."""
    parser = argparse.ArgumentParser(
        prog="berth conformance", description="Replay recorded decisions of kube-scheduler."
    )
    parser.add_argument("paths", nargs="*", metavar="FILE_OR_FOLDER")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N differences")
    parser.add_argument("--family", action="append", default=[], help="only this family")
    parser.add_argument("--scenario", action="append", default=[], help="only this scenario")
    parser.add_argument(
        "--pipeline", action="store_true", help="decide by the processes of a berth"
    )
    parser.add_argument(
        "--lanes", type=int, default=2, metavar="N", help="sets of processes at a time (--pipeline)"
    )
    parser.add_argument(
        "--generate", type=int, metavar="N", help="make N clusters up in place of files"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of --generate")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin at this one")
    options = parser.parse_args(argv)
    if options.generate is not None:
        if options.generate < 1 or options.first < 0 or options.paths or options.pipeline:
            parser.error(
                "--generate takes at least 1, and neither files nor --pipeline nor a negative --first"
            )
        return run_generated(options.seed, options.first, options.generate)
    if not options.paths:
        parser.error("FILE_OR_FOLDER or --generate is missing")
    if not 1 <= options.lanes <= LANES_MAX:
        parser.error(f"--lanes {options.lanes}: must lie in 1..{LANES_MAX}")
    filters = Filters(frozenset(options.family), frozenset(options.scenario))
    try:
        files = find_files(options.paths)
        if options.pipeline:
            report = run_pipeline(files, filters, options.lanes)
        else:
            report = run(files, EngineEvaluator(), filters)
    except CorpusError as error:
        print(error, file=sys.stderr)
        return EXIT_UNUSABLE
    for line in report_lines(report, options.show):
        print(line)
    if not any(result.total for result in report.families):
        print("nothing to run: no family or scenario is called so", file=sys.stderr)
        return EXIT_UNUSABLE
    return EXIT_FAILED if any(result.failures for result in report.families) else 0


def run_generated(seed: int, first: int, count: int) -> int:
    """Decides clusters that are made up in both ways; returns the exit code."""
    failed = 0
    for found in differing(seed, range(first, first + count)):
        failed += 1
        print(f"{found.document['name']}: {len(found.differences)} differences", flush=True)
        for difference in found.differences:
            print(f"  {difference}")
        print(found.line, flush=True)
    print(f"{count - failed} passed, {failed} failed")
    return EXIT_FAILED if failed else 0


def run_pipeline(files: Sequence[Path], filters: Filters, lane_count: int) -> Report:
    """Runs all files on real processes."""
    families = {path: family_of(path) for path in files}
    book = ProfileBook(
        configuration
        for path, family in families.items()
        if (not filters.families or family in filters.families)
        and family not in REPLAYED
        and family != QUANTITIES
        for configuration in read_configurations(path)
    )
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        with closing(PipelineEvaluator(book, lane_count)) as evaluator:
            return run(files, evaluator, filters, lane_count)
    finally:
        sys.setswitchinterval(interval_s)
