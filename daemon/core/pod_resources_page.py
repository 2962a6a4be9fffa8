"""What pods ask for and may use, told in pages, so that no turn of the owner becomes long.

A page begins at a row of the nodes' table, so pods that come and go between two pages cost nobody
else its place; the last one has the pods without a node.
"""

from collections.abc import Iterable
from typing import Final

from daemon.core.cache import Cache
from daemon.core.queue.scheduling_queue import SchedulingQueue
from shared.framework.pod_info import PodInfo
from shared.kube.pod_record import PodRecord, PodTemplate
from shared.kube.pod_resources import exact_limits, exact_requests
from shared.kube.quantity import NANOS_PER_UNIT
from shared.messages.admin import PodResources, ResourcesOfPod, ResourcesOfTemplate

PODS_A_PAGE: Final = 5_000
"""Some 10 ms."""
LAST: Final = -1
ENDED: Final = ("Succeeded", "Failed")


def pod_resources_page(cache: Cache, queue: SchedulingQueue, start: int) -> PodResources:
    """From the node row `start` on."""
    page = _Page()
    nodes = cache.nodes
    for row in range(max(start, 0), nodes.row_count):
        info = cache.node_info(nodes.name_of(row))
        if info is None or info.row != row:
            continue
        if len(page.pods) >= PODS_A_PAGE:
            return page.made(row)
        for pod in info.pods.values():
            if pod.record.phase not in ENDED:
                page.add(pod.record, pod.pod_class.info, info.name)
    for waiting in queue:
        if cache.get_pod(waiting.record.uid) is None:
            page.add(waiting.record, waiting.info, "")
    return page.made(LAST)


class _Page:
    def __init__(self) -> None:
        self.pods: list[ResourcesOfPod] = []
        self._templates: list[ResourcesOfTemplate] = []
        self._known: dict[int, int] = {}
        """Id of a class' `PodInfo` -> its template's number."""

    def add(self, record: PodRecord, info: PodInfo, node_name: str) -> None:
        number = self._known.get(id(info))
        if number is None:
            number = self._known[id(info)] = len(self._templates)
            self._templates.append(_of(info.template))
        self.pods.append(ResourcesOfPod(record.namespace, record.name, node_name, number))

    def made(self, next_start: int) -> PodResources:
        return PodResources(next_start, self._templates, self.pods)


def _of(template: PodTemplate) -> ResourcesOfTemplate:
    spec = template.spec
    return ResourcesOfTemplate(
        spec.scheduler_name,
        "" if spec.priority is None else str(spec.priority),
        _units(exact_requests(template).items()),
        _units(exact_limits(template).items()),
    )


def _units(nanos: Iterable[tuple[str, int]]) -> dict[str, float]:
    return {name: amount / NANOS_PER_UNIT for name, amount in nanos}
