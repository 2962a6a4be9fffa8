"""The table of child processes: module and arguments of each.

Children are started by module name, so nothing of them is imported here. Every child takes
`--runtime-dir`, `--lifeline-fd`, `--heartbeat-fd` (`shared/transport/parent.py`) and `--log-level`; what
else each role takes is its row below. Order is start order; no child waits for another.
"""

from typing import NamedTuple

import msgspec

from shared.config import LeaderElection
from shared.limits import OWNER_SILENCE_S, SILENCE_S
from shared.runtime_options import EndpointOptions, RuntimeOptions


class ChildSpec(NamedTuple):
    """What a child is started with."""

    name: str
    """As in logs and status: owner, adapter, scorer-0, binder-0, ..."""
    module: str
    arguments: tuple[str, ...]
    is_optional: bool = False
    """Scheduling goes on without it, so it is started again for ever and never given up with all."""
    reads_configuration: bool = False
    """A reload starts it anew."""
    silence_max_s: float = SILENCE_S
    can_be_careful: bool = False
    """Says after a death what it has in hand, and goes without what it died of (`shared/in_hand.py`)."""
    environment: tuple[tuple[str, str], ...] = ()
    """Beside what all children have; what is set outside goes first."""


STREAMING_MEMORY = (("MALLOC_MMAP_THRESHOLD_", "131072"),)
"""For a process that holds many TLS streams: glibc would raise this after the first buffer that is
freed (256 KiB each) and keep later ones in its heap, whose holes the process never gives back."""


OWNER = "owner"
ADAPTER = "adapter"
LEADER = "leader"
ENDPOINTS = "endpoints"


def child_specs(
    options: RuntimeOptions,
    lifeline_fd: int,
    election: LeaderElection | None = None,
    identity: str = "",
) -> list[ChildSpec]:
    """The children of one berth. `election`: None where nobody is elected."""
    common = (
        *("--runtime-dir", options.runtime_dir),
        *("--lifeline-fd", str(lifeline_fd)),
        *("--log-level", options.log_level),
    )
    config: tuple[str, ...] = ("--config", options.config) if options.config else ()
    gates = ("--feature-gates", options.feature_gates) if options.feature_gates else ()
    # With neither, the child looks where every Kubernetes client looks (`shared/kube/kubeconfig.py`).
    server: tuple[str, ...] = ()
    if options.server:
        server += ("--server", options.server)
    if options.kubeconfig:
        server += ("--kubeconfig", options.kubeconfig)
    seed = ("--seed", str(options.seed))
    elect = ("--elect-leader",) if election is not None else ()
    owner = _owner(options, common, (*config, *gates, *seed, *elect))
    adapter = ChildSpec(
        ADAPTER,
        "daemon.adapter",
        (*common, *server, *gates),
        can_be_careful=True,
        environment=STREAMING_MEMORY,
    )
    sampling = ("--compatible-sampling",) if options.compatible_sampling else ()
    scorers = [
        ChildSpec(
            f"scorer-{index}",
            "workers.scorer",
            (*common, "--index", str(index), *server, *config, *gates, *seed, *sampling),
            reads_configuration=True,
        )
        for index in range(options.workers)
    ]
    in_flight = (
        *("--pool-size", str(options.binders)),
        *("--max-in-flight", str(options.max_in_flight)),
    )
    binders = [
        ChildSpec(
            f"binder-{index}",
            "workers.binder",
            (*common, "--index", str(index), *server, *config, *in_flight, *elect),
            reads_configuration=True,
        )
        for index in range(options.binders)
    ]
    specs = [owner, adapter, *scorers, *binders]
    if election is not None:
        specs.append(_leader(common, server, election, identity))
    if options.endpoints.secure_port:
        specs.append(_endpoints(common, options.endpoints, elect))
    return specs


def _owner(options: RuntimeOptions, common: tuple[str, ...], more: tuple[str, ...]) -> ChildSpec:
    return ChildSpec(
        OWNER,
        "daemon.owner",
        (
            *common,
            *("--workers", str(options.workers)),
            *("--binders", str(options.binders)),
            *more,
            *("--assume-ttl-s", f"{options.assume_ttl_s:g}"),
            *("--leftover-after-s", f"{options.pod_max_in_unschedulable_pods_s:g}"),
            *(("--annotate-decisions",) if options.annotate_decisions else ()),
            *_entrance(options),
        ),
        reads_configuration=True,
        silence_max_s=OWNER_SILENCE_S,
        can_be_careful=True,
    )


def _entrance(options: RuntimeOptions) -> tuple[str, ...]:
    """For workers of other hosts."""
    if not options.workers_address:
        return ()
    return (
        *("--workers-address", options.workers_address),
        *("--workers-key-file", options.workers_key_file),
        *("--workers-allowed-file", options.workers_allowed_file),
    )


def _leader(
    common: tuple[str, ...], server: tuple[str, ...], election: LeaderElection, identity: str
) -> ChildSpec:
    arguments = (
        *common,
        *server,
        *("--identity", identity),
        *("--lease-duration-s", f"{election.lease_duration_s:g}"),
        *("--renew-deadline-s", f"{election.renew_deadline_s:g}"),
        *("--retry-period-s", f"{election.retry_period_s:g}"),
        *("--lease-name", election.resource_name),
        *("--lease-namespace", election.resource_namespace),
    )
    return ChildSpec(LEADER, "daemon.leader", arguments)


def _endpoints(
    common: tuple[str, ...], options: EndpointOptions, elect: tuple[str, ...]
) -> ChildSpec:
    shown = ("--options", msgspec.json.encode(options).decode())
    return ChildSpec(ENDPOINTS, "daemon.endpoints", (*common, *shown, *elect), is_optional=True)
