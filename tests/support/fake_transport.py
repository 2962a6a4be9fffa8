"""A transport without a socket: remembers what was written, and closes when it is told to."""

import asyncio


class FakeTransport(asyncio.Transport):
    """Connects nothing. `protocol.connection_lost` is called at once when either side closes."""

    def __init__(self, protocol: asyncio.Protocol | asyncio.BufferedProtocol) -> None:
        super().__init__()
        self._protocol = protocol
        self.written: list[bytes] = []
        self.reads = True
        self._is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self.lose(None)

    def abort(self) -> None:
        self.lose(None)

    def lose(self, error: Exception | None) -> None:
        """The connection ends, as with a reset (`error`) or in good order (None)."""
        if not self._is_closed:
            self._is_closed = True
            self._protocol.connection_lost(error)

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True
