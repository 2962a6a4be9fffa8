"""Who is answered what."""

import asyncio
import json
from collections.abc import Callable

import pytest
import yaml

from daemon.endpoints.access import Request, TokenAccess
from daemon.endpoints.facts import FactSource
from daemon.endpoints.health import Facts
from daemon.endpoints.pages import GUARDED_PATHS, Pages
from daemon.endpoints.zpages import Page
from tests.unit.daemon.endpoints.test_health import WELL, but


class FixedSource(FactSource):
    def __init__(self, facts: Facts = WELL) -> None:
        self._facts = facts
        self.config: bytes | None = b"{}"

    def is_told(self, facts: Facts) -> None:
        self._facts = facts

    async def facts(self) -> Facts:
        return self._facts

    async def metrics(self) -> str:
        return "berth_owner_up 1\n"

    async def pod_resources(self) -> str:
        return "kube_pod_resource_request 1\n"

    async def overview(self) -> bytes | None:
        return b"{}"

    async def pod(self, key: str) -> bytes:
        return f'{{"pod": "{key}"}}'.encode()

    async def explain(self, key: str) -> bytes:
        return f'{{"explained": "{key}"}}'.encode()

    def configz(self) -> bytes | None:
        return self.config

    def flags(self) -> dict[str, str] | None:
        return {"workers": "1", "as-default-scheduler": "false"}

    def started_s(self) -> float:
        return 1_700_000_000.0

    def now_s(self) -> float:
        return 1_700_003_725.5


def ask(
    target: str,
    *,
    authorization: str = "",
    token: Callable[[], str] | None = None,
    method: str = "GET",
    facts: Facts = WELL,
    accept: str = "",
) -> Page:
    headers = {"authorization": authorization} if authorization else {}
    headers |= {"accept": accept} if accept else {}
    access = None if token is None else TokenAccess(token)
    pages = Pages(FixedSource(facts), access)
    return asyncio.run(pages.answer(Request(method, target, headers)))


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/livez/ping"])
def test_health_is_told_to_everybody(path: str) -> None:
    assert ask(path, token=lambda: "secret").body == b"ok"


def test_verbose_and_exclude_are_read_from_the_query() -> None:
    ill = but(binders_ready=0, scorers_ready=0)
    assert ask("/readyz", facts=ill).status == 500
    assert ask("/readyz?exclude=binders&exclude=scorers", facts=ill).body == b"ok"
    together = ask("/readyz?exclude=binders,scorers", facts=ill)
    assert together.status == 500
    assert b'no matches for "binders,scorers"\n' in together.body
    assert b"[+]shutdown ok\n" in ask("/readyz?verbose").body
    assert ask("/readyz/binders", facts=ill).status == 500
    assert ask("/readyz/nothing").status == 404


@pytest.mark.parametrize("path", GUARDED_PATHS)
def test_the_rest_needs_the_token_where_there_is_one(path: str) -> None:
    assert ask(path).status == 200
    for authorization in ("", "Bearer wrong", "Basic secret", "secret", "Bearer "):
        page = ask(path, authorization=authorization, token=lambda: "secret")
        assert page.status == 401
        assert ("WWW-Authenticate", "Bearer") in page.headers
    assert ask(path, authorization="Bearer secret", token=lambda: "secret").status == 200


def test_an_empty_token_lets_nobody_in() -> None:
    assert ask("/metrics", authorization="Bearer ", token=lambda: "").status == 401


def test_what_checks_came_to_is_counted_when_all_of_an_endpoint_are_asked_for() -> None:
    source = FixedSource()
    pages = Pages(source, None)

    def told(*paths: str) -> list[str]:
        for path in paths:
            asyncio.run(pages.answer(Request("GET", path, {})))
        page = asyncio.run(pages.answer(Request("GET", "/metrics/slis", {})))
        return [line for line in page.body.decode().splitlines() if not line.startswith("#")]

    start = "process_start_time_seconds 1700000000"
    assert told("/livez/ping") == [start]
    assert told("/livez", "/livez?exclude=ping&verbose") == [
        'kubernetes_healthcheck{name="ping",type="livez"} 1',
        'kubernetes_healthcheck{name="api-server",type="livez"} 1',
        'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1',
        'kubernetes_healthchecks_total{name="api-server",status="success",type="livez"} 2',
        start,
    ]
    binders = 'name="binders",'
    assert f'kubernetes_healthcheck{{{binders}type="readyz"}} 1' in told("/readyz")
    source.is_told(but(binders_ready=0))
    lines = told("/readyz", "/readyz")
    assert f'kubernetes_healthcheck{{{binders}type="readyz"}} 0' in lines
    total = "kubernetes_healthchecks_total"
    assert f'{total}{{{binders}status="success",type="readyz"}} 1' in lines
    assert f'{total}{{{binders}status="error",type="readyz"}} 2' in lines


def test_other_paths_and_methods_are_refused() -> None:
    assert ask("/").status == ask("/livezz").status == ask("/metrics/x").status == 404
    assert ask("/metrics", method="POST").status == 405


@pytest.mark.parametrize("path", ["/livez/", "/readyz/owner/", "/metrics/", "/configz/", "/ui/"])
def test_a_path_with_a_slash_more_is_another_one(path: str) -> None:
    assert ask(path[:-1]).status == 200
    assert ask(path).status == 404


def test_a_target_that_is_no_url_is_refused() -> None:
    assert ask("http://[::1").status == 400


# /statusz and /flagz ----------------------------------------------------------------------------------


def test_statusz_and_flagz_are_text_for_people_as_kubernetes_components_tell_it() -> None:
    for accept in ("", "*/*", "text/html, text/plain;q=0.9"):
        page = ask("/statusz", accept=accept)
        assert (page.status, page.content_type) == (200, "text/plain; charset=utf-8")
        told = page.body.decode()
        assert told.startswith("\nberth statusz\nWarning: This endpoint is not meant to be machine")
        assert "\nStarted: Tue Nov 14 22:13:20 UTC 2023\nUp: 1 hr 02 min 05 sec\n" in told
        assert "\nEmulation version: 1.36\n" in told
        paths = "/configz /flagz /healthz /livez /metrics /readyz /statusz /ui"
        assert told.endswith(f"\nPaths: {paths}\n")
    told = ask("/flagz").body.decode()
    assert told.startswith("\nberth flagz\nWarning: ")
    assert told.endswith("\nas-default-scheduler: false\nworkers: 1\n")


@pytest.mark.parametrize("form", ["application/json", "application/yaml"])
@pytest.mark.parametrize(("version", "is_deprecated"), [("v1beta1", False), ("v1alpha1", True)])
def test_statusz_and_flagz_have_a_structured_form(
    version: str, is_deprecated: bool, form: str
) -> None:
    found = {}
    for kind in ("Statusz", "Flagz"):
        wish = f"{form};v={version};g=config.k8s.io;as={kind}"
        page = ask(f"/{kind.lower()}", accept=wish)
        asked = f"{form};g=config.k8s.io;v={version};as={kind}"
        assert (page.status, page.content_type) == (200, asked)
        assert [name for name, _ in page.headers] == ["Warning"] * is_deprecated
        found[kind] = (json.loads if form.endswith("json") else yaml.safe_load)(page.body)
        head = {"kind": kind, "apiVersion": f"config.k8s.io/{version}"}
        assert {key: found[kind].pop(key) for key in head} == head
        assert found[kind].pop("metadata") == {"name": "berth"}
    assert found["Flagz"] == {"flags": {"workers": "1", "as-default-scheduler": "false"}}
    assert found["Statusz"]["startTime"] == "2023-11-14T22:13:20Z"
    assert found["Statusz"]["uptimeSeconds"] == 3725
    assert found["Statusz"]["emulationVersion"] == "1.36"


@pytest.mark.parametrize(
    "accept", ["application/json", "application/json;v=v2;g=config.k8s.io;as=Statusz", "image/png"]
)
def test_other_forms_are_refused_with_those_that_there_are(accept: str) -> None:
    page = ask("/statusz", accept=accept)
    assert page.status == 406
    told = json.loads(page.body)
    assert (told["kind"], told["reason"], told["code"]) == ("Status", "NotAcceptable", 406)
    assert told["message"].endswith(": application/json, application/yaml, text/plain")


STATUSZ = "g=config.k8s.io;v=v1beta1;as=Statusz"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (f"application/json;{STATUSZ};q=0.5, text/plain;q=0.9", "text/plain"),
        (f"text/plain;q=0, application/yaml;{STATUSZ}", "application/yaml"),
        (f"*/*, application/yaml;{STATUSZ}", "application/yaml"),
        (f"application/*;{STATUSZ}", "application/json"),
        (f"*/*;{STATUSZ}", "application/json"),
        ("text/html,application/xml;q=0.9,*/*;q=0.8", "text/plain"),
        ("text/*;charset=utf-8", "text/plain"),
        (f"text/plain;{STATUSZ}", ""),
        (f"application/json;{STATUSZ};stream=watch", ""),
    ],
)
def test_of_several_forms_the_most_wanted_is_served(accept: str, form: str) -> None:
    page = ask("/statusz", accept=accept)
    assert page.status == (200 if form else 406)
    assert page.content_type.partition(";")[0] == (form or "application/json")


def test_a_browser_without_a_token_gets_the_page_that_asks_for_it_and_no_facts() -> None:
    page = ask("/ui", token=lambda: "secret", accept="text/html,*/*")
    assert (page.status, page.content_type) == (401, "text/html; charset=utf-8")
    assert page.body == ask("/ui").body, "the same for everybody: what it shows, it asks for"
    assert ask("/ui", token=lambda: "secret").content_type == "application/json"
    for path in ("/ui/overview", "/ui/pod?key=default/p", "/ui/explain?key=default/p"):
        assert b"Unauthorized" in ask(path, token=lambda: "secret", accept="text/html").body


def test_the_live_page_says_what_a_browser_may_do_with_it() -> None:
    headers = dict(ask("/ui").headers)
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert policy.endswith("; frame-ancestors 'none'")


def test_one_pod_is_asked_for_by_its_key() -> None:
    assert ask("/ui/pod?key=ns/a%20b").body == b'{"pod": "ns/a b"}'
    assert ask("/ui/explain?key=ns/a%20b").body == b'{"explained": "ns/a b"}'
    assert ask("/ui/nothing").status == 404
