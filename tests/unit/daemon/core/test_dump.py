"""Cache and queue as text for people."""

from daemon.core.administration import by_place, dump_lines, node_lines
from daemon.core.cache import Cache
from shared.feature_gates import DEFAULT_GATES
from shared.framework.cluster_event import NODE_ADD
from shared.plugin_names import NODE_NAME, SCHEDULING_GATES
from tests.support.builders import make_node, make_pod
from tests.unit.daemon.core.queue.builders import GATED, Bench


def test_a_dump_shows_every_pod_with_what_holds_it() -> None:
    bench = Bench()
    bench.park("parked", [NODE_NAME])
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node("n1"), 0.1)
    bench.add("gated", 0.2, spec=GATED)
    parked, gated = by_place(bench.queue)
    assert (parked.key, parked.place.value) == ("default/parked", "backoff")
    assert (parked.backoff_until_s, parked.attempts) == (1.0, 1)
    assert (gated.key, gated.place.value) == ("default/gated", "unschedulable")
    assert gated.gated_by == SCHEDULING_GATES
    assert dump_lines(Cache(DEFAULT_GATES), bench.queue) == [
        "nodes: 0, pods: 0",
        "queue: 2 pods",
        "  backoff default/parked uid parked priority 0 attempts 1"
        f" rejected by [{NODE_NAME}] gated by []",
        "  unschedulable default/gated uid gated priority 0 attempts 0"
        f" rejected by [{SCHEDULING_GATES}] gated by [{SCHEDULING_GATES}]",
    ]


def test_a_dump_shows_what_is_on_each_node_and_what_no_node_has() -> None:
    cache = Cache(DEFAULT_GATES)
    cache.add_node(make_node("n1", cpu="4", memory="1Ki", pods=9))
    cache.add_pod(make_pod("p", node_name="n1", cpu="1", memory=None, host_port=80, claim="c"))
    asking = {"containers": [{"name": "c", "resources": {"requests": {"example.com/x": "2"}}}]}
    cache.add_pod(make_pod("lost", node_name="gone", spec=asking))
    assert list(node_lines(cache)) == [
        "node gone (ghost) generation 5 pods 1/0 example.com/x 2/0",
        "  counted in scores as cpu 100 memory 209715200",
        "  pod default/lost uid uid-default-lost phase added",
        "node n1 generation 3 pods 1/9 cpu 1000/4000 memory 0/1024",
        "  counted in scores as cpu 1000 memory 209715200",
        "  port 0.0.0.0 TCP 80",
        "  claim default/c pods 1",
        "  pod default/p uid uid-default-p phase added",
    ]
