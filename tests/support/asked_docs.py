"""The answers of commands in the documents, made anew: `python -m tests.support.asked_docs` writes them
there. A block that begins with `$ berth` is an answer. What differs from one run to the next (CPU,
memory) is not compared, and stays as it was measured."""

import asyncio
import io
import re
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final, Protocol

import msgspec
import yaml
from msgspec.structs import replace

from daemon import cli
from daemon.commands.show_status import status_lines
from daemon.commands.show_top import top_lines
from daemon.core.queue.queued_pod import QueuedPod
from daemon.overview.overview import Overview
from daemon.trial import replay
from daemon.trial.explain import explain_in, explanation_lines
from daemon.trial.manifests import nodes_of, pods_of
from daemon.trial.trial import Subject
from daemon.trial.what_if_command import lines_of, what_if
from shared.config import parse_configuration
from shared.messages.to_owner import AdapterMessage, PodChanged
from tests.support.live_pictures import record_openb
from tests.support.subjects import openb_subject, queue_facts_of
from tests.support.watched_cluster import WatchedSource, openb_in_zones

DOCS: Final = Path(__file__).parents[2] / "docs"
ASKING: Final = DOCS / "asking.md"
MIGRATE: Final = DOCS / "migrate.md"
ASKED_AT_S: Final = 12.0
"""After the pods came."""
WIDTH_MAX: Final = 160
LINES_MAX: Final = 26
TERMINAL_WIDTH: Final = 100
DAY_PODS: Final = 400
"""Of the demo's, that come on the day that is replayed."""
DEFAULT_SCHEDULER: Final = "default-scheduler"
_BLOCK: Final = re.compile(r"```console\n\$ berth (.*)\n[^`]*```")
_MEASURED: Final = re.compile(
    r"(?:PROCESS|supervisor|owner|scorer-\d|binder-\d|adapter|endpoints"
    r"|CPU ms to decide a pod|API server|rates) .*"
)


class Scene(Protocol):
    """What a document's commands are asked of."""

    def answer(self, command: str) -> list[str]: ...


class WatchedOpenB:
    """The demo's cluster, in zones, as `berth top` sees it."""

    def __init__(self, scratch: Path) -> None:
        self._source = WatchedSource(openb_in_zones(), scratch)

    def answer(self, command: str) -> list[str]:
        if command == "status":
            return status_lines(self._source.status())
        assert command == "top --once", command
        told = asyncio.run(self._source.overview())
        return top_lines(msgspec.json.decode(told or b"", type=Overview), TERMINAL_WIDTH)


class OfKubeScheduler:
    """The files of a kube-scheduler, as they stand in the document."""

    def answer(self, command: str) -> list[str]:
        *given, path = command.split()
        kind = "Pod" if "--from-manifest" in given else "KubeSchedulerConfiguration"
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(_manifest(MIGRATE, kind))
            file.flush()
            printed = io.StringIO()
            with redirect_stdout(printed), redirect_stderr(printed):
                cli.main([*given, file.name])
        return printed.getvalue().replace(file.name, path).splitlines()


class OpenBDay:
    """The first of the demo's pods as a recorded day, put where berth puts them that packs."""

    def __init__(self, scratch: Path) -> None:
        day, packing = scratch / "day", scratch / "OTHER.yaml"
        packing.write_text(_manifest(DOCS / "shadow.md", "KubeSchedulerConfiguration"))
        other = parse_configuration(packing.read_text(), "OTHER.yaml")
        record_openb(day, pod_count=DAY_PODS, decided_by=other)
        self._paths = {"/var/lib/berth/day": str(day), "OTHER.yaml": str(packing)}
        """What paths in the document stand for."""

    def answer(self, command: str) -> list[str]:
        name, *given = command.split()
        assert name == "replay", command
        printed = io.StringIO()
        with redirect_stdout(printed):
            assert replay.main([self._paths.get(each, each) for each in given]) == 0
        return printed.getvalue().splitlines()


class OpenB:
    """The demo's cluster when all its pods were tried: those that have a node are bound."""

    def __init__(self) -> None:
        came = openb_subject()
        self._trial = came.trial(decides=True)
        placed = self._trial.placed

        def bound(message: AdapterMessage) -> AdapterMessage:
            found = placed.get(message.pod.uid) if isinstance(message, PodChanged) else None
            if found is None or not isinstance(message, PodChanged):
                return message
            return PodChanged(replace(message.pod, node_name=found.node_name))

        self._subject = Subject(came.config, came.options, list(map(bound, came.messages)))

    def answer(self, command: str) -> list[str]:
        """What a command of the document prints."""
        name, *arguments = command.split()
        if name == "explain":
            return self._explain(*arguments)
        given = dict(zip(arguments[::2], arguments[1::2], strict=True))
        count = int(given["--count"]) if "--count" in given else None
        messages: list[AdapterMessage] = []
        if "--add-node" in given:
            messages += self._in_file("Node", lambda path: nodes_of(path, count))
        if "-f" in given:
            messages += self._in_file("Pod", lambda path: pods_of(path, count, DEFAULT_SCHEDULER))
        drained = [given["--drain"]] if "--drain" in given else []
        config = None
        if "--config" in given:
            config = parse_configuration(
                _manifest(ASKING, "KubeSchedulerConfiguration"), "--config"
            )
        return lines_of(what_if(self._subject, messages, drained, config))

    def _explain(self, key: str, *_: str) -> list[str]:
        is_bound = any(one.key == key for one in self._trial.placed.values())
        facts = None if is_bound else queue_facts_of(self._trial, key, ASKED_AT_S)
        found = explain_in(self._subject, key, "", facts)
        return explanation_lines(found)

    def _in_file(
        self, kind: str, read: Callable[[str], list[AdapterMessage]]
    ) -> list[AdapterMessage]:
        """What a command reads of the manifest that stands in the document."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(_manifest(ASKING, kind))
            file.flush()
            return read(file.name)

    def pending(self) -> list[QueuedPod]:
        return list(self._trial.state.queue)


SCENES: Final[dict[str, Callable[[Path], Scene]]] = {
    ASKING.name: lambda _: OpenB(),
    "looking.md": WatchedOpenB,
    MIGRATE.name: lambda _: OfKubeScheduler(),
    "running.md": WatchedOpenB,
    "shadow.md": OpenBDay,
}
"""Each document with answers, and of whom its commands are asked, made with a folder of its own."""


def as_compared(text: str) -> list[str]:
    """Lines whose columns may be wider or narrower, as what was measured has more or fewer digits."""
    return [re.sub(" +", " ", line) for line in text.splitlines()]


def _manifest(document: Path, kind: str) -> str:
    """The one of a kind that stands in the document."""
    blocks: list[str] = re.findall(r"```yaml\n(.*?)```", document.read_text(), re.DOTALL)
    (found,) = (block for block in blocks if yaml.safe_load(block)["kind"] == kind)
    return found


def written_anew(name: str) -> str:
    """A document with the answers that are given now."""

    def block(match: re.Match[str]) -> str:
        lines = [line[:WIDTH_MAX] for line in scene.answer(match[1])]
        told = _with_measured(lines, match[0].splitlines())
        told = [*told[:LINES_MAX], "..."] if len(told) > LINES_MAX else told
        return "\n".join([f"```console\n$ berth {match[1]}", *told, "```"])

    with tempfile.TemporaryDirectory() as scratch:
        scene = SCENES[name](Path(scratch))
        return _BLOCK.sub(block, (DOCS / name).read_text())


def _with_measured(lines: list[str], before: list[str]) -> list[str]:
    """With the measured lines of the answer that stood there, if it had any; each by its first word."""
    measured = {line.split()[0]: line for line in before if _MEASURED.fullmatch(line)}
    if not measured:
        return lines
    known = (measured.get(line.split()[0]) if _MEASURED.fullmatch(line) else line for line in lines)
    return [line for line in known if line is not None]


if __name__ == "__main__":
    for each in SCENES:
        (DOCS / each).write_text(written_anew(each))
