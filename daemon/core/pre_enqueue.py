"""Who keeps a pod out of the active queue: asked whenever the pod could enter it (PreEnqueue).

Of nearly every class no plugin ever keeps a pod out, which is asked once for the class. A pod of such a
class costs no call and no look at the clock, unless something is known of the pod itself: its group
(which is not timed), a victim that it waits for, a scorer that died of its kind.
"""

from daemon.core.counters import Counters
from daemon.core.nominations import Evictions
from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.pod_groups import PodGroups
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.suspects import PARKED, Suspects
from shared.framework.cluster_view import ClusterView
from shared.plugin_names import DEFAULT_PREEMPTION


class PreEnqueueGates:
    """Of all profiles."""

    def __init__(
        self,
        plugins: OwnerPlugins,
        cluster: ClusterView,
        counters: Counters,
        suspects: Suspects,
        evictions: Evictions,
        groups: PodGroups,
    ) -> None:
        self._plugins = plugins
        self._cluster = cluster
        self._counters = counters
        self._parked = suspects.parked
        self._evictions = evictions
        self._groups = groups

    def gate_of(self, pod: QueuedPod) -> str | None:
        """What keeps the pod from being tried, if anything does."""
        pod_class, record = pod.pod_class, pod.record
        if pod_class.may_be_gated is None:
            pod_class.may_be_gated = self._plugins.may_gate(pod_class.info)
        if pod_class.class_id in self._parked:
            return PARKED
        gate, victims = None, self._evictions.victims
        if pod_class.may_be_gated or (victims and (record.group or record.uid in victims)):
            begun_s = self._counters.stopwatch()
            gate = self._plugins.gate_of(pod, self._cluster) if pod_class.may_be_gated else None
            if gate is None and victims and self._evictions.holds_back(record):
                gate = DEFAULT_PREEMPTION
            # Success whatever came of it, as upstream (runPreEnqueuePlugins).
            took_s = self._counters.stopwatch() - begun_s
            self._counters.took("PreEnqueue", pod_class.profile, took_s)
        else:
            self._counters.passed["PreEnqueue", pod_class.profile] += 1
        if gate is None and record.group:
            gate = self._groups.gate_of(pod)
        return gate
