"""`extenders:` of a KubeSchedulerConfiguration, read and shown.

Shape, defaults and rules: Extender in staging/src/k8s.io/kube-scheduler/config/v1/types.go, and
validateExtenders in pkg/scheduler/apis/config/validation/validation.go, v1.36.2.
"""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from shared import shown
from shared.extenders.extender_config import TIMEOUT_S, ExtenderConfig, ExtenderTls
from shared.kube.resource_names import is_extended
from shared.yaml_fields import Field

INT32_MAX: Final = 2**31 - 1
_VERB: Final = re.compile(r"[!-~]*")

DurationReader = Callable[[Field, float], float]
"""Reads a duration of the file in seconds; the number is the fallback."""


def read_extenders(
    field: Field, duration_s: DurationReader, notes: list[str]
) -> tuple[ExtenderConfig, ...]:
    """The extenders in the order in which they are called: those that may fail come last, as in
    pkg/scheduler/scheduler.go, `buildExtenders`. Problems are told where they stand."""
    found: list[ExtenderConfig] = []
    managed: set[str] = set()
    binder = ""
    for entry in field.items():
        extender = _extender(entry, duration_s, managed, notes)
        found.append(extender)
        if extender.bind_verb and binder:
            entry.problem(f"bindVerb: only one extender can implement bind, and {binder} does")
        elif extender.bind_verb:
            binder = entry.where
    return tuple(sorted(found, key=lambda extender: extender.ignorable))


def shown_extender(extender: ExtenderConfig) -> dict[str, Any]:
    """As in a configuration file; what is not set is left out, and a private key is not shown."""
    shown: dict[str, Any] = {
        "urlPrefix": extender.url_prefix,
        "filterVerb": extender.filter_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "preemptVerb": extender.preempt_verb,
        "bindVerb": extender.bind_verb,
        "weight": extender.weight,
        "enableHTTPS": extender.enable_https,
        "tlsConfig": None if extender.tls is None else _shown_tls(extender.tls),
        "httpTimeout": f"{extender.timeout_s * 1000:.0f}ms",
        "nodeCacheCapable": extender.node_cache_capable,
        "managedResources": [
            {"name": name, "ignoredByScheduler": name in extender.ignored_by_scheduler}
            for name in sorted(extender.managed_resources)
        ],
        "ignorable": extender.ignorable,
    }
    return {key: value for key, value in shown.items() if value}


def _shown_tls(tls: ExtenderTls) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "insecure": tls.insecure,
        "serverName": tls.server_name,
        "certFile": tls.cert_file,
        "keyFile": tls.key_file,
        "caFile": tls.ca_file,
        "certData": base64.b64encode(tls.cert_data).decode(),
        "keyData": "(not shown)" if tls.key_data else "",
        "caData": base64.b64encode(tls.ca_data).decode(),
    }
    return {key: value for key, value in shown.items() if value}


def _extender(
    entry: Field, duration_s: DurationReader, managed: set[str], notes: list[str]
) -> ExtenderConfig:
    fields = entry.mapping()
    weight_field = fields.field("weight")
    resources = [_resource(each, managed) for each in fields.field("managedResources").items()]
    extender = ExtenderConfig(
        url_prefix=_url(fields.field("urlPrefix")),
        filter_verb=_verb(fields.field("filterVerb")),
        prioritize_verb=_verb(fields.field("prioritizeVerb")),
        preempt_verb=_verb(fields.field("preemptVerb")),
        bind_verb=_verb(fields.field("bindVerb")),
        weight=weight_field.whole_number(0, least=-INT32_MAX, most=INT32_MAX),
        enable_https=fields.field("enableHTTPS").truth(fallback=False),
        tls=_tls(fields.field("tlsConfig")),
        timeout_s=duration_s(fields.field("httpTimeout"), TIMEOUT_S),
        node_cache_capable=fields.field("nodeCacheCapable").truth(fallback=False),
        managed_resources=frozenset(name for name, _ in resources),
        ignored_by_scheduler=frozenset(name for name, is_ignored in resources if is_ignored),
        ignorable=fields.field("ignorable").truth(fallback=False),
    )
    fields.finish()
    if extender.prioritize_verb and extender.weight <= 0:
        weight_field.problem("must be positive where prioritizeVerb is set")
    if extender.enable_https and extender.url_prefix.startswith("http:"):
        notes.append(f"{entry.where}: enableHTTPS: no effect; urlPrefix begins with http://")
    return extender


def _url(field: Field) -> str:
    text = field.text("")
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_usable &= not (parts.query or parts.fragment or parts.username)
    except ValueError:
        is_usable = False
    if not is_usable:
        field.problem(f"{shown.url(text)} must be like http://host:port/path")
        return ""
    return text.rstrip("/")


def _verb(field: Field) -> str:
    text = field.text("")
    if not _VERB.fullmatch(text):
        field.problem(f"{text!r} has characters that no URL may have")
        return ""
    return text.lstrip("/")


def _resource(entry: Field, managed: set[str]) -> tuple[str, bool]:
    fields = entry.mapping()
    name_field = fields.field("name")
    name = name_field.text("")
    is_ignored = fields.field("ignoredByScheduler").truth(fallback=False)
    fields.finish()
    if not is_extended(name):
        name_field.problem(f"{name!r} is an invalid extended resource name (like example.com/foo)")
    elif name in managed:
        name_field.problem(f"{name!r} is managed by an extender already")
    managed.add(name)
    return name, is_ignored


def _tls(field: Field) -> ExtenderTls | None:
    if not field.is_present:
        return None
    fields = field.mapping()
    tls = ExtenderTls(
        insecure=fields.field("insecure").truth(fallback=False),
        server_name=fields.field("serverName").text(""),
        cert_file=fields.field("certFile").text(""),
        key_file=fields.field("keyFile").text(""),
        ca_file=fields.field("caFile").text(""),
        cert_data=_base64(fields.field("certData")),
        key_data=_base64(fields.field("keyData"), is_secret=True),
        ca_data=_base64(fields.field("caData")),
    )
    fields.finish()
    if bool(tls.cert_file or tls.cert_data) != bool(tls.key_file or tls.key_data):
        field.problem("a certificate and its key must be given together")
    return tls


def _base64(field: Field, *, is_secret: bool = False) -> bytes:
    try:
        return base64.b64decode(field.text("", is_secret=is_secret), validate=True)
    except (binascii.Error, ValueError):
        field.problem("must be base64")
        return b""
