"""Watch lines through the adapter's decoding, the owner and a scorer, kept in a small live cluster."""

from typing import Final

from bench.fuzz.cluster import SmallCluster
from bench.fuzz.harness import Surface, Target
from bench.fuzz.objects import watch_lines


def _start() -> Target:
    cluster = SmallCluster()
    return Target(cluster.take_line, cluster.check)


SURFACE: Final = Surface(
    about="watch lines through adapter, owner and scorer", story=watch_lines, start=_start
)
