"""The real supervisor over a table of children given as JSON:
`[[name, module, [argument, ...], seconds that it may be silent]]`, the last of which may be left out.

Every child also gets `--lifeline-fd`. On SIGHUP the table in the file `next.json` beside the runtime
directory takes its place, where there is one; one that is empty is refused.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from daemon.supervisor.children import ChildSpec
from daemon.supervisor.launcher import system_launch
from daemon.supervisor.process_list import SupervisorLock
from daemon.supervisor.supervise import Supervisor
from shared.errors import ConfigurationError
from shared.limits import SILENCE_S
from shared.runtime_options import RuntimeOptions
from shared.telemetry.log import start_logging


def main() -> int:
    runtime_dir, drain_s, table = sys.argv[1], float(sys.argv[2]), json.loads(sys.argv[3])
    start_logging("supervisor")
    options = RuntimeOptions(runtime_dir=runtime_dir, drain_s=drain_s)
    with SupervisorLock(Path(runtime_dir)):
        lifeline_read, _lifeline_write = os.pipe()

        def specs_of(rows: Any) -> list[ChildSpec]:
            return [
                ChildSpec(
                    name,
                    module,
                    (*arguments, "--lifeline-fd", str(lifeline_read)),
                    goes_by=(object(),) if name != "adapter" else (),
                    can_be_careful=name == "adapter",
                    silence_max_s=silence_max_s[0] if silence_max_s else SILENCE_S,
                )
                for name, module, arguments, *silence_max_s in rows
            ]

        def respecify() -> list[ChildSpec]:
            path = Path(runtime_dir).parent / "next.json"
            rows = json.loads(path.read_text()) if path.exists() else table
            if not rows:
                raise ConfigurationError(str(path), ["names nobody"])
            return specs_of(rows)

        specs = specs_of(table)
        launch = system_launch(lifeline_read)
        return asyncio.run(Supervisor(options, specs, launch, respecify).run())


if __name__ == "__main__":
    sys.exit(main())
