"""The table of child processes: module and arguments of each.

Children are known by module name, so nothing of them is imported here. Every child reads the plan
(`shared/child_plan.py`) that its first argument names. Order is start order; no child waits for another.
"""

from typing import NamedTuple

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

    def started(index: int = 0) -> tuple[str, ...]:
        own = ("--index", str(index)) if index else ()
        return (str(plan.path), *own, "--lifeline-fd", str(lifeline_fd))

    specs = [
        ChildSpec(
            OWNER,
            "daemon.owner.__main__",
            started(),
            goes_by=(object(),),
            silence_max_s=OWNER_SILENCE_S,
            can_be_careful=True,
        ),
        ChildSpec(
            ADAPTER,
            "daemon.adapter.__main__",
            started(),
            goes_by=(
                *access,
                options.feature_gates,
                options.pod_groups,
                options.record,
                options.record_mib_max,
            ),
            can_be_careful=True,
        ),
    ]
    for name, module, count in (
        ("scorer", "workers.scorer.__main__", options.workers),
        ("binder", "workers.binder.__main__", options.binders),
    ):
        specs += [
            ChildSpec(f"{name}-{index}", module, started(index), goes_by=(object(),))
            for index in range(count)
        ]
    if election is not None and not options.observe:
        specs.append(
            ChildSpec(LEADER, "daemon.leader.__main__", started(), goes_by=(*access, election))
        )
    if options.endpoints.secure_port:
        goes_by = (options.log_level, options.endpoints, election is not None)
        specs.append(
            ChildSpec(
                ENDPOINTS, "daemon.endpoints.__main__", started(), is_optional=True, goes_by=goes_by
            )
        )
    return specs
