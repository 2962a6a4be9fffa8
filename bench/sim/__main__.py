"""`berth sim`: plays seeds, and tells the story of one that fails."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from bench.sim.coverage import Lines, merge, play_traced
from bench.sim.shrink import shrink
from bench.sim.sim_plan import Plan, make_plan
from bench.sim.sim_run import Outcome, collect_seldom, play, play_seed
from bench.sim.unreached import table
from shared import exit_codes

SEEDS_PER_PROCESS: Final = 400
"""Then it is started anew: a process takes a second to start, and grows meanwhile."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: no seed failed."""
    options = _parser().parse_args(arguments)
    first, _, last = options.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    if options.coverage:
        return _cover(seeds, options.seeds, options.workers, Path(options.coverage))
    if len(seeds) == 1:
        return _tell(seeds[0])
    start_s = time.monotonic()
    failed: list[Outcome] = []
    bound_count = assumptions_count = 0
    with get_context("spawn").Pool(
        options.workers, collect_seldom, maxtasksperchild=SEEDS_PER_PROCESS
    ) as pool:
        for outcome in pool.imap_unordered(play_seed, seeds, chunksize=8):
            bound_count += outcome.bound_count
            assumptions_count += outcome.assumptions_count
            if _tell_failure(outcome):
                failed.append(outcome)
    took_s = time.monotonic() - start_s
    print(
        f"{len(seeds)} seeds in {took_s:.0f} s, {len(seeds) / took_s:.1f} seeds/s:"
        f" {assumptions_count} assumptions checked, {bound_count} pods bound,"
        f" {len(failed)} seeds failed"
    )
    for kind, count in Counter(each.failure.kind for each in failed if each.failure).most_common():
        print(f"{count:6}  {kind}")
    return exit_codes.FAILED if failed else exit_codes.OK


def _tell_failure(outcome: Outcome) -> bool:
    if outcome.failure is not None:
        print(f"seed {outcome.seed}: {outcome.failure}", flush=True)
    return outcome.failure is not None


def _cover(seeds: range, told: str, worker_count: int, path: Path) -> int:
    reached: Lines = {}
    failed_count = 0
    with get_context("spawn").Pool(worker_count) as pool:
        for outcome, lines in pool.imap_unordered(play_traced, seeds, chunksize=4):
            merge(reached, lines)
            failed_count += _tell_failure(outcome)
    path.write_text(table(reached, told))
    print(f"{path} written; {failed_count} of {len(seeds)} seeds failed")
    return exit_codes.FAILED if failed_count else exit_codes.OK


def _tell(seed: int) -> int:
    plan = make_plan(seed)
    outcome = play(plan)
    if outcome.failure is not None:
        kind = outcome.failure.kind

        def still_fails(shorter: Plan) -> bool:
            found = play(shorter).failure
            return found is not None and found.kind == kind

        print(f"seed {seed} fails: {outcome.failure}\nlooking for a shorter story", flush=True)
        plan = shrink(plan, still_fails)
    outcome = play(plan, is_told=True)
    print("\n".join(outcome.story))
    print(f"{plan.scorer_count} scorers, {plan.binder_count} binders, {len(plan.actions)} actions")
    print(f"digest {outcome.digest}, {outcome.events_count} events")
    return exit_codes.OK if outcome.failure is None else exit_codes.FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="berth sim",
        description="Plays all of berth in one thread on a virtual clock, with faults of every kind, and"
        " looks after each step whether what must hold does. A seed always plays in the same way.",
    )
    parser.add_argument(
        "--seeds", default="0..299", metavar="A..B", help="which; a single one tells its story"
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="seeds played side by side"
    )
    parser.add_argument(
        "--coverage",
        metavar="FILE",
        help="write which lines of the deciding code the seeds have not reached, and why",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
