"""Texts from outside as people get to see them: nothing that a terminal would obey, nothing in a refused
URL that may be a secret. For YAML see `shared.go_yaml.yaml_problem`.

Apart so that every place that prints a part of what came in does it in one way.
"""

import re
from typing import Final

_CONTROLS: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
)
"""C0 without tab and line end, DEL, C1, what changes the direction of writing, halves of characters."""
_NOT_IN_LINES: Final = re.compile(f"[{_CONTROLS}\t\n]")
_NOT_IN_TEXTS: Final = re.compile(f"[{_CONTROLS}]")


def one_line(text: str) -> str:
    """With control characters escaped, tabs and line ends included."""
    return _NOT_IN_LINES.sub(_escaped, text)


def lines(text: str) -> str:
    """With control characters escaped, but for tabs and line ends."""
    return _NOT_IN_TEXTS.sub(_escaped, text)


def url(text: str) -> str:
    """Quoted, for a message about a URL that cannot be used: without user, password and query, wherever
    the URL is broken."""
    scheme, mark, rest = text.rpartition("://")
    _, at, place = rest.rpartition("@")
    bare = re.split(r"[?#]", place, maxsplit=1)[0]
    hidden = "..." if len(bare) < len(place) else ""
    return repr(f"{scheme.rpartition('@')[2]}{mark}{'...@' if at else ''}{bare}{hidden}")


def quoted(text: str) -> str:
    """As Go's %q has it (strconv.Quote)."""
    return f'"{"".join(map(_quoted_letter, text))}"'


GO_ESCAPES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _quoted_letter(letter: str) -> str:
    if letter in GO_ESCAPES:
        return GO_ESCAPES[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xD800 <= code <= 0xDFFF:
        code = 0xFFFD
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
