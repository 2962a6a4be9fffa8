"""The figures of a run: what `--json` writes, and the table that the terminal shows.

Pure: everything measured comes in. Times are of the demo's own clock, from the moment when a pod's
creation was sent to the moment when the watch saw it bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from bench.demo.cluster_check import CheckResult
from bench.demo.pod_book import PodBook
from bench.demo.workload import GPU_RESOURCE
from daemon.commands.text_table import table as columns
from daemon.core.fit_reasons import reason_of, short_resource
from daemon.overview.pending import PendingReason, put_together
from shared.kube.api.core_v1 import Pod
from shared.kube.pod_record import decode_template, split_pod
from shared.kube.pod_resources import pod_requests
from shared.messages.admin import PendingGroup

MIB: Final = 2.0**20
SHOWN_RESOURCES: Final = ("cpu", "memory", GPU_RESOURCE, "pods")
PERCENTILES: Final = (50, 90, 99, 100)


class ProcessFigures(msgspec.Struct, frozen=True):
    name: str
    cpu_s: float
    """From the first creation to the end of the run."""
    cpu_ms_per_pod: float
    """cpu_s by the number of pods that were created."""
    rss_peak_mib: float
    """Over the process's whole life."""
    restart_count: int


class ResourceFigures(msgspec.Struct, frozen=True):
    """In cores, bytes or pieces, over the whole cluster."""

    requested: float
    allocatable: float

    @property
    def percent(self) -> float:
        return 100.0 * self.requested / self.allocatable if self.allocatable else 0.0


class JobFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What became of jobs of which no pod is of use without the others."""

    title: str
    """Of the run."""
    job_count: int
    whole_count: int
    """Jobs of which all pods have a node."""
    stranded_pod_count: int
    """Pods that have a node, in jobs that are not whole: each holds a GPU for nothing."""
    waiting_ms: dict[str, float]
    """Of whole jobs, from the creation of the last pod to the last binding: p50, p90, p99, p100."""
    gpus_percent: float
    """So much of all GPUs is given to pods; and without the stranded:"""
    gpus_useful_percent: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the demo."""

    workload: str
    node_count: int
    pod_count: int
    bound_count: int
    unschedulable_count: int
    create_s: float
    """From the first creation sent to the last one answered."""
    schedule_s: float
    """From the first creation sent to the last binding seen."""
    pods_per_s: float
    """bound_count by schedule_s: end to end, through API server and watches."""
    latency_ms: dict[str, float]
    """Creation sent to binding seen: p50, p90, p99, p100."""
    unschedulable: dict[str, int]
    """Message -> number of pods that it was told of."""
    reasons: list[PendingReason]
    """The same, the like put together."""
    resources: dict[str, ResourceFigures]
    processes: list[ProcessFigures]
    owner_counters: dict[str, int]
    jobs: list[JobFigures] = []
    """Where there are jobs: of this run, after that of the run without gangs."""
    problems: list[str]
    """What the check of the API server's objects found. Empty: all is well."""
    settings: dict[str, str]
    """Workers, binders, seed, machine: what one has to know to compare two runs."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value below which (or at which) so many percent lie; nearest rank."""
    assert 0 <= percent <= 100, f"{percent} is no percentage"
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


def latency_ms(book: PodBook) -> dict[str, float]:
    """The usual percentiles."""
    ordered = book.latencies_s()
    return {f"p{percent}": percentile(ordered, percent) * 1000 for percent in PERCENTILES}


def job_figures(
    title: str, jobs: Mapping[str, list[str]], book: PodBook, gpus: ResourceFigures
) -> JobFigures:
    """Each pod of a job has one GPU."""
    whole = [pods for pods in jobs.values() if all(pod in book.bound_s for pod in pods)]
    waits = sorted(
        max(book.bound_s[pod] for pod in pods) - max(book.created_s[pod] for pod in pods)
        for pods in whole
    )
    bound_count = sum(pod in book.bound_s for pods in jobs.values() for pod in pods)
    stranded_count = bound_count - sum(map(len, whole))
    useful = msgspec.structs.replace(gpus, requested=gpus.requested - stranded_count)
    return JobFigures(
        title=title,
        job_count=len(jobs),
        whole_count=len(whole),
        stranded_pod_count=stranded_count,
        waiting_ms={f"p{each}": percentile(waits, each) * 1000 for each in PERCENTILES},
        gpus_percent=gpus.percent,
        gpus_useful_percent=useful.percent,
    )


JOB_HEADINGS: Final = (
    "Jobs", "Whole", "Pods that hold a GPU for nothing", "Median wait", "Longest wait",
    "GPUs given", "GPUs of use",
)  # fmt: skip


def job_row(one: JobFigures) -> tuple[str, ...]:
    """Under these headings."""
    return (
        one.title,
        f"{one.whole_count} of {one.job_count}",
        f"{one.stranded_pod_count}",
        f"{one.waiting_ms['p50']:,.0f} ms",
        f"{one.waiting_ms['p100']:,.0f} ms",
        f"{one.gpus_percent:.2f} %",
        f"{one.gpus_useful_percent:.2f} %",
    )


def process_figures(
    cpu_s: dict[str, float],
    rss_peak_bytes: dict[str, int],
    restarts: dict[str, int],
    pod_count: int,
) -> list[ProcessFigures]:
    """One row per process."""
    return [
        ProcessFigures(
            name=name,
            cpu_s=used_s,
            cpu_ms_per_pod=used_s * 1000 / max(pod_count, 1),
            rss_peak_mib=rss_peak_bytes.get(name, 0) / MIB,
            restart_count=restarts.get(name, 0),
        )
        for name, used_s in cpu_s.items()
    ]


def resource_figures(check: CheckResult) -> dict[str, ResourceFigures]:
    """The resources that a reader looks for first, then any others."""
    known = [name for name in SHOWN_RESOURCES if name in check.use]
    others = sorted(set(check.use) - set(known))
    return {name: ResourceFigures(*check.use[name]) for name in (*known, *others)}


def reason_figures(
    messages: Mapping[str, str], pods: Iterable[Mapping[str, Any]]
) -> list[PendingReason]:
    """Of the unschedulable pods (name -> message), what they come to. `pods`: all of the cluster."""
    groups = []
    for pod in pods:
        message = messages.get(pod["metadata"]["name"])
        if message is None:
            continue
        record = split_pod(msgspec.convert(pod, Pod))
        reason = reason_of(message)
        asked = pod_requests(decode_template(record.template)).of(short_resource(reason))
        groups.append(PendingGroup("unschedulable", reason, 1, asked, asked, record.key))
    return put_together(groups)


# For people ---------------------------------------------------------------------------------------


def table(figures: Figures) -> str:
    """The figures as text."""
    latency = ", ".join(f"{name} {ms:,.0f} ms" for name, ms in figures.latency_ms.items())
    lines = [
        figures.workload,
        "",
        *_pairs(
            ("nodes", f"{figures.node_count:,}"),
            ("pods", f"{figures.pod_count:,} created in {figures.create_s:.2f} s"),
            ("bound", f"{figures.bound_count:,} in {figures.schedule_s:.2f} s"),
            ("rate", f"{figures.pods_per_s:,.0f} pods/s from first creation to last binding"),
            ("latency", f"creation to bound: {latency.replace('p100', 'max')}"),
            ("unschedulable", f"{figures.unschedulable_count:,}"),
        ),
        *_reasons(figures),
        "",
        *columns(
            ("ALLOCATION", "REQUESTED", "ALLOCATABLE", "SHARE"),
            [
                (
                    name,
                    amount(name, one.requested),
                    amount(name, one.allocatable),
                    f"{one.percent:.1f} %",
                )
                for name, one in figures.resources.items()
            ],
        ),
        *_jobs(figures),
        "",
        *columns(
            ("PROCESS", "CPU ms/pod", "CPU s", "PEAK MiB", "RESTARTS"),
            [
                (
                    one.name,
                    f"{one.cpu_ms_per_pod:.3f}",
                    f"{one.cpu_s:.2f}",
                    f"{one.rss_peak_mib:.0f}",
                    f"{one.restart_count}",
                )
                for one in figures.processes
            ],
        ),
        "",
        verdict(figures),
        *(f"  {problem}" for problem in figures.problems),
        "",
        "; ".join(f"{name} {told}" for name, told in figures.settings.items()),
    ]
    return "\n".join(lines)


def _jobs(figures: Figures) -> list[str]:
    if not figures.jobs:
        return []
    headings = tuple(each.upper() for each in JOB_HEADINGS)
    return ["", *columns(headings, [job_row(one) for one in figures.jobs])]


def _reasons(figures: Figures) -> list[str]:
    """The like put together; report and JSON have every message."""
    return [
        f"  {one.pod_count:>7,}  {one.text}{f': {one.detail}' if one.detail else ''}"
        f" (as {one.example})"
        for one in figures.reasons
    ]


def verdict(figures: Figures) -> str:
    """What the check of the API server's own objects says."""
    if figures.problems:
        return f"check: {len(figures.problems)} PROBLEMS in the API server's own objects:"
    return (
        "check: no node is overcommitted, no pod was bound twice, every bound pod is where it may be"
        " (from the API server's own objects)"
    )


def amount(resource: str, number: float) -> str:
    """An amount in a unit for people."""
    if resource == "memory" or resource.startswith(("ephemeral", "hugepages")):
        return f"{number / 2**30:,.0f} GiB"
    if resource == "cpu":
        return f"{number:,.1f} cores"
    return f"{number:,.0f}"


def _pairs(*pairs: tuple[str, str]) -> list[str]:
    return [f"{name:14}{told}" for name, told in pairs]
