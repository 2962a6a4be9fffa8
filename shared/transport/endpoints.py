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
    """The address of each channel."""

    def __init__(self, runtime_dir: Path) -> None:
        self.runtime_dir = runtime_dir.absolute()
        self._addresses = self._ipc_addresses()

    def address(self, channel: Channel) -> str:
        return self._addresses[channel]

    def prepare(self, socket: RawSocket) -> None:
        """For the next `connect`. Nothing: who may enter the directory may connect."""

    def _ipc_addresses(self) -> dict[Channel, str]:
        paths = {channel: self.runtime_dir / f"{channel.value}.sock" for channel in Channel}
        longest = max(len(os.fsencode(path)) for path in paths.values())
        if longest > IPC_PATH_BYTES_MAX:
            over = longest - IPC_PATH_BYTES_MAX
            raise ConfigurationError(
                str(self.runtime_dir),
                [f"socket paths would be {over} byte(s) too long; choose a shorter --runtime-dir"],
            )
        return {channel: f"ipc://{path}" for channel, path in paths.items()}
