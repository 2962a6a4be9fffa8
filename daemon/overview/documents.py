"""HTML in one file, by one hand: styles and scripts stand in it, and nothing else may run or be loaded.
What pages that stay are made of: figures, tables, sections. Whatever is put in is text.

A document's policy names its own style and script by their hashes, so a name of a pod that were taken
for markup would still do nothing.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

_FOLDER: Final = Path(__file__).parent / "page"


class Document(NamedTuple):
    html: str
    policy: str


def document(title: str, body: str, styles: Sequence[str] = (), script: str = "") -> Document:
    """`styles`: names of files, after the one that all have; `script`: the name of one."""
    style = "".join(asset(name) for name in ("theme.css", *styles))
    code = asset(script) if script else ""
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(code)}'" if code else "script-src 'none'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    parts = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title><style>{style}</style></head><body>",
        body,
        f"<script>{code}</script>" if code else "",
        "</body></html>\n",
    )
    return Document("\n".join(parts), policy)


@cache
def live_document() -> Document:
    """The live page: it knows nothing by itself and asks for what it shows."""
    return document("berth", asset("live.html"), ("live.css",), "live.js")


@cache
def asset(name: str) -> str:
    """A file of the folder `page`."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class Cell(NamedTuple):
    """Of a table, where it is more than a number."""

    text: str = ""
    html: str = ""
    """Made here, not escaped."""
    kind: str = ""
    """`text`: to the left; `share`: a bar."""


Row = Sequence[str | Cell]


def page(title: str, told: str, parts: Sequence[str], foot: str) -> str:
    """A whole document."""
    head = f"<header><h1>{escape(title)}</h1><p class='quiet'>{escape(told)}</p></header>"
    body = "\n".join(
        ("<div class='sheet'>", head, *parts, f"<footer>{escape(foot)}</footer></div>")
    )
    return document(title, body, ("report.css",)).html


def headline(figures: Sequence[tuple[str, str, str]]) -> str:
    """Name, figure, note of each."""
    boxes = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(figure)}<small>{escape(note)}</small></dd></div>"
        for name, figure, note in figures
    )
    return f"<dl class='figures'>{boxes}</dl>"


def section(title: str, *parts: str) -> str:
    """With a heading; empty where there is nothing in it."""
    inner = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{inner}</section>" if inner else ""


def folded(summary: str, inner: str) -> str:
    """For who wants to know more."""
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"


def table(head: Sequence[str], rows: Sequence[Row], left: int = 1) -> str:
    """The first `left` columns are text."""
    if not rows:
        return "<p class='quiet'>None.</p>"
    heads = "".join(
        f"<th{_kind('text' if index < left else '')}>{escape(name)}</th>"
        for index, name in enumerate(head)
    )
    lines = "".join(f"<tr>{_cells(row, left)}</tr>" for row in rows)
    return (
        f"<div class='scroll'><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div>"
    )


def _cells(row: Row, left: int) -> str:
    told = []
    for index, one in enumerate(row):
        cell = one if isinstance(one, Cell) else Cell(one)
        kind = cell.kind or ("text" if index < left else "")
        told.append(f"<td{_kind(kind)}>{cell.html or escape(cell.text)}</td>")
    return "".join(told)


def _kind(name: str) -> str:
    return f" class='{name}'" if name else ""
