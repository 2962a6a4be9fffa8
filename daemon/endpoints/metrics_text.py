"""What is counted, as Prometheus' text format 0.0.4. Pure.

Names are those of `shared/telemetry/metrics.py` and `daemon/core/owner_counts.py`; what is of processes
comes from the kernel. A family is told once, its series together, as the format demands.

`/metrics/resources`, what each pod asks for and may use: pkg/scheduler/metrics/resources/resources.go,
v1.36.2. Pods that have ended are left out there and here; pending pods of other schedulers are left out
here alone, as berth holds none of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import asdict

from daemon.core.owner_counts import ALL_METRICS, FAMILY_SENTENCES, Count
from daemon.endpoints.health import CheckResults
from daemon.supervisor.process_list import ProcessUse
from shared.kube.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from shared.messages.admin import MetricsAnswer, PodResources, StatusAnswer
from shared.telemetry.metrics import HistogramState, Kind, LabelledCount

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_ATTEMPT_RESULTS: Final = (Count.SCHEDULED, Count.UNSCHEDULABLE, Count.ERRORS)
"""Told by profile, as the histogram of attempts has them."""


class _Text:
    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}

    def add(
        self,
        name: str,
        kind: Kind,
        sentence: str,
        count: float,
        labels: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.family(name, kind.value, sentence).append(
            f"{name}{labels_text(labels)} {number_text(count)}"
        )

    def family(self, name: str, kind: str, sentence: str) -> list[str]:
        told = [f"# HELP {name} {FAMILY_SENTENCES.get(name, sentence)}", f"# TYPE {name} {kind}"]
        lines = self._families.setdefault(name, told)
        assert lines[1] == told[1], f"{name} is told as {kind} and otherwise"
        return lines

    def rendered(self) -> str:
        return "\n".join([*chain.from_iterable(self._families.values()), ""])


def metrics_text(
    answer: MetricsAnswer | None,
    processes: Sequence[ProcessUse],
    is_leading: bool | None,
    now_s: float,
) -> str:
    """All of it. `answer`: None where the owner does not answer; `is_leading`: where there is no leader
    election. `now_s` is monotonic time."""
    text = _Text()
    is_up = answer is not None
    text.add("berth_owner_up", Kind.GAUGE, "Whether the owner answers.", is_up)
    if answer is not None:
        _add_counters(text, answer)
        _add_gauges(text, answer.status)
        name = "berth_api_server_word_age_seconds"
        sentence = "Since the API server last said anything about a kind, bookmarks included."
        for kind, heard_s in answer.status.api_heard_s.items():
            text.add(name, Kind.GAUGE, sentence, max(0.0, now_s - heard_s), [("kind", kind)])
        for one in answer.measured.counts:
            _add_labelled(text, one)
        for node, count in answer.status.foreign_pods_by_node.items():
            _add_labelled(text, LabelledCount("foreign_pods_on_node", (node,), count))
        for state in answer.measured.histograms:
            _add_histogram(text, state)
    if is_leading is not None:
        text.add(
            "leader_election_master_status",
            Kind.GAUGE,
            "Whether this berth holds the lease.",
            is_leading,
            # kube-scheduler's series bears its component's name, whatever the lease is called.
            [("name", "kube-scheduler")],
        )
    _add_processes(text, processes)
    return text.rendered()


def _add_counters(text: _Text, answer: MetricsAnswer) -> None:
    metric = Count.SCHEDULED.metric
    for state in answer.measured.histograms:
        if state.name != "attempt_s":
            continue
        labels = zip(ALL_METRICS["attempt_s"].label_names, state.labels, strict=True)
        text.add(metric.name, Kind.COUNTER, "Attempts by result.", sum(state.counts), labels)
    counters = answer.status.counters
    for count in Count:
        if count not in _ATTEMPT_RESULTS:
            metric, since_start = count.metric, counters.get(count.key, 0)
            text.add(metric.name, Kind.COUNTER, metric.sentence, since_start, metric.labels)


def _add_gauges(text: _Text, status: StatusAnswer) -> None:
    lengths = asdict(status.queue)
    in_flight_count = lengths.pop("in_flight")
    sentence = "Pods that wait, by the part of the queue."
    for part, count in lengths.items():
        text.add("scheduler_pending_pods", Kind.GAUGE, sentence, count, [("queue", part)])
    for kind, count in (
        ("nodes", status.node_count),
        ("pods", status.pod_count),
        ("assumed_pods", status.assumed_pod_count),
    ):
        sentence = "Nodes, pods and assumed pods in the cache."
        text.add("scheduler_cache_size", Kind.GAUGE, sentence, count, [("type", kind)])
    sentence = "Bindings that are under way; of other work there are none."
    bindings = [("operation", "binding")]
    text.add("scheduler_goroutines", Kind.GAUGE, sentence, status.binds_in_flight, bindings)
    for name, sentence, count in (
        ("berth_pods_in_flight", "Pods that a scoring worker has in hand.", in_flight_count),
        ("berth_synced", "Whether the whole cluster is listed.", status.synced),
        ("berth_generation", "Changes of the cache so far.", status.generation),
        ("berth_scorers_ready", "Scoring workers that can be given work.", status.scorers_ready),
        ("berth_binders_ready", "Binders that can be given orders.", status.binders_ready),
        ("berth_binds_in_flight", "Bindings ordered and not answered.", status.binds_in_flight),
        ("berth_standby", "Whether another holds the lease.", status.is_standby),
    ):
        text.add(name, Kind.GAUGE, sentence, count)


def _add_labelled(text: _Text, one: LabelledCount) -> None:
    metric = ALL_METRICS[one.name]
    labels = zip(metric.label_names, one.labels, strict=True)
    text.add(metric.name, metric.kind, metric.sentence, one.count, labels)


def _add_histogram(text: _Text, state: HistogramState) -> None:
    metric = ALL_METRICS[state.name]
    lines = text.family(metric.name, "histogram", metric.sentence)
    labels = list(zip(metric.label_names, state.labels, strict=True))
    below = 0
    for bound, count in zip([*metric.bounds, float("inf")], state.counts, strict=True):
        below += count
        edge = "+Inf" if bound == float("inf") else number_text(bound)
        lines.append(f"{metric.name}_bucket{labels_text([*labels, ('le', edge)])} {below}")
    lines.append(f"{metric.name}_sum{labels_text(labels)} {number_text(state.sum)}")
    lines.append(f"{metric.name}_count{labels_text(labels)} {below}")


def _add_processes(text: _Text, processes: Sequence[ProcessUse]) -> None:
    for one in processes:
        labels = [("process", one.name)]
        for name, kind, sentence, count in (
            ("up", Kind.GAUGE, "Whether the process runs.", float(one.is_alive)),
            ("cpu_seconds_total", Kind.COUNTER, "CPU time of the process's life.", one.cpu_s),
            ("resident_memory_bytes", Kind.GAUGE, "Its memory.", one.rss_bytes),
            ("restarts_total", Kind.COUNTER, "Lives before this one.", one.restart_count),
            (
                "connection_problems",
                Kind.GAUGE,
                "What keeps its requests to the API server from being answered; see berth status.",
                sum(not problem.is_over for problem in one.problems),
            ),
        ):
            text.add(f"berth_process_{name}", kind, sentence, count, labels)
    cpu_s = sum(one.cpu_s for one in processes)
    rss_bytes = sum(one.rss_bytes for one in processes)
    text.add("process_cpu_seconds_total", Kind.COUNTER, "CPU time of all processes.", cpu_s)
    text.add("process_resident_memory_bytes", Kind.GAUGE, "Memory of all of them.", rss_bytes)


def check_results_text(results: CheckResults, started_s: float) -> str:
    """`/metrics/slis`. `started_s`: when the process started, seconds since the epoch."""
    text = _Text()
    for (name, endpoint), is_well in results.latest.items():
        told = "The result of a single health check when its endpoint was asked last."
        labels = [("name", name), ("type", endpoint)]
        text.add("kubernetes_healthcheck", Kind.GAUGE, told, is_well, labels)
    for (name, endpoint, is_well), count in results.counts.items():
        told = "The results of all health checks."
        status = "success" if is_well else "error"
        labels = [("name", name), ("status", status), ("type", endpoint)]
        text.add("kubernetes_healthchecks_total", Kind.COUNTER, told, count, labels)
    told = "Start time of the process since unix epoch in seconds."
    text.add("process_start_time_seconds", Kind.GAUGE, told, started_s)
    return text.rendered()


def labels_text(labels: Iterable[tuple[str, str]]) -> str:
    """As they stand behind a name."""
    pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def number_text(count: float) -> str:
    """Whole numbers without a point."""
    whole = int(count)
    return str(whole) if whole == count else repr(float(count))


_FAMILIES: Final = {
    "kube_pod_resource_request": "[STABLE] What the pods of the cluster ask for, by pod, with the"
    " resource's unit.",
    "kube_pod_resource_limit": "[STABLE] The most that the pods of the cluster may use, by pod, with"
    " the resource's unit.",
}
_UNITS: Final[Mapping[str, str]] = {
    CPU: "cores",
    MEMORY: "bytes",
    "storage": "bytes",
    EPHEMERAL_STORAGE: "bytes",
}


def resources_text(pages: Sequence[PodResources]) -> str:
    """All of it."""
    text = _Text()
    for name, sentence in _FAMILIES.items():
        if found := [line for page in pages for line in _lines(name, page)]:
            text.family(name, Kind.GAUGE.value, sentence).extend(found)
    return text.rendered()


def _lines(name: str, page: PodResources) -> list[str]:
    lines = []
    for pod in page.pods:
        template = page.templates[pod.template]
        amounts = template.limits if name.endswith("limit") else template.requests
        for resource, amount in amounts.items():
            if not amount:
                continue
            labels = (
                ("namespace", pod.namespace),
                ("pod", pod.name),
                ("node", pod.node_name),
                ("scheduler", template.scheduler_name),
                ("priority", template.priority),
                ("resource", resource),
                ("unit", _unit(resource)),
            )
            lines.append(f"{name}{labels_text(labels)} {number_text(amount)}")
    return lines


def _unit(resource: str) -> str:
    if resource.startswith("hugepages-"):
        return "bytes"
    if resource.startswith("attachable-volumes-"):
        return "integer"
    return _UNITS.get(resource, "")
