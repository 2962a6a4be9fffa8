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
from daemon.trial.manifests import pods_of
from daemon.trial.subject import Subject
from daemon.trial.what_if_command import WhatIfChange, lines_of, what_if
from shared.messages.admin import QueueAnswer, QueueRequest
from shared.messages.to_owner import AdapterMessage, PodChanged
from tests.support.subjects import openb_subject

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "asking.md"
ASKED_AT_S: Final = 12.0
"""After the pods came."""
WIDTH_MAX: Final = 160
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
        answers: dict[str, Callable[[str], WhatIfChange]] = {
            "--drain": lambda node: WhatIfChange(drained=[node]),
            "-f": lambda _: WhatIfChange(self._pods(int(arguments[-1]))),
        }
        return lines_of(what_if(self._subject, answers[arguments[0]](arguments[1])))

    def _explain(self, key: str, *_: str) -> list[str]:
        answer = self._trial.ask(QueueRequest(key), ASKED_AT_S)
        assert isinstance(answer, QueueAnswer)
        facts = [facts_of(pod, ASKED_AT_S) for pod in answer.pods]
        is_bound = any(one.key == key for one in self._trial.placed.values())
        found = explain_in(self._subject, key, "", None if is_bound else facts[0])
        return explanation_lines(found)

    def _pods(self, count: int) -> list[AdapterMessage]:
        """Of the manifest that stands in the document."""
        (manifest,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(yaml.safe_load(manifest), file)
            return pods_of(file.name, count, "default-scheduler")

    def pending(self) -> list[QueuedPod]:
        return list(self._trial.state.queue)


def written_anew() -> str:
    """The document with the answers that are given now."""
    openb = OpenB()

    def block(match: re.Match[str]) -> str:
        lines = (line[:WIDTH_MAX] for line in openb.answer(match[1]))
        return "\n".join([f"```console\n$ berth {match[1]}", *lines, "```"])

    return _BLOCK.sub(block, DOCUMENT.read_text())


if __name__ == "__main__":
    DOCUMENT.write_text(written_anew())
