"""The volumes of one pod: told to the API server, then waited for until they are bound.

The owner has decided which volume goes to which claim and which claims get new ones; here that is
written, and the volume controllers do the rest. What is written carries the resource version that
the decision was made on, so that nobody's newer word is overwritten. A refusal is looked into: an
order that comes again (its first binder was lost) finds its own words there, and goes on.

Rules: BindPodVolumes and checkBindings in
pkg/scheduler/framework/plugins/volumebinding/binder.go, and CheckNodeAffinity in
staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go, v1.36.2. One departure: whether
the node can reach volumes of in-tree plugins is not looked at; their drivers name zones their own way.
"""

import asyncio
from typing import Any, ClassVar, Final

import msgspec

from shared.framework.binding_api import ALLOWED, Allowed, Refused
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.meta_v1 import ApiStruct, NamedObject, ObjectMeta
from shared.kube.api_client import MERGE_PATCH, ApiClient
from shared.kube.api_errors import ApiError, Conflict, NotFound, TransportError, read_answer
from shared.kube.in_tree_plugins import in_tree_plugin
from shared.kube.well_known import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from shared.messages.to_binder import BindPod, MakeVolume, TakeVolume, VolumeWork
from shared.plugin_names import VOLUME_BINDING
from workers.binder.api_paths import pod_path, volume_claim_path, volume_path

POLL_S: Final = 1.0
"""As kube-scheduler looks."""

_OUT_OF_REACH: Final = (
    'pv "{}" node affinity doesn\'t match node "{}": no matching NodeSelectorTerms'
)
_REPLACED: Final = 'PVC "{}" was deleted and made again in the meantime'


class _ClaimSpec(ApiStruct):
    volume_name: str = ""


class _Claim(NamedObject):
    """Of a volume, as far as it is looked at here."""

    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)


_encoder: Final = msgspec.json.Encoder()
_volume_decoder: Final = msgspec.json.Decoder(PersistentVolume)
_claim_decoder: Final = msgspec.json.Decoder(_Claim)


class VolumeBinder:
    """VolumeBinding's PreBind: binds the volumes of pods, any number at a time."""

    NAME: ClassVar[str] = VOLUME_BINDING
    ALLOWS_PARALLEL: ClassVar[bool] = True

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def pre_flight(self, order: BindPod) -> bool:
        return order.volumes is not None

    async def pre_bind(self, order: BindPod) -> Allowed | Refused:
        """Allowed once all claims are bound. Ends after the work's time in any case."""
        work = order.volumes
        assert work is not None, "asked by pre_flight"
        try:
            async with asyncio.timeout(work.timeout_s):
                return await self._bind(order, work)
        except TimeoutError:
            return Refused(f"binding volumes: not done after {work.timeout_s:g} s")

    async def _bind(self, order: BindPod, work: VolumeWork) -> Allowed | Refused:
        try:
            for take in work.take:
                await self._take(take)
            for make in work.make:
                await self._make(make, order.node_name)
        except (ApiError, TransportError) as error:
            return Refused(str(error))
        while True:
            try:
                problem = await self._look(order, work)
            except NotFound as error:
                problem = error.message
            except (ApiError, TransportError):
                problem = None  # Time will tell, or run out.
            if problem is not None:
                return Refused(f"binding volumes: {problem}") if problem else ALLOWED
            await asyncio.sleep(POLL_S)

    # Writing -------------------------------------------------------------------------------------

    async def _take(self, take: TakeVolume) -> None:
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": take.claim_namespace,
            "name": take.claim_name,
            "uid": take.claim_uid,
            "resourceVersion": take.claim_version,
        }
        meta: dict[str, Any] = {"resourceVersion": take.volume_version}
        if take.is_found:
            meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        path = volume_path(take.volume_name)
        body = _encoder.encode({"metadata": meta, "spec": {"claimRef": claim}})
        try:
            await self._api.patch(path, body, MERGE_PATCH)
        except Conflict:
            volume = read_answer(_volume_decoder, await self._api.get(path))
            reference = volume.spec.claim_ref
            if reference is None or reference.uid != take.claim_uid:
                raise

    async def _make(self, make: MakeVolume, node_name: str) -> None:
        meta = {
            "resourceVersion": make.claim_version,
            "annotations": {SELECTED_NODE: node_name},
        }
        path = volume_claim_path(make.claim_namespace, make.claim_name)
        try:
            await self._api.patch(path, _encoder.encode({"metadata": meta}), MERGE_PATCH)
        except Conflict:
            claim = read_answer(_claim_decoder, await self._api.get(path))
            is_same = claim.metadata.uid == make.claim_uid
            if not is_same or (claim.metadata.annotations or {}).get(SELECTED_NODE) != node_name:
                raise

    # Waiting -------------------------------------------------------------------------------------

    async def _look(self, order: BindPod, work: VolumeWork) -> str | None:
        """What went wrong for good; empty: all is done. None: not yet."""
        await self._api.get(pod_path(order.namespace, order.name))
        node = ObjectMeta(labels=work.node_labels)
        for take in work.take:
            volume = await self._volume(take.volume_name)
            if not _is_within_reach(volume, node):
                return _OUT_OF_REACH.format(take.volume_name, order.node_name)
            reference = volume.spec.claim_ref
            if reference is None or not reference.uid:
                return f'ClaimRef got reset for pv "{take.volume_name}"'
            claim = await self._claim(take.claim_namespace, take.claim_name)
            if claim.metadata.uid != take.claim_uid:
                return _REPLACED.format(take.claim_name)
            if not _is_bound(claim):
                return None
        for make in work.make:
            claim = await self._claim(make.claim_namespace, make.claim_name)
            if claim.metadata.uid != make.claim_uid:
                return _REPLACED.format(make.claim_name)
            if (claim.metadata.annotations or {}).get(SELECTED_NODE) != order.node_name:
                # The provisioner takes the node back when it cannot make a volume there.
                return f'provisioning failed for PVC "{make.claim_name}"'
            if not _is_bound(claim):
                return None
            try:
                made = await self._volume(claim.spec.volume_name)
            except NotFound:
                # The claim will not be bound for long, or the volume is seen soon.
                return None
            if not _is_within_reach(made, node):
                return _OUT_OF_REACH.format(claim.spec.volume_name, order.node_name)
        return ""

    async def _volume(self, name: str) -> PersistentVolume:
        return read_answer(_volume_decoder, await self._api.get(volume_path(name)))

    async def _claim(self, namespace: str, name: str) -> _Claim:
        return read_answer(_claim_decoder, await self._api.get(volume_claim_path(namespace, name)))


def _is_bound(claim: _Claim) -> bool:
    annotations = claim.metadata.annotations or {}
    return bool(claim.spec.volume_name) and BIND_COMPLETED in annotations


def _is_within_reach(volume: PersistentVolume, node: ObjectMeta) -> bool:
    """Whether pods on a node with these labels can use the volume."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None or in_tree_plugin(volume.spec) is not None:
        return True
    # Few clusters have pods whose volumes are bound with them, to nodes that selectors name.
    from shared.selectors.node_terms import of_labels_alone, parse_selector, selects_node

    return selects_node(of_labels_alone(parse_selector(affinity.required)), node)
