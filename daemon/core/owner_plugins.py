"""The plugins that run in the owner: QueueSort, and PreEnqueue, Reserve and Permit of each profile.

Filter runs here too, but through `daemon.core.checker.Checker`, with the scorers' own code.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from daemon.core.queue.queued_pod import QueuedPod
from shared.errors import ObjectError
from shared.faults import OURS, reading
from shared.framework import plugin_api
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Registrations
from shared.framework.runtime.framework import Framework
from shared.framework.status import SUCCESS, Code, Status
from shared.kube.pod_record import PodRecord, with_status

FITS_NO_MORE: Final = Status(Code.UNSCHEDULABLE)
"""Of a placement that Filter would not let pass any more."""


class OwnerPlugins(NamedTuple):
    """By profile (schedulerName), in the order in which they run."""

    queue_sort: plugin_api.QueueSortPlugin
    """The same for all profiles: there is one queue."""
    pre_enqueue: Mapping[str, tuple[plugin_api.PreEnqueuePlugin, ...]]
    reserve: Mapping[str, tuple[plugin_api.ReservePlugin, ...]]
    permit: Mapping[str, tuple[plugin_api.PermitPlugin, ...]] = {}
    """Run by `waiting_pods.py`."""
    registrations: Mapping[str, Registrations] = {}
    """The events that help, of all plugins that may reject a pod."""
    labels_read: frozenset[str] | None = None
    """By all plugins, those included that run elsewhere, as of `BuiltProfile`."""

    def everyone(self) -> Iterator[object]:
        """Every plugin; one that takes part in several ways comes several times."""
        yield self.queue_sort
        for by_profile in (self.pre_enqueue, self.reserve, self.permit):
            for plugins in by_profile.values():
                yield from plugins

    def checked(self, frameworks: Mapping[str, Framework]) -> dict[str, Framework]:
        """By profile, what is asked about placements before Reserve: not who says the same there."""

        def part_of(profile: str, framework: Framework) -> Framework:
            said = {p.NAME for p in self.reserve.get(profile, ()) if _filters_in_reserve(p)}
            return framework.only(lambda plugin: getattr(plugin, "NAME", "") not in said)

        return {profile: part_of(profile, each) for profile, each in frameworks.items()}

    def gate_of(self, pod: QueuedPod, cluster: ClusterView) -> str | None:
        """The first PreEnqueue plugin that keeps the pod out, if any does."""
        for plugin in self.pre_enqueue.get(pod.info.spec.scheduler_name, ()):
            try:
                is_let_in = plugin.pre_enqueue(pod.info, cluster).is_success
            except Exception as error:
                # As upstream, where an error keeps the pod out as well; an event may let it in.
                if isinstance(error, OURS):
                    raise
                is_let_in = False
            if not is_let_in:
                return plugin.NAME
        return None

    def may_gate(self, pod: PodInfo) -> bool:
        """False: no PreEnqueue plugin ever keeps a pod of this class out."""
        return _concerns(self.pre_enqueue.get(pod.spec.scheduler_name, ()), "may_gate", pod)

    def may_reserve(self, pod: PodInfo) -> bool:
        """False: no Reserve plugin has a say about pods of this class, wherever they are placed."""
        return _concerns(self.reserve.get(pod.spec.scheduler_name, ()), "reserves_for", pod)

    def run_reserve(self, record: PodRecord, pod: PodInfo, view: ClusterView, row: int) -> Status:
        """Runs Reserve in order, and Unreserve after a failure. FITS_NO_MORE where that is Filter's."""
        for plugin in self.reserve.get(pod.spec.scheduler_name, ()):
            try:
                with reading("pod", record):
                    status = plugin.reserve(record, pod, view, row)
            except ObjectError as error:
                status = Status(Code.ERROR, (error.problem,))
            if not status.is_success:
                self.run_unreserve(record, pod, view, row)
                if status.is_rejected and _filters_in_reserve(plugin):
                    return FITS_NO_MORE
                if not status.is_rejected:
                    text = f'running Reserve plugin "{plugin.NAME}": {status.message}'
                    return Status(Code.ERROR, (text,), plugin.NAME)
                return status._replace(plugin=plugin.NAME)
        return SUCCESS

    def as_reserved(self, record: PodRecord, pod: PodInfo, view: ClusterView) -> PodRecord:
        """A pod that was just reserved, as it counts on its node."""
        for plugin in self.reserve.get(pod.spec.scheduler_name, ()):
            ask = getattr(plugin, "reserved_status", None)
            if ask is not None and (status := ask(record, pod, view)) is not None:
                return with_status(record, status)
        return record

    def pre_bind_work(
        self, record: PodRecord, pod: PodInfo, view: ClusterView, row: int
    ) -> dict[str, bytes]:
        """By plugin, what is to be done before a pod is bound that was just reserved. Taken down then:
        claims and volumes may be deleted or replaced while the pod waits for Permit or for a binder, and
        then its binding has to fail in PreBind, and not to be done without them."""
        told = {}
        for plugin in self.reserve.get(pod.spec.scheduler_name, ()):
            ask = getattr(plugin, "pre_bind_work", None)
            if ask is not None and (work := ask(record, pod, view, row)):
                told[plugin.NAME] = work
        return told

    def run_unreserve(self, record: PodRecord, pod: PodInfo, view: ClusterView, row: int) -> None:
        """Runs Unreserve in reverse order."""
        for plugin in reversed(self.reserve.get(pod.spec.scheduler_name, ())):
            plugin.unreserve(record, pod, view, row)


def _filters_in_reserve(plugin: plugin_api.ReservePlugin) -> bool:
    return bool(getattr(plugin, "reserve_filters", False))


def _concerns(plugins: Iterable[object], question: str, pod: PodInfo) -> bool:
    """Whether any of the plugins says that the class concerns it, or cannot be asked."""
    for plugin in plugins:
        # Looked up by name: asking a Protocol what an object can do takes many times longer.
        asked = getattr(plugin, question, None)
        if asked is None or asked(pod):
            return True
    return False
