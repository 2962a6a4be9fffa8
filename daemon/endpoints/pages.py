"""Which path is answered how, and to whom. Start reading here."""

from typing import Final
from urllib.parse import parse_qs, urlsplit

from daemon.endpoints.access import HEALTH_PATHS, Access, Request
from daemon.endpoints.facts import FactSource
from daemon.endpoints.health import CheckResults, all_checks_answer, checks_for, one_check_answer
from daemon.endpoints.metrics_text import CONTENT_TYPE, check_results_text
from daemon.endpoints.zpages import JSON, Page, flagz, statusz
from daemon.overview.documents import live_document
from shared.transport.owner_link import NoAnswerError

GUARDED_PATHS: Final = (
    "/metrics",
    "/metrics/resources",
    "/metrics/slis",
    "/configz",
    "/statusz",
    "/flagz",
    "/ui",
    "/ui/overview",
    "/ui/pod",
    "/ui/explain",
)
HTML: Final = "text/html; charset=utf-8"


NOT_FOUND: Final = Page(404, b"404 page not found\n")
_NO_ANSWER: Final = Page(503, b"no answer\n")


class Pages:
    def __init__(self, source: FactSource, access: Access) -> None:
        self._source = source
        self._access = access
        self._check_results = CheckResults()

    async def answer(self, request: Request) -> Page:
        if request.method not in ("GET", "HEAD"):
            return Page(405, b"only GET and HEAD\n", headers=(("Allow", "GET, HEAD"),))
        try:
            parts = urlsplit(request.target)
        except ValueError:
            return Page(400, b"not a path\n")
        path, access = parts.path, self._access
        if access is not None and (refusal := await access.refusal(request, path)) is not None:
            if path == "/ui" and "text/html" in request.headers.get("accept", ""):
                # Without a word of the cluster: it asks for a token, which browsers do not have.
                return live_page(refusal.status, refusal.headers)
            return refusal
        root, slash, name = path[1:].partition("/")
        if f"/{root}" in HEALTH_PATHS:
            return await self._health(f"/{root}", name if slash else None, parts.query)
        try:
            return await self._guarded(path, parts.query, request.headers.get("accept", ""))
        except NoAnswerError:
            return _NO_ANSWER

    async def _guarded(self, path: str, query: str, accept: str) -> Page:
        source, key = self._source, parse_qs(query).get("key", [""])[0]
        match path:
            case "/metrics":
                return _answer(await source.metrics(), CONTENT_TYPE)
            case "/metrics/resources":
                return _answer(await source.pod_resources(), CONTENT_TYPE)
            case "/metrics/slis":
                return _answer(
                    check_results_text(self._check_results, source.started_s()), CONTENT_TYPE
                )
            case "/statusz":
                paths = sorted((*HEALTH_PATHS, *(p for p in GUARDED_PATHS if p.count("/") == 1)))
                return statusz(accept, source.started_s(), source.now_s(), paths)
            case "/flagz":
                flags = source.flags()
                return NOT_FOUND if flags is None else flagz(accept, flags)
            case "/configz":
                configz = source.configz()
                return NOT_FOUND if configz is None else Page(200, configz, JSON)
            case "/ui":
                return live_page(200)
            case "/ui/overview":
                return _answer(await source.overview(), JSON)
            case "/ui/pod":
                return _answer(await source.pod(key), JSON)
            case "/ui/explain":
                return _answer(await source.explain(key), JSON)
            case _:
                return NOT_FOUND

    async def _health(self, root: str, name: str | None, query: str) -> Page:
        """Of all checks, or of the one of that name."""
        checks = checks_for(root, await self._source.facts())
        if name is not None:
            status, text = one_check_answer(checks, name)
        else:
            asked = parse_qs(query, keep_blank_values=True)
            excluded = set(asked.get("exclude", []))
            self._check_results.note(root, checks, excluded)
            status, text = all_checks_answer(root, checks, excluded, is_verbose="verbose" in asked)
        return Page(status, text.encode())


def _answer(told: str | bytes | None, content_type: str) -> Page:
    if told is None:
        return _NO_ANSWER
    return Page(200, told.encode() if isinstance(told, str) else told, content_type)


def live_page(status: int, headers: tuple[tuple[str, str], ...] = ()) -> Page:
    """The page itself, the same for everybody: what it shows, it asks for."""
    document = live_document()
    policy = ("Content-Security-Policy", f"{document.policy}; frame-ancestors 'none'")
    safe = (policy, ("Referrer-Policy", "no-referrer"))
    return Page(status, document.html.encode(), HTML, (*headers, *safe))
