"""Which path is answered how, and to whom. Start reading here."""

import hmac
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qs, urlsplit

from daemon.endpoints.health import Facts, checks_for, told_all, told_one
from daemon.endpoints.metrics_text import CONTENT_TYPE

HEALTH_PATHS: Final = ("/livez", "/readyz", "/healthz")
"""Open to everybody, as kube-scheduler's are (--authorization-always-allow-paths)."""
PLAIN: Final = "text/plain; charset=utf-8"


class Source(Protocol):
    """Where the answers come from; `facts.FactSource` is one."""

    async def facts(self) -> Facts: ...

    async def metrics(self) -> str: ...

    def configz(self) -> bytes | None: ...


class Request(NamedTuple):
    method: str
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    """Names in lower case."""


class Page(NamedTuple):
    status: int
    body: bytes
    content_type: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()


NOT_FOUND: Final = Page(404, b"404 page not found\n")


class Pages:
    """Answers requests."""

    def __init__(self, source: Source, token: Callable[[], str] | None) -> None:
        """`token` gives the bearer token that all but health asks for; None: nobody is asked."""
        self._source = source
        self._token = token

    async def answer(self, request: Request) -> Page:
        if request.method not in ("GET", "HEAD"):
            return Page(405, b"only GET and HEAD\n", headers=(("Allow", "GET, HEAD"),))
        try:
            parts = urlsplit(request.target)
        except ValueError:
            return Page(400, b"not a path\n")
        path = parts.path.rstrip("/")
        root = "/" + path.lstrip("/").partition("/")[0]
        if root in HEALTH_PATHS:
            return await self._health(root, path.removeprefix(root).lstrip("/"), parts.query)
        if path not in ("/metrics", "/configz"):
            return NOT_FOUND
        if not self._is_let_in(request.headers.get("authorization", "")):
            told = (("WWW-Authenticate", "Bearer"),)
            return Page(401, b"Unauthorized: a bearer token is needed\n", headers=told)
        if path == "/metrics":
            return Page(200, (await self._source.metrics()).encode(), CONTENT_TYPE)
        configz = self._source.configz()
        return NOT_FOUND if configz is None else Page(200, configz, "application/json")

    async def _health(self, root: str, name: str, query: str) -> Page:
        checks = checks_for(root, await self._source.facts())
        if name:
            told = told_one(checks, name)
        else:
            asked = parse_qs(query, keep_blank_values=True)
            excluded = {one for text in asked.get("exclude", []) for one in text.split(",") if one}
            told = told_all(root, checks, excluded, is_verbose="verbose" in asked)
        return Page(
            told.status, told.text.encode(), headers=(("X-Content-Type-Options", "nosniff"),)
        )

    def _is_let_in(self, authorization: str) -> bool:
        if self._token is None:
            return True
        scheme, _, given = authorization.partition(" ")
        wanted = self._token()
        is_same = hmac.compare_digest(given.strip().encode(), wanted.encode())
        return scheme.lower() == "bearer" and bool(wanted) and is_same
