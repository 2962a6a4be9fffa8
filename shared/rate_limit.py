"""A token bucket: so many requests a second on average, so many at once after a pause.

As client-go's flow control (util/flowcontrol/throttle.go, v1.36): whoever comes too early is told how
long to wait, and its place is taken at once, so that nobody overtakes. Time is an argument.
"""


class RateLimit:
    """One bucket. Not for several threads."""

    def __init__(self, per_s: float, burst: int) -> None:
        assert per_s > 0, "a limit of nothing is a stop"
        assert burst > 0, "a bucket holds one request at least"
        self._interval_s = 1.0 / per_s
        self._burst_s = burst / per_s
        self._full_at_s = float("-inf")
        """When the bucket will be full again; everything else follows from that."""

    def wait_s(self, now_s: float) -> float:
        """How long the next request would have to wait."""
        taken_s = max(self._full_at_s, now_s) + self._interval_s - now_s
        # The sums are of times of day: what is less than a nanosecond is their rounding.
        wait_s = taken_s - self._burst_s
        return wait_s if wait_s > 1e-9 else 0.0

    def reserve(self, now_s: float) -> float:
        """Take a place; returns how long to wait for it."""
        wait_s = self.wait_s(now_s)
        self._full_at_s = max(self._full_at_s, now_s) + self._interval_s
        return wait_s
