"""The simulated API server serves clients that we did not write: `kubernetes` and `lightkube`.

They parse every answer with their own models and raise their own errors, so they notice what our
client might forgive.
"""

import http.client
from collections.abc import Iterator
from typing import Any

import kubernetes.client
import kubernetes.watch
import lightkube
import msgspec
import pytest
from kubernetes.client import exceptions
from lightkube import KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.core_v1 import ObjectReference as LightReference
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Node, Pod, PodBinding
from lightkube.types import PatchType

from tests.support.kubeconfigs import kubeconfig_of
from tests.support.waiting import HANG_S
from tests.wire.server_process import RunningServer, running_server

pytestmark = pytest.mark.integration

_NAMESPACE = "default"
_TOKEN = "secret-of-the-test"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(f"--token={_TOKEN}", "--kubelet-delay-s=0.05") as running:
        yield running


@pytest.fixture
def core(server: RunningServer) -> Iterator[kubernetes.client.CoreV1Api]:
    configuration = kubernetes.client.Configuration(host=server.address)
    configuration.api_key = {"authorization": f"Bearer {_TOKEN}"}
    with kubernetes.client.ApiClient(configuration) as client:
        yield kubernetes.client.CoreV1Api(client)


@pytest.fixture
def light(server: RunningServer) -> Iterator[lightkube.Client]:
    access = kubeconfig_of({"server": server.address}, {"token": _TOKEN}, namespace=_NAMESPACE)
    config = KubeConfig.from_dict(access)
    client = lightkube.Client(config=config, trust_env=False)
    try:
        yield client
    finally:
        client._client._client.close()


def _pod(name: str) -> kubernetes.client.V1Pod:
    models = kubernetes.client
    resources = models.V1ResourceRequirements(requests={"cpu": "100m", "memory": "64Mi"})
    container = models.V1Container(name="c", image="pause:3.10", resources=resources)
    return models.V1Pod(
        metadata=models.V1ObjectMeta(name=name, labels={"app": name}),
        spec=models.V1PodSpec(containers=[container]),
    )


def _binding(pod: str, node: str) -> kubernetes.client.V1Binding:
    models = kubernetes.client
    return models.V1Binding(
        metadata=models.V1ObjectMeta(name=pod),
        target=models.V1ObjectReference(kind="Node", name=node),
    )


def _bind(core: kubernetes.client.CoreV1Api, pod: str, node: str) -> None:
    # The client's model of the answer is wrong (a Binding); it is a Status.
    answer: Any = core.create_namespaced_pod_binding(
        pod, _NAMESPACE, _binding(pod, node), _preload_content=False
    )
    answer.release_conn()


def _compact(server: RunningServer) -> None:
    connection = http.client.HTTPConnection(server.host, server.port)
    connection.request("POST", "/simulation/compact", headers={"Authorization": f"Bearer {_TOKEN}"})
    answer = connection.getresponse()
    assert (answer.status, bool(answer.read())) == (200, True)
    connection.close()


def test_the_official_client_creates_binds_patches_and_deletes(
    core: kubernetes.client.CoreV1Api,
) -> None:
    created = core.create_namespaced_pod(_NAMESPACE, _pod("official"))
    assert created.status.phase == "Pending"
    assert created.spec.priority == 0
    assert created.spec.preemption_policy == "PreemptLowerPriority"
    _bind(core, "official", "some-node")
    bound = core.read_namespaced_pod("official", _NAMESPACE)
    assert bound.spec.node_name == "some-node"
    assert [(each.type, each.status) for each in bound.status.conditions] == [
        ("PodScheduled", "True")
    ]
    patched = core.patch_namespaced_pod_status(
        "official",
        _NAMESPACE,
        {"status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}},
    )
    assert patched.status.phase == "Running"
    assert {each.type for each in patched.status.conditions} == {"PodScheduled", "Ready"}
    listed = core.list_namespaced_pod(_NAMESPACE, field_selector="spec.nodeName=some-node")
    assert [each.metadata.name for each in listed.items] == ["official"]
    deleted = core.delete_namespaced_pod("official", _NAMESPACE, grace_period_seconds=0)
    assert deleted.metadata.deletion_timestamp is not None
    with pytest.raises(exceptions.ApiException) as missing:
        core.read_namespaced_pod("official", _NAMESPACE)
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")


def test_the_official_client_is_told_of_a_second_binding(
    core: kubernetes.client.CoreV1Api,
) -> None:
    core.create_namespaced_pod(_NAMESPACE, _pod("twice"))
    _bind(core, "twice", "n0")
    with pytest.raises(exceptions.ApiException) as conflict:
        _bind(core, "twice", "n1")
    assert conflict.value.status == 409
    assert conflict.value.body is not None
    assert '"reason":"Conflict"' in conflict.value.body
    assert 'pod twice is already assigned to node \\"n0\\"' in conflict.value.body


def test_the_official_client_binds_by_the_old_path_as_well(
    core: kubernetes.client.CoreV1Api,
) -> None:
    core.create_namespaced_pod(_NAMESPACE, _pod("old-path"))
    answer: Any = core.create_namespaced_binding(
        _NAMESPACE, _binding("old-path", "n0"), _preload_content=False
    )
    answer.release_conn()
    assert core.read_namespaced_pod("old-path", _NAMESPACE).spec.node_name == "n0"


def test_the_official_client_watches_from_its_list(core: kubernetes.client.CoreV1Api) -> None:
    listed = core.list_namespaced_pod(_NAMESPACE)
    core.create_namespaced_pod(_NAMESPACE, _pod("watched"))
    _bind(core, "watched", "n0")
    core.delete_namespaced_pod("watched", _NAMESPACE, grace_period_seconds=0)
    watch = kubernetes.watch.Watch()
    seen = []
    for event in watch.stream(
        core.list_namespaced_pod,
        _NAMESPACE,
        resource_version=listed.metadata.resource_version,
        timeout_seconds=int(HANG_S),
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            watch.stop()
    assert seen == [
        ("ADDED", "watched"),
        ("MODIFIED", "watched"),
        ("MODIFIED", "watched"),
        ("DELETED", "watched"),
    ]


def test_the_official_client_sees_grace_end(core: kubernetes.client.CoreV1Api) -> None:
    core.create_namespaced_pod(_NAMESPACE, _pod("graceful"))
    _bind(core, "graceful", "n0")
    version = core.read_namespaced_pod("graceful", _NAMESPACE).metadata.resource_version
    deleted = core.delete_namespaced_pod("graceful", _NAMESPACE)
    assert deleted.metadata.deletion_grace_period_seconds == 30
    watch = kubernetes.watch.Watch()
    types = []
    for event in watch.stream(
        core.list_namespaced_pod, _NAMESPACE, resource_version=version, timeout_seconds=int(HANG_S)
    ):
        types.append(event["type"])
        if event["type"] == "DELETED":
            watch.stop()
    assert types == ["MODIFIED", "MODIFIED", "DELETED"]


def test_the_official_client_gets_410_for_an_old_version(
    core: kubernetes.client.CoreV1Api, server: RunningServer
) -> None:
    core.create_namespaced_pod(_NAMESPACE, _pod("old"))
    _compact(server)
    watch = kubernetes.watch.Watch()
    with pytest.raises(exceptions.ApiException) as gone:
        list(watch.stream(core.list_namespaced_pod, _NAMESPACE, resource_version="3"))
    assert gone.value.status == 410
    assert "Expired" in str(gone.value.reason)
    with pytest.raises(exceptions.ApiException) as old_list:
        core.list_namespaced_pod(_NAMESPACE, resource_version="3", resource_version_match="Exact")
    assert (old_list.value.status, old_list.value.reason) == (410, "Gone")


def test_the_official_client_pages_through_a_list(core: kubernetes.client.CoreV1Api) -> None:
    namespace = kubernetes.client.V1Namespace(metadata=kubernetes.client.V1ObjectMeta(name="paged"))
    core.create_namespace(namespace)
    for number in range(5):
        core.create_namespaced_pod("paged", _pod(f"p{number}"))
    names, token = [], None
    while True:
        page = core.list_namespaced_pod("paged", limit=2, _continue=token)
        names += [each.metadata.name for each in page.items]
        token = page.metadata._continue
        if not token:
            break
        if len(names) == 2:
            # The later pages show the state of the first.
            core.create_namespaced_pod("paged", _pod("p9"))
            core.delete_namespaced_pod("p4", "paged")
    assert names == [f"p{number}" for number in range(5)]


def test_the_official_client_discovers_what_is_served(
    core: kubernetes.client.CoreV1Api,
) -> None:
    names = {each.name for each in core.get_api_resources().resources}
    assert {"pods", "pods/binding", "pods/status", "nodes", "events"} <= names
    groups = kubernetes.client.ApisApi(core.api_client).get_api_versions().groups
    assert {"apps", "storage.k8s.io", "resource.k8s.io"} <= {each.name for each in groups}
    version: Any = kubernetes.client.VersionApi(core.api_client).get_code()
    assert (version.major, version.minor) == ("1", "36")


def test_a_client_without_the_token_is_refused(server: RunningServer) -> None:
    configuration = kubernetes.client.Configuration(host=server.address)
    with (
        kubernetes.client.ApiClient(configuration) as client,
        pytest.raises(exceptions.ApiException) as refused,
    ):
        kubernetes.client.CoreV1Api(client).list_node()
    assert (refused.value.status, refused.value.reason) == (401, "Unauthorized")


def _light_pod(name: str) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, labels={"app": name}),
        spec=PodSpec(containers=[Container(name="c", image="pause:3.10")]),
    )


def _light_binding(name: str, node: str) -> PodBinding:
    target = LightReference(kind="Node", name=node)
    return PodBinding(metadata=ObjectMeta(name=name), target=target)


def _light_bind(light: lightkube.Client, name: str, node: str) -> None:
    # lightkube expects a Binding back; kube-apiserver answers a Status, which it cannot decode.
    with pytest.raises(msgspec.ValidationError, match="target"):
        light.create(_light_binding(name, node), name)


def test_lightkube_creates_binds_patches_watches_and_deletes(light: lightkube.Client) -> None:
    light.create(Node(metadata=ObjectMeta(name="light-node")))
    listed = light.list(Pod)
    list(listed)
    version = listed.resourceVersion
    light.create(_light_pod("light"))
    _light_bind(light, "light", "light-node")
    patched = light.patch(
        Pod.Status,
        "light",
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        patch_type=PatchType.STRATEGIC,
    )
    assert patched.status is not None
    assert {each.type for each in patched.status.conditions or ()} == {"PodScheduled", "Ready"}
    light.delete(Pod, "light", grace_period=0)
    seen = []
    for kind, pod in light.watch(Pod, resource_version=version, server_timeout=int(HANG_S)):
        seen.append((kind, pod.metadata.name if pod.metadata else None))
        if kind == "DELETED":
            break
    assert [kind for kind, name in seen if name == "light"] == [
        "ADDED",
        "MODIFIED",
        "MODIFIED",
        "MODIFIED",
        "DELETED",
    ]
    assert [node.metadata.name for node in light.list(Node) if node.metadata] == ["light-node"]


def test_lightkube_is_told_of_conflicts_by_type(light: lightkube.Client) -> None:
    light.create(_light_pod("light-twice"))
    with pytest.raises(ApiError) as exists:
        light.create(_light_pod("light-twice"))
    assert (exists.value.status.code, exists.value.status.reason) == (409, "AlreadyExists")
    _light_bind(light, "light-twice", "n0")
    with pytest.raises(ApiError) as bound:
        light.create(_light_binding("light-twice", "n0"), "light-twice")
    assert (bound.value.status.code, bound.value.status.reason) == (409, "Conflict")
    stale = light.get(Pod, "light-twice")
    light.patch(Pod, "light-twice", {"metadata": {"labels": {"changed": "yes"}}})
    with pytest.raises(ApiError) as modified:
        light.replace(stale)
    assert "the object has been modified" in str(modified.value)


def test_lightkube_gets_410_for_an_old_version(
    light: lightkube.Client, server: RunningServer
) -> None:
    _compact(server)
    with pytest.raises(ApiError) as gone:
        next(iter(light.watch(Pod, resource_version="3", on_error=_raise_error)))
    assert (gone.value.status.code, gone.value.status.reason) == (410, "Expired")


def _raise_error(error: Exception, count: int) -> Any:
    del count
    raise error
