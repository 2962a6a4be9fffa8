"""What pages that stay are made of: figures, tables, sections. Whatever is put in is text."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from daemon.overview.documents import document


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
