"""What one pod costs each stage, from measured results: the calibration of `scale_model.py`. Pure.

Two results of one workload, with one scorer and with more, tell apart what a single one cannot: the cost
of a placement and the cost of following the placements of all others (deltas), which every scorer pays.
"""

from typing import Final, NamedTuple

from bench.perf.result import Result
from shared.errors import ConfigurationError

SCORER: Final = "scorer-"
BINDERS: Final = ("binder-", "null-binder-")
OWNER: Final = "owner"


class StageCosts(NamedTuple):
    """CPU in microseconds."""

    feeder_us: float
    """Of a pod: its watch event in, the binding's watch event in. `adapter` where there is one."""
    owner_us: float
    """Of a pod, without deltas and without refusals."""
    owner_delta_us: float
    """Of a pod, for each scorer that is told of its placement."""
    scorer_us: float
    """Of an evaluation."""
    scorer_delta_us: float
    """Of a pod, for each scorer that follows its placement."""
    binder_us: float
    """Of a pod."""
    others_us: float
    """Of a pod: what ran beside berth on the same cores (API server, load)."""
    refused_per_thousand_others: float
    """Share of an answer that is refused, for each 1,000 pods that were out with other scorers."""


class Measured(NamedTuple):
    """What one result says."""

    workload: str
    mode: str
    scorers: int
    binders: int
    cores: int
    pods_per_s: float
    cpu_us: dict[str, float]
    """Stage -> of a pod, all processes of the stage together."""
    refused_share: float


def measured(result: Result) -> Measured:
    """ConfigurationError if the result has nothing to calibrate with."""
    cpu = result.median.cpu_s_per_1000_pods
    scorers = [name for name in cpu if name.startswith(SCORER)]
    binders = [name for name in cpu if name.startswith(BINDERS)]
    feeder = "feeder" if "feeder" in cpu else "adapter"
    if not scorers or not binders or OWNER not in cpu or feeder not in cpu:
        problem = f"has CPU times of {', '.join(cpu) or 'nothing'}; owner, scorers, binders needed"
        raise ConfigurationError(f"{result.workload} ({result.mode})", [problem])
    known = {OWNER, feeder, *scorers, *binders}
    counters = [run.owner_counters for run in result.runs]
    scheduled = sum(each.get("scheduled", 0) for each in counters)
    refused = sum(each.get("proposals_rejected", 0) for each in counters)
    return Measured(
        result.workload,
        result.mode,
        len(scorers),
        len(binders),
        result.machine.cores,
        result.median.throughput_pods_per_s["overall"],
        {
            # Seconds per 1,000 pods are milliseconds per pod.
            "feeder": cpu[feeder] * 1000,
            "owner": cpu[OWNER] * 1000,
            "scorer": sum(cpu[name] for name in scorers) * 1000,
            "binder": sum(cpu[name] for name in binders) * 1000,
            "others": sum(cpu[name] for name in cpu if name not in known) * 1000,
        },
        refused / max(1, scheduled + refused),
    )


def calibrate(one: Measured, more: Measured, out_per_scorer: int) -> StageCosts:
    """From a result with one scorer and one with more. What noise would make negative is 0."""
    if one.scorers != 1 or more.scorers < 2:
        problem = f"have {one.scorers} and {more.scorers} scorers; run it with --workers 1 and 2"
        raise ConfigurationError("the results", [problem])
    if (one.workload, one.mode) != (more.workload, more.mode):
        problem = f"are of {one.workload} ({one.mode}) and of {more.workload} ({more.mode})"
        raise ConfigurationError("the results", [problem])
    count, retried = more.scorers, 1 / (1 - more.refused_share)
    # one: evaluation + delta; more: evaluation * retried + count * delta.
    both = one.cpu_us["scorer"]
    delta_us = (more.cpu_us["scorer"] - both * retried) / (count - retried)
    delta_us = min(max(0.0, delta_us), both)
    owner_delta_us = max(0.0, (more.cpu_us["owner"] - one.cpu_us["owner"]) / (count - 1))
    # The more there is to do, the more is done in a turn, and the less a pod costs: that is the limit.
    owner_us = min(one.cpu_us["owner"], more.cpu_us["owner"])
    owner_delta_us = min(owner_delta_us, owner_us)
    excess = max(0.0, more.refused_share - one.refused_share)
    return StageCosts(
        feeder_us=(one.cpu_us["feeder"] + more.cpu_us["feeder"]) / 2,
        owner_us=owner_us - owner_delta_us,
        owner_delta_us=owner_delta_us,
        scorer_us=both - delta_us,
        scorer_delta_us=delta_us,
        binder_us=(one.cpu_us["binder"] + more.cpu_us["binder"]) / 2,
        others_us=(one.cpu_us["others"] + more.cpu_us["others"]) / 2,
        refused_per_thousand_others=1000 * excess / (out_per_scorer * (count - 1)),
    )
