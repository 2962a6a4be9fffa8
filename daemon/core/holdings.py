"""Everything that the owner holds, for the parts that change it: what is so, and what others are to do
about it.

A placement touches most of it: the cache, the queue, a nomination, a binder's orders, a counter. So each
part (`Part`) is given both; who only needs the facts is given no more.
"""

from collections.abc import Callable
from functools import partial

import msgspec

from daemon.core.bindings import BinderPool
from daemon.core.cache import Cache
from daemon.core.checker import Checker
from daemon.core.counters import Counters, begin_at_zero
from daemon.core.dispatch import ScorerFleet
from daemon.core.events import Effect, Note
from daemon.core.nominations import Evictions, NominationBook
from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.pod_groups import NO_GROUPS, GroupSettings, PodGroups
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.scheduling_queue import SchedulingQueue
from daemon.core.queue.wakeups import GATED_BY_EVICTIONS, Wakeups
from daemon.core.snapshot_log import SnapshotLog
from daemon.core.status_patches import StatusPatches
from daemon.core.suspects import PARKED, Suspects
from daemon.core.syncs import Syncs
from daemon.core.waiting_pods import WaitingPods
from shared import feature_gates
from shared.config import SchedulerConfiguration
from shared.extenders.extender_config import EXTENDER
from shared.feature_gates import FeatureGates
from shared.framework.queueing_hints import ANY_EVENT, ClusterEventWithHint
from shared.framework.runtime.framework import Framework
from shared.kube.resources import ALL_KINDS, custom_kind
from shared.plugin_names import DEFAULT_PREEMPTION
from shared.runtime_options import RuntimeOptions


class Settings(msgspec.Struct, frozen=True):
    """What the owner goes by all its life."""

    gates: FeatureGates
    config: SchedulerConfiguration = SchedulerConfiguration()
    options: RuntimeOptions = RuntimeOptions()
    groups: GroupSettings = NO_GROUPS
    is_candidate: bool = False
    """There is leader election: nothing is scheduled before `LeaseTaken`."""
    configuration: str = ""
    """What scorers of other hosts must have too (`shared/config.py`)."""


class ClusterFacts:
    """The cluster as it is known, and by what it is judged."""

    def __init__(
        self,
        settings: Settings,
        frameworks: dict[str, Framework],
        plugins: OwnerPlugins,
        now_s: float,
        stopwatch: Callable[[], float],
    ) -> None:
        """`stopwatch`: as `Counters` has it."""
        self.settings, self.frameworks, self.plugins = settings, frameworks, plugins
        gates, config, options = settings.gates, settings.config, settings.options
        self.announces_nodes = gates[feature_gates.NOMINATED_NODE_NAME_FOR_EXPECTATION]
        """Pods whose binding takes time say where they are going."""
        self.is_standby = settings.is_candidate
        """Another leads."""
        self.counters = Counters(stopwatch)
        begin_at_zero(self.counters, frameworks)
        self.patches = StatusPatches()
        """Of pending pods' statuses, until a binder is told."""
        self.cache = cache = Cache(gates, options.assume_ttl_s, plugins.labels_read)
        self.checker = Checker(cache.view, plugins.checked(frameworks))
        self.suspects = Suspects()
        self.groups = PodGroups(cache, settings.groups)
        is_async = gates[feature_gates.SCHEDULER_ASYNC_PREEMPTION]
        self.evictions = Evictions(cache, self.groups, is_async)
        self.queue = queue = SchedulingQueue(
            self._wakeups(),
            start_s=now_s,
            pre_enqueue=self._gate_of,
            queue_key=plugins.queue_sort.queue_key,
            release=cache.classes.release,
            initial_backoff_s=config.pod_initial_backoff_s,
            max_backoff_s=config.pod_max_backoff_s,
            pops_early=gates[feature_gates.SCHEDULER_POP_FROM_BACKOFF_Q],
            leftover_after_s=options.pod_max_in_unschedulable_pods_s,
        )
        self.waiting = WaitingPods(plugins, queue, cache.view)
        self.nominations = NominationBook(cache, queue, self.patches)
        known = [kind for kind in ALL_KINDS if settings.groups.is_on or not kind.feature_gate]
        self.syncs = Syncs(known + [custom_kind(name) for name in options.custom_kinds])

    def _wakeups(self) -> Wakeups:
        beside: dict[str, tuple[ClusterEventWithHint, ...]] = {}
        if self.settings.config.extenders:
            beside[EXTENDER] = ANY_EVENT
        if self.evictions.is_async:
            beside[DEFAULT_PREEMPTION] = GATED_BY_EVICTIONS
        registrations = {name: {**of, **beside} for name, of in self.plugins.registrations.items()}
        on_hint = partial(self.counters.observe, "hint_s")
        return Wakeups(registrations, self.cache.view, self.counters.stopwatch, on_hint)

    def _gate_of(self, pod: QueuedPod) -> str | None:
        """Who keeps the pod out of the active queue, if anybody does; asked whenever it could enter it.
        Of nearly every class no plugin ever keeps a pod out, which is asked once for the class. A pod of
        such a class costs no call and no look at the clock, unless something is known of the pod itself:
        its group (which is not timed), a victim that it waits for, a scorer that died of its kind."""
        pod_class, record = pod.pod_class, pod.record
        if pod_class.may_be_gated is None:
            pod_class.may_be_gated = self.plugins.may_gate(pod_class.info)
        if pod_class.class_id in self.suspects.parked:
            return PARKED
        gate, victims = None, self.evictions.victims
        if pod_class.may_be_gated or (victims and (record.group or record.uid in victims)):
            begun_s = self.counters.stopwatch()
            if pod_class.may_be_gated:
                gate = self.plugins.gate_of(pod, self.cache.view)
            if gate is None and victims and self._waits_for_victims(pod):
                gate = DEFAULT_PREEMPTION
            # Success whatever came of it, as upstream (runPreEnqueuePlugins).
            took_s = self.counters.stopwatch() - begun_s
            self.counters.took("PreEnqueue", pod_class.profile, took_s)
        else:
            pre_enqueue = "PreEnqueue", "Success", pod_class.profile
            self.counters.observed["extension_point_s", pre_enqueue, 0.0] += 1
        if gate is None and record.group:
            gate = self.groups.gate_of(pod)
        return gate

    def _waits_for_victims(self, pod: QueuedPod) -> bool:
        """Where DefaultPreemption may reject it, which is in PreEnqueue."""
        rejecting = self.plugins.registrations.get(pod.pod_class.profile, ())
        return DEFAULT_PREEMPTION in rejecting and self.evictions.holds_back(pod.record)

    def forget_derived(self) -> None:
        """What was worked out before a check failed: half of it may be of the pod that it failed for."""
        self.checker.forget_all()
        self.cache.view.forget_derived()

    def shared_claim_of(self, uid: str) -> str:
        """The first resource claim that a pod names itself, so that others may name it as well; of one
        that has others only, which may be its group's, the group. Empty where there is neither, and
        for a pod that is not known."""
        pod = self.cache.get_pod(uid) or self.queue.get(uid)
        if pod is None:
            return ""
        named = pod.pod_class.info.spec.resource_claims or ()
        names = [each.resource_claim_name for each in named if each.resource_claim_name]
        if named and pod.record.group:
            names.append(pod.record.group)
        return f"{pod.record.namespace}/{names[0]}" if names else ""


class OutgoingWork:
    """What other processes have in hand, and what they and people are to be told."""

    def __init__(self, epoch: int, facts: ClusterFacts) -> None:
        self.epoch = epoch
        self.logs_attempts = facts.settings.options.log_level == "debug"
        """Each step of each attempt is a line of the log."""
        self.effects: list[Effect] = []
        """What is to be done, in order; whoever changes something adds to it."""
        self.snapshots = SnapshotLog(facts.cache, epoch)
        nominated = facts.queue.nominator.node_by_uid
        self.scorers = ScorerFleet(epoch, self.snapshots, nominated, names_pods=self.logs_attempts)
        self.binders = BinderPool(epoch, facts.shared_claim_of)

    def note(self, event: str, **fields: object) -> None:
        self.effects.append(Note(event, fields))

    def log_step(self, event: str, pod: QueuedPod, **fields: object) -> None:
        """A step of an attempt, for people who ask for them (`--log-level debug`). It has the pod and
        its ticket, as have the lines of scorer and binder: one `grep` for the pod tells its story over
        all processes, one for a ticket that of the attempt."""
        if self.logs_attempts:
            said: dict[str, object] = {"pod": pod.key, "ticket": pod.ticket, **fields}
            self.effects.append(Note(event, said, is_detail=True))

    def warn(self, event: str, **fields: object) -> None:
        """The same of what should not be so."""
        self.effects.append(Note(event, fields, is_warning=True))


class Holdings(ClusterFacts, OutgoingWork):
    """Both, as whoever decides is given them; made by `SchedulerState`, which is one."""


class Part(msgspec.Struct, eq=False, dict=True):
    """One thing that happens to the owner: what it needs of the others is named by each. `dict`: who
    judges the owner listens to what its parts are told."""

    _owner: Holdings
