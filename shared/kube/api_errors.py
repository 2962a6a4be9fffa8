"""What an API server, or the way to it, can answer other than yes.

The type follows the `reason` of the `ApiStatus` object first and the HTTP status second: 409 is both
`AlreadyExists` and `Conflict`, and a watch reports 410 inside a stream of status 200. Transport
failures say what is known of the outcome: `ConnectFailed` means that the server cannot have seen the
request; after `ConnectionLost` and `RequestTimeout` it may or may not have acted on it.
"""

# ruff: noqa: N818  # Named as the API names its reasons: NotFound, Conflict, Gone.

from typing import Final, TypeVar

import msgspec

from shared.errors import UNDECODABLE, OperationalError
from shared.kube.api.meta_v1 import ApiStruct
from shared.kube.go_json import decoded
from shared.limits import API_ERROR_LENGTH_MAX, RETRY_AFTER_S_MAX

T = TypeVar("T")


class StatusCause(ApiStruct):
    reason: str = ""


class StatusDetails(ApiStruct):
    name: str = ""
    kind: str = ""
    retry_after_seconds: int = 0
    causes: list[StatusCause] = msgspec.field(default_factory=list)


class ApiStatus(ApiStruct):
    """`v1.Status`: the body of every failed request, and the object of an ERROR watch event."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class ApiError(OperationalError):
    """The API server answered, and the answer is no."""

    def __init__(
        self, http_status: int, reason: str, message: str, retry_after_s: float | None = None
    ) -> None:
        super().__init__(f"{http_status} {reason or 'without a reason'}: {message}")
        self.http_status = http_status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s
        """The server's wish, where it stated one."""


class BadRequest(ApiError):
    """The request itself is wrong; the same one will never succeed."""


class Unauthorized(ApiError):
    """The credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """The credentials are good, but a role does not allow this."""


class NamespaceTerminating(ApiError):
    """403 as well: nothing new comes into a namespace that is being deleted, whoever asks."""


class NotFound(ApiError):
    """The object, or the kind itself, does not exist."""


class Conflict(ApiError):
    """The object is not in the state that the request assumes."""


class AlreadyExists(ApiError):
    """An object of that name is there already."""


class Expired(ApiError):
    """410: the resource version or continue token is older than what the server remembers."""


class Invalid(ApiError):
    """422: the object failed validation."""


class TooManyRequests(ApiError):
    """429: try again after `retry_after_s`."""


class ServerError(ApiError):
    """5xx: the server could not answer; what it did before that is unknown."""


class TransportError(OperationalError):
    """No answer of the API server arrived, or none that can be read."""


class ConnectFailed(TransportError):
    """No connection could be had, so nothing was sent."""


class NotSent(ConnectFailed):
    """We did not want to send it any more: the lease may be another's, or the client is closed."""


class ConnectionLost(TransportError):
    """The connection broke after the request had (perhaps) been sent; the outcome is unknown."""


class RequestTimeout(TransportError):
    """The answer did not come in time; the outcome is unknown."""


class ProtocolViolation(ConnectionLost):
    """What came back is not HTTP, or not what was asked for; the outcome is unknown."""


TRANSIENT: Final = (TransportError, ServerError, TooManyRequests)
"""What may be otherwise a moment later."""


def read_answer(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """What an answer of 2xx holds; `ProtocolViolation` where that is not what it should be."""
    try:
        return decoded(decoder, body)
    except UNDECODABLE as error:
        raise ProtocolViolation(f"what came cannot be read: {error}") from error


_BY_HTTP_STATUS: Final[dict[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}
_BY_REASON: Final[dict[str, type[ApiError]]] = {
    **{kind.__name__: kind for kind in (*_BY_HTTP_STATUS.values(), AlreadyExists)},
    "Gone": Expired,
    **dict.fromkeys(
        ("InternalError", "ServiceUnavailable", "ServerTimeout", "Timeout", "StoreReadError"),
        ServerError,
    ),
}


_status_decoder: Final = msgspec.json.Decoder(ApiStatus)


def error_from_status(status: ApiStatus, http_status: int, retry_after_s: float | None) -> ApiError:
    """What a Status stands for."""
    code = status.code or http_status
    error_type = _BY_REASON.get(status.reason) or _BY_HTTP_STATUS.get(code)
    if error_type is None:
        error_type = ServerError if code >= 500 else ApiError
    causes = [] if status.details is None else status.details.causes
    if any(cause.reason == "NamespaceTerminating" for cause in causes):
        error_type = NamespaceTerminating
    if retry_after_s is None and status.details is not None:
        retry_after_s = status.details.retry_after_seconds or None
    if retry_after_s is not None:
        retry_after_s = min(max(retry_after_s, 0.0), RETRY_AFTER_S_MAX)
    return error_type(code, status.reason, status.message or "no message", retry_after_s)


def error_from_answer(http_status: int, body: bytes, retry_after_s: float | None) -> ApiError:
    """The error for a failed request; a body that is no `ApiStatus` becomes the message."""
    try:
        status = _status_decoder.decode(body)
    except UNDECODABLE:
        text = body[:API_ERROR_LENGTH_MAX].decode("utf-8", "replace").strip()
        status = ApiStatus(message=text)
    return error_from_status(status, http_status, retry_after_s)
