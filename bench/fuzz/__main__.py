"""`berth fuzz`: inputs that nobody would send, for every place where inputs of others come in."""

import argparse
import gc
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from bench.fuzz import harness
from bench.fuzz.harness import Finding, Surface, Tally
from bench.fuzz.surfaces import SURFACES
from shared import exit_codes
from shared.telemetry.log import start_logging

GROWTH_BYTES_MAX: Final = 48 * 1024 * 1024
"""From a fifth of the way to the end. Caches have bounds, and are full by then or nearly so."""
_WARM: Final = 0.2


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: nothing was found."""
    options = _parser().parse_args(arguments)
    # What is logged is put into words, as it would be, and goes nowhere.
    start_logging("fuzz", "debug", sys.stderr if options.log else _Nowhere())
    sys.excepthook = sys.__excepthook__
    if options.replay is not None:
        return _replay(options.replay)
    try:  # Not only when there is something to write, after hours.
        Path(options.output).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"--output: {error}", file=sys.stderr)
        return exit_codes.UNUSABLE
    names = list(SURFACES) if options.surface == "all" else [options.surface]
    counts = [_fuzz(name, SURFACES[name], options) for name in names]
    return exit_codes.FAILED if any(counts) else exit_codes.OK


def _fuzz(name: str, surface: Surface, options: argparse.Namespace) -> int:
    limit_s = options.minutes * 60.0
    memory: list[int] = []

    def is_over(tally: Tally, passed_s: float) -> bool:
        done = max(
            tally.inputs_count / options.inputs if options.inputs else 0.0,
            passed_s / limit_s if limit_s else 0.0,
        )
        if not memory and done >= _WARM:
            memory.append(_memory_bytes())
        return done >= 1.0

    paths: list[Path] = []

    def note(found: Finding) -> None:
        print(f"{name}: {found.kind}: {found.detail}", flush=True)
        paths.append(Path(options.output, f"{name}-{options.seed}-{len(paths) + 1}.json"))
        paths[-1].write_text(harness.written(name, found), encoding="utf-8")

    tally = harness.run(name, surface, options.seed, is_over, note)
    memory.append(_memory_bytes())
    for path, found in zip(paths, tally.findings.values(), strict=True):
        path.write_text(harness.written(name, harness.shrunk(surface, found)), encoding="utf-8")
        print(f"{name}: {found.kind}: made short in {path}", flush=True)
    count = len(tally.findings) + _growth(name, memory)
    print(
        f"{name}: {tally.inputs_count} inputs, {tally.refused_count} refused, {count} findings; slowest"
        f" turn {tally.slowest_s * 1000:.0f} ms of CPU; memory {memory[0] >> 20} MiB, at the end"
        f" {memory[-1] >> 20} MiB",
        flush=True,
    )
    return count


def _growth(name: str, memory: list[int]) -> int:
    grown = memory[-1] - memory[0]
    if grown <= GROWTH_BYTES_MAX:
        return 0
    print(f"{name}: memory grew by {grown >> 20} MiB")
    return 1


def _replay(path: Path) -> int:
    name, story = harness.read_story(path.read_text(encoding="utf-8"))
    with harness.limited():
        found = harness.tell(SURFACES[name], story, Tally())
    print(f"{name}: {len(story)} inputs: {'nothing found' if found is None else found.kind}")
    if found is not None:
        print(found.detail)
    return exit_codes.OK if found is None else exit_codes.FAILED


def _memory_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="berth fuzz",
        description="Tells real code what nobody would say, and looks for exceptions that are no"
        " refusals of its own, turns of more than a second and memory that is not given back. Findings"
        " are made short and written to files.",
        epilog="; ".join(f"{name}: {surface.about}" for name, surface in SURFACES.items()),
    )
    parser.add_argument("surface", nargs="?", default="all", choices=["all", *SURFACES])
    parser.add_argument("--minutes", type=float, default=0.0, metavar="N", help="for each surface")
    parser.add_argument("--inputs", type=int, default=0, metavar="N", help="for each surface")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="equal seeds, equal inputs"
    )
    parser.add_argument("--output", default=".", metavar="DIR", help="for findings")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="tells a finding again")
    parser.add_argument("--log", action="store_true", help="shows what is logged")
    return parser


if __name__ == "__main__":
    sys.exit(main())
