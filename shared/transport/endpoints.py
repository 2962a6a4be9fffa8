"""Where the sockets are: `ipc://` under the runtime directory (`runtime_dir.py`).

Nothing here is for other hosts: workers there have an entrance of their own, with keys (`remote.py`).
"""

import os
from pathlib import Path
from typing import Final

from shared.errors import ConfigurationError
from shared.transport.channels import Channel
from shared.transport.sockets import RawSocket

IPC_PATH_BYTES_MAX: Final = 107
"""sockaddr_un.sun_path on Linux, without the closing zero."""


class Endpoints:
    def __init__(self, runtime_dir: Path) -> None:
        self.runtime_dir = runtime_dir.absolute()
        over = max(len(os.fsencode(self._path(each))) for each in Channel) - IPC_PATH_BYTES_MAX
        if over > 0:
            problem = (
                f"socket paths would be {over} byte(s) too long; choose a shorter --runtime-dir"
            )
            raise ConfigurationError(str(self.runtime_dir), [problem])

    def address(self, channel: Channel) -> str:
        return f"ipc://{self._path(channel)}"

    def prepare(self, socket: RawSocket) -> None:
        """For the next `connect`. Nothing: who may enter the directory may connect."""

    def _path(self, channel: Channel) -> Path:
        return self.runtime_dir / f"{channel.value}.sock"
