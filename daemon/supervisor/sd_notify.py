"""Tells systemd how berth is: READY=1, WATCHDOG=1, RELOADING=1, STOPPING=1 over its datagram
socket.

Does nothing where there is no systemd (NOTIFY_SOCKET not set). Protocol: sd_notify(3).
"""

import os
import socket
from collections.abc import Mapping


class ServiceNotifier:
    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the zero byte of Linux' abstract sockets.
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        watchdog_us = environment.get("WATCHDOG_USEC", "")
        self.watchdog_s = int(watchdog_us) / 1e6 if watchdog_us.isdecimal() else 0.0
        """systemd kills a service that is silent for so long; 0: it does not watch."""

    def tell(self, state: str, status: str) -> None:
        """`state`: the assignments of the protocol; `status`: for people."""
        message = f"{state}\nSTATUS={status}"
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(message.encode(), socket.MSG_DONTWAIT, self._address)
        except OSError:
            # A service manager that is restarting, or a moment without descriptors, must not take its
            # services with it; it learns the state from the next message.
            return
