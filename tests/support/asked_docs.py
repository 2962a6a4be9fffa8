"""The answers in docs/asking.md, made anew: `python -m tests.support.asked_docs` writes them there."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import yaml
from msgspec.structs import replace

from daemon.core.queue.queued_pod import QueuedPod
from daemon.overview.waiting_pod import facts_of
from daemon.trial.explain import explain_in, explanation_lines
from daemon.trial.manifests import nodes_of, pods_of
from daemon.trial.subject import Subject
from daemon.trial.what_if_command import WhatIfChange, lines_of, what_if
from shared.config import parse_configuration
from shared.messages.admin import QueueAnswer, QueueRequest
from shared.messages.to_owner import AdapterMessage, PodChanged
from tests.support.subjects import openb_subject

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "asking.md"
ASKED_AT_S: Final = 12.0
"""After the pods came."""
WIDTH_MAX: Final = 160
DEFAULT_SCHEDULER: Final = "default-scheduler"
_BLOCK: Final = re.compile(r"```console\n\$ berth (.*)\n[^`]*```")


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
            return PodChanged(replace(message.pod, node_name=found.node_name, phase="Running"))

        self._subject = Subject(came.config, came.gates, list(map(bound, came.messages)))

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
            config = parse_configuration(_manifest("KubeSchedulerConfiguration"), "--config")
        return lines_of(what_if(self._subject, WhatIfChange(messages, drained, config)))

    def _explain(self, key: str, *_: str) -> list[str]:
        answer = self._trial.ask(QueueRequest(key), ASKED_AT_S)
        assert isinstance(answer, QueueAnswer)
        facts = [facts_of(pod, ASKED_AT_S) for pod in answer.pods]
        is_bound = any(one.key == key for one in self._trial.placed.values())
        found = explain_in(self._subject, key, "", None if is_bound else facts[0])
        return explanation_lines(found)

    def _in_file(
        self, kind: str, read: Callable[[str], list[AdapterMessage]]
    ) -> list[AdapterMessage]:
        """What a command reads of the manifest that stands in the document."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(_manifest(kind))
            file.flush()
            return read(file.name)

    def pending(self) -> list[QueuedPod]:
        return list(self._trial.state.queue)


def _manifest(kind: str) -> str:
    """The one of a kind that stands in the document."""
    blocks: list[str] = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (found,) = (block for block in blocks if yaml.safe_load(block)["kind"] == kind)
    return found


def written_anew() -> str:
    """The document with the answers that are given now."""
    openb = OpenB()

    def block(match: re.Match[str]) -> str:
        lines = (line[:WIDTH_MAX] for line in openb.answer(match[1]))
        return "\n".join([f"```console\n$ berth {match[1]}", *lines, "```"])

    return _BLOCK.sub(block, DOCUMENT.read_text())


if __name__ == "__main__":
    DOCUMENT.write_text(written_anew())
