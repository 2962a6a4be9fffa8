"""Objects that operations make beside what their templates say: for nodes and for pods. Pure.

As test/utils/runners.go (NodeAllocatableStrategy, CreatePodWithPersistentVolume) and `resourceSlice` of
test/integration/scheduler_perf/dra.go make them, v1.36.2. MARK stands for the name of the node.
"""

from typing import Final

from bench.apiserver.served_resources import BY_PATH
from bench.perf.object_template import MARK, JsonObject, ObjectTemplate, Series
from bench.perf.operations import NodeAllocatableStrategy

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
PERSISTENT_VOLUMES: Final = BY_PATH["", "v1", "persistentvolumes"]
PERSISTENT_VOLUME_CLAIMS: Final = BY_PATH["", "v1", "persistentvolumeclaims"]


def csi_node(strategy: NodeAllocatableStrategy) -> JsonObject:
    """What each node gets, under its own name."""
    drivers = [
        {
            "name": driver,
            "nodeID": MARK,
            "topologyKeys": None,
            "allocatable": {} if allocatable.count is None else {"count": allocatable.count},
        }
        for driver, allocatable in strategy.csi_node_allocatable.items()
    ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"annotations": {MIGRATED_PLUGINS: ",".join(strategy.migrated_plugins)}},
        "spec": {"drivers": drivers},
    }


def resource_slice(driver: str, device_count: int) -> JsonObject:
    """The devices of a node, under its name."""
    devices = [
        {
            "name": f"instance-{number}",
            "attributes": {
                "model": {"string": "A100"},
                "family": {"string": "GPU"},
                "driverVersion": {"version": "1.2.3"},
                "dra.example.com/numa": {"int": number},
            },
            "capacity": {"memory": {"value": "1Gi"}},
        }
        for number in range(device_count)
    ]
    pool = {"name": MARK, "generation": 0, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {},
        "spec": {"driver": driver, "nodeName": MARK, "pool": pool, "devices": devices},
    }


def bound_volumes(claim: ObjectTemplate, volume: ObjectTemplate, pods: Series) -> list[Series]:
    """For each pod a claim and a volume that are bound to one another, and the pods that use them.

    A pod's volumes are replaced. Of volumes in the tree only a CSI volume's handle is the volume's name;
    an EBS volume is called after the pod's number alone.
    """
    namespace, count = pods.namespace, len(pods.names)
    claims = [f"pvc-{i}" for i in range(count)]
    volumes = [f"{namespace}-vol-{i}" for i in range(count)]

    def make_claim(i: int) -> JsonObject:
        body = claim.body(i, count)
        spec = {**body["spec"], "volumeName": volumes[i]}
        return {**body, "spec": spec, "status": {"phase": "Bound"}}

    def make_volume(i: int) -> JsonObject:
        body = volume.body(i, count)
        owner = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": claims[i]}
        spec = {**body["spec"], "claimRef": {**owner, "apiVersion": "v1"}}
        if "csi" in spec:
            spec["csi"] = {**spec["csi"], "volumeHandle": volumes[i]}
        elif "awsElasticBlockStore" in spec:
            ebs = spec["awsElasticBlockStore"]
            spec["awsElasticBlockStore"] = {**ebs, "volumeID": f"vol-{i}"}
        return {**body, "spec": spec, "status": {"phase": "Bound"}}

    def make_pod(i: int) -> JsonObject:
        body = pods.make(i)
        used = {"name": "vol", "persistentVolumeClaim": {"claimName": claims[i]}}
        return {**body, "spec": {**body["spec"], "volumes": [used]}}

    return [
        Series(PERSISTENT_VOLUME_CLAIMS, namespace, claims, make_claim, False, True),
        Series(PERSISTENT_VOLUMES, "", volumes, make_volume, False, True),
        pods._replace(make=make_pod, is_uniform=False),
    ]
