"""Columns of text for people."""

from collections.abc import Collection, Iterable, Sequence


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)
) -> list[str]:
    """Columns as wide as their widest cell: those of `left` to the left, numbers to the right."""
    every = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in every
    ]


def table_below(
    head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)
) -> list[str]:
    """The same with an empty line before it; nothing where there are no rows."""
    return ["", *table(head, rows, left)] if rows else []
