"""`python -m tests.support.binding_file CONFIG GATES`: writes what binders are told of a configuration
to standard output, as `berth run` makes it. A process of its own, in the environment that has
plugins."""

import sys
from pathlib import Path

import msgspec

from daemon.commands.check_config import check_text
from daemon.supervisor.plan import binding_plan

if __name__ == "__main__":
    path, gates = sys.argv[1:]
    plan = binding_plan(*check_text(Path(path).read_text(), path, gates)[:2])
    sys.stdout.buffer.write(msgspec.msgpack.encode(plan))
