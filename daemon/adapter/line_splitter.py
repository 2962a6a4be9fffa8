"""Chunks of a watch to its lines, without a limit on their length and without copying twice."""


class LineSplitter:
    """Keeps the beginning of a line that is not complete yet, as the pieces in which it came."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now, without their line ends and without empty ones."""
        head, *rest = chunk.split(b"\n")
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
        if tail:
            self._pieces.append(tail)
        lines = [head, *rest]
        return [line for line in lines if line.strip()]

    def take_rest(self) -> bytes:
        """What came after the last line end, when nothing more will come."""
        rest = b"".join(self._pieces)
        self._pieces = []
        return rest.strip()
