"""Makes disks for claims, as a CSI provisioner and kube-controller-manager's volume controller would.

Works in rounds over all claims, of which few are alive at once. A disk can be used in the zone of the
node that was chosen for its first consumer; for a node that is gone another has to be chosen.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from bench.soak.ledger import Ledger
from bench.soak.patient import send
from bench.soak.soak_pods import STORAGE_CLASS, ZONE_LABEL
from bench.soak.traffic import CLAIMS
from bench.watched.watched_listing import NODES_PATH, all_items
from shared.kube.api_client import MERGE_PATCH, ApiClient
from shared.kube.api_errors import ApiError, TransportError

VOLUMES: Final = "/api/v1/persistentvolumes"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PERIOD_S: Final = 0.25
Json = dict[str, Any]


class Provisioner:
    """Of one soak."""

    def __init__(self, client: ApiClient, ledger: Ledger) -> None:
        self._client = client
        self._ledger = ledger
        self.made_count = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            try:
                await self._round()
            except (ApiError, TransportError):
                continue  # A fault of the plan; the next round does what this one could not.

    async def _round(self) -> None:
        zones: dict[str, str] | None = None
        for claim in await all_items(self._client, CLAIMS):
            name = claim["metadata"]["name"]
            node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE, "")
            if name not in self._ledger.pods:
                await self._take_away(claim)
            elif node and claim["status"].get("phase") != "Bound":
                if zones is None:
                    zones = _zones(await all_items(self._client, NODES_PATH))
                await self._provide(name, zones.get(node, ""))

    async def _take_away(self, claim: Json) -> None:
        volume = claim["spec"].get("volumeName", "")
        await send(self._client, "DELETE", f"{CLAIMS}/{claim['metadata']['name']}")
        if volume:
            await send(self._client, "DELETE", f"{VOLUMES}/{volume}")

    async def _provide(self, claim: str, zone: str) -> None:
        path = f"{CLAIMS}/{claim}"
        if not zone:
            await self._patch(path, {"metadata": {"annotations": {SELECTED_NODE: None}}})
            return
        volume = f"disk-{claim}"
        await send(self._client, "POST", VOLUMES, _volume_body(volume, claim, zone))
        completed = {"pv.kubernetes.io/bind-completed": "yes"}
        bound = {"metadata": {"annotations": completed}, "spec": {"volumeName": volume}}
        await self._patch(path, bound)
        await self._patch(f"{VOLUMES}/{volume}/status", {"status": {"phase": "Bound"}})
        await self._patch(f"{path}/status", {"status": {"phase": "Bound"}})
        self.made_count += 1

    async def _patch(self, path: str, change: Json) -> None:
        await send(self._client, "PATCH", path, orjson.dumps(change), MERGE_PATCH)


async def disk_problems(
    client: ApiClient, nodes: Iterable[Json], pods: Iterable[Json]
) -> list[str]:
    """Bound pods whose claim has no disk, or one that their node cannot reach."""
    zones = _zones(nodes)
    claims = {one["metadata"]["name"]: one for one in await all_items(client, CLAIMS)}
    disks = {one["metadata"]["name"]: one for one in await all_items(client, VOLUMES)}
    problems = []
    for pod in pods:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
        for volume in pod["spec"].get("volumes") or ():
            if not node or "persistentVolumeClaim" not in volume:
                continue
            claim = claims.get(volume["persistentVolumeClaim"]["claimName"])
            disk = disks.get(claim["spec"].get("volumeName", "")) if claim else None
            if disk is None:
                problems.append(f"pod {name} is bound, and its claim has no disk")
            elif _zone_of(disk) != zones.get(node):
                problems.append(f"pod {name} is on {node}, its disk is in {_zone_of(disk)}")
    return problems


def _zones(nodes: Iterable[Json]) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["labels"][ZONE_LABEL] for one in nodes}


def _zone_of(disk: Mapping[str, Any]) -> str:
    (term,) = disk["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    zone: str = term["matchExpressions"][0]["values"][0]
    return zone


def _volume_body(name: str, claim: str, zone: str) -> bytes:
    in_zone = {"key": ZONE_LABEL, "operator": "In", "values": [zone]}
    reference = {
        "kind": "PersistentVolumeClaim",
        "namespace": CLAIMS.split("/")[4],
        "name": claim,
    }
    return orjson.dumps(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": STORAGE_CLASS,
                "capacity": {"storage": "1Gi"},
                "claimRef": reference,
                "csi": {"driver": "soak.example.com", "volumeHandle": name},
                "nodeAffinity": {
                    "required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}
                },
            },
        }
    )
