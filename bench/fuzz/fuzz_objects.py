"""Real objects to begin with: the small clusters of the conformance corpus, as watch lines.

They have every kind and field that scheduling reads, and belong together: claims have their volumes,
slices their nodes. So a damaged one meets others that refer to it.
"""

import gzip
import json
import random
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.conformance.scenario import NOT_WATCHED
from bench.conformance.shapes import object_kind
from bench.fuzz.mutation import mutated, mutated_bytes

CORPUS: Final = Path(__file__).parents[2] / "tests" / "conformance"
SCENARIOS_MAX: Final = 8
"""Of each family."""
LINE_BYTES_MAX: Final = 200_000
OBJECTS_MAX: Final = 40
"""Of each sort in one story."""
VALID_SHARE: Final = 0.3
"""Of lines that are told as they are, so that there is something for the others to meet."""

_LATER: Final = ("MODIFIED", "DELETED", "ADDED", "BOOKMARK", "ERROR", "")
Json = dict[str, Any]


class Listed(NamedTuple):
    """An object and the plural of its kind."""

    plural: str
    item: Json


@cache
def clusters() -> list[list[Listed]]:
    """Of each scenario its objects, pods that wait last."""
    found = []
    for path in sorted(CORPUS.glob("*.jsonl.gz")):
        count = 0
        with gzip.open(path, "rb") as lines:
            for line in lines:
                scenario = json.loads(line).get("scenario") if len(line) < LINE_BYTES_MAX else None
                if scenario is not None:
                    found.append(_listed(scenario))
                    count += 1
                if count == SCENARIOS_MAX:
                    break
    assert found, f"{CORPUS} holds no scenarios"
    return found


def _listed(scenario: Json) -> list[Listed]:
    listed = []
    for field, items in sorted(scenario["objects"].items(), key=lambda each: each[0] == "pods"):
        if field not in NOT_WATCHED:
            listed += [_as_stored(object_kind(field), item) for item in (items or ())[:OBJECTS_MAX]]
    return listed + [_as_stored("pods", item) for item in (scenario["pending"] or ())[:OBJECTS_MAX]]


def _as_stored(plural: str, item: Json) -> Listed:
    meta = item["metadata"]
    uid = f"{plural}-{meta.get('namespace', '')}-{meta['name']}"
    given = {"uid": uid, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return Listed(plural, {**item, "metadata": {**given, **meta}})


def told(cluster: list[Listed]) -> list[bytes]:
    """The lines that tell of a cluster, as it is. Before each stands the plural of its kind."""
    return [_line(plural, {"type": "ADDED", "object": item}) for plural, item in cluster]


def watch_lines(rng: random.Random) -> list[bytes]:
    """As `told`, of one cluster, mostly damaged; then more of what its objects go through."""
    cluster = rng.choice(clusters())
    events = [("ADDED", each) for each in cluster]
    later = rng.choices(_LATER, weights=(8, 4, 2, 1, 1, 1), k=rng.randrange(len(cluster) + 1))
    events += [(event, rng.choice(cluster)) for event in later]
    lines = []
    for version, (event, (plural, stored)) in enumerate(events, start=1000):
        meta = {**stored["metadata"], "resourceVersion": f"{version}"}
        line: Json = {"type": event, "object": {**stored, "metadata": meta}}
        if rng.random() < 0.1:
            line = mutated(rng, line)
        elif rng.random() >= VALID_SHARE:
            others = rng.choice([each.item for each in cluster if each.plural == plural])
            line["object"] = mutated(rng, line["object"], others=others)
        name, _, content = _line(plural, line).partition(b" ")
        content = mutated_bytes(rng, content) if rng.random() < 0.1 else content
        lines.append(name + b" " + content)
    return lines


def _line(plural: str, event: Any) -> bytes:
    content = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"{plural} {content}".encode()
