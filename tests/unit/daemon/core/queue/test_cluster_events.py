"""The vocabulary of events, what an update of an object stands for, and who registered what."""

from typing import Any

import msgspec
import pytest

from daemon.core.queue.object_changes import node_update_events, pod_update_events
from daemon.core.queue.wakeups import with_implied_taint
from shared.errors import ObjectError
from shared.feature_gates import FeatureGates
from shared.framework.cluster_event import Action, ClusterEvent, Resource, covered
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.kube.api.core_v1 import Node
from shared.plugins.in_tree import IN_TREE
from tests.support.builders import make_pod
from tests.support.wakeups import default_registrations
from tests.unit.daemon.core.queue.builders import Bench, view_of


def test_labels_are_those_of_the_metrics() -> None:
    assert ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT).label == "NodeUpdateNodeTaint"
    assert ClusterEvent(Resource.ASSIGNED_POD, Action.ADD).label == "AssignedPodAdd"
    wildcard = ClusterEvent(Resource.WILDCARD, Action.UNSCHEDULABLE_TIMEOUT)
    assert (wildcard.label, wildcard.is_wildcard) == ("UnschedulableTimeout", True)


def test_a_registration_of_update_covers_every_special_update_of_that_resource() -> None:
    events = covered(Resource.NODE, Action.UPDATE)
    assert ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL) in events
    assert ClusterEvent(Resource.NODE, Action.UPDATE_POD_LABEL) not in events
    assert ClusterEvent(Resource.NODE, Action.ADD) not in events


def test_a_special_update_covers_only_itself() -> None:
    assert covered(Resource.NODE, Action.UPDATE_NODE_LABEL) == [
        ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
    ]


def test_a_registration_of_pods_covers_pods_with_and_without_a_node() -> None:
    assert set(covered(Resource.POD, Action.DELETE)) == {
        ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE),
        ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.DELETE),
    }


def node(**parts: Any) -> Node:
    body = {
        "metadata": {"name": "n", "labels": {"a": "1"}, "annotations": parts.get("annotations")},
        "spec": {"taints": parts.get("taints"), "unschedulable": parts.get("closed", False)},
        "status": {
            "allocatable": parts.get("allocatable", {"cpu": "8"}),
            "conditions": parts.get("conditions"),
            "declaredFeatures": parts.get("features"),
        },
    }
    return msgspec.convert(body, Node)


READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        ({}, {}, []),
        ({"taints": []}, {"taints": None}, []),
        ({"allocatable": {"cpu": "8"}}, {"allocatable": {"cpu": "8000m"}}, []),
        (
            {"allocatable": {"cpu": "8"}},
            {"allocatable": {"cpu": "8", "pods": "1"}},
            [Action.UPDATE_NODE_ALLOCATABLE],
        ),
        ({"closed": True}, {"closed": False}, [Action.UPDATE_NODE_TAINT]),
        ({"closed": False}, {"closed": True}, []),
        ({"conditions": READY}, {}, [Action.UPDATE_NODE_CONDITION]),
        ({"features": ["a"]}, {"features": ["a", "b"]}, [Action.UPDATE_NODE_DECLARED_FEATURE]),
        ({"annotations": {}}, {"annotations": {"x": "y"}}, [Action.UPDATE_NODE_ANNOTATION]),
        (
            {"taints": [{"key": "a", "timeAdded": "2026-01-01T00:00:00Z"}]},
            {"taints": [{"key": "a", "timeAdded": "2026-01-01T00:00:01Z"}]},
            [Action.UPDATE_NODE_TAINT],
        ),
        (
            {"features": ["a"], "annotations": {"x": "y"}},
            {},
            [Action.UPDATE_NODE_ANNOTATION, Action.UPDATE_NODE_DECLARED_FEATURE],
        ),
        (
            {"taints": [{"key": "a", "effect": "NoSchedule"}], "conditions": READY},
            {"allocatable": {"cpu": "9"}},
            [
                Action.UPDATE_NODE_ALLOCATABLE,
                Action.UPDATE_NODE_TAINT,
                Action.UPDATE_NODE_CONDITION,
            ],
        ),
    ],
)
def test_an_update_of_a_node_is_told_by_what_changed(
    old: dict[str, Any], new: dict[str, Any], actions: list[Action]
) -> None:
    events = node_update_events(node(**old), node(**new))
    assert events == [ClusterEvent(Resource.NODE, action) for action in actions]


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        ({}, {}, [Action.UPDATE]),
        ({"labels": {"a": "1"}}, {"labels": {"a": "2"}}, [Action.UPDATE_POD_LABEL]),
        ({"cpu": "2"}, {"cpu": "1"}, [Action.UPDATE_POD_SCALE_DOWN]),
        ({"cpu": "1"}, {"cpu": "2"}, [Action.UPDATE]),
        ({"memory": "1700m"}, {"memory": "1200m"}, [Action.UPDATE_POD_SCALE_DOWN]),
        ({"memory": "1200m"}, {"memory": "1700m"}, [Action.UPDATE]),
        ({"memory": "0"}, {"memory": None}, [Action.UPDATE_POD_SCALE_DOWN]),
        (
            {"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}]}},
            {"spec": {"schedulingGates": [{"name": "a"}]}},
            [Action.UPDATE],
        ),
        (
            {"spec": {"schedulingGates": [{"name": "a"}]}, "labels": {"x": "y"}},
            {"spec": {"tolerations": [{"operator": "Exists"}]}},
            [
                Action.UPDATE_POD_LABEL,
                Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
                Action.UPDATE_POD_TOLERATION,
            ],
        ),
    ],
)
@pytest.mark.parametrize("node_name", ["", "n1"])
def test_an_update_of_a_pod_is_told_by_what_changed(
    old: dict[str, Any], new: dict[str, Any], actions: list[Action], node_name: str
) -> None:
    views = [view_of(make_pod("p", node_name=node_name, **parts)) for parts in (old, new)]
    resource = Resource.ASSIGNED_POD if node_name else Resource.UNSCHEDULABLE_POD
    assert pod_update_events(*views) == [ClusterEvent(resource, action) for action in actions]


def test_plugins_that_wait_for_nodes_wait_for_taints_to_go_as_well() -> None:
    asks = ClusterEventWithHint(Resource.NODE, (Action.ADD,))
    own = ClusterEventWithHint(Resource.NODE, (Action.ADD, Action.UPDATE_NODE_TAINT))
    other = ClusterEventWithHint(Resource.CSI_NODE, (Action.ADD,))
    assert len(with_implied_taint((asks,))) == 2
    assert with_implied_taint((own,)) == (own,)
    assert with_implied_taint((other,)) == (other,)


def test_every_registered_plugin_is_one_of_the_default_profile() -> None:
    gates = FeatureGates()
    known = {name for name, one in IN_TREE.items() if not one.gate or gates[one.gate]}
    assert set(default_registrations()) <= known


REGISTERED = """
DynamicResources | DeviceClass: Add, Update; Node: Add, UpdateNodeAllocatable, UpdateNodeLabel, \
UpdateNodeTaint; Pod: UpdatePodGeneratedResourceClaim; ResourceClaim: Add, Update; \
ResourceSlice: Add, Update
InterPodAffinity | Node: Add, UpdateNodeLabel, UpdateNodeTaint; Pod: Add, Delete, UpdatePodLabel
NodeAffinity | Node: Add, UpdateNodeLabel, UpdateNodeTaint
NodeDeclaredFeatures | Node: Add, UpdateNodeDeclaredFeature, UpdateNodeTaint; Pod: Update
NodeName | Node: Add, UpdateNodeTaint
NodePorts | Node: Add, UpdateNodeTaint; Pod: Delete
NodeResourcesFit | DeviceClass: Add, Update; Node: Add, UpdateNodeAllocatable, UpdateNodeTaint; \
Pod: Delete, UpdatePodScaleDown
NodeUnschedulable | Node: Add, UpdateNodeTaint; Pod: UpdatePodToleration
NodeVolumeLimits | CSINode: Add, Update; PersistentVolumeClaim: Add; Pod: Delete; \
VolumeAttachment: Delete
PodTopologySpread | Node: Add, Delete, UpdateNodeLabel, UpdateNodeTaint; Pod: Add, Delete, \
UpdatePodLabel, UpdatePodToleration
SchedulingGates | Pod: UpdatePodSchedulingGatesEliminated
TaintToleration | Node: Add, UpdateNodeTaint; Pod: UpdatePodToleration
VolumeBinding | CSIDriver: Update; CSINode: Add, Update; CSIStorageCapacity: Add, Update; \
Node: Add, UpdateNodeLabel, UpdateNodeTaint; PersistentVolume: Add, Update; \
PersistentVolumeClaim: Add, Update; StorageClass: Add, Update
VolumeRestrictions | Node: Add, UpdateNodeTaint; PersistentVolumeClaim: Add; Pod: Delete
VolumeZone | Node: Add, UpdateNodeLabel, UpdateNodeTaint; PersistentVolume: Add, Update; \
PersistentVolumeClaim: Add, Update; StorageClass: Add
"""
"""What the plugins of kube-scheduler v1.36.2 registered when the conformance corpus was made."""


def test_the_table_registers_what_kube_scheduler_registers() -> None:
    expected = {}
    for line in REGISTERED.strip().splitlines():
        plugin, _, rest = line.partition(" | ")
        expected[plugin] = {
            (kind, action)
            for part in rest.split("; ")
            for kind, _, actions in [part.partition(": ")]
            for action in actions.split(", ")
        }
    actual = {
        plugin: {
            (line.resource.rpartition("/")[2], action.value)
            for line in with_implied_taint(lines)
            for action in line.actions
        }
        for plugin, lines in default_registrations().items()
        if lines  # Nothing wakes what DefaultPreemption holds but that all its victims were asked.
    }
    assert actual == expected


def test_a_hint_that_cannot_read_an_object_counts_as_queue() -> None:
    def hint(*_: object) -> bool:
        raise ObjectError("node n1", "cpu is no quantity")

    event = ClusterEvent(Resource.NODE, Action.ADD)
    bench = Bench(registrations={"P": (ClusterEventWithHint(Resource.NODE, (Action.ADD,), hint),)})
    bench.park("p", ["P"])
    assert bench.moved(bench.queue.move_all_to_active_or_backoff, event, None, node(), 20.0) == 1
    assert bench.wakeups.hint_error_count == 1
