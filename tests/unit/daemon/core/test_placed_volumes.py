"""Volumes through owner and workers: nobody gets what another pod was given."""

from typing import Any

import msgspec
import pytest

from daemon.core.cluster_changes import LATE_S
from daemon.core.owner_counts import Count
from shared.kube.binding_work import MakeVolume, TakeVolume, VolumeWork
from shared.kube.pod_record import PodRecord
from shared.kube.resource_names import PODS
from shared.messages.from_scorer import Placements, Proposals
from shared.messages.to_owner import ObjectChanged, PodChanged, SyncFinished, SyncStarted
from shared.transport.heard import Said
from tests.support.binding_work import volume_work
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import EPOCH, Pipeline
from tests.support.tasks import tasks_of

VOLUMES = "persistentvolumes"
CLAIMS = "persistentvolumeclaims"
HOST = "kubernetes.io/hostname"


def put(pipeline: Pipeline, kind: str, body: dict[str, Any]) -> None:
    meta = body["metadata"]
    key = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
    encoded = msgspec.msgpack.encode(body)
    pipeline.tell(ObjectChanged(kind, key, msgspec.Raw(encoded)))


def put_class(pipeline: Pipeline, provisioner: str) -> None:
    mode = {"volumeBindingMode": "WaitForFirstConsumer"}
    body = {"metadata": {"name": "late"}, "provisioner": provisioner, **mode}
    put(pipeline, "storageclasses", body)


def put_volume(
    pipeline: Pipeline, name: str, host: str, phase: str = "Available", version: str = "1"
) -> None:
    """Without a host, all nodes reach it."""
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": "late",
    }
    if host:
        expression = {"key": HOST, "operator": "In", "values": [host]}
        terms = [{"matchExpressions": [expression]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    meta = {"name": name, "resourceVersion": version}
    put(pipeline, VOLUMES, {"metadata": meta, "spec": spec, "status": {"phase": phase}})


def put_claim(pipeline: Pipeline, name: str, mode: str = "ReadWriteOnce", volume: str = "") -> None:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    meta["resourceVersion"] = "1"
    if volume:
        meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    spec = {
        "accessModes": [mode],
        "storageClassName": "late",
        "volumeName": volume,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    put(pipeline, CLAIMS, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})


def pipeline_of(node_count: int, worker_count: int = 2) -> Pipeline:
    pipeline = Pipeline(worker_count)
    pipeline.sync([make_node(f"n{i}") for i in range(node_count)], [])
    return pipeline


def claim_pods(count: int, claim: str = "") -> list[PodRecord]:
    return [make_pod(f"p{i}", claim=claim or f"c{i}") for i in range(count)]


def given(pipeline: Pipeline) -> dict[str, str]:
    """Volume -> the claim that it is assumed to belong to."""
    assumed = pipeline.state.cache.objects.assumed(VOLUMES)
    return {name: entry.value.spec.claim_ref.name for name, entry in assumed.items()}


def test_pods_in_a_row_get_a_volume_each() -> None:
    pipeline = pipeline_of(3)
    put_class(pipeline, "kubernetes.io/no-provisioner")
    for i in range(5):
        put_claim(pipeline, f"c{i}")
    for i in range(4):
        put_volume(pipeline, f"v{i}", f"n{i % 2}")
    for pod in claim_pods(5):
        pipeline.add_pod(pod)
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 4
    assert sorted(given(pipeline)) == ["v0", "v1", "v2", "v3"]
    assert len(set(given(pipeline).values())) == 4
    for name, claim in given(pipeline).items():
        (node,) = pipeline.bound[f"uid-default-p{claim[1:]}"]
        assert node == f"n{int(name[1:]) % 2}"
    pipeline.check()


def test_pods_that_share_a_claim_follow_the_first() -> None:
    pipeline = pipeline_of(4)
    put_class(pipeline, "csi.example.com")
    put_claim(pipeline, "shared")
    for pod in claim_pods(12, "shared"):
        pipeline.add_pod(pod)
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 12
    assert len({node for nodes in pipeline.bound.values() for node in nodes}) == 1
    pipeline.check()


def test_a_claim_for_a_single_pod_goes_to_one() -> None:
    pipeline = pipeline_of(4)
    put_volume(pipeline, "v", "n0")
    put_claim(pipeline, "single", "ReadWriteOncePod", "v")
    for pod in claim_pods(6, "single"):
        pipeline.add_pod(pod)
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 1
    pipeline.check()


def one_volume_one_pod() -> tuple[Pipeline, PodRecord]:
    """The pod's claim can only have that volume; one worker, which has not looked yet."""
    pipeline = pipeline_of(1, worker_count=1)
    put_class(pipeline, "kubernetes.io/no-provisioner")
    put_claim(pipeline, "c0")
    put_volume(pipeline, "v0", "n0")
    (pod,) = claim_pods(1)
    pipeline.add_pod(pod)
    return pipeline, pod


def told(pipeline: Pipeline) -> None:
    """Workers know all that the owner knows."""
    pipeline.run_until_quiet()
    pipeline.advance(LATE_S)
    pipeline.run_until_quiet()


def test_a_failed_binding_gives_the_volume_back_everywhere() -> None:
    pipeline, pod = one_volume_one_pod()
    while not pipeline.orders:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    replica = pipeline.scorers[0].replica
    assert given(pipeline) == {"v0": "c0"}
    # A worker that starts now learns of it as well.
    pipeline.start_scorer(1)
    while pipeline.step_owner() or pipeline.step_scorer(0) or pipeline.step_scorer(1):
        pass
    late = pipeline.scorers[1].replica
    pipeline.advance(LATE_S)
    while pipeline.step_scorer(0) or pipeline.step_scorer(1):
        pass
    for each in (replica, late):
        assert each.objects.assumed(VOLUMES) == pipeline.state.cache.objects.assumed(VOLUMES)
    pipeline.delete_pod(pod)
    pipeline.step_binder(fails=True)
    told(pipeline)
    assert given(pipeline) == {}
    assert not replica.objects.assumed(VOLUMES)
    assert not late.objects.assumed(VOLUMES)


def test_what_a_worker_assumed_in_vain_is_forgotten() -> None:
    pipeline, pod = one_volume_one_pod()
    replica = pipeline.scorers[0].replica
    while not replica.objects.assumed(VOLUMES):
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    pipeline.delete_pod(pod)
    pipeline.run_until_quiet()
    # Its verdict comes with the next delta.
    pipeline.add_node(make_node("n1"))
    told(pipeline)
    assert not replica.objects.assumed(VOLUMES)


@pytest.mark.parametrize("claim", ["single", "shared"])
def test_two_pods_with_one_claim_are_not_judged_at_once(claim: str) -> None:
    pipeline = pipeline_of(2, worker_count=1)
    put_volume(pipeline, "v", "", "Bound")
    put_claim(pipeline, "single", "ReadWriteOncePod", "v")
    put_class(pipeline, "csi.example.com")
    put_claim(pipeline, "shared")
    for i in range(2):
        pipeline.add_pod(make_pod(f"p{i}", claim=claim))
    scorer = pipeline.scorers[0]
    while sum(work.pod_count for work in scorer.work) < 2:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    # A worker that does not heed the first when it places the second.
    tickets = [task.ticket for work in scorer.work for task in tasks_of(work)]
    placements = Placements(tickets, list(range(len(tickets))))
    told = Proposals(EPOCH, 1, 1, scorer.replica.generation, placements, [], [])
    pipeline.handle(Said(scorer.peer, told))
    assert len(pipeline.orders) == 1
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] == 1


def test_what_a_worker_assumes_goes_with_its_proposal() -> None:
    pipeline = pipeline_of(1, worker_count=1)
    put_class(pipeline, "kubernetes.io/no-provisioner")
    for i in range(2):
        put_claim(pipeline, f"c{i}")
    put_volume(pipeline, "v0", "n0")
    for pod in claim_pods(2):
        pipeline.add_pod(pod)
    replica = pipeline.scorers[0].replica
    while not replica.objects.assumed(VOLUMES):
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    (own,) = replica.objects.assumed(VOLUMES).values()
    assert own.pod_uids[0].startswith("ticket")
    told(pipeline)
    assert replica.objects.assumed(VOLUMES) == pipeline.state.cache.objects.assumed(VOLUMES)
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] == 0


def ordered(pipeline: Pipeline, count: int) -> list[VolumeWork | None]:
    """The volumes of the first orders, which nobody carries out."""
    while len(pipeline.orders) < count:
        moved = [pipeline.step_scorer(index) for index in pipeline.scorers]
        assert pipeline.step_owner() or any(moved)
    return [volume_work(order) for order in pipeline.orders]


def test_the_binder_is_told_which_volume_goes_to_which_claim() -> None:
    pipeline = pipeline_of(1)
    put_class(pipeline, "kubernetes.io/no-provisioner")
    put_claim(pipeline, "shared")
    put_volume(pipeline, "v0", "n0")
    for pod in claim_pods(2, "shared"):
        pipeline.add_pod(pod)
    take = TakeVolume("v0", "1", True, "default", "shared", "1", "uid-shared")
    # The second assumes nothing, and has to wait for the volume all the same.
    assert ordered(pipeline, 2) == [VolumeWork([take], [], 600.0)] * 2


def test_the_binder_is_told_for_which_claims_to_make_volumes() -> None:
    pipeline = pipeline_of(1)
    put_class(pipeline, "csi.example.com")
    put_claim(pipeline, "c0")
    put_claim(pipeline, "c1", volume="v1")
    put_volume(pipeline, "v1", "n0", "Bound")
    for pod in claim_pods(2):
        pipeline.add_pod(pod)
    make = MakeVolume("default", "c0", "1", "uid-c0")
    works = ordered(pipeline, 2)
    expected = [VolumeWork([], [make], 600.0), None]
    assert sorted(works, key=lambda work: work is None) == expected


@pytest.mark.parametrize(("version", "attempts"), [("1", 1), ("2", 2)])
def test_a_list_that_repeats_what_was_known_wakes_nobody(version: str, attempts: int) -> None:
    """OnUpdate in staging/src/k8s.io/client-go/tools/cache/shared_informer.go, v1.36.2."""
    pipeline = Pipeline(1)
    pipeline.sync([make_node("n0")], [])
    put_class(pipeline, "kubernetes.io/no-provisioner")
    put_volume(pipeline, "far", "elsewhere")
    put_claim(pipeline, "c0")
    pipeline.add_pod(make_pod("p0", claim="c0", resource_version="1"))
    pipeline.run_until_quiet()
    pipeline.advance(30)
    pipeline.tell(SyncStarted(VOLUMES))
    put_volume(pipeline, "far", "elsewhere", version=version)
    pipeline.tell(SyncFinished(VOLUMES, "1"), SyncStarted(PODS))
    pipeline.tell(PodChanged(make_pod("p0", claim="c0", resource_version="1")))
    pipeline.tell(SyncFinished(PODS, "1"))
    pipeline.run_until_quiet()
    told = [each for each in pipeline.state.queue.incoming if "PodUpdate" in each[1]]
    queued = pipeline.state.queue.get("uid-default-p0")
    assert queued is not None
    assert (queued.attempts, told) == (attempts, [])
