"""The witness of bindings that are sent to the simulated API server."""

from types import SimpleNamespace

import orjson

from bench.apiserver.api_faults import Hang
from bench.apiserver.router import Request
from bench.sim.schedule import MachineClock, Simulation
from bench.sim.sim_processes import new_process
from bench.sim.virtual_loop import Network
from bench.sim.world import World

POD = "/api/v1/namespaces/default/pods/p"


def broken_rules(*sent: tuple[str, int]) -> list[str]:
    """After these requests (their method, the epoch of whom their binder obeys) about one pod."""
    simulation = Simulation(1)
    network = Network(simulation)
    world = World(simulation, network)
    simulation.run_until(simulation.now_s + 0.1)  # The server has begun to listen.
    world.create_pod("default", "p", {}, {"containers": [{"name": "c", "image": "i"}]})
    pod = world.pod("default", "p")
    assert pod is not None
    body = orjson.dumps({"metadata": {"uid": pod["metadata"]["uid"]}})
    speaker = new_process(simulation, "binder-0", MachineClock(simulation), network)
    network.speaker = speaker
    for method, epoch in sent:
        speaker.binder = SimpleNamespace(_last_epoch=epoch)  # type: ignore[assignment] # All that is asked.
        path = f"{POD}/binding" if method == "POST" else POD
        world.witness(Request(method, path, "", "application/json", "", body, True), Hang())
    world.close()
    return [rule for rule, _ in world.broken_rules]


def test_who_posts_again_has_looked_what_became_of_the_first() -> None:
    assert broken_rules(("POST", 1), ("POST", 1)) == ["blind binding"]
    assert broken_rules(("POST", 1), ("GET", 1), ("POST", 1)) == []


def test_a_binding_for_an_owner_that_has_ended_is_none_for_the_next() -> None:
    """Whoever lists anew sees what was bound: its first needs no look, also where the next owner had
    begun before the binder heard of it."""
    assert broken_rules(("POST", 1), ("POST", 2)) == []
    assert broken_rules(("POST", 1), ("POST", 2), ("POST", 2)) == ["blind binding"]
