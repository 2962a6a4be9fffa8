"""A peer that does one thing at a time."""

import socket
import threading
from pathlib import Path

from bench.sync_peer import sync_adapter_peer
from shared.messages.to_owner import FROM_ADAPTER, AdapterBatch, KindUnavailable
from shared.transport.channels import Channel
from shared.transport.local_stream import LocalStream


def test_what_is_larger_than_the_socket_takes_has_left_when_send_returns(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(Channel.ADAPTER.path(tmp_path)))
    listener.listen()
    peer = sync_adapter_peer(tmp_path, "adapter-test")
    batch = AdapterBatch(1, [KindUnavailable("pods", "no" * (4 << 20))])
    bodies: list[bytes] = []

    def read_all() -> None:
        connected, _ = listener.accept()
        owner = LocalStream(connected, Channel.ADAPTER)
        connected.setblocking(True)
        while not owner.is_over:
            owner.receive(1)
            bodies.extend(body for _, body in owner.received)
            owner.received.clear()
        owner.close()

    reader = threading.Thread(target=read_all)
    reader.start()
    peer.send(batch, timeout_ms=600_000)
    peer.close()
    reader.join()
    listener.close()
    assert bodies[1:] == FROM_ADAPTER.encode(batch)[1:]
