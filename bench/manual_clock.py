"""Time that somebody tells."""


class ManualClock:
    """A clock that moves only when told."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def boot_s(self) -> float:
        return self.now_s

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return self.now_s

    def advance(self, by_s: float) -> None:
        assert by_s >= 0, "time does not run backwards"
        self.now_s += by_s
