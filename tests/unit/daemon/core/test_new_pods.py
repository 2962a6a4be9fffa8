"""Whom a new pod wakes: with the gate GangScheduling also pods of no group, where a plugin that rejected
them may be helped by it (addPodToSchedulingQueue in pkg/scheduler/eventhandlers.go, v1.36.2)."""

from typing import Final

import pytest

from daemon.core.pod_groups import NO_GROUPS, GroupSettings
from daemon.core.queue.queued_pod import Place
from shared.extenders.extender_config import EXTENDER, ExtenderConfig
from shared.messages.to_owner import PodChanged
from shared.plugin_names import INTER_POD_AFFINITY, NODE_RESOURCES_FIT, POD_TOPOLOGY_SPREAD
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline
from tests.unit.daemon.core.queue.builders import GATED
from tests.unit.daemon.core.test_cost_of_a_pod import calls_by_place

APP: Final = {"app": "a"}
SELECTOR: Final = {"labelSelector": {"matchLabels": APP}, "topologyKey": "zone"}
WIDE: Final = {
    "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [SELECTOR]}},
    "topologySpreadConstraints": [{**SELECTOR, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
}
OTHERS: Final = ExtenderConfig(
    url_prefix="http://h", filter_verb="f", managed_resources=frozenset({"example.com/x"})
)


class Waiting(Pipeline):
    """Some pods wait, each of a class of its own."""

    def __init__(self, *plugins: str, count: int = 1, is_on: bool = True) -> None:
        groups = GroupSettings() if is_on else NO_GROUPS
        super().__init__(groups=groups, extenders=(OTHERS,))
        self.sync([make_node("n0")], [])
        self.run_until_quiet()
        labels = ({**APP, "number": str(number)} for number in range(count))
        pods = [make_pod(each["number"], labels=each, spec=WIDE) for each in labels]
        self.tell(*(PodChanged(pod) for pod in pods))
        for pod in pods:
            self.state.queue.requeue_unschedulable(pod.uid, plugins, (), self.now_s)
        self.pods = pods
        self.advance(100.0)

    def come(self, name: str = "new", nominated_node_name: str = "") -> None:
        pod = make_pod(name, labels=APP, spec=GATED, nominated_node_name=nominated_node_name)
        self.tell(PodChanged(pod))

    def parked(self) -> int:
        places = [pod.place for pod in self.state.queue if pod.record in self.pods]
        return places.count(Place.UNSCHEDULABLE)


@pytest.mark.parametrize(
    ("plugin", "is_on", "is_woken"),
    [
        (EXTENDER, True, True),
        (EXTENDER, False, False),
        (POD_TOPOLOGY_SPREAD, True, False),
        (INTER_POD_AFFINITY, True, False),
        (NODE_RESOURCES_FIT, True, False),
    ],
)
def test_a_new_pod_wakes_whom_a_plugin_rejected_that_may_be_helped_by_anything(
    plugin: str, is_on: bool, is_woken: bool
) -> None:
    waiting = Waiting(plugin, is_on=is_on)
    assert waiting.parked() == 1
    waiting.come()
    assert waiting.parked() == (not is_woken)


@pytest.mark.parametrize("plugin", [POD_TOPOLOGY_SPREAD, INTER_POD_AFFINITY])
def test_one_that_comes_nominated_counts_as_on_its_node(plugin: str) -> None:
    waiting = Waiting(plugin)
    waiting.come(nominated_node_name="n0")
    assert waiting.parked() == 0


@pytest.mark.parametrize("plugin", [POD_TOPOLOGY_SPREAD, INTER_POD_AFFINITY, NODE_RESOURCES_FIT])
def test_it_asks_nothing_of_all_that_wait_for_something_else(plugin: str) -> None:
    def calls(count: int) -> int:
        waiting = Waiting(plugin, count=count)
        waiting.come("first")
        return calls_by_place(waiting.come).total()

    assert calls(40) == calls(4)


def test_what_helps_nobody_is_not_kept_for_attempts_under_way() -> None:
    pipeline = Pipeline(groups=GroupSettings())
    pipeline.sync([make_node("n0")], [])
    pipeline.run_until_quiet()
    pipeline.tell(*(PodChanged(make_pod(f"p{number}")) for number in range(3)))
    pods = [make_pod(f"q{number}") for number in range(3)]
    pipeline.tell(*map(PodChanged, pods))
    assert not pipeline.state.queue.in_flight.events_by_label()["UnschedulablePodAdd"]
