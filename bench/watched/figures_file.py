"""Where the figures of a run go, for programs."""

from collections.abc import Mapping
from pathlib import Path

import msgspec


def place_problems(places: Mapping[str, Path | None]) -> list[str]:
    """Option -> file that could not be written, found before minutes are spent on it."""
    return [
        f"{option} {path}: there is no folder {path.absolute().parent}"
        for option, path in places.items()
        if path is not None and not path.absolute().parent.is_dir()
    ]


def write_figures(figures: msgspec.Struct, path: Path) -> None:
    """As indented JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n")
