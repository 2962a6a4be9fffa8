"""Addresses of the entrance for workers of other hosts."""

from pathlib import Path

import pytest
import zmq

from shared.errors import ConfigurationError
from shared.transport.channels import Channel
from shared.transport.remote import (
    Gatekeeper,
    RemoteOwner,
    WorkersEntrance,
    split_address,
    write_keys,
)


def test_work_and_snapshots_take_neighbouring_ports_and_nothing_else_is_reachable(
    tmp_path: Path,
) -> None:
    secret, public = write_keys(tmp_path, "k")
    entrance = WorkersEntrance.read("tcp://0.0.0.0:7400", str(secret), str(public))
    assert entrance.addresses == {
        Channel.SCORERS: "tcp://0.0.0.0:7400",
        Channel.SNAPSHOTS: "tcp://0.0.0.0:7401",
    }
    owner = RemoteOwner("tcp://scheduler.example:7400", str(public), str(secret))
    assert owner.addresses[Channel.SNAPSHOTS] == "tcp://scheduler.example:7401"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("udp://127.0.0.1:7400", "write tcp://HOST:PORT"),
        ("tcp://127.0.0.1", "write tcp://HOST:PORT"),
        ("tcp://:7400", "write tcp://HOST:PORT"),
        ("tcp://127.0.0.1:0", r"port must lie in 1\.\.65534"),
        ("tcp://127.0.0.1:65535", r"port must lie in 1\.\.65534"),
    ],
)
def test_addresses_that_cannot_be_used_are_refused(address: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        split_address(address)


def test_an_entrance_is_an_address_of_this_host_and_its_way_a_named_one(tmp_path: Path) -> None:
    secret, public = (str(path) for path in write_keys(tmp_path, "k"))
    with pytest.raises(ConfigurationError, match="write an IP address of this host"):
        WorkersEntrance.read("tcp://scheduler.example:7400", secret, public)
    with pytest.raises(ConfigurationError, match="name the host of the owner"):
        RemoteOwner("tcp://*:7400", public, secret)


def test_a_list_of_keys_that_cannot_be_read_refuses_nobody_for_good(tmp_path: Path) -> None:
    """As where the process has no descriptor left for a moment."""
    secret, public = write_keys(tmp_path, "k")
    entrance = WorkersEntrance.read("tcp://127.0.0.1:7400", str(secret), str(public))
    owner = RemoteOwner("tcp://127.0.0.1:7400", str(public), str(secret))
    content = public.read_text()
    public.unlink()
    context = zmq.Context()
    try:
        gatekeeper = Gatekeeper(context, public)
        door, worker = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        entrance.prepare(door)
        owner.prepare(worker)
        door.setsockopt(zmq.HANDSHAKE_IVL, 1_000)  # libzmq drops it then, in 30 s by default.
        worker.connect(f"tcp://127.0.0.1:{door.bind_to_random_port('tcp://127.0.0.1')}")
        worker.send(b"hello")
        poller = zmq.Poller()
        for socket in (gatekeeper.socket, door):
            poller.register(socket, zmq.POLLIN)
        while door not in dict(poller.poll()):
            gatekeeper.answer()
            public.write_text(content)
        assert door.recv_multipart()[1] == b"hello"
        assert public.exists(), "nobody is let in before"
    finally:
        context.destroy(linger=0)
