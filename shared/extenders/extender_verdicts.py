"""Extenders in the eyes of the scheduler: who is interested in which pod, and what an answer means.

The HTTP calls are made elsewhere; nothing here waits. Rules: pkg/scheduler/extender.go
(`IsInterested`) and pkg/scheduler/schedule_one.go (`findNodesThatPassExtenders`,
`prioritizeNodes`), v1.36.2.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from shared.extenders.extender_config import ExtenderConfig
from shared.extenders.extender_wire import FilterAnswer
from shared.framework.pod_info import PodInfo


def is_interested(extender: ExtenderConfig, pod: PodInfo) -> bool:
    """Whether the extender is asked about the pod: it manages a resource that one of its containers
    requests or limits, or it manages none, and is asked about all."""
    managed, spec = extender.managed_resources, pod.spec
    return not managed or any(
        not managed.isdisjoint(amounts or ())
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        if (resources := container.resources) is not None
        for amounts in (resources.requests, resources.limits)
    )


def asked_of_scorers(extenders: Sequence[ExtenderConfig], pod: PodInfo) -> bool:
    """Whether somebody has to be asked before the pod can be placed."""
    return any(each.is_asked_by_scorers and is_interested(each, pod) for each in extenders)


def binders_of(extenders: Sequence[ExtenderConfig], pod: PodInfo) -> list[int]:
    """Positions of the extenders that bind the pod in place of the Bind plugins."""
    return [i for i, each in enumerate(extenders) if each.bind_verb and is_interested(each, pod)]


class ExtenderVerdicts(msgspec.Struct):
    """What the extenders said of the nodes that they were asked about, by name."""

    passing: list[str]
    refused: dict[str, str] = msgspec.field(default_factory=dict)
    """Node -> why. Removing pods might change their mind."""
    unresolvable: dict[str, str] = msgspec.field(default_factory=dict)
    scores: Counter[str] = msgspec.field(default_factory=Counter)
    """Node -> what is added to its total."""
    are_bare: bool = False
    """The last to filter answered with Node objects: they are scored without pods and images."""

    def take(self, answer: FilterAnswer) -> None:
        """One more extender has filtered. What it calls unresolvable is not merely refused."""
        for name, reason in answer.unresolvable.items():
            self.unresolvable[name] = reason
            self.refused.pop(name, None)
        for name, reason in answer.failed.items():
            if name not in answer.unresolvable:
                self.refused[name] = reason
                self.unresolvable.pop(name, None)
        self.passing = answer.node_names
        self.are_bare |= answer.are_bare

    def reasons(self) -> Counter[str]:
        """How often each reason was given, each for another node."""
        return Counter((*self.unresolvable.values(), *self.refused.values()))
