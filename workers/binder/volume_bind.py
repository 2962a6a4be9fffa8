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
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from shared.framework.binding_api import ALLOWED, Allowed, Refused
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.meta_v1 import ApiStruct, NamedObject, ObjectMeta
from shared.kube.api_client import MERGE_PATCH, ApiClient
from shared.kube.api_errors import ApiError, Conflict, NotFound, TransportError, read_answer
from shared.kube.binding_work import MakeVolume, TakeVolume, VolumeWork, volume_work
from shared.kube.in_tree_plugins import in_tree_plugin
from shared.kube.well_known import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from shared.messages.to_binder import BindPod
from shared.plugin_names import VOLUME_BINDING
from workers.binder.api_bodies import node_path, pod_path, volume_claim_path, volume_path

T = TypeVar("T")

POLL_S: Final = 1.0
"""As kube-scheduler looks."""

_OUT_OF_REACH: Final = (
    'pv "{}" node affinity doesn\'t match node "{}": no matching NodeSelectorTerms'
)
_GONE: Final = 'persistentvolumeclaims "{}/{}" not found'
_REPLACED: Final = 'PVC "{}" was deleted and made again in the meantime'


class _ClaimSpec(ApiStruct):
    volume_name: str = ""


class _Claim(NamedObject):
    """Of a volume, as far as it is looked at here."""

    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)


_encoder: Final = msgspec.json.Encoder()
_volume_decoder: Final = msgspec.json.Decoder(PersistentVolume)
_object_decoder: Final = msgspec.json.Decoder(NamedObject)
_claim_decoder: Final = msgspec.json.Decoder(_Claim)


class VolumeBinder:
    """VolumeBinding's PreBind: binds the volumes of pods, any number at a time."""

    NAME: ClassVar[str] = VOLUME_BINDING
    ALLOWS_PARALLEL: ClassVar[bool] = True
    pre_bind_timeout_s: ClassVar[float | None] = None

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def pre_flight(self, order: BindPod) -> bool:
        return self.NAME in order.work

    async def pre_bind(self, order: BindPod) -> Allowed | Refused:
        """Allowed once all claims are bound. The work's time, which may be none, is for the waiting
        alone: each write has that of a request."""
        work = volume_work(order.work[self.NAME])
        try:
            for take in work.take:
                await self._take(take)
            for make in work.make:
                await self._make(make, order.node_name)
        except ApiError as error:
            return Refused(error.message)
        except TransportError as error:
            return Refused(str(error))
        try:
            async with asyncio.timeout(work.timeout_s):
                return await self._see_bound(order, work)
        except TimeoutError:
            return Refused("binding volumes: context deadline exceeded")

    async def _see_bound(self, order: BindPod, work: VolumeWork) -> Allowed | Refused:
        while True:
            try:
                problem = await self._look(order, work)
            except (ApiError, TransportError):
                problem = None  # Time will tell, or run out.
            if problem is not None:
                return Refused(f"binding volumes: {problem}") if problem else ALLOWED
            await asyncio.sleep(POLL_S)

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
        meta = {"resourceVersion": make.claim_version, "annotations": {SELECTED_NODE: node_name}}
        path = volume_claim_path(make.claim_namespace, make.claim_name)
        try:
            await self._api.patch(path, _encoder.encode({"metadata": meta}), MERGE_PATCH)
        except Conflict:
            claim = read_answer(_claim_decoder, await self._api.get(path))
            is_same = claim.metadata.uid == make.claim_uid
            if not is_same or (claim.metadata.annotations or {}).get(SELECTED_NODE) != node_name:
                raise

    async def _look(self, order: BindPod, work: VolumeWork) -> str | None:
        """What went wrong for good; empty: all is done. None: not yet."""
        node = await self._found(node_path(order.node_name), _object_decoder)
        if node is None:
            return f'failed to get node "{order.node_name}": node "{order.node_name}" not found'
        if await self._found(pod_path(order.namespace, order.name), _object_decoder) is None:
            return f'pod does not exist any more: pod "{order.name}" not found'
        for take in work.take:
            problem = await self._see_taken(take, order.node_name, node.metadata)
            if problem != "":
                return problem
        for make in work.make:
            problem = await self._see_made(make, order.node_name, node.metadata)
            if problem != "":
                return problem
        return ""

    async def _see_taken(self, take: TakeVolume, node_name: str, node: ObjectMeta) -> str | None:
        volume = await self._found(volume_path(take.volume_name), _volume_decoder)
        if volume is None:
            return f'failed to check binding: persistentvolumes "{take.volume_name}" not found'
        path = volume_claim_path(take.claim_namespace, take.claim_name)
        claim = await self._found(path, _claim_decoder)
        if claim is None:
            return "failed to check binding: " + _GONE.format(take.claim_namespace, take.claim_name)
        if not _is_within_reach(volume, node):
            return _OUT_OF_REACH.format(take.volume_name, node_name)
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return f'ClaimRef got reset for pv "{take.volume_name}"'
        if claim.metadata.uid != take.claim_uid:
            return _REPLACED.format(take.claim_name)
        return "" if _is_bound(claim) else None

    async def _see_made(self, make: MakeVolume, node_name: str, node: ObjectMeta) -> str | None:
        path = volume_claim_path(make.claim_namespace, make.claim_name)
        claim = await self._found(path, _claim_decoder)
        if claim is None:
            gone = _GONE.format(make.claim_namespace, make.claim_name)
            return f"failed to check provisioning pvc: {gone}"
        annotations = claim.metadata.annotations
        if not annotations:
            return f'selectedNode annotation reset for PVC "{make.claim_name}"'
        if annotations.get(SELECTED_NODE) != node_name:
            # The provisioner takes the node back when it cannot make a volume there.
            return f'provisioning failed for PVC "{make.claim_name}"'
        if claim.metadata.uid != make.claim_uid:
            return _REPLACED.format(make.claim_name)
        if claim.spec.volume_name:
            made = await self._found(volume_path(claim.spec.volume_name), _volume_decoder)
            if made is None:
                return None  # The claim will not be bound for long, or the volume is seen soon.
            if not _is_within_reach(made, node):
                return _OUT_OF_REACH.format(claim.spec.volume_name, node_name)
        return "" if _is_bound(claim) else None

    async def _found(self, path: str, decoder: msgspec.json.Decoder[T]) -> T | None:
        try:
            return read_answer(decoder, await self._api.get(path))
        except NotFound:
            return None


def _is_bound(claim: _Claim) -> bool:
    annotations = claim.metadata.annotations or {}
    return bool(claim.spec.volume_name) and BIND_COMPLETED in annotations


def _is_within_reach(volume: PersistentVolume, node: ObjectMeta) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None or in_tree_plugin(volume.spec) is not None:
        return True
    # Few clusters have pods whose volumes are bound with them, to nodes that selectors name.
    from shared.selectors.node_terms import of_labels_alone, parse_selector, selects_node

    return selects_node(of_labels_alone(parse_selector(affinity.required)), node)
