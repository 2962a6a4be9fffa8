"""What every test that waits has in common: one limit, and objects that a predicate can look at.

A wait ends with what is awaited. `HANG_S` is no measure of speed: only what hangs reaches it, on however
slow and busy a machine. What is looked at before it is complete is empty where it lacks something, and
never an exception: `pod["status"]["nominatedNodeName"]` of a pod without a status is false.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, Self, TypeVar

V = TypeVar("V")

HANG_S: Final = 300.0
"""The longest that took milliseconds on two idle cores was seen to take 20 s beside eight busy loops."""


class Fields(dict[str, Any]):
    """A JSON object whose absent fields are empty `Fields`. To look at; what is to be written is a
    plain `dict`, in which a new field stays where it is put."""

    def __missing__(self, key: str) -> Self:
        return type(self)()

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if default is None else super().get(key, default)


def fields_of(text: bytes) -> Fields:
    """A JSON object and all that are in it."""
    found: Fields = json.loads(text or b"{}", object_hook=Fields)
    return found


def condition_of(pod: dict[str, Any], kind: str = "PodScheduled") -> Fields:
    """A condition of a pod; empty if it has none."""
    conditions = pod.get("status", {}).get("conditions") or []
    return next((Fields(c) for c in conditions if c["type"] == kind), Fields())


class Listed(dict[str, V]):
    """What somebody holds, by name; `absent` stands for everything else."""

    def __init__(self, items: Mapping[str, V], absent: V) -> None:
        super().__init__(items)
        self._absent = absent

    def __missing__(self, key: str) -> V:
        return self._absent
