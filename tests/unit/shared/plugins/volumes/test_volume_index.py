"""What is attached where, kept up from changes, against a count of everything from scratch."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.cache import Cache
from shared.feature_gates import DEFAULT_GATES
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.storage_v1 import CsiNode, StorageClass, VolumeAttachment
from shared.plugins.volumes.node_volume_limits import NodeVolumeLimits
from shared.plugins.volumes.volume_index import VolumeIndex
from tests.support.builders import make_node, make_pod
from tests.support.cluster import filtered, pod_info, rows_of
from tests.support.slow_volumes import exceeds_limit

NODES = ("n0", "n1")
DRIVERS = ("d0", "d1")
CLAIMS = ("c0", "c1", "c2")
VOLUMES = ("v0", "v1")
PODS = ("p0", "p1", "p2")

CLAIM_LISTS = st.lists(st.sampled_from(CLAIMS), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.sampled_from(PODS), st.sampled_from(NODES), CLAIM_LISTS),
        st.tuples(st.just("no pod"), st.sampled_from(PODS)),
        st.tuples(st.just("claim"), st.sampled_from(CLAIMS), st.sampled_from(("", *VOLUMES))),
        st.tuples(st.just("no claim"), st.sampled_from(CLAIMS)),
        st.tuples(st.just("volume"), st.sampled_from(VOLUMES), st.sampled_from(DRIVERS)),
        st.tuples(st.just("no volume"), st.sampled_from(VOLUMES)),
        st.tuples(st.just("class"), st.sampled_from(("", *DRIVERS))),
        st.tuples(
            st.just("attachment"),
            st.sampled_from(VOLUMES),
            st.sampled_from(NODES),
            st.sampled_from(DRIVERS),
        ),
        st.tuples(st.just("no attachment"), st.sampled_from(VOLUMES), st.sampled_from(NODES)),
        st.tuples(
            st.just("limits"),
            st.sampled_from(NODES),
            st.dictionaries(st.sampled_from(DRIVERS), st.integers(0, 3)),
        ),
        st.tuples(st.just("no limits"), st.sampled_from(NODES)),
        st.tuples(st.just("no node"), st.sampled_from(NODES)),
        st.tuples(st.just("node"), st.sampled_from(NODES)),
    ),
    min_size=8,
    max_size=30,
)


class Model:
    """The cache, and the same facts as plain dictionaries."""

    def __init__(self) -> None:
        self.cache = Cache(DEFAULT_GATES)
        self.pods: dict[str, tuple[str, list[str]]] = {}
        self.claims: dict[str, str] = {}
        self.volumes: dict[str, str] = {}
        self.provisioner = ""
        self.attachments: dict[tuple[str, str], str] = {}
        self.limits: dict[str, dict[str, int]] = {}
        self.nodes: set[str] = set()
        for name in NODES:
            self.take("node", name)
        for name in CLAIMS:
            self.take("claim", name, "")

    def take(self, what: str, *parts: Any) -> None:
        getattr(self, "_" + what.replace(" ", "_"))(*parts)

    def _put(self, kind: str, struct_type: Any, key: str, body: dict[str, Any]) -> None:
        self.cache.objects.put(kind, key, msgspec.convert(body, struct_type))

    def _node(self, name: str) -> None:
        self.cache.add_node(make_node(name))
        self.nodes.add(name)

    def _no_node(self, name: str) -> None:
        self.cache.remove_node(name)
        self.nodes.discard(name)

    def _pod(self, name: str, node: str, claims: list[str]) -> None:
        self._no_pod(name)
        volumes = [
            {"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}}
            for i, claim in enumerate(claims)
        ]
        self.cache.add_pod(make_pod(name, node_name=node, spec={"volumes": volumes}))
        self.pods[name] = node, claims

    def _no_pod(self, name: str) -> None:
        self.cache.remove_pod(f"uid-default-{name}")
        self.pods.pop(name, None)

    def _claim(self, name: str, volume: str) -> None:
        spec = {"volumeName": volume, "storageClassName": "sc"}
        meta = {"name": name, "namespace": "default"}
        body = {"metadata": meta, "spec": spec}
        self._put("persistentvolumeclaims", PersistentVolumeClaim, f"default/{name}", body)
        self.claims[name] = volume

    def _no_claim(self, name: str) -> None:
        self.cache.objects.remove("persistentvolumeclaims", f"default/{name}")
        self.claims.pop(name, None)

    def _volume(self, name: str, driver: str) -> None:
        spec = {"csi": {"driver": driver, "volumeHandle": f"handle-{name}"}}
        body = {"metadata": {"name": name}, "spec": spec}
        self._put("persistentvolumes", PersistentVolume, name, body)
        self.volumes[name] = driver

    def _no_volume(self, name: str) -> None:
        self.cache.objects.remove("persistentvolumes", name)
        self.volumes.pop(name, None)

    def _class(self, provisioner: str) -> None:
        body = {"metadata": {"name": "sc"}, "provisioner": provisioner}
        self._put("storageclasses", StorageClass, "sc", body)
        self.provisioner = provisioner

    def _attachment(self, volume: str, node: str, attacher: str) -> None:
        source = {"persistentVolumeName": volume}
        spec = {"attacher": attacher, "nodeName": node, "source": source}
        key = f"{volume}-{node}"
        body = {"metadata": {"name": key}, "spec": spec}
        self._put("volumeattachments", VolumeAttachment, key, body)
        self.attachments[volume, node] = attacher

    def _no_attachment(self, volume: str, node: str) -> None:
        self.cache.objects.remove("volumeattachments", f"{volume}-{node}")
        self.attachments.pop((volume, node), None)

    def _limits(self, node: str, limits: dict[str, int]) -> None:
        drivers = [{"name": d, "allocatable": {"count": count}} for d, count in limits.items()]
        body = {"metadata": {"name": node}, "spec": {"drivers": drivers}}
        self._put("csinodes", CsiNode, node, body)
        self.limits[node] = limits

    def _no_limits(self, node: str) -> None:
        self.cache.objects.remove("csinodes", node)
        self.limits.pop(node, None)

    # What the plugin should say --------------------------------------------------------------------

    def attachable(self, claims: list[str]) -> list[tuple[str, str]]:
        found = []
        for claim in claims:
            if claim not in self.claims:
                continue
            volume = self.claims[claim]
            if volume in self.volumes:
                found.append((self.volumes[volume], f"handle-{volume}"))
            elif self.provisioner:
                found.append((self.provisioner, f"claim {claim}"))
        return found

    def attached_to(self, node: str) -> list[tuple[str, str]]:
        return [
            (attacher, f"handle-{volume}")
            for (volume, where), attacher in self.attachments.items()
            if where == node and volume in self.volumes
        ]

    def used_on(self, node: str) -> list[list[tuple[str, str]]]:
        return [self.attachable(own) for where, own in self.pods.values() if where == node]

    def count(self, node: str, driver: str) -> int:
        there = {volume for pod in self.used_on(node) for volume in pod}
        return sum(volume[0] == driver for volume in there | set(self.attached_to(node)))

    def exceeds(self, node: str, claims: list[str]) -> bool:
        limits = self.limits.get(node, {})
        new, pods = self.attachable(claims), self.used_on(node)
        return exceeds_limit(new, pods, self.attached_to(node), limits)


@given(STEPS, CLAIM_LISTS)
def test_limits_follow_every_change(steps: list[tuple[Any, ...]], wanted: list[str]) -> None:
    model = Model()
    volumes = [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}}
        for i, claim in enumerate(wanted)
    ]
    pod = pod_info(make_pod("incoming", spec={"volumes": volumes}))
    plugin, view = NodeVolumeLimits(), model.cache.view
    for step in steps:
        model.take(*step)
        here = sorted(model.nodes)
        rows = rows_of(*(view.nodes.row_of(name) for name in here))
        attached = view.derived(VolumeIndex).attached
        for name, row in zip(here, rows.tolist(), strict=True):
            for driver in DRIVERS:
                assert attached.count(driver, row + 1)[row] == model.count(name, driver)
        verdicts = filtered(plugin, pod, view, rows)
        if any(claim not in model.claims for claim in wanted):
            assert not verdicts.passes.any()
        else:
            expected = [not model.exceeds(name, wanted) for name in here]
            assert verdicts.passes.tolist() == expected


def test_a_reader_that_fell_behind_counts_anew() -> None:
    model = Model()
    model.take("volume", "v0", "d0")
    model.take("claim", "c0", "v0")
    model.take("pod", "p0", "n0", ["c0"])
    index = model.cache.view.derived(VolumeIndex)
    row = model.cache.nodes.row_of("n0")
    for i in range(20_000):
        model.take("pod", "p1", "n1", ["c0"] if i % 2 else [])
    assert model.cache.view.derived(VolumeIndex) is index
    assert index.attached.count("d0", row + 1)[row] == 1
    other = model.cache.nodes.row_of("n1")
    assert index.attached.count("d0", other + 1)[other] == 1
    assert dict(index.claim_rows("default/c0")) == {row: 1, other: 1}
