"""Where in a configuration file something stands that is wrong."""

import re
from typing import Final

import yaml

_PART: Final = re.compile(r"[^.\[\]]+")


def place_of(root: yaml.Node | None, path: str) -> str:
    """The path with its line, as far as it leads: `a.b[NAME].c`, where `[NAME]` is the entry of a list
    with that name, and `[0]` the first."""
    node = root
    for part in _PART.findall(path):
        following = _under(node, part)
        if following is None:
            break
        node = following
    return path if node is None else f"{path} (line {node.start_mark.line + 1})"


def _under(node: yaml.Node | None, part: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode):
        if part.isdecimal():
            return node.value[int(part)] if int(part) < len(node.value) else None
        named = (each for each in node.value if getattr(_under(each, "name"), "value", "") == part)
        return next(named, None)
    return None
