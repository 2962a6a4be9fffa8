"""`berth bench scale`: calibrates the model, holds it against what was measured, looks ahead."""

from collections.abc import Sequence
from typing import Final

from bench.perf.result import Result
from bench.perf.scale_costs import Measured, StageCosts, calibrate, measured
from bench.perf.scale_model import WINDOW_PODS, Outlook, Shape, best_shape, outlook
from daemon.commands.text_table import table as columns

MEASURED_HEAD: Final = (
    *("MEASURED ON", "SCORERS", "BINDERS", "PODS/S", "MODEL", "MODEL/MEASURED"),
    *("CORES USED", "BY THE MODEL"),
)
AHEAD_HEAD: Final = ("CORES", "SCORERS", "BINDERS", "PODS/S", "GAIN", "BOTTLENECK", "BUSY")


def scale_report(
    one: Result, more: Sequence[Result], cores: Sequence[int], pod_count: int, seed: int
) -> str:
    """`one`: with one scorer; `more`: the same workload with more, the first of which calibrates."""
    alone, others = measured(one), [measured(each) for each in more]
    costs = calibrate(alone, others[0], WINDOW_PODS)
    lines = [
        f"{alone.workload} ({alone.mode}), {one.machine.cpu}, commit {one.commit}",
        "",
        *_costs_lines(costs),
        "",
        *columns(
            MEASURED_HEAD, [_check(each, costs, pod_count, seed) for each in (alone, *others)]
        ),
        "",
    ]
    # Who asked for the bindings and the API server are then on machines of their own.
    ahead = costs._replace(others_us=0.0)
    base = outlook(Shape(alone.cores, 1, alone.binders), ahead, pod_count, seed).pods_per_s
    rows = [_ahead(best_shape(count, ahead, pod_count, seed), base) for count in cores]
    lines += columns(AHEAD_HEAD, rows)
    lines += [
        "",
        f"Simulated with {pod_count:,} pods, seed {seed}; not measured. Left out: caches and memory",
        "bandwidth that cores share, the network, an API server that takes bindings more slowly.",
    ]
    return "\n".join(lines)


def _costs_lines(costs: StageCosts) -> list[str]:
    rows = [
        ("feeder, a pod in and its binding seen", costs.feeder_us),
        ("owner, without deltas", costs.owner_us),
        ("owner, delta for each scorer", costs.owner_delta_us),
        ("scorer, an evaluation", costs.scorer_us),
        ("scorer, following another's placement", costs.scorer_delta_us),
        ("binder", costs.binder_us),
        ("others on the same cores", costs.others_us),
    ]
    table = columns(("COST OF A POD", "CPU US"), [(name, f"{us:,.1f}") for name, us in rows])
    share = costs.refused_per_thousand_others
    return [*table, f"refused for each 1,000 pods out with others: {share:.2%}"]


def _check(each: Measured, costs: StageCosts, pod_count: int, seed: int) -> tuple[str, ...]:
    shape = Shape(each.cores, each.scorers, each.binders)
    told = outlook(shape, costs, pod_count, seed)
    # Far below what the model uses: the cores were shared with something that was not measured.
    used = each.pods_per_s * sum(each.cpu_us.values()) / 1e6
    return (
        f"{each.cores} cores",
        str(each.scorers),
        str(each.binders),
        f"{each.pods_per_s:,.0f}",
        f"{told.pods_per_s:,.0f}",
        f"{told.pods_per_s / each.pods_per_s:.2f}",
        f"{used:.2f}",
        f"{told.core_use * each.cores:.2f}",
    )


def _ahead(best: Outlook, base: float) -> tuple[str, ...]:
    busy = ", ".join(f"{stage} {share:.0%}" for stage, share in best.busy.items())
    return (
        str(best.shape.cores),
        str(best.shape.scorers),
        str(best.shape.binders),
        f"{best.pods_per_s:,.0f}",
        f"{best.pods_per_s / base:.1f}",
        best.bottleneck,
        busy,
    )
