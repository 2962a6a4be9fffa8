"""A process that waits for the end of its lifeline or for SIGTERM, and does nothing else but beat.

`--mode`: obey (ends with 0 on SIGTERM), deaf (ignores it), or a number (ends with it at once).
`--takes`: an object by its number, of which it dies unless it is told to go without.
It says what it is given and what it finds as a line of the log.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from shared.child_plan import add_options
from shared.transport.heartbeat import Heartbeat

BEAT_S = 0.02


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    add_options(parser)
    parser.add_argument("--mode", default="obey")
    parser.add_argument("--takes", type=int)
    parsed = parser.parse_args(arguments)
    if parsed.mode.isdecimal():
        return int(parsed.mode)
    sys.stderr.write(json.dumps({"event": "given", "arguments": arguments, **_found()}) + "\n")
    if parsed.mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    heartbeat = Heartbeat(parsed.heartbeat_fd)
    if parsed.takes and parsed.takes not in (parsed.careful or ()):
        heartbeat.beat(0 if parsed.careful is None else parsed.takes)
        os._exit(1)
    # Signals interrupt it; the supervisor's death makes it readable.
    while not _is_readable(parsed.lifeline_fd):
        heartbeat.beat()
    return 0


def _found() -> dict[str, object]:
    """What a child finds, apart from what it is given."""
    handled = [number for number in signal.Signals if callable(signal.getsignal(number))]
    return {
        "path": sys.path,
        "group": os.getpgid(0),
        "handled": [number.name for number in handled],
        "fds": sorted(int(fd.name) for fd in Path("/proc/self/fd").iterdir()),
        "input": str(Path("/proc/self/fd/0").readlink()),
    }


def _is_readable(fd: int) -> bool:
    """Waits a moment for it."""
    import select

    return bool(select.select([fd], [], [], BEAT_S)[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
