"""Continue tokens: where the next page of a list begins, and at which version.

The form is that of staging/src/k8s.io/apiserver/pkg/storage/continue.go (v1.36), which clients may
not depend on but tests of clients do: base64 of a small JSON object.
"""

import base64
import binascii
import posixpath
from typing import NamedTuple

import orjson

from bench.apiserver import api_status as status
from bench.apiserver.json_objects import UnreadableJsonError, decode_json

_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - the name of a format, not a secret
_INVALID = "invalid continue token: continue key is not valid"


class Continuation(NamedTuple):
    """A decoded token. `version` -1 asks for the newest state, after a 410."""

    version: int
    # The first key that may be returned, with the namespace also where the list is of one.
    start_key: str


def encode_continue(version: int, last_key: str, namespace: str | None) -> str:
    """Make the token that continues after `last_key`."""
    start = last_key if namespace is None else last_key[len(namespace) :]
    token = {"v": _TOKEN_VERSION, "rv": version, "start": start + "\0"}
    return base64.urlsafe_b64encode(orjson.dumps(token)).rstrip(b"=").decode()


def decode_continue(text: str, namespace: str | None) -> Continuation:
    """Read a token or raise a 400."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise status.bad_request(f"{_INVALID}: illegal base64 data at input byte 0") from None
    try:
        token = decode_json(data)
    except UnreadableJsonError as error:
        raise status.bad_request(f"{_INVALID}: {error}") from None
    if not isinstance(token, dict) or token.get("v") != _TOKEN_VERSION:
        raise status.bad_request(f"{_INVALID}: server does not recognize this encoded version")
    version, start = token.get("rv"), token.get("start")
    if not isinstance(version, int) or version == 0:
        raise status.bad_request(f"{_INVALID}: incorrect encoded start resourceVersion")
    if not isinstance(start, str) or not start:
        raise status.bad_request(f"{_INVALID}: encoded start key empty")
    absolute = start if start.startswith("/") else "/" + start
    if posixpath.normpath(absolute) != absolute:
        raise status.bad_request(f"{_INVALID}: {start}")
    return Continuation(version, absolute[1:] if namespace is None else namespace + absolute)
