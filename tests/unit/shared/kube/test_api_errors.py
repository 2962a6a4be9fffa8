"""Which error an answer stands for."""

import json

import pytest

from shared.kube import api_errors
from shared.kube.api_errors import ApiError, error_from_answer


def status_body(reason: str, code: int, **details: object) -> bytes:
    body = {"kind": "Status", "message": "m", "reason": reason, "code": code, "details": details}
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("http_status", "reason", "expected"),
    [
        (400, "BadRequest", api_errors.BadRequest),
        (401, "Unauthorized", api_errors.Unauthorized),
        (403, "Forbidden", api_errors.Forbidden),
        (404, "NotFound", api_errors.NotFound),
        (409, "Conflict", api_errors.Conflict),
        (409, "AlreadyExists", api_errors.AlreadyExists),
        (410, "Gone", api_errors.Expired),
        (410, "Expired", api_errors.Expired),
        (422, "Invalid", api_errors.Invalid),
        (429, "TooManyRequests", api_errors.TooManyRequests),
        (500, "InternalError", api_errors.ServerError),
        (503, "ServiceUnavailable", api_errors.ServerError),
        (504, "Timeout", api_errors.ServerError),
        (415, "UnsupportedMediaType", ApiError),
        # The reason goes before the status; without one the status decides.
        (500, "Conflict", api_errors.Conflict),
        (409, "", api_errors.Conflict),
        (429, "", api_errors.TooManyRequests),
        (599, "", api_errors.ServerError),
    ],
)
def test_the_type_follows_reason_and_status(
    http_status: int, reason: str, expected: type[ApiError]
) -> None:
    error = error_from_answer(http_status, status_body(reason, http_status), None)
    assert type(error) is expected
    assert (error.http_status, error.reason, error.message) == (http_status, reason, "m")


def test_a_namespace_that_goes_is_no_lack_of_rights() -> None:
    causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": "m"}]
    error = error_from_answer(403, status_body("Forbidden", 403, causes=causes), None)
    assert type(error) is api_errors.NamespaceTerminating
    assert str(error) == "403 Forbidden: m"


def test_a_body_that_is_no_status_becomes_the_message() -> None:
    error = error_from_answer(404, b"404 page not found\n", None)
    assert isinstance(error, api_errors.NotFound)
    assert error.message == "404 page not found"
    assert error_from_answer(502, b"\xff<html>", None).message == "\ufffd<html>"
    assert error_from_answer(502, b"", None).message == "no message"
    # An API server names the paths that it has where a group is not served.
    assert error_from_answer(404, b'{"paths": ["/apis"]}', None).message == "no message"


def test_the_server_may_say_when_to_come_back() -> None:
    by_header = error_from_answer(429, b"", 3.0)
    by_details = error_from_answer(504, status_body("Timeout", 504, retryAfterSeconds=2), None)
    assert by_header.retry_after_s == 3.0
    assert by_details.retry_after_s == 2
    assert error_from_answer(504, status_body("Timeout", 504), None).retry_after_s is None
    assert error_from_answer(503, b"", 999_999.0).retry_after_s == 300.0
