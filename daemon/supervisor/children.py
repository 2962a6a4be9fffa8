"""The table of child processes: module and arguments of each.

Children are known by module name, so nothing of them is imported here. Every child reads the plan
(`shared/child_plan.py`) that its first argument names. Order is start order; no child waits for another.
"""

from typing import Any, NamedTuple

from shared.child_plan import ChildPlan
from shared.limits import OWNER_SILENCE_S, SILENCE_S


class ChildSpec(NamedTuple):
    name: str
    """As in logs and status: owner, adapter, scorer-0, binder-0, ..."""
    module: str
    """Its `main` takes the arguments and returns the exit code."""
    arguments: tuple[str, ...]
    is_optional: bool = False
    """Scheduling goes on without it, so it is started again for ever and never given up with all."""
    goes_by: tuple[object, ...] = ()
    """What it takes from the plan: a reload that changes this starts it anew. With `object()`, which
    equals no other: every reload does."""
    silence_max_s: float = SILENCE_S
    can_be_careful: bool = False
    """Says after a death what it has in hand, and goes without what it died of (`shared/in_hand.py`)."""


OWNER = "owner"
ADAPTER = "adapter"
LEADER = "leader"
ENDPOINTS = "endpoints"


def child_specs(plan: ChildPlan, lifeline_fd: int) -> list[ChildSpec]:
    """The children of one berth."""
    options, election = plan.options, plan.election
    access = (options.server, options.kubeconfig, options.log_level)

    def child(name: str, package: str, *goes_by: object, index: int = 0, **more: Any) -> ChildSpec:
        own = ("--index", str(index)) if index else ()
        arguments = (str(plan.path), *own, "--lifeline-fd", str(lifeline_fd))
        return ChildSpec(name, f"{package}.__main__", arguments, goes_by=goes_by, **more)

    recorded = (options.record, options.record_mib_max)
    watched = (*access, options.feature_gates, options.pod_groups, *recorded)
    specs = [
        child(OWNER, "daemon.owner", object(), silence_max_s=OWNER_SILENCE_S, can_be_careful=True),
        child(ADAPTER, "daemon.adapter", *watched, can_be_careful=True),
        *(
            child(f"scorer-{n}", "workers.scorer", object(), index=n)
            for n in range(options.workers)
        ),
        *(
            child(f"binder-{n}", "workers.binder", object(), index=n)
            for n in range(options.binders)
        ),
    ]
    if election is not None and not options.observe:
        specs.append(child(LEADER, "daemon.leader", *access, election))
    if options.endpoints.secure_port:
        served = (options.log_level, options.endpoints, election is not None)
        specs.append(child(ENDPOINTS, "daemon.endpoints", *served, is_optional=True))
    return specs
