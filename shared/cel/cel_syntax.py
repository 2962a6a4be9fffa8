"""CEL source text to a syntax tree.

A recursive-descent parser of the language that Kubernetes compiles device selectors with: the core
grammar, optional syntax (`a.?b`, `a[?b]`, `[?a]`) and the macros, which are expanded when the tree is
compiled. Depth is bounded, so hostile input costs an error and not the stack.

Grammar: google/cel-spec doc/langdef.md; limits as cel-go's parser has them in Kubernetes v1.36.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from shared.cel.cel_values import INT_MAX, INT_MIN, UINT_MAX, CelCompileError, Uint
from shared.limits import CEL_CHAIN_MAX, CEL_DEPTH_MAX, CEL_DIGITS_MAX


class Literal(NamedTuple):
    value: Any


class Ident(NamedTuple):
    name: str


class Select(NamedTuple):
    operand: "Node"
    key: "Node"
    is_optional: bool
    field: str = ""
    """The key, where it is written after a dot."""


class Call(NamedTuple):
    function: str
    target: "Node | None"
    args: "tuple[Node, ...]"


class ListNode(NamedTuple):
    elements: "tuple[tuple[Node, bool], ...]"
    """Each with whether it is optional (`?x`)."""


class MapNode(NamedTuple):
    entries: "tuple[tuple[Node, Node, bool], ...]"


Node = Literal | Ident | Select | Call | ListNode | MapNode

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n\f]+ | //[^\n]*)
  | (?P<string>(?:[rR][bB]?|[bB][rR])
        (?:\"\"\".*?\"\"\" | '''.*?''' | "[^"\r\n]*" | '[^'\r\n]*')
      | [bB]?
        (?:\"\"\"(?:[^\\]|\\.)*?\"\"\" | '''(?:[^\\]|\\.)*?'''
         | "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*'))
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ | \.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<int>0x[0-9a-fA-F]+[uU]? | [0-9]+[uU]?)
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<op>&&|\|\||<=|>=|==|!=|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_RESERVED: Final = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
    "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_BINARY: Final[Sequence[Mapping[str, str]]] = (
    {"||": "_||_"},
    {"&&": "_&&_"},
    {"<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "==": "_==_", "!=": "_!=_", "in": "@in"},
    {"+": "_+_", "-": "_-_"},
    {"*": "_*_", "/": "_/_", "%": "_%_"},
)
"""Operators from the loosest on, by their text, which no token of another kind has."""
_FLAT: Final = 2
"""Chains of the operators before are compiled as one; those of others nest."""
_CONSTANTS: Final = {"true": True, "false": False, "null": None}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(source: str) -> Node:
    """The tree of an expression; CelCompileError with its position for text that is none."""
    try:
        source.encode()  # No text within has halves of characters from here on.
    except UnicodeEncodeError as error:
        raise CelCompileError(f"Syntax error: invalid UTF-8 at position {error.start}") from error
    return _Parser(source).whole()


def _tokens(source: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise CelCompileError(f"Syntax error: token recognition error at position {at}")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(_Token(kind, match[0], at))
        at = match.end()
    found.append(_Token("end", "<EOF>", len(source)))
    return found


class _Parser:
    def __init__(self, source: str) -> None:
        self._tokens = _tokens(source)
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._expression()
        if self._peek().kind != "end":
            raise self._unexpected()
        return node

    # Tokens --------------------------------------------------------------------------------------

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, text: str) -> bool:
        """Takes the operator if it comes next."""
        is_next = self._peek().text == text
        self._next += is_next
        return is_next

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected()

    def _unexpected(self) -> CelCompileError:
        token = self._peek()
        return CelCompileError(
            f"Syntax error: unexpected {token.text[:40]!r} at position {token.at}"
        )

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > CEL_DEPTH_MAX:
            raise CelCompileError(f"expression recursion limit exceeded: {CEL_DEPTH_MAX}")

    @staticmethod
    def _longer(length: int) -> int:
        if length > CEL_CHAIN_MAX:
            raise CelCompileError(f"expression chain limit exceeded: {CEL_CHAIN_MAX}")
        return length + 1

    # Operators, from the loosest -----------------------------------------------------------------

    def _expression(self) -> Node:
        self._deeper()
        node = self._binary()
        if self._take("?"):
            chosen = self._binary()
            self._need(":")
            node = Call("_?_:_", None, (node, chosen, self._expression()))
        self._depth -= 1
        return node

    def _binary(self, level: int = 0) -> Node:
        """Operators of one precedence, which lean to the left."""
        if level == len(_BINARY):
            return self._unary()
        node, length = self._binary(level + 1), 0
        while function := _BINARY[level].get(self._peek().text):
            self._next += 1
            node = Call(function, None, (node, self._binary(level + 1)))
            if level >= _FLAT:
                length = self._longer(length)
        return node

    def _unary(self) -> Node:
        operator = self._peek().text
        if operator not in ("!", "-"):
            return self._member()
        self._deeper()
        self._next += 1
        if operator == "-" and self._peek().kind in ("int", "float"):
            node = self._member(is_negative=True)
        else:
            node = Call(f"{operator}_", None, (self._unary(),))
        self._depth -= 1
        return node

    # Members -------------------------------------------------------------------------------------

    def _member(self, *, is_negative: bool = False) -> Node:
        node, length = self._primary(is_negative=is_negative), 0
        while True:
            length = self._longer(length)
            if self._take("."):
                is_optional = self._take("?")
                name = self._name()
                if self._take("("):
                    if is_optional:
                        raise self._unexpected()
                    node = Call(name, node, self._arguments())
                else:
                    node = Select(node, Literal(name), is_optional, name)
            elif self._take("["):
                is_optional = self._take("?")
                index = self._expression()
                self._need("]")
                node = Select(node, index, is_optional)
            else:
                return node

    def _name(self) -> str:
        token = self._peek()
        if token.kind != "ident" or token.text == "in" or token.text in _CONSTANTS:
            raise self._unexpected()
        self._next += 1
        return token.text

    def _arguments(self) -> tuple[Node, ...]:
        if self._take(")"):
            return ()
        found = [self._expression()]
        while self._take(","):
            found.append(self._expression())
        self._need(")")
        return tuple(found)

    def _primary(self, *, is_negative: bool) -> Node:
        token = self._peek()
        if token.kind in ("int", "float", "string"):
            self._next += 1
            return Literal(_literal(token, is_negative=is_negative))
        if self._take(".") or token.kind == "ident":  # A dot: of the root scope, the only one.
            return self._identifier()
        if self._take("("):
            node = self._expression()
            self._need(")")
            return node
        if self._take("["):
            return ListNode(tuple((self._expression(), each) for each in self._items("]")))
        if self._take("{"):
            return MapNode(tuple(self._entry(is_optional=each) for each in self._items("}")))
        raise self._unexpected()

    def _identifier(self) -> Node:
        token = self._peek()
        if token.text in _CONSTANTS:
            self._next += 1
            return Literal(_CONSTANTS[token.text])
        if token.text in _RESERVED:
            raise CelCompileError(f"Syntax error: reserved identifier: {token.text}")
        name = self._name()
        if self._take("("):
            return Call(name, None, self._arguments())
        return Ident(name)

    def _items(self, closing: str) -> Iterator[bool]:
        """Stops at each item up to `closing`, and says whether it is optional. A comma may follow the
        last one."""
        while not self._take(closing):
            yield self._take("?")
            if not self._take(","):
                self._need(closing)
                return

    def _entry(self, *, is_optional: bool) -> tuple[Node, Node, bool]:
        key = self._expression()
        self._need(":")
        return key, self._expression(), is_optional


# Literals -------------------------------------------------------------------------------------------


def _literal(token: _Token, *, is_negative: bool) -> Any:
    if token.kind == "string":
        return _string(token.text)
    if token.kind == "float":
        value = float(token.text)
        if math.isinf(value):
            raise CelCompileError(f"Syntax error: invalid double literal {token.text[:40]}")
        return -value if is_negative else value
    digits = token.text.rstrip("uU")
    if len(digits) > CEL_DIGITS_MAX:
        raise CelCompileError(f"Syntax error: invalid int literal {digits[:40]}...")
    number = int(digits, 16) if digits.startswith("0x") else int(digits)
    if len(digits) != len(token.text):
        if is_negative or number > UINT_MAX:
            raise CelCompileError(f"Syntax error: invalid uint literal {token.text}")
        return Uint(number)
    number = -number if is_negative else number
    if not INT_MIN <= number <= INT_MAX:
        raise CelCompileError(f"Syntax error: invalid int literal {token.text}")
    return number


_ESCAPE: Final = re.compile(
    r"\\(?:[xX](?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|(?P<o>[0-3][0-7]{2})|(?P<c>.))",
    re.DOTALL,
)
_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`",
}  # fmt: skip


def _string(text: str) -> str | bytes:
    quote_at = min(at for at in (text.find('"'), text.find("'")) if at >= 0)
    prefix, quoted = text[:quote_at].lower(), text[quote_at:]
    width = 3 if quoted[:3] in ('"""', "'''") and len(quoted) >= 6 else 1
    body = quoted[width:-width].replace("\r\n", "\n").replace("\r", "\n")
    is_raw = "r" in prefix
    if "b" not in prefix:
        return body if is_raw else _ESCAPE.sub(_unescaped, body)
    if is_raw:
        return body.encode()
    # An escaped code is a byte there, and whatever is written out is UTF-8.
    found, at = b"", 0
    for match in _ESCAPE.finditer(body):
        if match["u"] or match["U"]:
            raise CelCompileError(f"Syntax error: invalid escape in bytes {match[0]}")
        found += body[at : match.start()].encode() + _unescaped(match).encode("latin-1")
        at = match.end()
    return found + body[at:].encode()


def _unescaped(match: re.Match[str]) -> str:
    if match["c"] is not None:
        if match["c"] not in _SIMPLE_ESCAPES:
            raise CelCompileError(f"Syntax error: unknown escape sequence {match[0]}")
        return _SIMPLE_ESCAPES[match["c"]]
    code = int(match["o"], 8) if match["o"] else int(match["x"] or match["u"] or match["U"], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise CelCompileError(f"Syntax error: invalid code point {match[0]}")
    return chr(code)
