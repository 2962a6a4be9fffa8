"""How slow a simulated API server is to be for what a scheduler writes (`apiserver/write_pace.py`): the
options of the server and of whoever starts one.
"""

import argparse
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PaceOptions:
    """0 stands for no limit."""

    write_latency_ms: float = 0.0
    writes_per_s: float = 0.0

    def problems(self) -> list[str]:
        """What is wrong with them, by option."""
        return [
            f"--{option} {number:g}: must be 0 or more, and finite"
            for option, number in (
                ("write-latency-ms", self.write_latency_ms),
                ("writes-per-s", self.writes_per_s),
            )
            if not 0 <= number < float("inf")
        ]

    def arguments(self) -> list[str]:
        """For the server's command line."""
        latency, rate = f"{self.write_latency_ms:g}", f"{self.writes_per_s:g}"
        return [
            *(["--write-latency-ms", latency] if self.write_latency_ms else []),
            *(["--writes-per-s", rate] if self.writes_per_s else []),
        ]


def add_pace_options(parser: argparse.ArgumentParser) -> None:
    """Adds them to the options of a command."""
    for option, unit, told in (
        ("--write-latency-ms", "MS", "what a scheduler writes is carried out so much later"),
        ("--writes-per-s", "N", "and at most so often (default: no limit)"),
    ):
        parser.add_argument(option, type=float, default=0.0, metavar=unit, help=told)


def pace_of(parsed: argparse.Namespace) -> PaceOptions:
    """What was given of them."""
    return PaceOptions(write_latency_ms=parsed.write_latency_ms, writes_per_s=parsed.writes_per_s)
