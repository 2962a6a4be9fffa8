"""A recording without names: so that a day can be shown to others.

Whatever is text is replaced by a hash of it, but for what scheduling reads as itself: kinds, phases,
operators, effects, amounts, times, numbers, and names that are Kubernetes' own. Equal texts have equal
hashes within one run and others in the next, so that they cannot be looked up. What no decision reads
(other annotations, environments, commands, managed fields) is left out.
"""

import gzip
import hashlib
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from daemon.adapter.recording import FORMAT, SUFFIX, VERSION, RecordedInput, read_recording
from shared.errors import UNDECODABLE, ConfigurationError
from shared.kube.csi_translation import DRIVERS_OF_PLUGINS
from shared.kube.decode import INITIAL_EVENTS_END
from shared.kube.foreign_groups import FOREIGN_GROUPS
from shared.kube.pod_group_rules import ELASTIC, TOPOLOGY_KEYS
from shared.kube.well_known import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    EXTENDED_RESOURCE_CLAIM,
    SELECTED_NODE,
)
from shared.plugins.volumes.csi_node_columns import MIGRATED_PLUGINS
from shared.plugins.volumes.volume_rules import BETA_STORAGE_CLASS

_LEFT_OUT: Final = frozenset(
    {"managedFields", "env", "envFrom", "command", "args", "lifecycle",
     "livenessProbe", "readinessProbe", "startupProbe", "message", "generateName", "selfLink",
     "nodeInfo", "addresses", "daemonEndpoints"}
)  # fmt: skip
_KEPT: Final = frozenset(
    {"kind", "apiVersion", "type", "phase", "operator", "effect", "status", "reason", "protocol",
     "restartPolicy", "preemptionPolicy", "whenUnsatisfiable", "nodeAffinityPolicy", "accessModes",
     "nodeTaintsPolicy", "volumeBindingMode", "volumeMode", "resourceVersion", "schedulerName",
     "policy", "allocationMode", "continue", "disruptionMode", "declaredFeatures",
     "extendedResourceName", "bindingConditions", "bindingFailureConditions"}
)  # fmt: skip
_NAMES_OF_GROUPS: Final = {each.named_by for each in FOREIGN_GROUPS.values()}
_ANNOTATIONS: Final = _NAMES_OF_GROUPS | {
    BETA_STORAGE_CLASS, BIND_COMPLETED, BOUND_BY_CONTROLLER, ELASTIC, EXTENDED_RESOURCE_CLAIM,
    INITIAL_EVENTS_END, MIGRATED_PLUGINS, SELECTED_NODE, TOPOLOGY_KEYS,
}  # fmt: skip
"""That somebody reads; some hold several names, with commas between them."""
_NAMED_BY_KUBERNETES: Final = re.compile(
    r"(?:[\w.-]+\.)?(?:kubernetes|k8s)\.io(?:/|$)|^(?:cpu|memory|pods|podgroups)$"
)
_ITSELF: Final = re.compile(
    r"-?\d+(?:\.\d+)?(?:[numkKMGTPE]i?|[eE][+-]?\d+)?|\d{4}-\d\d-\d\dT[\d:.]+Z|true|false|default"
    r"|latest|metadata\.name|0\.0\.0\.0|kube-[\w-]+|/|:|__|"
)
"""Amounts, numbers, times, and a few names that say nothing of anybody."""
_SEPARATOR: Final = re.compile("(/|:|__)")
"""In texts of which somebody reads parts: an image and its tag, a device's domain and name, zones."""
_MAPS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "selector", "parameters"})
_FIELDS_OF_SELECTORS: Final = frozenset({"matchLabels", "matchExpressions", "nodeSelectorTerms"})


class Anonymiser:
    """One run's hashes."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(16)

    def text(self, text: str) -> str:
        is_known = text in _NAMES_OF_GROUPS | DRIVERS_OF_PLUGINS
        if is_known or _NAMED_BY_KUBERNETES.match(text) or _ITSELF.fullmatch(text):
            return text
        return "".join(map(self._part, _SEPARATOR.split(text)))

    def _part(self, text: str) -> str:
        if _ITSELF.fullmatch(text):
            return text
        return "x" + hashlib.sha256(self._salt + text.encode()).hexdigest()[:12]

    def value(self, value: Any, key: str = "") -> Any:
        """Anything that JSON holds; `key`: under which it stands."""
        if key == "annotations":
            kept = {name: text for name, text in (value or {}).items() if name in _ANNOTATIONS}
            parts = {name: map(str.strip, text.split(",")) for name, text in kept.items()}
            return {name: ",".join(map(self.text, each)) for name, each in parts.items()}
        if isinstance(value, dict):
            # Whether the names in it are somebody's choice, as those of labels are. A selector may be
            # such a map (of pods, of services), or have fields.
            is_map = key in _MAPS and not _FIELDS_OF_SELECTORS & value.keys()
            named: Callable[[str], str] = self.text if is_map else str
            return {named(k): self.value(v, k) for k, v in value.items() if k not in _LEFT_OUT}
        if isinstance(value, list):
            return [self.value(each, key) for each in value]
        return self.text(value) if isinstance(value, str) and key not in _KEPT else value

    def entry(self, entry: RecordedInput) -> RecordedInput | None:
        """None: cannot be read, and so not be made anonymous."""
        if entry.input not in ("page", "line"):
            return entry
        try:
            parsed = orjson.loads(entry.content())
        except UNDECODABLE:
            return None
        return RecordedInput(
            entry.at_s, entry.kind, entry.input, orjson.dumps(self.value(parsed)).decode()
        )


def write_anonymised(recording: Path, out: Path) -> int:
    """Writes a folder that `berth replay` reads; says how many inputs it has."""
    anonymiser, count = Anonymiser(), 0
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=False)
        with gzip.open(out / f"anonymised-000001{SUFFIX}", "wb") as file:
            file.write(orjson.dumps({"format": FORMAT, "version": VERSION}) + b"\n")
            for entry in read_recording(recording):
                written = anonymiser.entry(entry)
                if written is not None:
                    file.write(msgspec.json.encode(written) + b"\n")
                    count += 1
    except OSError as error:
        raise ConfigurationError(f"--anonymise {out}", [f"cannot be written: {error}"]) from error
    return count
