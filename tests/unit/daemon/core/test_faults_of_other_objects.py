"""An object of another kind that cannot be evaluated: pods that need its kind are errors until it can,
all others are scheduled.

What fails here stands for whatever nobody has thought of.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from shared.dra import device_index
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.policy_v1 import PodDisruptionBudget
from shared.kube.api.storage_v1 import CsiNode, StorageClass
from shared.kube.pod_record import PodRecord
from shared.messages.to_owner import ObjectChanged
from shared.plugins.preemption import potential_victims
from shared.plugins.volumes import csi_node_columns, volume_catalog
from shared.plugins.volumes.volume_index import VolumeIndex
from tests.support.builders import make_node, make_pod
from tests.support.devices import device, make_claim, make_class, make_slice, request
from tests.support.pipeline import Pipeline

CONTAINERS = [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]


def failing(*_: object, **__: object) -> Any:
    raise KeyError("nobody thought of that")


def told(pipeline: Pipeline, kind: str, key: str, value: object) -> None:
    body = msgspec.Raw(msgspec.msgpack.encode(value))
    pipeline.tell(ObjectChanged(kind, key, body))


def made(kind: type[Any], name: str, namespace: str = "", **fields: Any) -> Any:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "namespace": namespace}
    return msgspec.convert({"metadata": metadata, **fields}, kind)


def with_devices(pipeline: Pipeline) -> PodRecord:
    told(pipeline, "deviceclasses", "gpu", make_class())
    told(pipeline, "resourceslices", "s", make_slice("n0", [device("d")]))
    told(pipeline, "resourceclaims", "default/claim", make_claim(requests=[request()]))
    claims = [{"name": "c", "resourceClaimName": "claim"}]
    return make_pod("heavy", spec={"containers": CONTAINERS, "resourceClaims": claims})


def with_volume(pipeline: Pipeline) -> PodRecord:
    late = {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    told(pipeline, "storageclasses", "late", made(StorageClass, "late", **late))
    capacity = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    source = {"csi": {"driver": "csi.example.com", "volumeHandle": "h"}}
    volume = {**capacity, **source, "storageClassName": "late"}
    told(pipeline, "persistentvolumes", "pv", made(PersistentVolume, "pv", spec=volume))
    asked = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claim = made(PersistentVolumeClaim, "disk", "default", spec=asked)
    told(pipeline, "persistentvolumeclaims", "default/disk", claim)
    drivers = [{"name": "csi.example.com", "nodeID": "n0", "allocatable": {"count": 5}}]
    told(pipeline, "csinodes", "n0", made(CsiNode, "n0", spec={"drivers": drivers}))
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]
    return make_pod("heavy", spec={"containers": CONTAINERS, "volumes": volumes})


def with_preemption(pipeline: Pipeline) -> PodRecord:
    budget = made(PodDisruptionBudget, "b", "default", spec={"selector": {}})
    told(pipeline, "poddisruptionbudgets", "default/b", budget)
    pipeline.add_pod(make_pod("low", cpu="3", node_name="n0"))
    return make_pod("heavy", cpu="3", priority=10)


@pytest.mark.parametrize(
    ("place", "name", "prepare"),
    [
        (device_index, "SliceView", with_devices),
        (device_index, "classes_by_resource", with_devices),
        (volume_catalog, "candidate", with_volume),
        (csi_node_columns, "attach_limits", with_volume),
        (VolumeIndex, "_place_attachments", with_volume),
        (potential_victims, "_parsed", with_preemption),
    ],
)
def test_only_pods_that_need_its_kind_are_kept_away_and_only_while_it_fails(
    place: object, name: str, prepare: Callable[[Pipeline], PodRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="4")], [])
    pod = prepare(pipeline)
    with monkeypatch.context() as patch:
        patch.setattr(place, name, failing)
        pipeline.add_pod(pod)
        pipeline.add_pod(make_pod("light", cpu="100m"))
        pipeline.run_until_quiet()
    pipeline.check()
    assert list(pipeline.bound) == [make_pod("light").uid]
    verdicts = pipeline.verdicts
    assert {(one.name, one.reason) for one in verdicts} == {("heavy", "SchedulerError")}
    assert all("KeyError: 'nobody thought of that'" in one.message for one in verdicts)
    # What was worked out when it failed is not kept.
    for _ in range(10):
        pipeline.advance(10.0)
        pipeline.run_until_quiet()
        pipeline.check()
    assert pod.uid in pipeline.bound
