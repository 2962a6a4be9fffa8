"""Corpus files as typed scenarios, and what is expected of them.

A file is one family: JSON lines, gzipped or not. Whatever cannot be read names its file and line.
"""

import gzip
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from shared.errors import OperationalError
from shared.kube.api import (
    apps_v1,
    core_v1,
    core_v1_parts,
    policy_v1,
    resource_v1,
    resource_v1_devices,
    storage_v1,
)
from shared.kube.api.core_v1 import Pod
from shared.kube.pod_record import PodRecord

T = TypeVar("T")

SUFFIXES: Final = (".jsonl.gz", ".jsonl")


class CorpusError(OperationalError):
    """A file of the corpus that cannot be used."""


class ClusterObjects(msgspec.Struct, forbid_unknown_fields=True):
    """The cluster at the start; absent kinds have no objects."""

    nodes: list[core_v1.Node] = []
    pods: list[core_v1.Pod] = []
    """All have spec.nodeName, which may name a node that does not exist."""
    namespaces: list[core_v1.Namespace] = []
    services: list[core_v1.Service] = []
    replicationcontrollers: list[core_v1.ReplicationController] = []
    replicasets: list[apps_v1.ReplicaSet] = []
    statefulsets: list[apps_v1.StatefulSet] = []
    pvs: list[core_v1_parts.PersistentVolume] = []
    pvcs: list[core_v1.PersistentVolumeClaim] = []
    storageclasses: list[storage_v1.StorageClass] = []
    csinodes: list[storage_v1.CsiNode] = []
    csidrivers: list[storage_v1.CsiDriver] = []
    csistoragecapacities: list[storage_v1.CsiStorageCapacity] = []
    volumeattachments: list[storage_v1.VolumeAttachment] = []
    pdbs: list[policy_v1.PodDisruptionBudget] = []
    priorityclasses: list[msgspec.Raw] = []
    """What pods were admitted by; a scheduler does not look at them."""
    resourceclaims: list[resource_v1.ResourceClaim] = []
    deviceclasses: list[resource_v1_devices.DeviceClass] = []
    resourceslices: list[resource_v1_devices.ResourceSlice] = []


NOT_WATCHED: Final = ("priorityclasses",)


def other_objects(cluster: ClusterObjects) -> Iterator[tuple[str, str, Any]]:
    """All but nodes and pods: the field, the key (`namespace/name` or `name`) and the object."""
    for field in cluster.__struct_fields__:
        if field in ("nodes", "pods", *NOT_WATCHED):
            continue
        for item in getattr(cluster, field):
            meta = item.metadata
            yield field, f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name, item


def as_listed(nodes: list[core_v1.Node]) -> list[core_v1.Node]:
    """In the order in which a list of the API server shows them: by name. The first node that has an
    image decides what size the image counts with."""
    return sorted(nodes, key=lambda node: node.metadata.name)


def read(document: Mapping[str, Any], what: type[T]) -> T:
    """As from an API server: what is opaque is JSON."""
    return msgspec.json.decode(msgspec.json.encode(document), type=what)


class Change(msgspec.Struct, forbid_unknown_fields=True):
    """An object that comes, changes or goes. A pending pod goes only if it is on a node by then."""

    before: int
    """The place in the order of attempts."""
    kind: str
    """A field of `ClusterObjects`."""
    key: str
    """`namespace/name` or `name`."""
    becomes: dict[str, Any] | None = None
    """None: it goes."""

    @property
    def item(self) -> Any:
        """What it becomes, as an object of its kind; None where it goes."""
        if self.becomes is None:
            return None
        return getattr(read({self.kind: [self.becomes]}, ClusterObjects), self.kind)[0]


def pod_key(pod: Pod) -> str:
    """`namespace/name`, as attempts name pods."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def still_going(record: PodRecord, held: PodRecord | None) -> PodRecord:
    """A pod as it becomes; once it is being deleted, nothing takes that back."""
    if held is None or not held.deleted:
        return record
    return msgspec.structs.replace(
        record, deleted=held.deleted, is_preempted=held.is_preempted or record.is_preempted
    )


class Scenario(msgspec.Struct, forbid_unknown_fields=True):
    """A small cluster and the pods that are to be placed in it."""

    name: str
    objects: ClusterObjects
    pending: list[Pod]
    config: dict[str, Any] = {}
    """A KubeSchedulerConfiguration without apiVersion and kind."""
    attempts: list[str] | None = None
    """`namespace/name` in the order of attempts; None: each pending pod once, in order."""
    changes: list[Change] = []
    """What happens to the cluster between attempts."""
    preemption_mode: Literal["none", "nominate", "evict"] = "nominate"
    feature_gates: dict[str, bool] = {}
    answers: list[dict[str, Any]] = []
    """What the configuration's extenders answer, each in turn."""
    notes: str = ""

    @property
    def order(self) -> list[str]:
        """The attempts, as `namespace/name`."""
        return self.attempts or [pod_key(pod) for pod in self.pending]

    def changes_before(self, attempt: int) -> list[Change]:
        """Before this place in the order, since the attempt before."""
        return [change for change in self.changes if change.before == attempt]


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    """What kube-scheduler did. Kept as JSON: it is only ever compared."""

    decisions: list[dict[str, Any]]
    nodes: dict[str, dict[str, Any]]
    weights: dict[str, int]


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One line of a family of scenarios."""

    scenario: Scenario
    expected: Expected

    @property
    def is_compact(self) -> bool:
        """Whether decisions are recorded without what led to them."""
        return not any("requests" in decision for decision in self.expected.decisions)


class Configuration(msgspec.Struct):
    """Of a scenario, what it says of the scheduler."""

    config: dict[str, Any] = {}
    feature_gates: dict[str, bool] = {}


class _Line(msgspec.Struct):
    scenario: Configuration


_configuration_decoder: Final = msgspec.json.Decoder(_Line)
_entry_decoder: Final = msgspec.json.Decoder(Entry)
_json_decoder: Final = msgspec.json.Decoder(dict[str, Any])


def find_files(paths: list[str]) -> list[Path]:
    """The files named, and those in the folders named, in order of name."""
    try:
        return [file for text in paths for file in _files_at(Path(text))]
    except (OSError, ValueError) as error:  # Of a path that no file can have, among others.
        raise CorpusError(str(error)) from error


def _files_at(path: Path) -> list[Path]:
    if path.is_dir():
        inside = sorted(p for p in path.iterdir() if p.name.endswith(SUFFIXES))
        if not inside:
            raise CorpusError(f"{path}: holds no {' or '.join(SUFFIXES)} file")
        return inside
    if not path.is_file():
        raise CorpusError(f"{path}: no such file or folder")
    return [path]


def family_of(path: Path) -> str:
    """The family that a file holds: its name without suffix."""
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    raise CorpusError(f"{path}: is neither {' nor '.join(SUFFIXES)}")


def read_entries(path: Path) -> Iterator[Entry]:
    """The scenarios of a file, one at a time."""
    for number, line in _lines(path):
        try:
            yield _entry_decoder.decode(line)
        except msgspec.DecodeError as error:
            raise CorpusError(f"{path}, line {number}: {error}") from error


def read_configurations(path: Path) -> Iterator[Configuration]:
    """Of each scenario of a file."""
    for number, line in _lines(path):
        try:
            yield _configuration_decoder.decode(line).scenario
        except msgspec.DecodeError as error:
            raise CorpusError(f"{path}, line {number}: {error}") from error


def read_plain(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and lines of a family that does not hold scenarios."""
    for number, line in _lines(path):
        try:
            yield number, _json_decoder.decode(line)
        except msgspec.DecodeError as error:
            raise CorpusError(f"{path}, line {number}: {error}") from error


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise CorpusError(f"{path}, after line {number}: {error}") from error
