"""The simulated cluster: the store, what was set, and what the server remembers between requests.

Pure apart from the seeded generator of uids: time is an argument (`now_s`, seconds since 1970).
`deletion.run_due` does what other components of a cluster would do later: the kubelet ends pods
whose grace has passed, namespaces are emptied, events run out.
"""

import heapq
import random
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bench.apiserver.json_objects import JsonObject
from bench.apiserver.selection import kept_fields
from bench.apiserver.served_resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCES,
    Resource,
)
from bench.apiserver.store import Store, StoredObject, Table

DEFAULT_TOLERATIONS_PLUGIN: Final = "DefaultTolerationSeconds"
PRIORITY_PLUGIN: Final = "Priority"
TOPOLOGY_LABELS_PLUGIN: Final = "PodTopologyLabels"
NAMESPACE_PLUGIN: Final = "NamespaceLifecycle"
TAINT_NODES_PLUGIN: Final = "TaintNodesByCondition"
OFF_BY_DEFAULT: Final = frozenset([TAINT_NODES_PLUGIN])
"""On in kube-apiserver, but here is no controller that undoes what they do."""
ADMISSION_PLUGINS: Final = OFF_BY_DEFAULT | {
    DEFAULT_TOLERATIONS_PLUGIN,
    PRIORITY_PLUGIN,
    TOPOLOGY_LABELS_PLUGIN,
    NAMESPACE_PLUGIN,
}

# pkg/apis/scheduling/types.go (v1.36).
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_SYSTEM_PRIORITY_NOTES: Final = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another "
        "node if necessary."
    ),
    "system-node-critical": (
        "Used for system critical pods that must not be moved from their current node."
    ),
}
_SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_NAME_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_NAME_SUFFIX_LENGTH: Final = 5
_NAME_LENGTH_MAX: Final = 63


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """What can be set of the simulated cluster."""

    history_limit: int = 100_000
    """Changes that each resource's history holds; watches and paged lists from before get 410.
    kube-apiserver's watch cache grows to 102,400 for a busy resource."""

    disabled_admission: frozenset[str] = frozenset()
    """Admission plugins that are off, by kube-apiserver's names."""

    enabled_admission: frozenset[str] = frozenset()
    """Those that are on though they are off by default."""

    kubelet_delay_s: float | None = None
    """After how many seconds a bound pod that was deleted with grace is gone; None waits for the
    whole grace period, as a container does that ignores SIGTERM."""

    event_ttl_s: float = 3600.0
    """How long an event lives after its last write (kube-apiserver's --event-ttl)."""

    seed: int = 0
    """Decides uids and generated names."""


class Deadline(NamedTuple):
    """Something to do to an object at a time, if it is still the same object then."""

    due_s: float
    order: int
    table: Table
    key: str
    uid: str


@dataclass(slots=True)
class _SecondText:
    second: int = -1
    text: str = ""


@dataclass(slots=True)
class _DefaultPriority:
    version: int = -1
    priority_class: JsonObject | None = field(default=None)


class Cluster:
    """All state behind the API."""

    def __init__(self, options: ClusterOptions, *, now_s: float) -> None:
        unknown = (options.disabled_admission | options.enabled_admission) - ADMISSION_PLUGINS
        if unknown:
            known = ", ".join(sorted(ADMISSION_PLUGINS))
            raise ValueError(f"unknown admission plugins {sorted(unknown)}; there are: {known}")
        self.options = options
        by_default = ADMISSION_PLUGINS - OFF_BY_DEFAULT
        self._admission = (by_default - options.disabled_admission) | options.enabled_admission
        self.store = Store(RESOURCES, history_limit=options.history_limit)
        self.pods = self.store.table(PODS)
        self.nodes = self.store.table(NODES)
        self.namespaces = self.store.table(NAMESPACES)
        self.priority_classes = self.store.table(PRIORITY_CLASSES)
        self.events = self.store.table(EVENTS)
        self.deadlines: list[Deadline] = []
        self._deadline_count = 0
        # (when it runs out, key, version), in order: every event lives equally long.
        self.expiring_events: deque[tuple[float, str, int]] = deque()
        self._random = random.Random(options.seed)
        self._second = _SecondText()
        self._default_priority = _DefaultPriority()
        self._create_system_objects(now_s)

    def admits_with(self, plugin: str) -> bool:
        """Tell whether an admission plugin is on."""
        return plugin in self._admission

    def new_uid(self) -> str:
        """Make a UUID of version 4 from the seed."""
        bits = self._random.getrandbits(128)
        bits = (bits & ~(0xF << 76)) | (0x4 << 76)
        bits = (bits & ~(0x3 << 62)) | (0x2 << 62)
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def generated_name(self, prefix: str) -> str:
        """Complete metadata.generateName."""
        letters = self._random.choices(_NAME_SUFFIX_LETTERS, k=_NAME_SUFFIX_LENGTH)
        return prefix[: _NAME_LENGTH_MAX - _NAME_SUFFIX_LENGTH] + "".join(letters)

    def timestamp(self, now_s: float) -> str:
        """Print a time as metav1.Time does; made once per second."""
        second = int(now_s)
        if second != self._second.second:
            text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
            self._second = _SecondText(second, text)
        return self._second.text

    def default_priority_class(self) -> JsonObject | None:
        """Return the class for pods that name none, if one is marked so."""
        table = self.priority_classes
        if self._default_priority.version != table.last_version:
            marked = [
                decoded
                for stored in table.objects.values()
                if (decoded := stored.decoded()).get("globalDefault")
            ]
            lowest = min(marked, key=lambda each: each.get("value", 0), default=None)
            self._default_priority = _DefaultPriority(table.last_version, lowest)
        return self._default_priority.priority_class

    def schedule(self, due_s: float, table: Table, stored: StoredObject) -> None:
        """Have `deletion.run_due` come back to an object."""
        self._deadline_count += 1
        deadline = Deadline(due_s, self._deadline_count, table, stored.key, stored.uid)
        heapq.heappush(self.deadlines, deadline)

    def take_expired_events(self, now_s: float) -> list[StoredObject]:
        """Return the events that nobody wrote for their time to live."""
        expired = []
        while self.expiring_events and self.expiring_events[0][0] <= now_s:
            _, key, version = self.expiring_events.popleft()
            stored = self.events.objects.get(key)
            if stored is not None and stored.version == version:
                expired.append(stored)
        return expired

    def next_due(self, now_s: float) -> tuple[Table, StoredObject] | None:
        """Take the next object whose time has come and that is still there, as it is now."""
        while self.deadlines and self.deadlines[0].due_s <= now_s:
            deadline = heapq.heappop(self.deadlines)
            stored = deadline.table.objects.get(deadline.key)
            if stored is not None and stored.uid == deadline.uid:
                return deadline.table, stored
        return None

    def system_metadata(self, name: str, now_s: float) -> JsonObject:
        """Make the metadata of an object that the server itself creates."""
        return {
            "name": name,
            "uid": self.new_uid(),
            "creationTimestamp": self.timestamp(now_s),
        }

    def _create_system_objects(self, now_s: float) -> None:
        for name in _SYSTEM_NAMESPACES:
            metadata = self.system_metadata(name, now_s)
            metadata["labels"] = {"kubernetes.io/metadata.name": name}
            self._create(
                NAMESPACES,
                {
                    "metadata": metadata,
                    "spec": {"finalizers": ["kubernetes"]},
                    "status": {"phase": "Active"},
                },
            )
        for name, value in SYSTEM_PRIORITIES.items():
            metadata = self.system_metadata(name, now_s)
            metadata["generation"] = 1
            self._create(
                PRIORITY_CLASSES,
                {
                    "metadata": metadata,
                    "value": value,
                    "description": _SYSTEM_PRIORITY_NOTES[name],
                    "preemptionPolicy": "PreemptLowerPriority",
                },
            )

    def _create(self, resource: Resource, obj: JsonObject) -> None:
        self.store.put(self.store.table(resource), obj, None, kept_fields(resource, obj))
