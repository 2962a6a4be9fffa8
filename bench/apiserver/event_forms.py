"""Events in their two forms: events.k8s.io/v1, as stored here, and the core v1 view of the same.

The correspondence of fields is that of pkg/apis/events/v1/conversion.go (v1.36); tests/wire and the
recorded effects of kube-scheduler show both forms of the same events.
"""

from typing import Final

from bench.apiserver.json_objects import JsonObject

# (events.k8s.io/v1, core v1), in the order in which the core form prints them.
_RENAMED: Final = (
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("series", "series"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingComponent"),
    ("reportingInstance", "reportingInstance"),
)
_TO_CORE: Final = dict(_RENAMED)
_FROM_CORE: Final = {core: stored for stored, core in _RENAMED}


def complete_event(event: JsonObject) -> None:
    """Add what Go prints of an event although it is empty."""
    event.setdefault("eventTime", None)
    event.setdefault("regarding", {})
    event.setdefault("deprecatedSource", {})
    event.setdefault("deprecatedFirstTimestamp", None)
    event.setdefault("deprecatedLastTimestamp", None)


def core_form(event: JsonObject) -> JsonObject:
    """Turn a stored event into its core v1 form."""
    core: JsonObject = {"metadata": event["metadata"]}
    for stored_name, core_name in _RENAMED:
        if stored_name in event:
            core[core_name] = event[stored_name]
    core.setdefault("reportingComponent", "")
    core.setdefault("reportingInstance", "")
    return core


def stored_form(core: JsonObject) -> JsonObject:
    """Turn a core v1 event into the form that is stored."""
    return {_FROM_CORE.get(name, name): value for name, value in core.items()}


def core_name(field: str) -> str:
    """Return what validation calls a field: it always speaks of the core form."""
    return _TO_CORE.get(field, field)
