"""Who may read what, as an API server answers."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.manual_clock import ManualClock
from daemon.endpoints.access import (
    DelegatedAccess,
    Request,
    bearer_token,
    refused,
    reviewer,
    user_of,
)
from daemon.endpoints.zpages import Page
from shared import exit_codes
from shared.errors import OperationalError
from shared.kube.api_client import ApiClient
from shared.limits import ACCESS_ANSWERS_MAX
from shared.runtime_options import EndpointOptions

TOKENS = {"good": "system:serviceaccount:monitoring:prometheus", "root": "admin"}
READERS = {"system:serviceaccount:monitoring:prometheus"}


class FakeReviewer(ApiClient):
    """Knows some tokens and some readers."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.is_down = False
        self.told: dict[str, Any] = {}

    async def post(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
        if self.is_down:
            raise OperationalError("down")
        question = msgspec.json.decode(body)
        self.asked.append(question)
        if path.endswith("/tokenreviews"):
            name = TOKENS.get(question["spec"]["token"])
            groups = ["system:masters"] if name == "admin" else []
            user = {"username": name, "groups": groups}
            status = {"authenticated": True, "user": user} if name else {}
        else:
            verb = question["spec"]["nonResourceAttributes"]["verb"]
            status = {"allowed": question["spec"]["user"] in READERS and verb == "get"} | self.told
        return msgspec.json.encode({"status": status})


class Scene:
    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.reviewer = FakeReviewer()
        made = EndpointOptions(**options)
        self.access = DelegatedAccess(made, self.reviewer, self.reviewer, self.clock)

    def ask(
        self,
        path: str,
        token: str = "",
        certificate: dict[str, Any] | None = None,
        method: str = "GET",
    ) -> Page | None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        request = Request(method, path, headers, certificate)
        return asyncio.run(self.access.refusal(request, path))


def test_who_may_get_may_not_head_unless_that_is_said_too() -> None:
    refusal = Scene().ask("/metrics", "good", method="HEAD")
    assert refusal == refused(
        403, 'forbidden: User "{}" cannot head path "/metrics"'.format(TOKENS["good"])
    )


def subject(name: str, *groups: str) -> dict[str, Any]:
    organizations = tuple((("organizationName", group),) for group in groups)
    return {"subject": (*organizations, (("commonName", name),))}


def test_health_is_open_and_nothing_else_is() -> None:
    scene = Scene()
    for path in ("/livez", "/readyz", "/healthz"):
        assert scene.ask(path) is None
    assert scene.reviewer.asked == []
    refusal = scene.ask("/metrics")
    assert refusal == refused(403, 'forbidden: User "system:anonymous" cannot get path "/metrics"')
    assert scene.ask("/livez/ping") is not None, "paths are whole, as kube-scheduler's"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/metrics"])
def test_a_token_that_is_nobodys_opens_no_path(path: str) -> None:
    scene = Scene(authorization_always_allow_paths=("/livez", "/readyz", "/healthz", "/metrics"))
    assert scene.ask(path, "bad") == refused(401, "Unauthorized")
    assert scene.ask(path, "good") is None
    assert scene.ask(path, "bad", subject("joe")) is None, "the certificate says it"
    assert [each for each in scene.reviewer.asked if "user" in each["spec"]] == []


def test_a_token_is_the_second_word() -> None:
    told = ["Bearer a", "bearer a", " Bearer a b", "Bearer  a", "Bearer", "Basic a", ""]
    assert [bearer_token({"authorization": each}) for each in told] == [*"aaa", *4 * [""]]


def test_paths_may_be_opened_with_a_star() -> None:
    scene = Scene(authorization_always_allow_paths=("/metrics", "live*"))
    assert scene.ask("/metrics") is None
    assert scene.ask("/livez/ping") is None
    assert scene.ask("/readyz") is not None


def test_a_token_is_its_owner_and_who_may_read_reads() -> None:
    scene = Scene()
    assert scene.ask("/metrics", "good") is None
    groups = scene.reviewer.asked[-1]["spec"]["groups"]
    assert groups == ["system:authenticated"]
    assert scene.ask("/metrics", "bad") == refused(401, "Unauthorized")


def test_masters_are_not_asked_about() -> None:
    scene = Scene()
    assert scene.ask("/configz", "root") is None
    assert len(scene.reviewer.asked) == 1


def test_a_client_certificate_says_who_it_is() -> None:
    scene = Scene()
    assert scene.ask("/configz", certificate=subject("jane", "system:masters")) is None
    refusal = scene.ask("/configz", certificate=subject("joe", "a", "b"))
    assert refusal is not None
    assert refusal.status == 403
    assert scene.reviewer.asked[-1]["spec"]["groups"] == ["a", "b", "system:authenticated"]
    assert user_of({}) is None


def test_parts_of_a_subject_may_stand_together() -> None:
    together = (("commonName", "jane"), ("organizationName", "a"))
    user = user_of({"subject": (together, (("organizationName", "b"),))})
    assert user is not None
    assert (user.username, user.groups) == ("jane", ("a", "b", "system:authenticated"))


def test_answers_are_kept_for_their_time() -> None:
    scene = Scene(authentication_token_webhook_cache_ttl_s=5.0)
    for _ in range(3):
        assert scene.ask("/metrics", "good") is None
    assert len(scene.reviewer.asked) == 2
    scene.clock.advance(6.0)
    assert scene.ask("/metrics", "good") is None
    assert len(scene.reviewer.asked) == 3, "the token is asked about again, the permission holds"


def test_a_server_that_does_not_answer_lets_nobody_in() -> None:
    scene = Scene()
    scene.reviewer.is_down = True
    refusal = scene.ask("/metrics", "good")
    assert refusal is not None
    assert refusal.status == 401
    scene.reviewer.is_down = False
    assert scene.ask("/metrics", "good") is None, "that was not kept"


def test_what_may_be_read_and_cannot_be_asked_is_an_error_of_ours() -> None:
    scene = Scene()
    scene.reviewer.is_down = True
    refusal = scene.ask("/metrics?a=<b>")
    told = b'Internal Server Error: "/metrics?a=&lt;b&gt;": down\n'
    assert refusal == Page(500, told)
    assert scene.ask("/livez") is None
    scene.reviewer.is_down = False
    scene.reviewer.told = {"allowed": True, "denied": True}
    refusal = scene.ask("/metrics")
    assert refusal is not None
    assert refusal.status == 500


def test_a_refusal_says_why() -> None:
    scene = Scene()
    scene.reviewer.told = {"reason": "no <rule>"}
    assert scene.ask('/a<b>"') == refused(
        403,
        r'forbidden: User "system:anonymous" cannot get path "/a&lt;b&gt;\"": no <rule>',
    )


def test_a_certificate_without_a_name_is_nobodys() -> None:
    assert user_of(subject("")) is None
    scene = Scene()
    assert scene.ask("/metrics", "good", subject("")) is None, "the token says it"


def test_whoever_tries_tokens_fills_no_memory() -> None:
    scene = Scene()

    async def many() -> None:
        for number in range(ACCESS_ANSWERS_MAX + 10):
            headers = {"authorization": f"Bearer {number}"}
            await scene.access.refusal(Request("GET", "/metrics", headers), "/metrics")

    asyncio.run(many())
    assert len(scene.access._tokens._kept) == ACCESS_ANSWERS_MAX


def test_a_refusal_is_told_as_the_api_server_tells_it() -> None:
    told = msgspec.json.decode(refused(403, "forbidden: no").body)
    assert (told["kind"], told["reason"], told["code"]) == ("Status", "Forbidden", 403)


@pytest.mark.parametrize("scheme", ["Basic good", "good", "bearergood"])
def test_another_scheme_is_no_token(scheme: str) -> None:
    scene = Scene()
    request = Request("GET", "/metrics", {"authorization": scheme})
    refusal = asyncio.run(scene.access.refusal(request, "/metrics"))
    assert refusal is not None
    assert refusal.status == 403


def test_a_kubeconfig_that_is_being_rewritten_has_the_endpoints_tried_again(tmp_path: Path) -> None:
    """Without it they would know nobody until they are started anew."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()
    with pytest.raises(SystemExit) as ended:
        reviewer(EndpointOptions(), str(kubeconfig))
    assert ended.value.code == exit_codes.FILE_UNUSABLE
    assert reviewer(EndpointOptions(), "") is None
