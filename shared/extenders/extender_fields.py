"""`extenders:` of a KubeSchedulerConfiguration, read and shown.

Shape, defaults and rules: Extender in staging/src/k8s.io/kube-scheduler/config/v1/types.go, and
validateExtenders in pkg/scheduler/apis/config/validation/validation.go, v1.36.2.
"""

import re
from typing import Any, Final
from urllib.parse import urlsplit

from shared import shown
from shared.extenders.extender_config import ExtenderConfig, ExtenderTls
from shared.kube.resource_names import is_extended
from shared.yaml_fields import INT64_MAX, Field, as_written, key_of

_VERB: Final = re.compile(r"[!-~]*")
_VERBS: Final = ("filter_verb", "prioritize_verb", "preempt_verb", "bind_verb")


def read_extenders(field: Field, notes: list[str]) -> tuple[ExtenderConfig, ...]:
    """The extenders in the order in which they are called: those that may fail come last, as in
    pkg/scheduler/scheduler.go, `buildExtenders`. Problems are told where they stand."""
    found: list[ExtenderConfig] = []
    managed: set[str] = set()
    binder = ""
    for entry in field.items():
        extender = _extender(entry, managed, notes)
        found.append(extender)
        if extender.bind_verb and binder:
            entry.problem(f"bindVerb: only one extender can implement bind, and {binder} does")
        elif extender.bind_verb:
            binder = entry.where
    return tuple(sorted(found, key=lambda extender: extender.ignorable))


def shown_extender(extender: ExtenderConfig) -> dict[str, Any]:
    """As in a configuration file; what is not set is left out, and a private key is not shown."""
    managed, tls = sorted(extender.managed_resources), extender.tls_config
    ignored = extender.ignored_by_scheduler
    shown = as_written(extender) | {
        "tlsConfig": None if tls is None else _given(as_written(tls)),
        "httpTimeout": f"{extender.http_timeout_s * 1000:.0f}ms",
        "managedResources": [{"name": n, "ignoredByScheduler": n in ignored} for n in managed],
        "ignoredByScheduler": None,  # Of the resources, not of the extender.
    }
    if tls is not None and tls.key_data:
        shown["tlsConfig"]["keyData"] = "(not shown)"
    return _given(shown)


def _given(shown: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in shown.items() if value}


def _extender(entry: Field, managed: set[str], notes: list[str]) -> ExtenderConfig:
    fields = entry.mapping()
    weight_field = fields.field("weight")
    resources = [_resource(each, managed) for each in fields.field("managedResources").items()]
    verbs: dict[str, Any] = {name: _verb(fields.field(key_of(name))) for name in _VERBS}
    url_field, timeout_field = fields.field("urlPrefix"), fields.field("httpTimeout")
    # Who is never asked, as all that it does is to have resources ignored, needs no address.
    needs_url = any(verbs.values()) or not resources or url_field.is_present
    extender = fields.read(
        ExtenderConfig,
        **verbs,
        url_prefix=_url(url_field) if needs_url else "",
        weight=weight_field.whole_number(0, least=-INT64_MAX - 1, most=INT64_MAX),
        tls_config=_tls(fields.field("tlsConfig")),
        managed_resources=frozenset(name for name, _ in resources),
        ignored_by_scheduler=frozenset(name for name, is_ignored in resources if is_ignored),
    )
    if extender.prioritize_verb and extender.weight <= 0:
        weight_field.problem("must be positive where prioritizeVerb is set")
    if extender.http_timeout_s < 0:
        timeout_field.problem("must be longer than zero")
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
    return text


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
    tls = fields.read(ExtenderTls, key_data=fields.field("keyData").binary(is_secret=True))
    if tls.insecure and (tls.ca_file or tls.ca_data):
        field.problem("insecure and a certificate authority exclude each other")
    if bool(tls.cert_file or tls.cert_data) != bool(tls.key_file or tls.key_data):
        field.problem("a certificate and its key must be given together")
    return tls
