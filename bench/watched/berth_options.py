"""The options of demo and soak that are about the berth that they start."""

import argparse

import msgspec

from shared.telemetry.log import LEVELS


class BerthOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How berth is started."""

    workers: int = 1
    binders: int = 1
    seed: int = 0
    config: str = ""
    log_level: str = "info"

    def arguments(self) -> list[str]:
        """For berth's command line."""
        return [
            *("--workers", f"{self.workers}", "--binders", f"{self.binders}"),
            *("--seed", f"{self.seed}", "--log-level", self.log_level),
            *(("--config", self.config) if self.config else ()),
        ]


def add_berth_options(
    parser: argparse.ArgumentParser, defaults: BerthOptions, *, seed_decides: str
) -> None:
    """Adds them to the options of a command."""
    add = parser.add_argument
    for option, default, told in (
        ("--workers", defaults.workers, "scoring processes"),
        ("--binders", defaults.binders, "binding processes"),
        ("--seed", defaults.seed, f"decides {seed_decides}"),
    ):
        add(option, type=int, default=default, metavar="N", help=f"{told} (default %(default)s)")
    add("--config", default="", metavar="FILE", help="KubeSchedulerConfiguration for berth")
    add("--log-level", choices=LEVELS, default=defaults.log_level, help="of berth's own log")
