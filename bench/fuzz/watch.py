"""Watch lines through the adapter's decoding, the owner and a scorer, kept in a small live cluster."""

from typing import Final

from bench.fuzz.fuzz_cluster import SmallCluster
from bench.fuzz.fuzz_objects import watch_lines
from bench.fuzz.harness import Surface, Target


def _start() -> Target:
    cluster = SmallCluster()
    return Target(cluster.take_line, cluster.check)


SURFACE: Final = Surface(
    about="watch lines through adapter, owner and scorer", story=watch_lines, start=_start
)
