"""Stories told to real code, and what must not come of them.

A *story* is a list of inputs for one life of a target; where a target remembers nothing it is one input.
Whatever comes of an input has to be the target's own kind of refusal, or nothing at all. Another
exception, a turn of more than a second of CPU and memory that one input takes are *findings*: they are
told again, made short and written so that they can be replayed.

A surface says what its stories are, who hears them and which errors are refusals; everything else is
here. Equal seeds tell equal stories.
"""

import json
import logging
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple, TypeVar

from shared.errors import OperationalError

T = TypeVar("T")
Story = list[bytes]
Take = Callable[[bytes], None]

TURN_S_MAX: Final = 1.0
"""Of CPU, for one input. The longest that is right takes some tens of milliseconds."""
ENDLESS_S: Final = 10.0
"""Of CPU, after which a turn is broken off."""
SPIKE_BYTES: Final = 256 * 1024 * 1024
"""The largest input has some 100 kB."""
SHRINKING_TRIES_MAX: Final = 400
_CLEAR_REFS: Final = Path("/proc/self/clear_refs")
"""5 written to it sets the process's peak to what it has (proc_pid_clear_refs(5))."""
_PROJECT: Final = Path(__file__).parents[2]


class Target(NamedTuple):
    """One life of what is fuzzed."""

    take: Take
    finish: Callable[[], None] = lambda: None
    """Called after the last input: looks whether all is well, and lets go of everything."""


class Surface(NamedTuple):
    """Where inputs of others come in."""

    about: str
    story: Callable[[random.Random], Story]
    start: Callable[[], Target]
    refusals: tuple[type[Exception], ...] = (OperationalError,)


class Finding(NamedTuple):
    """What must not be. Those of one kind are taken for one and the same."""

    kind: str
    detail: str
    story: Story


class Tally:
    """What a run came to."""

    def __init__(self) -> None:
        self.inputs_count = self.refused_count = 0
        self.slowest_s = 0.0
        self.findings: dict[str, Finding] = {}
        self.memory_bytes: list[int] = []
        """At a tenth of the way, when all that is kept for good is there, and at the end."""


class WrongError(Exception):
    """Raised by a target that sees something wrong without an exception."""


class _EndlessError(BaseException):
    """A turn did not come to an end. No `except Exception` on the way holds it up."""


def tell(surface: Surface, story: Story, tally: Tally) -> Finding | None:
    """One life of a target; the finding's story ends with the input that led to it."""
    target = surface.start()
    for number, data in enumerate(story, start=1):
        peak = _peak_bytes_begun_anew()
        found = _turn(surface, lambda data=data: target.take(data), tally)  # type: ignore[misc] # The loop's variable, kept.
        tally.inputs_count += 1
        higher = _peak_bytes()
        if found is None and higher > peak + SPIKE_BYTES:
            found = "memory", f"{higher - peak >> 20} MiB for one input"
        if found is not None:
            # The target may be in any state; it is left alone.
            return Finding(*found, story[:number])
    found = _turn(surface, target.finish, tally)
    return None if found is None else Finding(*found, story)


def _turn(surface: Surface, act: Callable[[], None], tally: Tally) -> tuple[str, str] | None:
    begun_s = time.thread_time()
    _contained.errors.clear()
    signal.setitimer(signal.ITIMER_PROF, ENDLESS_S)
    try:
        act()
    except surface.refusals:
        tally.refused_count += 1
    except Exception as error:  # noqa: BLE001 # It is what is looked for.
        return _place(error), f"{type(error).__name__}: {error}"[:1000]
    except _EndlessError as error:
        return f"endless in {_place(error)}", f"broken off after {ENDLESS_S} s"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    if _contained.errors:
        lived_through = _contained.errors[0]
        return f"contained {_place(lived_through)}", repr(lived_through)[:1000]
    took_s = time.thread_time() - begun_s
    tally.slowest_s = max(tally.slowest_s, took_s)
    return ("slow", f"{took_s:.1f} s of CPU") if took_s > TURN_S_MAX else None


class _Contained(logging.Handler):
    """Exceptions that our code lived through and logged, because nobody had expected them."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])


_contained: Final = _Contained()


def _place(error: BaseException) -> str:
    """The exception that began it, and the last of our functions that it came through."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, BaseExceptionGroup):
        return _place(error.exceptions[0])
    place, frame = "", error.__traceback__
    while frame is not None:
        path = Path(frame.tb_frame.f_code.co_filename)
        is_ours = path.is_relative_to(_PROJECT) and ".venv" not in path.parts
        if is_ours and path != Path(__file__):
            place = f"{path.relative_to(_PROJECT)} {frame.tb_frame.f_code.co_name}"
        frame = frame.tb_next
    return f"{type(error).__name__} in {place}"


@contextmanager
def limited() -> Iterator[None]:
    """Within, a turn that has no end is broken off, and what is logged as unexpected is noticed."""

    def break_off(signal_number: int, frame: FrameType | None) -> None:
        del signal_number, frame
        raise _EndlessError

    before = signal.signal(signal.SIGPROF, break_off)
    logging.getLogger().addHandler(_contained)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(_contained)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def run(
    name: str, surface: Surface, seed: int, is_over: Callable[[Tally, float], bool],
    note: Callable[[Finding], None] = lambda _: None,
) -> Tally:  # fmt: skip
    """Tells stories until `is_over` (asked with the seconds that went by) says so. `note` is told of
    each new kind of finding at once, before it is made short."""
    tally, number, begun_s = Tally(), 0, time.monotonic()
    with limited():
        while not is_over(tally, time.monotonic() - begun_s):
            story = surface.story(random.Random(f"{name}/{seed}/{number}"))
            number += 1
            found = tell(surface, story, tally)
            if found is None or found.kind in tally.findings:
                continue
            if found.kind == "slow" and not _is_found_again(surface, found):
                continue
            tally.findings[found.kind] = found
            note(found)
    return tally


def _is_found_again(surface: Surface, found: Finding) -> bool:
    """A busy machine may make anything slow, once."""
    again = tell(surface, found.story, Tally())
    return again is not None and again.kind == found.kind


def _peak_bytes_begun_anew() -> int:
    """What the process has now: a higher peak of before would hide what the next input takes, as it
    does with a kernel that does not offer this."""
    with suppress(OSError):
        _CLEAR_REFS.write_bytes(b"5")
    return _peak_bytes()


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Making short ---------------------------------------------------------------------------------------


def shrunk(surface: Surface, found: Finding) -> Finding:
    """A finding of the same kind with a story in which little can be left out."""
    tries_left = SHRINKING_TRIES_MAX
    best = found

    def fails(story: Sequence[bytes]) -> bool:
        nonlocal tries_left, best
        if tries_left <= 0:
            return False
        tries_left -= 1
        again = tell(surface, list(story), Tally())
        if again is None or again.kind != found.kind:
            return False
        best = again
        return True

    with limited():
        story = list(_fewer(found.story, fails))
        for index in reversed(range(len(story))):
            before, after = story[:index], story[index + 1 :]
            story[index] = _shorter(story[index], partial(_fails_between, fails, before, after))
    return best


def _fails_between(
    fails: Callable[[Sequence[bytes]], bool], before: Story, after: Story, data: bytes
) -> bool:
    return fails([*before, data, *after])


def _fewer(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Leaves out halves, quarters and so on, as long as it still fails."""
    size = len(items) // 2
    while size:
        start = 0
        while start < len(items):
            rest = [*items[:start], *items[start + size :]]
            if rest and fails(rest):
                items = rest
            else:
                start += size
        size //= 2
    return items


def _shorter(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """By the structure of a JSON object in it, or else by bytes."""
    start = data.find(b"{")
    try:
        value = json.loads(data[start:]) if start >= 0 else None
    except (ValueError, RecursionError):
        value = None
    if value is None:
        return bytes(_fewer(data, lambda rest: fails(bytes(rest))))
    head = data[:start]
    has_shrunk = True
    while has_shrunk:
        has_shrunk = False
        for smaller in _without_one(value):
            shorter = head + json.dumps(smaller).encode()
            if fails(shorter):
                value, data, has_shrunk = smaller, shorter, True
                break
    return data


def _without_one(value: object) -> Iterator[object]:
    """The value with one of its members left out, the larger ones first."""
    if isinstance(value, dict):
        for key in value:
            yield {name: one for name, one in value.items() if name != key}
        for key, inner in value.items():
            yield from ({**value, key: less} for less in _without_one(inner))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield value[:index] + value[index + 1 :]
        for index, inner in enumerate(value):
            yield from ([*value[:index], less, *value[index + 1 :]] for less in _without_one(inner))


# Replays ----------------------------------------------------------------------------------------------


def written(name: str, found: Finding) -> str:
    """A finding as a file."""
    story = [data.decode("latin-1") for data in found.story]
    record = {"surface": name, "kind": found.kind, "detail": found.detail, "story": story}
    return json.dumps(record, indent=1) + "\n"


def read_story(text: str) -> tuple[str, Story]:
    """Of which surface, and what is told."""
    record = json.loads(text)
    return record["surface"], [data.encode("latin-1") for data in record["story"]]
