"""The openb trace as rows of Python data. What becomes API objects is in `bench/demo/workload.py`."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

DATA: Final = Path(__file__).parent / "data"
NODE_FILE: Final = DATA / "openb_node_list_all_node.csv"
POD_FILE: Final = DATA / "openb_pod_list_default.csv"


class TraceNode(NamedTuple):
    """One machine."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpu_count: int
    gpu_model: str
    """Empty: it has no GPU."""


class TracePod(NamedTuple):
    """One pod."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpu_count: int
    """Whole GPUs; a pod that shared one (gpu_milli) asks for it whole."""
    gpu_models: tuple[str, ...]
    """It runs only on these; empty: on any."""
    qos: str


def read_nodes(path: Path = NODE_FILE) -> list[TraceNode]:
    """The machines, in the order of the file."""
    return [
        TraceNode(
            name=row["sn"],
            cpu_milli=int(row["cpu_milli"]),
            memory_mib=int(row["memory_mib"]),
            gpu_count=int(row["gpu"]),
            gpu_model=row["model"],
        )
        for row in _rows(path)
    ]


def read_pods(path: Path = POD_FILE) -> list[TracePod]:
    """The pods, in order of creation (which is the order of the file)."""
    rows = sorted(_rows(path), key=lambda row: int(row["creation_time"]))
    return [
        TracePod(
            name=row["name"],
            cpu_milli=int(row["cpu_milli"]),
            memory_mib=int(row["memory_mib"]),
            gpu_count=int(row["num_gpu"]),
            gpu_models=tuple(model for model in row["gpu_spec"].split("|") if model),
            qos=row["qos"],
        )
        for row in rows
    ]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)
