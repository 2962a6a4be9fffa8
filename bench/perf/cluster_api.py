"""The cluster as the executor of a workload sees it, whatever stands behind it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from bench.apiserver.served_resources import Resource
from bench.perf.book import PodBook
from bench.perf.object_template import JsonObject, Series
from bench.perf.samples import Buckets
from daemon.supervisor.process_list import ProcessEntry
from shared.messages.admin import StatusAnswer


class Prepared(Protocol):
    """A series that is ready to be sent; everything that takes time has been done."""

    @property
    def series(self) -> Series: ...


class ClusterApi(Protocol):
    """Creates and deletes objects; tells the book what becomes of pods."""

    book: PodBook

    async def prepare(self, series: Series) -> Prepared:
        """Encode what will be created."""

    async def create(
        self, prepared: Sequence[Prepared], arrivals_s: Sequence[float] | None = None
    ) -> None:
        """Create the first of each series, in order, then the second of each and so on, as fast as it
        goes, or each at its time after now."""

    async def until_taken_in(self) -> None:
        """Wait until the scheduler knows of what was created, where it lies with us to see to that."""

    async def update(
        self, resource: Resource, namespace: str, body: JsonObject, subresources: Sequence[str]
    ) -> None:
        """Replace an object that is there, or a subresource of it."""

    async def put_status(self, resource: Resource, namespace: str, body: JsonObject) -> None:
        """Replace the status of an object that is there; nothing where its kind has none."""

    async def listed(self, resource: Resource) -> list[JsonObject]:
        """All objects of a kind; not of pods."""

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, at_once: bool = False
    ) -> None:
        """Ask for an object to go; `at_once`: without the time that a pod has to end."""

    async def status(self) -> StatusAnswer | None:
        """What the owner says; None when no owner of ours is there."""

    async def histogram(self, name: str) -> dict[str, Buckets]:
        """One of the owner's histograms, by its first label; empty when no owner of ours is there."""

    def check(self) -> None:
        """Raise if a process has ended that should not have."""

    def processes(self) -> list[ProcessEntry]:
        """All processes whose use is to be measured."""

    async def close(self) -> None:
        """Stop and remove what was started and created."""


def labels_of(body: JsonObject) -> Mapping[str, str]:
    """The labels of an object."""
    labels: Mapping[str, str] = (body.get("metadata") or {}).get("labels") or {}
    return labels
