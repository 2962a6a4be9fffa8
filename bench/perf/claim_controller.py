"""What kube-controller-manager does about pods' resource claims, for an API server without one.

A pod that names a template gets a claim; a pod that is gone no longer uses its claims: those made for it
go, the others are free once nobody uses them (pkg/controller/resourceclaim/controller.go and the garbage
collector, v1.36.2).
"""

import asyncio
import contextlib
from typing import Final

import orjson

from bench.perf.object_template import JsonObject
from bench.perf.perf_claims import generated_claim
from bench.watched.pod_events import PodClaim, PodEvent, PodStatus, WatchedPod
from shared.kube.api_client import STRATEGIC_MERGE_PATCH, ApiClient
from shared.kube.api_errors import AlreadyExists, Conflict, NotFound

WORKERS: Final = 5
"""As upstream's suite gives its controller."""
_CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"


class ClaimController:
    """Hears of pods and writes claims."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._events: asyncio.Queue[PodEvent] = asyncio.Queue()
        self._templates: dict[str, JsonObject] = {}

    def take(self, event: PodEvent) -> None:
        """A change of a pod."""
        pod = event.object
        if event.type == "DELETED":
            if claim_names(pod):
                self._events.put_nowait(event)
        elif event.type == "ADDED" and any(c.resource_claim_template_name for c in _claims(pod)):
            self._events.put_nowait(event)

    async def run(self) -> None:
        """Works until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            event = await self._events.get()
            if event.type == "ADDED":
                await self._make(event.object)
            else:
                for name in claim_names(event.object):
                    await self._free(event.object, name)

    async def _make(self, pod: WatchedPod) -> None:
        meta = pod.metadata
        statuses = []
        for each in _claims(pod):
            if not each.resource_claim_template_name:
                continue
            template = await self._template(meta.namespace, each.resource_claim_template_name)
            body = generated_claim(template, each.name, meta.name, meta.uid)
            name = f"{meta.name}-{each.name}-{meta.uid[-5:]}"
            body["metadata"]["name"] = name
            with contextlib.suppress(AlreadyExists):  # The pod was told twice.
                await self._client.post(_CLAIMS.format(meta.namespace), orjson.dumps(body))
            statuses.append({"name": each.name, "resourceClaimName": name})
        patch = {"metadata": {"uid": meta.uid}, "status": {"resourceClaimStatuses": statuses}}
        path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/status"
        with contextlib.suppress(NotFound, Conflict):  # The pod is gone already.
            await self._client.patch(path, orjson.dumps(patch), STRATEGIC_MERGE_PATCH)

    async def _template(self, namespace: str, name: str) -> JsonObject:
        base = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates"
        path = f"{base}/{name}"
        if path not in self._templates:
            self._templates[path] = orjson.loads(await self._client.get(path))
        return self._templates[path]

    async def _free(self, pod: WatchedPod, name: str) -> None:
        path = f"{_CLAIMS.format(pod.metadata.namespace)}/{name}"
        while True:
            try:
                return await self._freed(path, pod.metadata.uid)
            except Conflict:
                continue  # Somebody wrote it meanwhile: it is looked at again.
            except NotFound:
                return None

    async def _freed(self, path: str, pod_uid: str) -> None:
        claim = orjson.loads(await self._client.get(path))
        owners = claim["metadata"].get("ownerReferences") or ()
        if any(owner["uid"] == pod_uid for owner in owners):
            await self._client.delete(path)
            if claim["metadata"].pop("finalizers", None):
                del claim["metadata"]["resourceVersion"]
                await self._client.put(path, orjson.dumps(claim))
            return
        status = claim.get("status") or {}
        users = [user for user in status.get("reservedFor") or () if user["uid"] != pod_uid]
        claim["status"] = {**status, "reservedFor": users} if users else {}
        await self._client.put(f"{path}/status", orjson.dumps(claim))


def claim_names(pod: WatchedPod) -> list[str]:
    """The claims of a pod that are known by name, and those that were made for it."""
    found = [each.resource_claim_name for each in _claims(pod) if each.resource_claim_name]
    if isinstance(pod.status, PodStatus):
        found += [each.resource_claim_name for each in pod.status.resource_claim_statuses]
        extended = pod.status.extended_resource_claim_status
        if extended is not None:
            found.append(extended.resource_claim_name)
    return found


def _claims(pod: WatchedPod) -> list[PodClaim]:
    return pod.spec.resource_claims
