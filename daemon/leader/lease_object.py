"""The Lease object of the API (coordination.k8s.io/v1): read, made, replaced.

What is beside the spec (labels, annotations) is sent back as it came. The spec is replaced whole
(`LeaseLock.Update` in tools/leaderelection/resourcelock/leaselock.go, v1.36): a strategy that is left
there is another election's. Apart from the rules because it knows JSON and HTTP only.
"""

import platform
from typing import Any, Final

import msgspec

from daemon.leader.election import LeaseRecord
from shared.errors import UNDECODABLE, ObjectError
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import NotFound
from shared.limits import INSTANCE_LENGTH_MAX

API_VERSION: Final = "coordination.k8s.io/v1"
EVENTS_API: Final = "events.k8s.io/v1"
REPORTER: Final = "berth"


class LeaseObject:
    def __init__(self, api: ApiClient, namespace: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._folder = f"/apis/{API_VERSION}/namespaces/{namespace}/leases"
        self._seen: dict[str, Any] | None = None
        """None: there is none."""

    @property
    def where(self) -> str:
        return f"lease {self._namespace}/{self._name}"

    async def read(self, timeout_s: float) -> LeaseRecord | None:
        """None if there is none."""
        try:
            body = await self._api.get(f"{self._folder}/{self._name}", timeout_s=timeout_s)
        except NotFound:
            self._seen = None
            return None
        return self._take(body)

    async def write(self, record: LeaseRecord, timeout_s: float) -> None:
        """Makes the lease, or replaces the one that was seen; `Conflict` if it is another by now."""
        seen = self._seen or {
            "apiVersion": API_VERSION,
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
        }
        body = msgspec.json.encode({**seen, "spec": record})
        if self._seen is None:
            answer = await self._api.post(self._folder, body, timeout_s=timeout_s)
        else:
            answer = await self._api.put(f"{self._folder}/{self._name}", body, timeout_s=timeout_s)
        self._take(answer)

    async def say(self, note: str, wall: str, timeout_s: float) -> None:
        """An event on the lease: who became or stopped being the leader, as client-go tells it
        (tools/leaderelection/resourcelock/leaselock.go, v1.36)."""
        metadata = (self._seen or {}).get("metadata", {})
        event = {
            "apiVersion": EVENTS_API,
            "kind": "Event",
            "metadata": {
                # A name of its own for each: the time, and there are no two within a microsecond.
                "name": f"{self._name}.{''.join(filter(str.isdigit, wall))}",
                "namespace": self._namespace,
            },
            "eventTime": wall,
            "reportingController": REPORTER,
            "reportingInstance": f"{REPORTER}-{platform.node()}"[:INSTANCE_LENGTH_MAX],
            "type": "Normal",
            "reason": "LeaderElection",
            "action": "LeaderElection",
            "note": note,
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": "Lease",
                "namespace": self._namespace,
                "name": self._name,
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
        }
        path = f"/apis/{EVENTS_API}/namespaces/{self._namespace}/events"
        await self._api.post(path, msgspec.json.encode(event), timeout_s=timeout_s)

    def _take(self, body: bytes) -> LeaseRecord:
        try:
            lease = msgspec.json.decode(body)
        except UNDECODABLE as error:
            raise ObjectError(self.where, f"what came is not JSON: {error}") from error
        if not isinstance(lease, dict) or not isinstance(lease.get("metadata", {}), dict):
            raise ObjectError(self.where, "what came is no object")
        spec = lease.get("spec")
        known = spec.items() if isinstance(spec, dict) else ()
        try:
            record = msgspec.convert({k: v for k, v in known if v is not None}, LeaseRecord)
        except msgspec.ValidationError as error:
            raise ObjectError(f"{self.where}: spec", str(error)) from error
        self._seen = lease
        return record
