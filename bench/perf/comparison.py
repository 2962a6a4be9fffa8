"""Two results side by side, as ratios. Pure but for reading the files."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.perf.result import FORMAT, Result
from daemon.commands.text_table import table as columns
from shared.errors import ConfigurationError


def read_result(path: Path) -> Result:
    """A result file; ConfigurationError if it is none."""
    try:
        result = msgspec.json.decode(path.read_bytes(), type=Result)
    except OSError as error:
        raise ConfigurationError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except msgspec.DecodeError as error:
        raise ConfigurationError(
            str(path), [f"is no result of berth bench run: {error}"]
        ) from error
    if result.format != FORMAT:
        problem = f"has format {result.format}, this berth writes {FORMAT}; run it again"
        raise ConfigurationError(str(path), [problem])
    return result


def comparison(a: Result, b: Result) -> str:
    """A table: each figure of A and of B, and B by A."""
    lines = [f"A: {_about(a)}", f"B: {_about(b)}"]
    lines.extend(f"differs: {one}" for one in _differences(a, b))
    rows = [
        (name, f"{of_a:,.3f}", f"{of_b:,.3f}", f"{of_b / of_a:.3f}" if of_a else "-")
        for name, of_a, of_b in _pairs(a, b)
    ]
    return "\n".join([*lines, "", *columns(("MEDIAN OF", "A", "B", "B/A"), rows)])


def _about(result: Result) -> str:
    return (
        f"{result.workload}, {result.mode}, {result.median.run_count} runs, commit {result.commit},"
        f" {result.started}"
    )


def _differences(a: Result, b: Result) -> Iterator[str]:
    """What makes the comparison one of different things."""
    for name in ("workload", "mode", "parameters", "options", "machine"):
        of_a, of_b = getattr(a, name), getattr(b, name)
        if of_a != of_b:
            yield f"{name}: {of_a} and {of_b}"


def _pairs(a: Result, b: Result) -> Iterator[tuple[str, float, float]]:
    for field, unit in (
        ("throughput_pods_per_s", "pods/s"),
        ("end_to_end_latency_ms", "latency ms"),
        ("cpu_s_per_1000_pods", "CPU s per 1,000 pods"),
        ("rss_peak_mib", "peak MiB"),
    ):
        of_a: dict[str, float] = getattr(a.median, field)
        of_b: dict[str, float] = getattr(b.median, field)
        for name, figure in of_a.items():
            if name in of_b and not name.startswith("sample_"):
                yield f"{unit} {name}", figure, of_b[name]
