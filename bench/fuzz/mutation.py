"""Valid inputs, damaged: in their structure, so that they still decode and mean nothing, or in their
bytes, so that they may not decode at all.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

INTS: Final = (
    0, 1, -1, 2, 3, 63, 64, 100, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1,
    2**62, 2**63 - 1, -(2**63), -(2**63) + 1,
)  # fmt: skip
HUGE_INTS: Final = (2**63, -(2**63) - 1, 2**64 - 1, 2**64, 10**30)
FLOATS: Final = (0.0, -0.0, 0.5, 1e-320, 1e19, 1e308, -1e308)
QUANTITIES: Final = (
    "0", "-1", "1m", "1n", "0.1n", "1e3", "1E", "1e400", "-1e-400", "9223372036854775807",
    "9223372036854775808", "99999999E", "8Ei", "16Ei", "-8Ei", "NaN", "Inf", "0x10", "1_0", "1 Gi", "+",
    ".", "1.", ".5", "1..2", "1ki", "1Kie3", "1e+", "\uff11", "\u0661", "1\n", "1" * 500,
    "0." + "0" * 500 + "1", "1e" + "9" * 4400, "9" * 5000, "00001",
)  # fmt: skip
TEXTS: Final = (
    "", "a", "A" * 63, "A" * 300, "x" * 5000, "/", "a/b", "a/b/c", "..", "\x00", "\x1b[2J", "\n", "\r\n",
    "\u202e", "é" * 100, "😀", "%s%n", "{}", "{0}", "null", "true", "-", "_", "=", "a=b", "9" * 5000,
    "2026-01-01T00:00:00Z", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59.999999999Z",
    "0001-01-01T00:00:00+23:59", "2026-13-45T99:99:99Z", "99999-01-01T00:00:00Z", "In", "NotIn",
    "Exists",
    "DoesNotExist", "Gt", "Lt", "Equal", "NoSchedule", "NoExecute", "DoNotSchedule", "ScheduleAnyway",
    "All", "ExactCount", "Always", "Never", "Honor", "Ignore", "metadata.name", "cpu", "memory", "pods",
    "ephemeral-storage", "hugepages-2Mi", "hugepages-", "requests.x/y", "attachable-volumes-x",
    "kubernetes.io/hostname", "topology.kubernetes.io/zone", "deviceclass.resource.kubernetes.io/x",
    "Immediate", "WaitForFirstConsumer", "Bound", "Succeeded", "Failed", "default-scheduler", "default",
)  # fmt: skip
PIECES: Final = (
    b"null", b"NaN", b"1e999", b"-", b"\\ud800", b"[" * 40, b"{" * 40, b"\xff\xfe", b"\x00", b"9" * 5000,
    b'"', b"\r\n", b"\r\n\r\n", b",", b":", b"\xc0\x80", b"\n", b" ", b"&a", b"*a", b"!!int ", b"#",
)  # fmt: skip
REPEATED: Final = (2, 3, 10, 100)


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """One to four pieces changed, cut, doubled, put in or moved."""
    for _ in range(rng.randrange(1, 5)):
        at, other = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        other = min(other, at + 64) if rng.random() < 0.8 else other
        match rng.randrange(6):
            case 0 if at < len(data):
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[other:]
            case 2:
                data = data[:at] + rng.choice(PIECES) + data[at:]
            case 3:
                data = data[:other] + data[at:other] * rng.choice((1, 1, 5)) + data[other:]
            case 4 if rng.random() < 0.3:
                data = data[:at]
            case _:
                data = data[:at] + rng.randbytes(rng.randrange(1, 5)) + data[other:]
    return data


def mutated(rng: random.Random, value: Any, *, others: Any = None) -> Any:
    """A copy of a value as JSON has them, with one to five members replaced. `others`: of the same
    shape; some of its members are put in where they mean something else."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        places = list(_places(value))
        if not places:
            return _hostile(rng, value)
        value = _replaced(value, rng.choice(places), lambda old: _hostile(rng, old))
    if others is not None and rng.random() < 0.2:
        value = _spliced(rng, value, others)
    return value


def _spliced(rng: random.Random, value: Any, others: Any) -> Any:
    """With a part of another where a part of the same name stands."""
    theirs = rng.choice(list(_places(others)) or [()])
    same = [place for place in _places(value) if theirs and place[-1] == theirs[-1]]
    if not same:
        return value
    part = others
    for key in theirs:
        part = part[key]
    return _replaced(value, rng.choice(same), lambda _: part)


Place = tuple[Any, ...]


def _places(value: Any, before: Place = ()) -> Iterator[Place]:
    """The way to each member of a value, at any depth."""
    if isinstance(value, dict):
        members: Any = value.items()
    elif isinstance(value, list):
        members = enumerate(value[:12])
    else:
        return
    for key, one in members:
        yield (*before, key)
        yield from _places(one, (*before, key))


def _replaced(value: Any, place: Place, make: Callable[[Any], Any]) -> Any:
    if not place:
        return make(value)
    first, rest = place[0], place[1:]
    copied = value.copy()
    copied[first] = _replaced(value[first], rest, make)
    return copied


def _hostile(rng: random.Random, old: Any) -> Any:
    """Something in an old value's place, mostly of its type: what does not decode goes no further."""
    chance = rng.random()
    if chance < 0.04:
        return rng.choice((None, True, 1, "1", 2.5, [], {}, [None], {"": None}))
    match old:
        case bool():
            return not old
        case int():
            return rng.choice((*INTS, old + 1, old - 1)) if chance < 0.95 else rng.choice(HUGE_INTS)
        case float():
            return rng.choice(FLOATS)
        case str():
            return _text(rng, old)
        case bytes():
            return mutated_bytes(rng, old)
        case list():
            return _list(rng, old)
        case dict():
            return _mapping(rng, old)
        case _:
            return rng.choice((*INTS[:4], "", "a", [], {}))


def _text(rng: random.Random, old: str) -> str:
    match rng.randrange(8):
        case 0 | 1 | 2:
            return rng.choice(TEXTS)
        case 3 | 4:
            return rng.choice(QUANTITIES)
        case 5:
            return old * rng.choice(REPEATED)
        case 6:
            return old[: rng.randrange(len(old) + 1)]
        case _:
            return old + rng.choice(TEXTS)


def _list(rng: random.Random, old: list[Any]) -> list[Any]:
    match rng.randrange(6):
        case 0:
            return []
        case 1:
            return old * rng.choice(REPEATED)
        case 2:
            return rng.sample(old, len(old))
        case 3 if old:
            return [*old, _hostile(rng, rng.choice(old))]
        case 4 if old and isinstance(old[0], str):
            return [rng.choice(TEXTS) for _ in range(rng.randrange(80))]
        case 5 if old and isinstance(old[0], int):
            return [rng.choice(INTS) for _ in range(rng.randrange(80))]
        case _:
            return old[: rng.randrange(len(old) + 1)]


def _mapping(rng: random.Random, old: dict[Any, Any]) -> dict[Any, Any]:
    keys = list(old)
    match rng.randrange(5):
        case 0:
            return {}
        case 1 if keys:
            left_out = rng.choice(keys)
            return {key: one for key, one in old.items() if key != left_out}
        case 2:
            value = old[rng.choice(keys)] if keys else "1"
            count = rng.choice((1, 10, 70, 200))
            return {**old, **{f"{rng.choice(TEXTS)[:40]}k{i}": value for i in range(count)}}
        case 3 if keys:
            value = old[rng.choice(keys)]
            return {**old, rng.choice(keys): value}
        case _:
            name = rng.choice(TEXTS)
            return {**old, name: rng.choice(TEXTS)}
