"""Cache and queue as text for people."""

from daemon.core.cache import Cache
from daemon.core.dump import by_place, dump_lines
from shared.framework.cluster_event import NODE_ADD
from shared.plugin_names import NODE_NAME, SCHEDULING_GATES
from tests.support.builders import make_node
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
    assert dump_lines(Cache(), bench.queue) == [
        "nodes: 0, pods: 0",
        "queue: 2 pods",
        "  backoff default/parked uid parked priority 0 attempts 1"
        f" rejected by [{NODE_NAME}] gated by []",
        "  unschedulable default/gated uid gated priority 0 attempts 0"
        f" rejected by [{SCHEDULING_GATES}] gated by [{SCHEDULING_GATES}]",
    ]
