"""The real supervisor over a table of children given as JSON: `[[name, module, [argument, ...]]]`.

Every child also gets `--lifeline-fd`.
"""

import asyncio
import json
import sys
from pathlib import Path

from daemon.supervisor.children import ChildSpec
from daemon.supervisor.process_list import SupervisorLock
from daemon.supervisor.run import supervise
from shared.config import RuntimeOptions
from shared.telemetry.log import start_logging
from shared.transport.parent import make_lifeline


def main() -> int:
    runtime_dir, drain_s, table = sys.argv[1], float(sys.argv[2]), json.loads(sys.argv[3])
    start_logging("supervisor")
    options = RuntimeOptions(runtime_dir=runtime_dir, drain_s=drain_s)
    with SupervisorLock(Path(runtime_dir)):
        lifeline_read, _lifeline_write = make_lifeline()
        specs = [
            ChildSpec(name, module, (*arguments, "--lifeline-fd", str(lifeline_read)))
            for name, module, arguments in table
        ]
        return asyncio.run(supervise(options, specs, lifeline_read))


if __name__ == "__main__":
    sys.exit(main())
