"""The owner's end of a channel that does not leave the host (`local_stream.py`): who is there."""

import select
import socket
from pathlib import Path
from typing import Final

from shared.messages.codec import Buffer
from shared.transport.channels import Channel
from shared.transport.local_stream import LocalStream, Parts, note_dropped
from shared.transport.sockets import Poller

_BACKLOG: Final = 128
"""Connections that the owner has not accepted yet; who finds no room comes again."""


class LocalEntrance:
    def __init__(self, runtime_dir: Path, channel: Channel, poller: Poller) -> None:
        """OSError where the socket cannot be made."""
        self._channel = channel
        self._poller = poller
        self._streams: dict[int, LocalStream] = {}
        self._by_name: dict[bytes, LocalStream] = {}
        self.has_more = False
        """Messages that came are still to be taken, or somebody is still to be dropped."""
        path = Path(channel.path(runtime_dir))
        path.unlink(missing_ok=True)  # A dead owner's: who comes here has the lock.
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        try:
            self._listener.bind(str(path))
            self._listener.listen(_BACKLOG)
        except OSError:
            self._listener.close()
            raise
        poller.watch_fd(self._listener.fileno())
        self._is_resting = False
        """Nobody could be let in, and who waits there would end each wait at once."""

    def take(self, ready: dict[object, int], count_max: int) -> list[tuple[bytes, Parts]]:
        """Who said what, in order for each; the rest with the next `take`."""
        taken: list[tuple[bytes, Parts]] = []
        if self._is_resting:
            self._rest(is_resting=False)
        elif self._listener.fileno() in ready:
            self._accept()
        self.has_more = False
        for fd, stream in list(self._streams.items()):
            events = ready.get(fd, 0)
            if events & select.EPOLLOUT:
                stream.flush()
                if not stream.has_unsent:
                    self._poller.watch_for(fd, select.EPOLLIN)
            if events or not stream.name:
                stream.receive(count_max)
            received = stream.received
            if received and not stream.name:
                name = stream.name = b"".join(received.popleft())
                if (former := self._by_name.get(name)) is not None:
                    # Its old connection is not noticed to be dead.
                    former.is_over = self.has_more = True
                self._by_name[name] = stream
            while received and len(taken) < count_max:
                taken.append((stream.name, received.popleft()))
            self.has_more |= bool(received)
            if stream.is_over and not received:
                self._drop(stream)
        return taken

    def send(self, peer: bytes, parts: list[Buffer]) -> bool:
        """False: the peer is gone or its queue is full."""
        stream = self._by_name.get(peer)
        if stream is None or not stream.send(parts):
            return False
        if stream.has_unsent:
            self._poller.watch_for(stream.fd, select.EPOLLIN | select.EPOLLOUT)
        return True

    def close(self, linger_s: float) -> None:
        for stream in self._streams.values():
            stream.close(linger_s)
        self._streams.clear()
        self._by_name.clear()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                stream = LocalStream(self._listener.accept()[0], self._channel)
            except BlockingIOError:
                return  # Nobody else is there.
            except OSError as error:
                note_dropped(f"channel {self._channel}: nobody is let in: {error.strerror}")
                self._rest(is_resting=True)
                return
            self._streams[stream.fd] = stream
            self._poller.watch_fd(stream.fd)

    def _rest(self, *, is_resting: bool) -> None:
        self._is_resting = is_resting
        self._poller.watch_for(self._listener.fileno(), 0 if is_resting else select.EPOLLIN)

    def _drop(self, stream: LocalStream) -> None:
        if self._by_name.get(stream.name) is stream:
            del self._by_name[stream.name]
        del self._streams[stream.fd]
        stream.close()
