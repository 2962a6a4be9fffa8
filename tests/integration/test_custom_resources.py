"""A plugin hears of objects that berth does not know, in real processes.

The server has no custom resources: leases stand for them, which no kind of berth's own is.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from shared.columns.schema import Rows
from shared.framework.cluster_event import Action
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Dependence, Reads, Scope
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView
from shared.framework.status import Code, Verdicts, single_reason
from shared.kube.resources import CustomObject
from tests.support.live import LiveBerth, SharedBerth, configuration, enabled, profile, tell

pytestmark = pytest.mark.integration

DOORS = "leases.v1.coordination.k8s.io"
UNKNOWN = "foos.v1.example.com"
PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def state_of(door: CustomObject | None) -> str:
    return "none" if door is None else door.decoded()["spec"]["holderIdentity"]


class Door:
    """Lets no pod pass before the lease "door" is held by "open"."""

    NAME: ClassVar[str] = "Door"
    filter_depends: ClassVar[Dependence] = Dependence(Reads.OBJECTS, Scope.CLUSTER)
    object_kinds: ClassVar[frozenset[str]] = frozenset({DOORS})

    def __init__(self, given: dict[str, Any]) -> None:
        assert not given

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        every = (Action.ADD, Action.UPDATE, Action.DELETE)
        return tuple(ClusterEventWithHint(name, every, self._hint) for name in (DOORS, UNKNOWN))

    def _hint(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        old, new = map(state_of, change.both(CustomObject))
        tell(self.NAME, change.event.label, f"{old} {new}")
        return new == "open"

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        door = cluster.objects.get(DOORS, "default/door")
        is_shut = np.full(len(rows), state_of(door) != "open", np.bool_)
        return single_reason(is_shut, Code.UNSCHEDULABLE, "the door is shut")


@pytest.fixture(scope="module")
def shared_berth() -> Iterator[SharedBerth]:
    config = configuration(
        profile("default-scheduler", enabled(multiPoint=["Door"])),
        podInitialBackoffSeconds=1, podMaxBackoffSeconds=1,
    )  # fmt: skip

    def start() -> LiveBerth:
        plugins = {"Door": f"{__name__}:Door"}
        return LiveBerth(config, plugins, custom_kinds=(DOORS, UNKNOWN))

    with SharedBerth(start) as shared:
        yield shared


def door(state: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "door", "namespace": "default"},
        "spec": {"holderIdentity": state},
    }


def test_a_pod_waits_for_what_its_plugin_says_of_an_object_before_and_after(
    live: LiveBerth,
) -> None:
    added, updated = live.moves(f"{DOORS}Add"), live.moves(f"{DOORS}Update")
    live.add_node("n1")
    live.add_pod("p")
    assert "the door is shut" in live.unschedulable("p")
    live.create(PATH, "Lease", door("shut"))
    live.wait_call("Door", f"{DOORS}Add", "none shut")
    live.update(f"{PATH}/door", lambda found: found["spec"].update(holderIdentity="open"))
    assert live.bound("p") == "n1"
    assert live.calls("Door", f"{DOORS}Update") == ["shut open"]
    assert live.moves(f"{DOORS}Update", updated + 1) == updated + 1
    assert live.moves(f"{DOORS}Add") == added


def test_a_deletion_is_told_with_the_object_that_was(live: LiveBerth) -> None:
    live.add_node("n1")
    live.create(PATH, "Lease", door("shut"))
    live.add_pod("p")
    live.unschedulable("p")
    live.ask("DELETE", f"{PATH}/door")
    live.wait_call("Door", f"{DOORS}Delete", "shut none")
    live.create(PATH, "Lease", door("open"))
    assert live.bound("p") == "n1"


def test_a_resource_that_is_not_served_keeps_nobody_waiting_and_is_named(live: LiveBerth) -> None:
    status = live.until(lambda status: UNKNOWN in status.unavailable_kinds, "it is known")
    assert status.synced
    assert DOORS not in status.unavailable_kinds
    assert status.unavailable_kinds[UNKNOWN].startswith("404")
    live.await_news(lambda: live.grep("kinds_unavailable"), lambda: "the adapter names it")
    (line,) = live.grep("kinds_unavailable")
    assert UNKNOWN in line
    assert "CustomResourceDefinition" in line
