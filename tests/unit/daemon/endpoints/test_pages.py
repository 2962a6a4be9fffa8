"""Who is answered what."""

import asyncio
from collections.abc import Callable

import pytest

from daemon.endpoints.access import OpenAccess, TokenAccess
from daemon.endpoints.health import Facts
from daemon.endpoints.pages import Page, Pages, Request
from tests.unit.daemon.endpoints.test_health import WELL


class FixedSource:
    def __init__(self, facts: Facts = WELL) -> None:
        self._facts = facts
        self.config: bytes | None = b"{}"

    async def facts(self) -> Facts:
        return self._facts

    async def metrics(self) -> str:
        return "berth_owner_up 1\n"

    def configz(self) -> bytes | None:
        return self.config


def ask(
    target: str,
    *,
    authorization: str = "",
    token: Callable[[], str] | None = None,
    method: str = "GET",
    facts: Facts = WELL,
) -> Page:
    headers = {"authorization": authorization} if authorization else {}
    access = OpenAccess() if token is None else TokenAccess(token)
    pages = Pages(FixedSource(facts), access)
    return asyncio.run(pages.answer(Request(method, target, headers)))


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/readyz/", "/livez/ping"])
def test_health_is_told_to_everybody(path: str) -> None:
    assert ask(path, token=lambda: "secret").body == b"ok"


def test_verbose_and_exclude_are_read_from_the_query() -> None:
    ill = WELL._replace(binders_ready=0, scorers_ready=0)
    assert ask("/readyz", facts=ill).status == 500
    assert ask("/readyz?exclude=binders&exclude=scorers", facts=ill).body == b"ok"
    assert ask("/readyz?exclude=binders,scorers", facts=ill).body == b"ok"
    assert b"[+]ping ok\n" in ask("/readyz?verbose").body
    assert ask("/readyz/binders", facts=ill).status == 500
    assert ask("/readyz/nothing").status == 404


@pytest.mark.parametrize("path", ["/metrics", "/configz"])
def test_the_rest_needs_the_token_where_there_is_one(path: str) -> None:
    assert ask(path).status == 200
    for authorization in ("", "Bearer wrong", "Basic secret", "secret", "Bearer "):
        page = ask(path, authorization=authorization, token=lambda: "secret")
        assert page.status == 401
        assert ("WWW-Authenticate", "Bearer") in page.headers
    assert ask(path, authorization="Bearer secret", token=lambda: "secret").status == 200


def test_an_empty_token_lets_nobody_in() -> None:
    assert ask("/metrics", authorization="Bearer ", token=lambda: "").status == 401


def test_other_paths_and_methods_are_refused() -> None:
    assert ask("/").status == ask("/livezz").status == ask("/metrics/x").status == 404
    assert ask("/metrics", method="POST").status == 405


def test_a_target_that_is_no_url_is_refused() -> None:
    assert ask("http://[::1").status == 400
