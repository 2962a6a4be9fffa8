"""`Status` answers: every refusal of the API server as a typed exception with one wire form.

Reasons, messages and details follow staging/src/k8s.io/apimachinery/pkg/api/errors (v1.36) and the
recorded answers in tests/wire. Handlers raise `ApiError`; only the router catches it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from bench.apiserver.json_objects import JsonObject

# The answer to a successful create that returns no object (pods/binding).
CREATED_STATUS = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
)


class Cause(NamedTuple):
    """One field that is at fault, as `details.causes` lists it."""

    field: str
    reason: str
    message: str

    def as_text(self) -> str:
        """Word the cause as a field.Error prints itself."""
        return f"{self.field}: {self.message}"


class ApiError(Exception):
    """A refusal with its HTTP code and everything that a Status object says of it."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str = "",
        details: JsonObject | None = None,
        retry_after_s: int | None = None,
        continue_token: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.details = details
        self.retry_after_s = retry_after_s
        self.continue_token = continue_token

    def as_object(self) -> JsonObject:
        """Build the Status object."""
        metadata: JsonObject = {}
        if self.continue_token is not None:
            metadata["continue"] = self.continue_token
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    def body(self) -> bytes:
        """Encode the Status object as the answer's body."""
        return orjson.dumps(self.as_object()) + b"\n"


def bad_request(message: str) -> ApiError:
    """400: the request itself makes no sense."""
    return ApiError(400, message, reason="BadRequest")


def unauthorized() -> ApiError:
    """401: no or a wrong bearer token."""
    return ApiError(401, "Unauthorized", reason="Unauthorized")


def forbidden(
    qualified: str, name: str, why: str, causes: Sequence[Cause] = (), group: str = ""
) -> ApiError:
    """403: admission does not let it in."""
    details = _details(name, qualified.partition(".")[0], group, causes)
    return ApiError(
        403, f'{qualified} "{name}" is forbidden: {why}', reason="Forbidden", details=details
    )


def not_found(qualified: str, name: str) -> ApiError:
    """404: no such object."""
    plural, _, group = qualified.partition(".")
    return ApiError(
        404,
        f'{qualified} "{name}" not found',
        reason="NotFound",
        details=_details(name, plural, group),
    )


def method_not_allowed() -> ApiError:
    """405: the resource does not do that verb."""
    return ApiError(
        405,
        "the server does not allow this method on the requested resource",
        reason="MethodNotAllowed",
        details={},
    )


def not_acceptable(offered: Sequence[str]) -> ApiError:
    """406: no representation that the client takes."""
    return ApiError(
        406,
        "only the following media types are accepted: " + ", ".join(offered),
        reason="NotAcceptable",
    )


def already_exists(qualified: str, name: str) -> ApiError:
    """409: a create of a name that is taken."""
    plural, _, group = qualified.partition(".")
    return ApiError(
        409,
        f'{qualified} "{name}" already exists',
        reason="AlreadyExists",
        details=_details(name, plural, group),
    )


def conflict(qualified: str, name: str, why: str) -> ApiError:
    """409: the object is not in the state that the client supposed."""
    plural, _, group = qualified.partition(".")
    return ApiError(
        409,
        f'Operation cannot be fulfilled on {qualified} "{name}": {why}',
        reason="Conflict",
        details=_details(name, plural, group),
    )


def stale_version(qualified: str, name: str) -> ApiError:
    """409: optimistic locking failed."""
    return conflict(
        qualified,
        name,
        "the object has been modified; please apply your changes to the latest version and "
        "try again",
    )


def expired(message: str, continue_token: str | None = None) -> ApiError:
    """410: the history no longer holds that version."""
    return ApiError(410, message, reason="Expired", continue_token=continue_token)


def too_large_body(limit_bytes: int) -> ApiError:
    """413: more body than the server reads."""
    return ApiError(
        413,
        f"Request entity too large: limit is {limit_bytes}",
        reason="RequestEntityTooLarge",
    )


def unsupported_patch_type() -> ApiError:
    """415 of a PATCH, in the words that kube-apiserver uses for it."""
    return ApiError(415, "415: Unsupported Media Type", reason="UnsupportedMediaType", details={})


def unsupported_body_type(offered: Sequence[str]) -> ApiError:
    """415 of a POST or PUT."""
    return ApiError(
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(offered),
        reason="UnsupportedMediaType",
    )


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422: fields with values that validation refuses."""
    assert causes, "an Invalid answer names at least one field"
    texts = [cause.as_text() for cause in causes]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    return ApiError(
        422,
        f'{qualified} "{name}" is invalid: {joined}',
        reason="Invalid",
        details=_details(name, kind, group, causes),
    )


def too_many_evictions(budget: str, healthy_wanted: int, healthy_now: int) -> ApiError:
    """429: an eviction that a PodDisruptionBudget forbids."""
    cause = {
        "reason": "DisruptionBudget",
        "message": f"The disruption budget {budget} needs {healthy_wanted} healthy pods and has "
        f"{healthy_now} currently",
    }
    return ApiError(
        429,
        "Cannot evict pod as it would violate the pod's disruption budget.",
        reason="TooManyRequests",
        details={"causes": [cause]},
    )


def internal(message: str) -> ApiError:
    """500 without a reason, as errors that are no StatusError come out of kube-apiserver."""
    return ApiError(500, message)


def too_large_version(wanted: int, current: int) -> ApiError:
    """504: a version that does not exist yet."""
    return ApiError(
        504,
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        reason="Timeout",
        details={
            "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ],
            "retryAfterSeconds": 1,
        },
        retry_after_s=1,
    )


def deleted_status(name: str, plural: str, group: str, uid: str) -> bytes:
    """Encode the answer to a delete of a resource that does not hand its last state back."""
    details: JsonObject = {"name": name}
    if group:
        details["group"] = group
    details["kind"] = plural
    details["uid"] = uid
    return (
        orjson.dumps(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": details,
            }
        )
        + b"\n"
    )


def _details(name: str, kind: str, group: str, causes: Sequence[Cause] = ()) -> JsonObject:
    details: JsonObject = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = kind
    if causes:
        details["causes"] = [
            {"reason": cause.reason, "message": cause.message, "field": cause.field}
            for cause in causes
        ]
    return details
