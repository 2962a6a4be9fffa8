"""`/statusz` and `/flagz`: what runs here, since when, started how. Pure.

Text for people unless the Accept header names one of the structured forms.

Formats: staging/src/k8s.io/apiserver/pkg/server/{statusz,flagz}, v1.36.2. There a delimiter is chosen
at random, so that nobody parses the text; here it is always the same, which promises as little.
"""

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from importlib import metadata
from typing import Any, Final, NamedTuple

import msgspec

from shared.go_yaml import dumped

COMPONENT: Final = "berth"
EMULATED: Final = "1.36"
"""The kube-scheduler whose decisions these are."""
PLAIN: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
YAML: Final = "application/yaml"
VERSIONS: Final[Mapping[str, bool]] = {"v1beta1": False, "v1alpha1": True}
"""Of the structured forms -> whether it is deprecated."""
_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only."
)


class Page(NamedTuple):
    status: int
    body: bytes
    content_type: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()


def statusz(accept: str, started_s: float, now_s: float, paths: Sequence[str]) -> Page:
    """Both times in seconds since 1970. Status 406: in none of the forms that were asked for."""
    started = datetime.fromtimestamp(started_s, UTC)
    up_s = max(0, int(now_s - started_s))
    version = metadata.version("berth-scheduler")
    fields: dict[str, Any] = {
        "startTime": f"{started:%Y-%m-%dT%H:%M:%SZ}",
        "uptimeSeconds": up_s,
        "goVersion": "",
        "binaryVersion": version,
        "emulationVersion": EMULATED,
        "paths": list(paths),
    }
    lines = [
        f"Started: {started:%a %b} {started.day:2} {started:%H:%M:%S UTC %Y}",
        f"Up: {up_s // 3600} hr {up_s // 60 % 60:02} min {up_s % 60:02} sec",
        f"Python version: {platform.python_version()}",
        f"Binary version: {version}",
        f"Emulation version: {EMULATED}",
        f"Paths: {' '.join(paths)}",
    ]
    return _answer(accept, "Statusz", ["", *lines], fields)


def flagz(accept: str, flags: Mapping[str, str]) -> Page:
    """By flag, as given or by default."""
    lines = [f"{name}: {value}" for name, value in sorted(flags.items())]
    return _answer(accept, "Flagz", lines, {"flags": dict(flags)})


def _answer(accept: str, kind: str, lines: Sequence[str], fields: Mapping[str, Any]) -> Page:
    for wish in _wishes(accept) if accept.strip() else [_Wish("text", "plain", {})]:
        asked = wish.parameters
        if asked.get("stream") or asked.get("sv"):
            continue
        shape = tuple(asked.get(name) for name in ("g", "v", "as"))
        version = shape[1] or ""
        is_known = version in VERSIONS and shape == ("config.k8s.io", version, kind)
        media_type = next(filter(wish.covers, (JSON, YAML)), "")
        if media_type and is_known:
            return _structured(media_type, version, kind, fields)
        if wish.covers("text/plain") and shape == (None, None, None):
            head = ["", f"{COMPONENT} {kind.lower()}", _WARNING]
            return Page(200, "\n".join([*head, *lines, ""]).encode())
    return failed(406, f"only the following media types are accepted: {JSON}, {YAML}, text/plain")


class _Wish(NamedTuple):
    """A part of an Accept header."""

    type: str
    subtype: str
    parameters: Mapping[str, str]

    def covers(self, media_type: str) -> bool:
        first, _, second = media_type.partition("/")
        return (self.type, self.subtype) in ((first, second), (first, "*"), ("*", "*"))


def _wishes(accept: str) -> list[_Wish]:
    """The most wanted first, then those without a star (`NegotiateMediaTypeOptions` in
    staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go, v1.36.2)."""
    found: list[tuple[float, _Wish]] = []
    for clause in accept.split(","):
        named, *parts = clause.split(";")
        first, _, second = (part.strip() for part in named.partition("/"))
        parameters = {
            name.strip(): value.strip()
            for name, _, value in (part.partition("=") for part in parts)
        }
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        wish = _Wish(first, second or ("*" if first == "*" else ""), parameters)
        found.append((quality, wish))
    found.sort(key=lambda each: (-each[0], each[1].type == "*", each[1].subtype == "*"))
    return [wish for _, wish in found]


def _structured(media_type: str, version: str, kind: str, fields: Mapping[str, Any]) -> Page:
    body = {
        "kind": kind,
        "apiVersion": f"config.k8s.io/{version}",
        "metadata": {"name": COMPONENT},
        **fields,
    }
    warned = f"This version of the {kind.lower()} endpoint is deprecated."
    warning = ("Warning", f'299 - "{warned} Please use a newer version."')
    is_yaml = media_type == YAML
    text = dumped(body, sorts_keys=True).encode() if is_yaml else msgspec.json.encode(body)
    form = f"{media_type};g=config.k8s.io;v={version};as={kind}"
    return Page(200, text, form, (warning,) if VERSIONS[version] else ())


def failed(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> Page:
    """As the API server says it: a Status."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": HTTPStatus(status).phrase.replace(" ", ""),
        "code": status,
    }
    return Page(status, msgspec.json.encode(body), JSON, headers)
