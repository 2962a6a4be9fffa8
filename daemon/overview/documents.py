"""HTML in one file, by one hand: styles and scripts stand in it, and nothing else may run or be loaded.

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
    """What its Content-Security-Policy is."""


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
