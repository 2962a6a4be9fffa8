"""Chunks of a watch to its lines, without copying twice. A line has a bound, or a server that never ends
one would fill our memory."""

from shared.kube.api_errors import ProtocolViolation
from shared.limits import OBJECT_BYTES_MAX


class LineSplitter:
    """Keeps the beginning of a line that is not complete yet, as the pieces in which it came."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._bytes = 0
        """In these."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now, without their line ends and without empty ones. Raises
        `ProtocolViolation` where one is too long."""
        head, *rest = chunk.split(b"\n")
        self._bytes += len(head)
        if self._bytes > OBJECT_BYTES_MAX:
            self._pieces = []
            raise ProtocolViolation(f"a line of a watch of more than {OBJECT_BYTES_MAX} bytes")
        if not rest:
            if head:
                self._pieces.append(head)
            return []
        if self._pieces:
            # Joined once, when the line ends: a line of n pieces costs n, not n squared.
            self._pieces.append(head)
            head = b"".join(self._pieces)
            self._pieces = []
        tail = rest.pop()
        self._bytes = len(tail)
        if tail:
            self._pieces.append(tail)
        lines = [head, *rest]
        return [line for line in lines if line.strip()]

    def take_rest(self) -> bytes:
        """What came after the last line end, when nothing more will come."""
        rest = b"".join(self._pieces)
        self._pieces, self._bytes = [], 0
        return rest.strip()
