"""The syntax of RE2's regular expressions: a pattern as a tree.

Syntax: github.com/google/re2/wiki/Syntax, without Unicode classes (\\p), which are an error.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from shared.dra.cel_values import CelError

REPEAT_MAX: Final = 1000
DEPTH_MAX: Final = 100

Accepts = Callable[[str], bool]


class Char(NamedTuple):
    """One character of a set."""

    accepts: Accepts


class Look(NamedTuple):
    """A place between characters."""

    kind: str


class Seq(NamedTuple):
    """One after the other."""

    parts: "tuple[Tree, ...]"


class Alt(NamedTuple):
    """One of them, the first that leads to a match."""

    options: "tuple[Tree, ...]"


class Repeat(NamedTuple):
    """So many times at least and at most; `high` is None where there is no limit."""

    part: "Tree"
    low: int
    high: int | None
    is_lazy: bool


Tree = Char | Look | Seq | Alt | Repeat


# Characters -----------------------------------------------------------------------------------------


def is_word(char: str) -> bool:
    """As `\\w`."""
    return char.isascii() and (char.isalnum() or char == "_")


def _is_digit(char: str) -> bool:
    return char.isascii() and char.isdigit()


def _is_space(char: str) -> bool:
    return char in "\t\n\f\r "


_CLASSES: Final[dict[str, Accepts]] = {"d": _is_digit, "w": is_word, "s": _is_space}
_POSIX: Final[dict[str, Accepts]] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "digit": _is_digit,
    "lower": lambda c: c.isascii() and c.islower(),
    "upper": lambda c: c.isascii() and c.isupper(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "word": is_word,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
    "punct": lambda c: c.isascii() and c.isprintable() and not c.isalnum() and c != " ",
}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


def _not(accepts: Accepts) -> Accepts:
    return lambda char: not accepts(char)


def _any_of(parts: list[Accepts]) -> Accepts:
    return lambda char: any(part(char) for part in parts)


def _between(low: str, high: str) -> Accepts:
    return lambda char: low <= char <= high


def _in_either_case(accepts: Accepts) -> Accepts:
    return lambda char: accepts(char) or accepts(char.lower()) or accepts(char.upper())


# Parsing --------------------------------------------------------------------------------------------


def parse_regex(pattern: str) -> Tree:
    """The pattern as a tree; CelError for one that RE2 (or this subset of it) does not take."""
    return _Parser(pattern).whole()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._flags = frozenset[str]()

    def whole(self) -> Tree:
        tree = self._alternatives()
        if self._at < len(self._text):
            raise self._error("unexpected )")
        return tree

    def _error(self, what: str) -> CelError:
        return CelError(f"error parsing regexp: {what}: `{self._text}`")

    def _take(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._error("trailing backslash or unclosed bracket at end of expression")
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self) -> Tree:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._error("expression nests too deeply")
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        self._depth -= 1
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def _sequence(self) -> Tree:
        parts: list[Tree] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            part = self._atom()
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def _repeated(self, part: Tree) -> Tree:
        while True:
            bounds = self._bounds()
            if bounds is None:
                return part
            low, high = bounds
            if low > REPEAT_MAX or (high is not None and (high > REPEAT_MAX or high < low)):
                raise self._error("invalid repeat count")
            part = Repeat(part, low, high, self._take("?"))

    def _bounds(self) -> tuple[int, int | None] | None:
        for text, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(text):
                return bounds
        if not self._take("{"):
            return None
        end = self._text.find("}", self._at)
        low, comma, high = self._text[self._at : end].partition(",") if end > 0 else ("", "", "")
        if not low.isdigit() or not (high.isdigit() or high == ""):
            self._at -= 1  # A brace that is no repetition stands for itself.
            return None
        self._at = end + 1
        if not comma:
            return int(low), int(low)
        return int(low), int(high) if high else None

    def _atom(self) -> Tree | None:
        char = self._next()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._char(self._bracket())
            case ".":
                if "s" in self._flags:
                    return Char(lambda c: True)  # noqa: ARG005  # Takes any character.
                return Char(lambda c: c != "\n")
            case "^":
                return Look("line begin" if "m" in self._flags else "begin")
            case "$":
                return Look("line end" if "m" in self._flags else "end")
            case "*" | "+" | "?":
                raise self._error("missing argument to repetition operator")
            case "\\":
                return self._escape()
            case _:
                return self._char(_between(char, char))

    def _char(self, accepts: Accepts) -> Char:
        return Char(_in_either_case(accepts) if "i" in self._flags else accepts)

    def _group(self) -> Tree | None:
        outer = self._flags
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                end = self._text.find(">", self._at)
                if end < 0:
                    raise self._error("invalid named capture")
                self._at = end + 1
            elif not self._set_flags():
                return None  # (?i) holds until the end of the group around it.
        tree = self._alternatives()
        if not self._take(")"):
            raise self._error("missing closing )")
        self._flags = outer
        return tree

    def _set_flags(self) -> bool:
        """Reads `i`, `-s` and so on up to `:` (True) or `)` (False)."""
        is_off = False
        while True:
            char = self._next()
            if char in ":)":
                return char == ":"
            if char == "-":
                is_off = True
            elif char in "imsU":
                self._flags = self._flags - {char} if is_off else self._flags | {char}
            else:
                raise self._error("invalid or unsupported Perl syntax")

    def _escape(self) -> Tree:
        char = self._next()
        looks = {"A": "begin", "z": "end", "b": "word border", "B": "no word border"}
        if char in looks:
            return Look(looks[char])
        return self._char(self._escaped(char))

    def _escaped(self, char: str) -> Accepts:
        if char.lower() in _CLASSES:
            accepts = _CLASSES[char.lower()]
            return _not(accepts) if char.isupper() else accepts
        literal = self._literal(char)
        return _between(literal, literal)

    def _literal(self, char: str) -> str:
        """The character that an escape stands for."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x":
            if self._take("{"):
                end = self._text.find("}", self._at)
                digits, self._at = self._text[self._at : end], end + 1
            else:
                digits, self._at = self._text[self._at : self._at + 2], self._at + 2
            try:
                return chr(int(digits, 16))
            except (ValueError, OverflowError) as error:
                raise self._error("invalid escape sequence") from error
        if char.isascii() and char.isalnum():
            raise self._error(f"invalid escape sequence: \\{char}")
        return char

    def _bracket(self) -> Accepts:
        is_negated = self._take("^")
        parts: list[Accepts] = []
        while not (self._take("]") and parts):
            if parts == [] and self._text[self._at - 1] == "]":
                low = "]"  # The first one stands for itself.
            elif self._take("[:"):
                parts.append(self._posix())
                continue
            else:
                low = self._next()
                if low == "\\":
                    char = self._next()
                    if char.lower() in _CLASSES:
                        parts.append(self._escaped(char))
                        continue
                    low = self._literal(char)
            parts.append(_between(low, self._range_end(low)))
        accepts = _any_of(parts)
        if "i" in self._flags:
            accepts = _in_either_case(accepts)
        return _not(accepts) if is_negated else accepts

    def _range_end(self, low: str) -> str:
        rest = self._text[self._at : self._at + 2]
        if len(rest) < 2 or rest[0] != "-" or rest[1] == "]":
            return low
        self._at += 1
        high = self._next()
        if high == "\\":
            high = self._literal(self._next())
        if high < low:
            raise self._error("invalid character class range")
        return high

    def _posix(self) -> Accepts:
        end = self._text.find(":]", self._at)
        name = self._text[self._at : end] if end >= 0 else ""
        accepts = _POSIX.get(name.removeprefix("^"))
        if accepts is None:
            raise self._error("invalid character class range")
        self._at = end + 2
        return _not(accepts) if name.startswith("^") else accepts
