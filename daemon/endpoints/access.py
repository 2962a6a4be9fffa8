"""Who may read what: by the bearer token of a file, or as an API server answers.

The rules are those of kube-scheduler's delegated authentication and authorization
(staging/src/k8s.io/apiserver/pkg/server/options/{authentication,authorization}.go, v1.36.2): who asks is
the client certificate's subject, or the token's owner (TokenReview), or anonymous; what that user may
read is asked by SubjectAccessReview; `system:masters` may read everything. Answers are kept for some
seconds. Where no API server is known, nobody is known but who has a client certificate.
"""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from shared.clock import Clock
from shared.errors import ConfigurationError, OperationalError
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import read_answer
from shared.kube.find_access import find_access, is_in_cluster
from shared.limits import ACCESS_ANSWERS_MAX
from shared.runtime_options import EndpointOptions
from shared.telemetry.log import EventLog

log: Final = EventLog("endpoints")

QUESTION_TIMEOUT_S: Final = 10.0

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
HEALTH_PATHS: Final = ("/livez", "/readyz", "/healthz")
AUTHENTICATED: Final = "system:authenticated"
MASTERS: Final = "system:masters"


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, in TokenReview's shape."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


ANONYMOUS: Final = User(username="system:anonymous", groups=("system:unauthenticated",))


class Refusal(NamedTuple):
    """Why somebody may not read something: HTTP status and message."""

    status: int
    message: str


class Reviewer(Protocol):
    """An API server that answers questions; `ApiClient` is one."""

    async def post(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes: ...


class Access(Protocol):
    """Decides who may read."""

    async def refusal(
        self, path: str, headers: Mapping[str, str], certificate: Mapping[str, object] | None
    ) -> Refusal | None:
        """None: may. `headers` by name in lower case; `certificate` as `ssl` tells of the client's."""
        ...


class OpenAccess:
    """Everybody may read everything."""

    async def refusal(self, *_: object) -> None: ...


class TokenAccess:
    """Whoever has the token may; health is everybody's."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    async def refusal(
        self,
        path: str,
        headers: Mapping[str, str],
        certificate: Mapping[str, object] | None,  # noqa: ARG002 - the token says it.
    ) -> Refusal | None:
        if path.startswith(HEALTH_PATHS):
            return None
        wanted = self._token()
        if wanted and hmac.compare_digest(bearer_token(headers).encode(), wanted.encode()):
            return None
        return Refusal(UNAUTHORIZED, "Unauthorized: a bearer token is needed")


class DelegatedAccess:
    """Asks the API servers. Either may be missing."""

    def __init__(
        self,
        options: EndpointOptions,
        authentication: Reviewer | None,
        authorization: Reviewer | None,
        clock: Clock,
    ) -> None:
        self._options = options
        self._authentication = authentication
        self._authorization = authorization
        paths = options.authorization_always_allow_paths
        self._open_paths = paths.split(",") if paths else []
        self._users: _Kept[User | None] = _Kept(clock)
        self._permissions: _Kept[bool] = _Kept(clock)

    async def refusal(
        self, path: str, headers: Mapping[str, str], certificate: Mapping[str, object] | None
    ) -> Refusal | None:
        if any(_is_within(path, pattern) for pattern in self._open_paths):
            return None
        token = bearer_token(headers)
        user = user_of(certificate)
        if user is None:
            user = await self._owner_of(token) if token else ANONYMOUS
        if user is None:
            return Refusal(UNAUTHORIZED, "Unauthorized")
        if MASTERS in user.groups or await self._may_read(user, path):
            return None
        return Refusal(FORBIDDEN, f'forbidden: User "{user.username}" cannot get path "{path}"')

    async def _owner_of(self, token: str) -> User | None:
        if self._authentication is None:
            return ANONYMOUS  # As kube-scheduler without --authentication-kubeconfig.
        key = hashlib.sha256(token.encode()).digest()
        kept = self._users.get(key)
        if kept is not None:
            return kept[0]
        answer = await _ask(
            self._authentication,
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": token},
            },
            _TokenReview,
        )
        if answer is None:
            return None
        status = answer.status
        user = None
        if status.authenticated:
            groups = (*status.user.groups, AUTHENTICATED)
            user = msgspec.structs.replace(status.user, groups=tuple(dict.fromkeys(groups)))
        self._users.put(key, user, self._options.authentication_token_webhook_cache_ttl_s)
        return user

    async def _may_read(self, user: User, path: str) -> bool:
        if self._authorization is None:
            return False
        key = msgspec.json.encode((user, path))
        kept = self._permissions.get(key)
        if kept is not None:
            return kept[0]
        answer = await _ask(
            self._authorization,
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": user.username,
                    "uid": user.uid,
                    "groups": user.groups,
                    "extra": user.extra,
                    "nonResourceAttributes": {"path": path, "verb": "get"},
                },
            },
            _SubjectAccessReview,
        )
        if answer is None:
            return False
        options = self._options
        is_allowed = answer.status.allowed and not answer.status.denied
        ttl_s = (
            options.authorization_webhook_cache_authorized_ttl_s
            if is_allowed
            else options.authorization_webhook_cache_unauthorized_ttl_s
        )
        self._permissions.put(key, is_allowed, ttl_s)
        return is_allowed


def bearer_token(headers: Mapping[str, str]) -> str:
    """What the client says it has; empty: nothing."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def user_of(certificate: Mapping[str, object] | None) -> User | None:
    """The subject's common name and organizations (apiserver/pkg/authentication/request/x509)."""
    if not certificate:
        return None
    names: list[str] = []
    groups: list[str] = []
    subject = certificate.get("subject", ())
    assert isinstance(subject, tuple), "as ssl.SSLSocket.getpeercert tells it"
    for ((kind, text),) in subject:
        if kind == "commonName":
            names.append(text)
        elif kind == "organizationName":
            groups.append(text)
    return User(username=names[-1], groups=(*groups, AUTHENTICATED)) if names else None


def _is_within(path: str, pattern: str) -> bool:
    """As apiserver/pkg/authorization/path."""
    pattern, path = pattern.removeprefix("/"), path.removeprefix("/")
    if pattern.endswith("*"):
        return path.startswith(pattern.removesuffix("*"))
    return path == pattern


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _SubjectAccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


T = TypeVar("T")


async def _ask(client: Reviewer, path: str, question: object, shape: type[T]) -> T | None:
    """None: there was no answer, which is logged."""
    try:
        body = msgspec.json.encode(question)
        answer = await client.post(path, body, timeout_s=QUESTION_TIMEOUT_S)
        return read_answer(msgspec.json.Decoder(shape), answer)
    except OperationalError as error:
        log.warning("access_not_asked", path=path, problem=str(error))
        return None


class _Kept(Generic[T]):
    """Answers, each until its end; the oldest go first where there are too many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[bytes, tuple[T, float]] = OrderedDict()

    def get(self, key: bytes) -> tuple[T] | None:
        found = self._answers.get(key)
        if found is None or found[1] <= self._clock.monotonic_s():
            return None
        return (found[0],)

    def put(self, key: bytes, answer: T, ttl_s: float) -> None:
        self._answers[key] = (answer, self._clock.monotonic_s() + ttl_s)
        self._answers.move_to_end(key)
        while len(self._answers) > ACCESS_ANSWERS_MAX:
            self._answers.popitem(last=False)


def refusal_body(refusal: Refusal) -> bytes:
    """As the API server says it: a Status."""
    reason = "Unauthorized" if refusal.status == UNAUTHORIZED else "Forbidden"
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": refusal.message,
            "reason": reason,
            "code": refusal.status,
        }
    )


# The API servers that are asked -------------------------------------------------------------------

CONNECTIONS_MAX = 8
"""Prometheus and some people; answers are kept for seconds."""


def reviewer(options: EndpointOptions, kubeconfig: str) -> ApiClient | None:
    """By the kubeconfig file of the flag; without one, by the pod's service account. None: there is no
    such server, or nobody to be asked about."""
    if options.endpoints_token_file or (not kubeconfig and not is_in_cluster()):
        return None
    try:
        access = find_access(kubeconfig=kubeconfig)
    except ConfigurationError as error:
        log.warning("no_reviewer", kubeconfig=kubeconfig, problem=str(error))
        return None
    return ApiClient(access, connections_max=CONNECTIONS_MAX)
