"""`berth conformance FILE_OR_FOLDER...`: replays the corpus and reports passed and failed.

The last line is always `N passed, M failed`, and the exit code 1 if anything failed. Families that
cannot be run yet are named with their size and count as neither.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.conformance import compare, quantities
from bench.conformance.engine_evaluator import EngineEvaluator
from bench.conformance.evaluator import Evaluator
from bench.conformance.scenario import (
    CorpusError,
    Entry,
    family_of,
    find_files,
    read_entries,
    read_plain,
)
from shared.errors import ConfigurationError

QUANTITIES: Final = "quantities"
NEEDS_QUEUE: Final = frozenset({"hints", "queue"})
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
    not_run: int = 0
    why_not_run: str = ""

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
    missing_plugins: frozenset[str]


def run(files: Sequence[Path], evaluator: Evaluator, filters: Filters) -> Report:
    """Runs all files; CorpusError for one that cannot be read."""
    results: list[FamilyResult] = []
    left_out: compare.LeftOut = Counter()
    missing: set[str] = set()
    for path in files:
        family = family_of(path)
        if filters.families and family not in filters.families:
            continue
        if family in NEEDS_QUEUE:
            count = sum(1 for _ in read_plain(path))
            results.append(FamilyResult(family, 0, [], count, "needs the queue"))
        elif family == QUANTITIES:
            results.append(_run_quantities(family, path, filters))
        else:
            results.append(_run_scenarios(family, path, evaluator, filters, left_out, missing))
    return Report(results, left_out, frozenset(missing))


def _run_scenarios(
    family: str,
    path: Path,
    evaluator: Evaluator,
    filters: Filters,
    left_out: compare.LeftOut,
    missing: set[str],
) -> FamilyResult:
    passed = 0
    failures: list[Failure] = []
    for entry in read_entries(path):
        name = entry.scenario.name
        if filters.scenarios and name not in filters.scenarios:
            continue
        details = _run_one(entry, evaluator, left_out, missing)
        if details:
            failures.append(Failure(name, details))
        else:
            passed += 1
    return FamilyResult(family, passed, failures)


def _run_one(
    entry: Entry, evaluator: Evaluator, left_out: compare.LeftOut, missing: set[str]
) -> list[str]:
    """What differs in one scenario; its profile being impossible here is a difference too."""
    try:
        outcome = evaluator.run(entry.scenario, is_compact=entry.is_compact)
    except ConfigurationError as error:
        return [f"configuration: {error}"]
    missing |= outcome.missing_plugins
    found = compare.differences(entry.expected, outcome, evaluator.observes, left_out)
    return [str(difference) for difference in found]


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
    for result in report.families:
        if result.why_not_run:
            lines.append(f"{result.name:<{width}} not run: {result.why_not_run} ({result.not_run})")
        else:
            lines.append(f"{result.name:<{width}} {result.passed}/{result.total}")
    lines += _differences(report, show)
    if report.missing_plugins:
        lines.append(f"plugins not built: {', '.join(sorted(report.missing_plugins))}")
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
    parser.add_argument("paths", nargs="+", metavar="FILE_OR_FOLDER")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N differences")
    parser.add_argument("--family", action="append", default=[], help="only this family")
    parser.add_argument("--scenario", action="append", default=[], help="only this scenario")
    options = parser.parse_args(argv)
    filters = Filters(frozenset(options.family), frozenset(options.scenario))
    try:
        report = run(find_files(options.paths), EngineEvaluator(), filters)
    except CorpusError as error:
        print(error, file=sys.stderr)
        return EXIT_UNUSABLE
    for line in report_lines(report, options.show):
        print(line)
    if not any(result.total or result.not_run for result in report.families):
        print("nothing to run: no family or scenario is called so", file=sys.stderr)
        return EXIT_UNUSABLE
    return EXIT_FAILED if any(result.failures for result in report.families) else 0
