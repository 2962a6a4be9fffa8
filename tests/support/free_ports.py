"""Ports of the loopback that nobody has, for servers that must be told theirs."""

import socket


def free_port_pair() -> int:
    """The first of two neighbouring ports that are free now."""
    while True:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                with socket.socket() as second:
                    second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
