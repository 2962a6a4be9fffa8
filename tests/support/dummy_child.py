"""A process that waits for the end of its lifeline or for SIGTERM, and does nothing else.

`--mode`: obey (ends with 0 on SIGTERM), deaf (ignores it), or a number (ends with it at once).
"""

import argparse
import signal
import sys

from shared.transport.parent import Lifeline


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lifeline-fd", type=int, required=True)
    parser.add_argument("--mode", default="obey")
    parsed = parser.parse_args()
    if parsed.mode.isdecimal():
        return int(parsed.mode)
    if parsed.mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    lifeline = Lifeline(parsed.lifeline_fd)
    while not lifeline.is_cut():
        # Signals interrupt it; the supervisor's death makes it readable.
        _wait_readable(lifeline.fd)
    return 0


def _wait_readable(fd: int) -> None:
    import select

    select.select([fd], [], [])


if __name__ == "__main__":
    sys.exit(main())
