"""Which parked pods an event may help: hints are asked once for a group of pods."""

from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.unschedulable import Group, UnschedulablePods
from daemon.core.queue.wakeups import Strategy, Wakeups
from shared.framework.cluster_event import ClusterEvent
from shared.framework.queueing_hints import Change


def woken_by(
    change: Change, interested: tuple[str, ...], parked: UnschedulablePods, wakeups: Wakeups
) -> list[tuple[QueuedPod, Strategy]]:
    """The pods with what to do with them. `interested` are the plugins that registered the event."""
    woken: list[tuple[QueuedPod, Strategy]] = []
    for group in parked.groups_rejected_by(interested):
        if _are_told_apart(group, change.event, wakeups):
            each = ((pod, wakeups.strategy(pod, change)) for pod in group.pods.values())
            woken.extend(one for one in each if one[1] is not Strategy.SKIP)
            continue
        strategy = wakeups.strategy(next(iter(group.pods.values())), change)
        if strategy is not Strategy.SKIP:
            woken.extend((pod, strategy) for pod in group.pods.values())
    return woken


def _are_told_apart(group: Group, event: ClusterEvent, wakeups: Wakeups) -> bool:
    """Whether a hint for the event may say something else for each pod of the group."""
    if len(group.pods) == 1:
        return False
    plugins = group.key.unschedulable_plugins | group.key.pending_plugins
    return wakeups.reads_identity(plugins, event)
