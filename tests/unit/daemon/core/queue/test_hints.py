"""Hints that the conformance corpus does not reach: claims, detached volumes, profile settings."""

from typing import Any

import msgspec
import pytest

from bench.conformance.queue_replay import hint_of
from daemon.core.cache import Cache
from daemon.core.queue.queued_pod import QueuedPod
from shared import plugin_names
from shared.feature_gates import (
    DEFAULT_GATES,
    DRA_EXTENDED_RESOURCE,
    TAINT_TOLERATION_COMPARISON_OPERATORS,
    FeatureGates,
)
from shared.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Action,
    ClusterEvent,
    Resource,
)
from shared.framework.queueing_hints import Change, ChangedObject, Registrations
from shared.kube.api.core_v1 import Pod, Service
from shared.kube.api.core_v1_parts import NodeSelector
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api.storage_v1 import CsiDriver, VolumeAttachment
from shared.kube.pod_record import split_pod
from shared.selectors import node_selector
from shared.selectors.node_terms import Terms, parse_selector
from tests.support.builders import make_node, make_pod
from tests.support.devices import make_class
from tests.support.wakeups import default_registrations, registrations_with, wakeups_of
from tests.unit.daemon.core.queue.builders import Bench, view_of

CLAIM_ADDED = ClusterEvent(Resource.RESOURCE_CLAIM, Action.ADD)
CLAIM_UPDATED = ClusterEvent(Resource.RESOURCE_CLAIM, Action.UPDATE)
DETACHED = ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE)
DRIVER_UPDATED = ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE)
RELABELLED = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)


class Asking:
    """Asks one plugin's hint about events, for one pod."""

    def __init__(
        self,
        plugin: str,
        registrations: Registrations | None = None,
        gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        cluster = Cache(gates).view
        self.objects = cluster.objects
        self._plugin = plugin
        self._wakeups = wakeups_of(registrations or default_registrations(), cluster)

    def __call__(
        self,
        pod: QueuedPod,
        event: ClusterEvent,
        old: ChangedObject | None,
        new: ChangedObject | None,
    ) -> bool:
        said = hint_of(self._wakeups, self._plugin, pod, Change(event, old, new))
        self.error_count = self._wakeups.hint_error_count
        return said


def pod_with(**parts: Any) -> QueuedPod:
    return Bench().add("p", **parts)


def claim(name: str, *, owner: str = "", **body: Any) -> ResourceClaim:
    owners = [{"kind": "Pod", "name": "p", "uid": owner, "controller": True}] if owner else []
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "ownerReferences": owners,
        "deletionTimestamp": body.pop("deleted", None),
    }
    return msgspec.convert({"metadata": metadata, **body}, ResourceClaim)


# DynamicResources ---------------------------------------------------------------------------------

NAMED = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
GENERATED = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}]}
ALLOCATED: dict[str, Any] = {"status": {"allocation": {"devices": {}}}}


def test_the_pods_own_claim_helps_when_it_appears() -> None:
    ask = Asking(plugin_names.DYNAMIC_RESOURCES)
    pod = pod_with(spec=NAMED)
    mine, other = claim("mine"), claim("other")
    assert ask(pod, CLAIM_ADDED, None, mine) is False, "not in the store: still missing"
    ask.objects.put("resourceclaims", "default/mine", mine)
    assert ask(pod, CLAIM_ADDED, None, mine) is True
    assert ask(pod, CLAIM_ADDED, None, other) is False


def test_a_claim_helps_when_its_status_changes_or_any_claim_is_deallocated() -> None:
    ask = Asking(plugin_names.DYNAMIC_RESOURCES)
    pod = pod_with(spec=NAMED)
    mine = claim("mine")
    ask.objects.put("resourceclaims", "default/mine", mine)
    relabelled = claim("mine", spec={"a": 1})
    reserved = claim("mine", status={"reservedFor": []})
    assert ask(pod, CLAIM_UPDATED, mine, relabelled) is False
    assert ask(pod, CLAIM_UPDATED, mine, reserved) is True
    assert ask(pod, CLAIM_UPDATED, claim("other", **ALLOCATED), claim("other")) is True
    assert ask(pod, CLAIM_UPDATED, claim("other"), claim("other", **ALLOCATED)) is False


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"data":{"a":1e400}', '"data":{"a":1e401}'),
        ('"data":{"a":1}', '"driver":""'),
        ('"networkData":{"ips":["1.1.1.1/32"]}', '"networkData":{"ips":["1.1.1.2/32"]}'),
    ],
)
def test_whatever_a_driver_says_of_a_device_is_a_change(before: str, after: str) -> None:
    def said(device: str) -> ResourceClaim:
        meta = '{"name":"mine","namespace":"default","uid":"uid-mine"}'
        text = f'{{"metadata":{meta},"status":{{"devices":[{{{device}}}]}}}}'
        told = msgspec.msgpack.encode(msgspec.json.decode(text, type=ResourceClaim))
        return msgspec.msgpack.decode(told, type=ResourceClaim)

    ask = Asking(plugin_names.DYNAMIC_RESOURCES)
    ask.objects.put("resourceclaims", "default/mine", claim("mine"))
    pod = pod_with(spec=NAMED)
    assert ask(pod, CLAIM_UPDATED, said(before), said(after)) is True
    assert ask(pod, CLAIM_UPDATED, said(after), said(after)) is False


def test_a_reservation_of_another_kind_of_that_name_is_a_change() -> None:
    ask = Asking(plugin_names.DYNAMIC_RESOURCES)
    ask.objects.put("resourceclaims", "default/mine", claim("mine"))
    user = {"resource": "pods", "name": "p", "uid": "p"}
    was = claim("mine", status={"reservedFor": [user]})
    now = claim("mine", status={"reservedFor": [{**user, "apiGroup": "a"}]})
    assert ask(pod_with(spec=NAMED), CLAIM_UPDATED, was, now) is True


def test_a_claim_that_is_on_its_way_out_helps_nobody() -> None:
    ask = Asking(plugin_names.DYNAMIC_RESOURCES)
    leaving = claim("mine", deleted="2026-01-01T00:00:00Z")
    ask.objects.put("resourceclaims", "default/mine", leaving)
    assert ask(pod_with(spec=NAMED), CLAIM_ADDED, None, leaving) is False


def test_a_pod_waits_until_its_generated_claims_are_named_and_its_own() -> None:
    ask = Asking(plugin_names.DYNAMIC_RESOURCES)
    event = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    before = pod_with(spec=GENERATED)
    assert ask(before, event, before.view, before.view) is False
    after = _with_claim_status("mine")
    assert ask(after, event, before.view, after.view) is False, "the claim is not there yet"
    ask.objects.put("resourceclaims", "default/mine", claim("mine", owner="somebody"))
    assert ask(after, event, before.view, after.view) is False
    ask.objects.put("resourceclaims", "default/mine", claim("mine", owner="p"))
    assert ask(after, event, before.view, after.view) is True
    stranger = Bench().add("stranger", spec=GENERATED)
    assert ask(stranger, event, before.view, after.view) is False


def test_a_reference_for_which_no_claim_had_to_be_made_is_complete() -> None:
    ask = Asking(plugin_names.DYNAMIC_RESOURCES)
    event = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    after = _with_claim_status(None)
    assert ask(after, event, after.view, after.view) is True


def _with_claim_status(claim_name: str | None) -> QueuedPod:
    body = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"containers": [], **GENERATED},
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim_name}]},
    }
    return Bench().put(split_pod(msgspec.convert(body, Pod)), 0.0)


# Volumes ------------------------------------------------------------------------------------------


def attachment(volume: str | None, attacher: str = "csi.example.com") -> VolumeAttachment:
    body = {
        "metadata": {"name": "va"},
        "spec": {"attacher": attacher, "source": {"persistentVolumeName": volume}},
    }
    return msgspec.convert(body, VolumeAttachment)


def test_any_detached_volume_may_help_a_pod_with_a_claim() -> None:
    ask = Asking(plugin_names.NODE_VOLUME_LIMITS)
    assert ask(pod_with(claim="unknown"), DETACHED, attachment("pv1"), None) is True
    assert ask(pod_with(), DETACHED, attachment("pv1"), None) is False


def test_a_detached_volume_helps_a_pod_with_an_inline_volume_of_the_migrated_driver() -> None:
    ask = Asking(plugin_names.NODE_VOLUME_LIMITS)
    disk = {"name": "d", "awsElasticBlockStore": {"volumeID": "v"}}
    pod = pod_with(spec={"volumes": [disk]})
    assert ask(pod, DETACHED, attachment(None, "ebs.csi.aws.com"), None) is True
    assert ask(pod, DETACHED, attachment(None, "pd.csi.storage.gke.io"), None) is False


def test_any_detached_volume_may_help_a_pod_with_one_that_no_driver_can_serve() -> None:
    ask = Asking(plugin_names.NODE_VOLUME_LIMITS)
    blob = {"name": "d", "azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}}
    pod = pod_with(spec={"volumes": [blob]})
    assert ask(pod, DETACHED, attachment(None, "csi.example.com"), None) is True


GCE = {"gcePersistentDisk": {"pdName": "a"}}
GCE_READ = {"gcePersistentDisk": {"pdName": "a", "readOnly": True}}
EBS = {"awsElasticBlockStore": {"volumeID": "a"}}
EBS_READ = {"awsElasticBlockStore": {"volumeID": "a", "readOnly": True}}
ISCSI = {"iscsi": {"iqn": "a", "targetPortal": "x", "lun": 1}}
ISCSI_READ = {"iscsi": {"iqn": "a", "targetPortal": "y", "lun": 2, "readOnly": True}}
RBD = {"rbd": {"monitors": ["m1", "m2"], "image": "i", "pool": "p"}}
RBD_OTHER_MONITORS = {"rbd": {"monitors": ["m3"], "image": "i", "pool": "p"}}
RBD_READ = {"rbd": {"monitors": ["m2"], "image": "i", "pool": "p", "readOnly": True}}


@pytest.mark.parametrize(
    ("wanted", "held", "hint"),
    [
        (GCE, GCE_READ, True),
        (GCE_READ, GCE_READ, False),
        (EBS_READ, EBS_READ, True),
        (EBS, GCE, False),
        (ISCSI, ISCSI_READ, True),
        (ISCSI_READ, ISCSI_READ, False),
        (RBD, RBD_READ, True),
        (RBD_READ, RBD_READ, False),
        (RBD, RBD_OTHER_MONITORS, False),
    ],
)
def test_a_deleted_pod_helps_those_that_want_the_same_disk(
    wanted: dict[str, Any], held: dict[str, Any], hint: bool
) -> None:
    ask = Asking(plugin_names.VOLUME_RESTRICTIONS)
    pod = pod_with(spec={"volumes": [{"name": "v", **wanted}]})
    spec = {"volumes": [{"name": "w", **held}]}
    deleted = view_of(make_pod("b", node_name="n1", spec=spec))
    assert ask(pod, ASSIGNED_POD_DELETE, deleted, None) is hint
    elsewhere = view_of(make_pod("b", namespace="other", node_name="n1", spec=spec))
    assert ask(pod, ASSIGNED_POD_DELETE, elsewhere, None) is False


def test_a_driver_that_stops_tracking_capacity_helps_pods_with_its_inline_volumes() -> None:
    ask = Asking(plugin_names.VOLUME_BINDING)
    pod = pod_with(spec={"volumes": [{"name": "v", "csi": {"driver": "d"}}]})

    def driver(name: str, *, tracks: bool) -> CsiDriver:
        body = {"metadata": {"name": name}, "spec": {"storageCapacity": tracks}}
        return msgspec.convert(body, CsiDriver)

    tracking, relaxed = driver("d", tracks=True), driver("d", tracks=False)
    assert ask(pod, DRIVER_UPDATED, tracking, relaxed) is True
    assert ask(pod, DRIVER_UPDATED, relaxed, tracking) is False
    other = driver("e", tracks=True), driver("e", tracks=False)
    assert ask(pod, DRIVER_UPDATED, *other) is False


# Settings of the profile --------------------------------------------------------------------------


def test_nodes_outside_the_added_affinity_help_nobody() -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    table = registrations_with(NodeAffinity={"addedAffinity": added})
    ask = Asking(plugin_names.NODE_AFFINITY, table)
    assert ask(pod_with(), NODE_ADD, None, make_node("n")) is False
    assert ask(pod_with(), NODE_ADD, None, make_node("n", labels={"pool": "a"})) is True


def test_what_a_pod_demands_of_nodes_is_read_once_for_all_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[NodeSelector] = []

    def noted(selector: NodeSelector) -> Terms:
        read.append(selector)
        return parse_selector(selector)

    monkeypatch.setattr(node_selector, "parse_selector", noted)
    pool = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}
    required = {"nodeSelectorTerms": [pool]}
    spec = {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
        }
    }
    ask, pod = Asking(plugin_names.NODE_AFFINITY), pod_with(spec=spec)
    assert ask(pod, NODE_ADD, None, make_node("n")) is False
    assert ask(pod, NODE_ADD, None, make_node("m")) is False
    assert ask(pod, NODE_ADD, None, make_node("o", labels={"pool": "a"})) is True
    assert len(read) == 1


def test_default_constraints_wake_the_pods_that_have_none_of_their_own() -> None:
    hard = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    listed = {"defaultingType": "List", "defaultConstraints": [hard]}
    ask = Asking(plugin_names.POD_TOPOLOGY_SPREAD, registrations_with(PodTopologySpread=listed))
    body = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"a": "1"}}}
    ask.objects.put("services", "default/s", msgspec.convert(body, Service))
    alike, other = (view_of(make_pod("b", node_name="n1", labels={"a": a})) for a in "12")
    pod = pod_with(labels={"a": "1"})
    assert ask(pod, ASSIGNED_POD_ADD, None, alike) is True
    assert ask(pod, ASSIGNED_POD_ADD, None, other) is False
    assert ask(pod_with(), ASSIGNED_POD_ADD, None, alike) is False, "of no service"
    zoned = make_node("n", labels={"zone": "a"})
    assert ask(pod, NODE_ADD, None, zoned) is True
    assert ask(pod, NODE_ADD, None, make_node("n")) is False
    own = {"topologySpreadConstraints": [{**hard, "labelSelector": {"matchLabels": {"a": "2"}}}]}
    mine = pod_with(labels={"a": "1"}, spec=own)
    assert ask(mine, ASSIGNED_POD_ADD, None, alike) is False
    plain = Asking(plugin_names.POD_TOPOLOGY_SPREAD)
    assert plain(pod, ASSIGNED_POD_ADD, None, alike) is False


def test_comparing_tolerations_count_only_with_their_feature_gate() -> None:
    spec = {"tolerations": [{"key": "load", "operator": "Lt", "value": "5"}]}
    taints = [{"key": "load", "value": "3", "effect": "NoSchedule"}]
    tainted = make_node("n", taints=taints)
    off = Asking(plugin_names.TAINT_TOLERATION)
    gates = FeatureGates({TAINT_TOLERATION_COMPARISON_OPERATORS: True})
    on = Asking(plugin_names.TAINT_TOLERATION, gates=gates)
    assert off(pod_with(spec=spec), NODE_ADD, None, tainted) is False
    assert on(pod_with(spec=spec), NODE_ADD, None, tainted) is True


def test_a_class_helps_who_asks_for_what_it_stands_for_with_the_feature_gate_alone() -> None:
    event = ClusterEvent(Resource.DEVICE_CLASS, Action.ADD)
    of_class = make_class("cards", extendedResourceName="example.com/gpu")
    for gates in (DEFAULT_GATES, FeatureGates({DRA_EXTENDED_RESOURCE: False})):
        ask = Asking(plugin_names.NODE_RESOURCES_FIT, gates=gates)
        for name in ("example.com/gpu", "deviceclass.resource.kubernetes.io/cards"):
            resources = {"requests": {name: "1"}}
            pod = pod_with(spec={"containers": [{"name": "c", "resources": resources}]})
            assert ask(pod, event, None, of_class) is gates[DRA_EXTENDED_RESOURCE]


# Bad input ----------------------------------------------------------------------------------------


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _affinity(operator: str) -> dict[str, Any]:
    requirement = {"key": "app", "operator": operator, "values": ["a"]}
    term = {"labelSelector": {"matchExpressions": [requirement]}, "topologyKey": "z"}
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


def test_a_selector_that_cannot_be_understood_wakes_the_pod() -> None:
    ask = Asking(plugin_names.INTER_POD_AFFINITY)
    bound = view_of(make_pod("b", node_name="n1", labels={"app": "a"}))
    assert ask(pod_with(spec=_affinity("Near")), ASSIGNED_POD_ADD, None, bound) is True
    assert ask.error_count == 1
    assert ask(pod_with(spec=_affinity("NotIn")), ASSIGNED_POD_ADD, None, bound) is False
    assert ask(pod_with(spec=_affinity("In")), ASSIGNED_POD_ADD, None, bound) is True


def test_terms_that_cannot_be_read_wake_the_pod_where_they_are_asked_for() -> None:
    ask = Asking(plugin_names.INTER_POD_AFFINITY)
    (term,) = _affinity("Near")["affinity"]["podAffinity"].pop(REQUIRED)
    wished = {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}
    bound = view_of(make_pod("b", node_name="n1", labels={"app": "a"}))
    for group in ("podAffinity", "podAntiAffinity"):
        pod = pod_with(spec={"affinity": {group: {REQUIRED: [term]}}})
        assert ask(pod, ASSIGNED_POD_ADD, None, bound) is True
        assert ask(pod, NODE_ADD, None, make_node("n")) is True
        pod = pod_with(spec={"affinity": {group: wished}})
        assert ask(pod, ASSIGNED_POD_ADD, None, bound) is False
        assert ask(pod, NODE_ADD, None, make_node("n")) is False
    pod = pod_with(spec=_affinity("In"))
    for group, terms, helps in (
        ("podAntiAffinity", {REQUIRED: [term]}, True),
        ("podAffinity", {REQUIRED: [term]}, False),
        ("podAntiAffinity", wished, False),
    ):
        spec = {"affinity": {group: terms}}
        deleted = view_of(make_pod("b", node_name="n1", spec=spec))
        assert ask(pod, ASSIGNED_POD_DELETE, deleted, None) is helps


def test_an_allocatable_that_is_no_quantity_wakes_the_pod() -> None:
    ask = Asking(plugin_names.NODE_RESOURCES_FIT)
    assert ask(pod_with(), NODE_ADD, None, make_node("n", cpu="a lot")) is True
    assert ask.error_count == 1


def test_a_relabelled_pod_that_leaves_the_anti_affinity_helps() -> None:
    ask = Asking(plugin_names.INTER_POD_AFFINITY)
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "z"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    pod = pod_with(spec={"affinity": {"podAntiAffinity": {required: [term]}}})
    matching = view_of(make_pod("b", node_name="n1", labels={"app": "a"}))
    other = view_of(make_pod("b", node_name="n1", labels={"app": "b"}))
    assert ask(pod, RELABELLED, matching, other) is True
    assert ask(pod, RELABELLED, other, matching) is False


# Pods that are nominated --------------------------------------------------------------------------

TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


@pytest.mark.parametrize(
    ("plugin", "parts"),
    [
        (plugin_names.NODE_RESOURCES_FIT, {}),
        (plugin_names.NODE_PORTS, {"host_port": 80}),
        (plugin_names.INTER_POD_AFFINITY, {"spec": {"affinity": APART}}),
        (plugin_names.POD_TOPOLOGY_SPREAD, {"spec": {"topologySpreadConstraints": [SPREAD]}}),
    ],
)
def test_a_nominated_pod_that_goes_helps_as_one_on_a_node_does(
    plugin: str, parts: dict[str, Any]
) -> None:
    ask, pod = Asking(plugin), pod_with(**parts)
    labels = {"app": "web"}
    waiting = view_of(make_pod("q", labels=labels, host_port=80))
    nominated = view_of(make_pod("q", labels=labels, host_port=80, nominated_node_name="n1"))
    assert ask(pod, ASSIGNED_POD_DELETE, waiting, None) is False
    assert ask(pod, ASSIGNED_POD_DELETE, nominated, None) is True
