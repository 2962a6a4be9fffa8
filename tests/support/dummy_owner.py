"""A process that answers the supervisor's questions as the owner does, and knows nothing else.

Run as a child of the supervisor under test. `--deaf-to-stop` never answers a StopRequest;
`--stop-answered-when PATH` answers it only when that file exists.
"""

import argparse
import sys
import time
from pathlib import Path

from shared.child_plan import add_options, watch_for_end
from shared.messages.admin import (
    AdminAnswer,
    AdminRequest,
    CompareRequest,
    StatusRequest,
    StopRequest,
    TextAnswer,
)
from shared.transport.channels import Channel
from shared.transport.heard import Said
from shared.transport.heartbeat import Heartbeat
from shared.transport.owner_sockets import OwnerSockets
from tests.support.owner_answers import status_answer

POLL_MS = 20


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runtime-dir", type=Path, required=True)
    add_options(parser)
    parser.add_argument("--deaf-to-stop", action="store_true")
    parser.add_argument("--stop-answered-when", type=Path)
    parsed = parser.parse_args(arguments)
    epoch = time.time_ns()
    heartbeat = Heartbeat(parsed.heartbeat_fd)
    stop_askers: list[bytes] = []
    with OwnerSockets(parsed.runtime_dir) as sockets:
        is_stopped = watch_for_end(parsed.lifeline_fd, sockets.watch_fd)
        while True:
            heartbeat.beat()
            for one in sockets.poll(POLL_MS):
                if not isinstance(one, Said):
                    continue
                if isinstance(one.message, StopRequest):
                    stop_askers.append(one.peer)
                elif isinstance(one.message, AdminRequest):
                    sockets.send(Channel.ADMIN, one.peer, _answer(one.message, epoch))
            if is_stopped():
                return 0
            may_stop = parsed.stop_answered_when is None or parsed.stop_answered_when.exists()
            while stop_askers and may_stop and not parsed.deaf_to_stop:
                sockets.send(Channel.ADMIN, stop_askers.pop(), TextAnswer(["drained"]))


def _answer(request: object, epoch: int) -> AdminAnswer:
    if isinstance(request, StatusRequest):
        return status_answer(epoch=epoch, counters={"scheduled": 2})
    return TextAnswer([] if isinstance(request, CompareRequest) else ["line one", "line two"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
