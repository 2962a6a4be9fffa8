"""The table of channels: who binds, which sockets, which messages, what happens under pressure; and what
all connections have in common.

The owner binds them all; everybody else connects, so any process may start before any other and be
restarted alone. Work and snapshots are ZeroMQ's, also on tcp for workers of other hosts (`remote.py`);
the others never leave the host (`local_stream.py`). High-water marks count messages per connection and
add up over both ends: a channel of ZeroMQ's holds at most twice its `high_water` in each direction for
one peer, another that and what the kernel's buffer takes.

Under pressure:

- adapter: events are never dropped. A full channel makes the adapter's `send` wait, and through it
  the watch's TCP window: the API server slows down, nothing is lost.
- scorers, binders, admin: nothing is dropped in silence. `send` returns False when the peer is
  gone or its queue is full, and the sender keeps what it wanted to send.
- snapshots: a subscriber that is too slow loses frames. It notices by the sequence numbers,
  proposes nothing from a copy with a hole, and asks for a full snapshot.

What was queued for a process that dies is lost with it; so may be what a process said last on ZeroMQ's.
Epochs, `Hello` and looking first sort both out.
"""

import enum
from pathlib import Path
from typing import Final, NamedTuple, Self


class Channel(enum.StrEnum):
    """The names, as they appear in socket files, logs and errors."""

    ADAPTER = "adapter"
    """Cluster events to the owner; orders to list and watch back."""
    SCORERS = "scorers"
    """Work to scorers, full snapshots on request; proposals back (ROUTER/DEALER)."""
    SNAPSHOTS = "snapshots"
    """Deltas to all scorers (XPUB/SUB)."""
    BINDERS = "binders"
    """Orders to binders; outcomes back."""
    ADMIN = "admin"
    """Questions of the command line and the supervisor, any number of clients."""

    def path(self, runtime_dir: Path) -> str:
        """On this host. Who may enter the directory (`runtime_dir.py`) may connect; workers of other
        hosts have an entrance of their own, with keys."""
        return f"{runtime_dir.absolute() / self.value}.sock"

    def address(self, runtime_dir: Path) -> str:
        """The same for ZeroMQ."""
        return f"ipc://{self.path(runtime_dir)}"


class Limits(NamedTuple):
    high_water: int
    """Of each end."""
    drained_per_poll: int
    """The owner takes at most so many messages from a channel before it turns to the others."""


LIMITS: Final[dict[Channel, Limits]] = {
    # A batch holds up to 1 MiB (1024 events): 32 of them on the way are bounded memory, and 8, at
    # some 6 us of the owner's time an event, are 50 ms until binds and proposals have their turn.
    Channel.ADAPTER: Limits(high_water=16, drained_per_poll=8),
    # Work is bounded by the credit of each scorer, a few batches; heartbeats are one a second.
    Channel.SCORERS: Limits(high_water=1024, drained_per_poll=256),
    # A scorer that computes for 100 ms while the owner publishes a delta each millisecond is 100
    # behind; ten times that is a scorer in trouble, and a full snapshot is then the shorter way.
    Channel.SNAPSHOTS: Limits(high_water=1024, drained_per_poll=256),
    # Orders are bounded by the binds in flight (max-in-flight of each binder) and come in batches.
    Channel.BINDERS: Limits(high_water=4096, drained_per_poll=256),
    Channel.ADMIN: Limits(high_water=64, drained_per_poll=16),
}

REMOTE_SNAPSHOTS_HIGH_WATER: Final = 128
"""Deltas that the owner keeps for one worker of another host whose link is slow. A delta of a burst has
some 10 kB, one of a turned-over cluster of 5,000 nodes some MB: what is kept stays below what a whole
copy for that worker takes."""

SUBSCRIBER_TOPIC: Final = b"scorer:"
"""A scorer also subscribes to this plus its identity, which tells the owner that the subscription
is in force. Nothing is published under it."""

RECONNECT_MS: Final = 10
"""Pods wait for whoever died to be found again, and a try costs microseconds."""
RECONNECT_MS_MAX: Final = 1000


class Connected(NamedTuple):
    """There is a (new) connection to the owner: greet it. What was sent before may be lost."""


class Closing:
    """`with` closes it at the end."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
