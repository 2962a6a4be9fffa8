"""The table of child processes: module and arguments of each.

Children are started by module name, so nothing of them is imported here. Every child takes
`--runtime-dir`, `--lifeline-fd` (`shared/transport/parent.py`) and `--log-level`; what else each
role takes is its row below. Order is start order; no child waits for another.
"""

from typing import NamedTuple

from shared.config import RuntimeOptions


class ChildSpec(NamedTuple):
    """What a child is started with."""

    name: str
    """As in logs and status: owner, adapter, scorer-0, binder-0, ..."""
    module: str
    arguments: tuple[str, ...]


OWNER = "owner"


def child_specs(options: RuntimeOptions, lifeline_fd: int) -> list[ChildSpec]:
    """The children of one berth."""
    common = (
        *("--runtime-dir", options.runtime_dir),
        *("--lifeline-fd", str(lifeline_fd)),
        *("--log-level", options.log_level),
    )
    config = ("--config", options.config) if options.config else ()
    # With neither, the child looks where every Kubernetes client looks (`shared/kube/kubeconfig.py`).
    server: tuple[str, ...] = ()
    if options.server:
        server = ("--server", options.server)
    elif options.kubeconfig:
        server = ("--kubeconfig", options.kubeconfig)
    seed = ("--seed", str(options.seed))
    owner = ChildSpec(
        OWNER,
        "daemon.owner",
        (
            *common,
            *config,
            *("--workers", str(options.workers)),
            *("--binders", str(options.binders)),
            *seed,
            *("--assume-ttl-s", f"{options.assume_ttl_s:g}"),
        ),
    )
    adapter = ChildSpec("adapter", "daemon.adapter", (*common, *server))
    scorers = [
        ChildSpec(
            f"scorer-{index}",
            "workers.scorer",
            (*common, "--index", str(index), *config, *seed),
        )
        for index in range(options.workers)
    ]
    in_flight = ("--max-in-flight", str(options.max_in_flight))
    binders = [
        ChildSpec(
            f"binder-{index}",
            "workers.binder",
            (*common, "--index", str(index), *server, *config, *in_flight),
        )
        for index in range(options.binders)
    ]
    return [owner, adapter, *scorers, *binders]
