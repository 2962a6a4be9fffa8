"""Who may read what: by the bearer token of a file, or as an API server answers.

The rules are those of kube-scheduler's delegated authentication and authorization
(staging/src/k8s.io/apiserver/pkg/server/options/{authentication,authorization}.go, v1.36.2): who asks is
the client certificate's subject, or the token's owner (TokenReview), or anonymous; what that user may
read is asked by SubjectAccessReview (apiserver/pkg/endpoints/filters/authorization.go); `system:masters`
may read everything. Answers are kept for some seconds. Where no API server is known, nobody is known but
who has a client certificate.
"""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from daemon.endpoints.zpages import Page, failed
from shared.child_plan import reading_files
from shared.clock import Clock
from shared.errors import ConfigurationError, OperationalError
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import read_answer
from shared.kube.find_access import find_access, is_in_cluster
from shared.limits import ACCESS_ANSWERS_MAX
from shared.runtime_options import EndpointOptions
from shared.shown import quoted
from shared.telemetry.log import EventLog

log: Final = EventLog("endpoints")

QUESTION_TIMEOUT_S: Final = 10.0

HEALTH_PATHS: Final = ("/livez", "/readyz", "/healthz")
AUTHENTICATED: Final = "system:authenticated"
MASTERS: Final = "system:masters"


class Request(NamedTuple):
    method: str
    target: str
    headers: Mapping[str, str]
    """By name in lower case."""
    certificate: Mapping[str, object] | None = None
    """The client's, as `ssl` tells it; None: it showed none."""


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, in TokenReview's shape."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


ANONYMOUS: Final = User(username="system:anonymous", groups=("system:unauthenticated",))


class TokenAccess:
    """Whoever has the token may; health is everybody's."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    async def refusal(self, request: Request, path: str) -> Page | None:
        if path.startswith(HEALTH_PATHS):
            return None
        wanted = self._token()
        if wanted and hmac.compare_digest(bearer_token(request.headers).encode(), wanted.encode()):
            return None
        return refused(HTTPStatus.UNAUTHORIZED, "Unauthorized: a bearer token is needed")


class DelegatedAccess:
    """Asks the API servers. Either may be missing."""

    def __init__(
        self,
        options: EndpointOptions,
        authentication: ApiClient | None,
        authorization: ApiClient | None,
        clock: Clock,
    ) -> None:
        self._options = options
        self._authentication = authentication
        self._tokens = _Reviews(authentication, "authentication.k8s.io", "TokenReview", clock)
        self._permissions = _Reviews(
            authorization, "authorization.k8s.io", "SubjectAccessReview", clock
        )

    async def refusal(self, request: Request, path: str) -> Page | None:
        """None: may. `path`: of the request's target. Who shows a token that is nobody's may nothing, on
        an open path either."""
        token = bearer_token(request.headers)
        user = user_of(request.certificate)
        if user is None:
            user = await self._owner_of(token) if token else ANONYMOUS
        if user is None:
            return refused(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        open_paths = self._options.authorization_always_allow_paths
        if MASTERS in user.groups or any(_is_within(path, each) for each in open_paths):
            return None
        verb = request.method.lower()
        try:
            answer = await self._permission(user, verb, path)
        except OperationalError as error:
            told = _without_markup(f"Internal Server Error: {quoted(request.target)}: {error}\n")
            return Page(HTTPStatus.INTERNAL_SERVER_ERROR, told.encode())
        if answer.allowed:
            return None
        asked = f"User {quoted(user.username)} cannot {verb} path {quoted(path)}"
        reason = f": {answer.reason}" if answer.reason else ""
        return refused(HTTPStatus.FORBIDDEN, f"forbidden: {_without_markup(asked)}{reason}")

    async def _owner_of(self, token: str) -> User | None:
        if self._authentication is None:
            return ANONYMOUS  # As kube-scheduler without --authentication-kubeconfig.
        kept_s = self._options.authentication_token_webhook_cache_ttl_s
        try:
            answer = await self._tokens.ask({"token": token}, lambda _: kept_s)
        except OperationalError:
            return None
        if not answer.authenticated:
            return None
        groups = (*answer.user.groups, AUTHENTICATED)
        return msgspec.structs.replace(answer.user, groups=tuple(dict.fromkeys(groups)))

    async def _permission(self, user: User, verb: str, path: str) -> "_Answer":
        """Which allows it or does not; OperationalError where it is neither."""
        options, attributes = self._options, {"path": path, "verb": verb}
        spec = {"user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra}
        answer = await self._permissions.ask(
            {**spec, "nonResourceAttributes": attributes},
            lambda answer: (
                options.authorization_webhook_cache_authorized_ttl_s
                if answer.allowed
                else options.authorization_webhook_cache_unauthorized_ttl_s
            ),
        )
        if answer.allowed and answer.denied:
            raise OperationalError(
                "webhook subject access review returned both allow and deny response"
            )
        return answer


Access = TokenAccess | DelegatedAccess | None


def bearer_token(headers: Mapping[str, str]) -> str:
    """What the client says it has; empty: nothing."""
    scheme, *given = headers.get("authorization", "").strip().split(" ")
    return given[0] if given and scheme.lower() == "bearer" else ""


def user_of(certificate: Mapping[str, object] | None) -> User | None:
    """The subject's common name and organizations (apiserver/pkg/authentication/request/x509)."""
    if not certificate:
        return None
    subject = certificate.get("subject", ())
    assert isinstance(subject, tuple), "as ssl.SSLSocket.getpeercert tells it"
    fields = [pair for name in subject for pair in name]
    names = [text for kind, text in fields if kind == "commonName"]
    groups = [text for kind, text in fields if kind == "organizationName"]
    if not names or not names[-1]:
        return None
    return User(username=names[-1], groups=(*groups, AUTHENTICATED))


def _is_within(path: str, pattern: str) -> bool:
    """As apiserver/pkg/authorization/path."""
    pattern, path = pattern.removeprefix("/"), path.removeprefix("/")
    if pattern.endswith("*"):
        return path.startswith(pattern.removesuffix("*"))
    return path == pattern


class _Answer(msgspec.Struct):
    authenticated: bool = False
    user: User = User()
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _Review(msgspec.Struct):
    status: _Answer = msgspec.field(default_factory=_Answer)


_decoder: Final = msgspec.json.Decoder(_Review)


class _Reviews:
    """Questions of one kind, and their answers, each kept until its end; the oldest go first where there
    are too many."""

    def __init__(self, client: ApiClient | None, group: str, kind: str, clock: Clock) -> None:
        self._client = client
        self._head = {"apiVersion": f"{group}/v1", "kind": kind}
        self._path = f"/apis/{group}/v1/{kind.lower()}s"
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[_Answer, float]] = OrderedDict()

    async def ask(self, spec: dict[str, object], kept_s: Callable[[_Answer], float]) -> _Answer:
        """Where there is nobody to be asked, all is denied; without an answer
        OperationalError, which is logged."""
        if self._client is None:
            return _Answer()
        key = hashlib.sha256(msgspec.json.encode(spec)).digest()
        kept, until_s = self._kept.get(key, (None, 0.0))
        if kept is not None and until_s > self._clock.monotonic_s():
            return kept
        try:
            body = msgspec.json.encode({**self._head, "spec": spec})
            told = await self._client.post(self._path, body, timeout_s=QUESTION_TIMEOUT_S)
            answer = read_answer(_decoder, told).status
        except OperationalError as error:
            log.warning("access_not_asked", path=self._path, problem=str(error))
            raise
        self._kept[key] = answer, self._clock.monotonic_s() + kept_s(answer)
        self._kept.move_to_end(key)
        while len(self._kept) > ACCESS_ANSWERS_MAX:
            self._kept.popitem(last=False)
        return answer


def _without_markup(text: str) -> str:
    """What looks like HTML is none (`sanitizer` in apiserver/pkg/endpoints/handlers/responsewriters)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def refused(status: int, message: str) -> Page:
    """Why somebody may not read it."""
    challenge = (("WWW-Authenticate", "Bearer"),) if status == HTTPStatus.UNAUTHORIZED else ()
    return failed(status, message, challenge)


# The API servers that are asked -------------------------------------------------------------------

CONNECTIONS_MAX = 8
"""Prometheus and some people; answers are kept for seconds."""


def reviewer(options: EndpointOptions, kubeconfig: str) -> ApiClient | None:
    """By the kubeconfig file of the flag; without one, by the pod's service account. None: there is no
    such server, or nobody to be asked about."""
    if options.endpoints_token_file or (not kubeconfig and not is_in_cluster()):
        return None
    if kubeconfig:
        with reading_files():
            access = find_access(kubeconfig=kubeconfig)
    else:
        try:
            access = find_access()
        except ConfigurationError as error:
            log.warning("no_reviewer", problem=str(error))
            return None
    return ApiClient(access, connections_max=CONNECTIONS_MAX)
