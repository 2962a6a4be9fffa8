"""Validation: what the API server refuses with 422, as far as schedulers and their tools meet it.

Messages are those of pkg/apis/core/validation (v1.36) and staging/src/k8s.io/apimachinery. The
functions return the causes that they found; an empty list means that the object is fine. What is
not checked here is accepted: the server trusts its clients with the rest of the schema.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

import orjson

from bench.apiserver import api_status as status
from bench.apiserver.api_status import Cause
from bench.apiserver.event_forms import core_name
from bench.apiserver.json_objects import JsonObject, child, children
from bench.apiserver.served_resources import (
    CORE_EVENTS,
    DISRUPTION_BUDGETS,
    EVENTS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    Resource,
)
from bench.apiserver.stored_quantities import BAD_QUANTITY, quantity_of

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(f"^{_LABEL}$")
_DNS_SUBDOMAIN: Final = re.compile(rf"^{_LABEL}(\.{_LABEL})*$")
_LABEL_LENGTH_MAX: Final = 63
_SUBDOMAIN_LENGTH_MAX: Final = 253
_QUALIFIED_NAME: Final = re.compile(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_SUBDOMAIN_MESSAGE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_MESSAGE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_MICRO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[-+]\d\d:\d\d)")
_USER_PRIORITY_MAX: Final = 1_000_000_000
_SYSTEM_PREFIX: Final = "system-"
_EVENT_TEXT_CHARS_MAX: Final = {"action": 128, "reason": 128, "reportingInstance": 128}
_EVENT_NOTE_BYTES_MAX: Final = 1024
_SELECTOR_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
# Namespaces whose events may be about cluster-scoped objects.
_CLUSTER_EVENT_NAMESPACES: Final = ("default", "kube-system")


def required(field: str, detail: str = "") -> Cause:
    """Report a field that must be set."""
    message = f"Required value: {detail}" if detail else "Required value"
    return Cause(field, "FieldValueRequired", message)


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    """Report a field whose value does not do."""
    shown = orjson.dumps(value).decode()
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {detail}")


def forbidden_value(field: str, detail: str) -> Cause:
    """Report a field that must not be set so."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate_value(field: str, value: str) -> Cause:
    """Report a value that must be unique."""
    return Cause(field, "FieldValueDuplicate", f'Duplicate value: "{value}"')


def unsupported_value(field: str, value: str, supported: tuple[str, ...]) -> Cause:
    """Report a value outside a closed set."""
    listed = ", ".join(f'"{each}"' for each in supported)
    return Cause(
        field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}'
    )


def validate_new(resource: Resource, obj: JsonObject) -> list[Cause]:
    """Validate an object that is about to be created."""
    if resource is EVENTS or resource is CORE_EVENTS:
        return validate_event(resource, obj)
    causes = _validate_name(resource, obj["metadata"])
    validator = _VALIDATORS.get(resource.qualified)
    if validator is not None:
        causes += validator(obj)
    return causes


def _validate_name(resource: Resource, metadata: JsonObject) -> list[Cause]:
    name = metadata["name"]
    if resource is NAMESPACES:
        if not _DNS_LABEL.match(name):
            return [invalid_value("metadata.name", name, _LABEL_MESSAGE)]
        if len(name) > _LABEL_LENGTH_MAX:
            return [
                invalid_value(
                    "metadata.name", name, f"must be no more than {_LABEL_LENGTH_MAX} characters"
                )
            ]
        return []
    causes = []
    if len(name) > _SUBDOMAIN_LENGTH_MAX:
        detail = f"must be no more than {_SUBDOMAIN_LENGTH_MAX} characters"
        causes.append(invalid_value("metadata.name", name, detail))
    if not _DNS_SUBDOMAIN.match(name):
        causes.append(invalid_value("metadata.name", name, _SUBDOMAIN_MESSAGE))
    return causes


def _validate_pod(pod: JsonObject) -> list[Cause]:
    spec = pod["spec"]
    causes = []
    containers = spec.get("containers")
    if not containers:
        causes.append(required("spec.containers"))
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            causes += _validate_container(f"spec.{field}[{index}]", container, seen)
    seen_gates: set[str] = set()
    for index, gate in enumerate(children(spec, "schedulingGates")):
        name = gate.get("name", "")
        if name in seen_gates:
            causes.append(duplicate_value(f"spec.schedulingGates[{index}].name", name))
        seen_gates.add(name)
    if spec.get("nodeName") and seen_gates:
        detail = "cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden_value("spec.nodeName", detail))
    if not spec.get("nodeName") and not spec.get("schedulerName", "x"):
        causes.append(required("spec.schedulerName"))
    return causes


def _validate_container(path: str, container: JsonObject, seen: set[str]) -> list[Cause]:
    causes = []
    name = container.get("name")
    if not name:
        causes.append(required(f"{path}.name"))
    elif not _DNS_LABEL.match(name) or len(name) > _LABEL_LENGTH_MAX:
        causes.append(invalid_value(f"{path}.name", name, _LABEL_MESSAGE))
    elif name in seen:
        causes.append(duplicate_value(f"{path}.name", name))
    else:
        seen.add(name)
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    resources = container.get("resources")
    if resources:
        causes += _validate_resources(f"{path}.resources", resources)
    return causes


def _validate_resources(path: str, resources: JsonObject) -> list[Cause]:
    causes = []
    limits = resources.get("limits") or {}
    for name, text in (resources.get("requests") or {}).items():
        quantity = quantity_of(text)
        assert quantity is not None, "check_readable runs before validation"
        if quantity < 0:
            detail = "must be greater than or equal to 0"
            causes.append(invalid_value(f"{path}.requests[{name}]", str(text), detail))
        limit = quantity_of(limits[name]) if name in limits else None
        if limit is not None and quantity > limit:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{path}.requests", str(text), detail))
    return causes


def check_readable(resource: Resource, obj: JsonObject) -> None:
    """Refuse quantities and times that cannot be read; kube-apiserver fails on them while decoding."""
    if resource is PODS:
        spec = child(obj, "spec")
        holders = [spec, *children(spec, "containers"), *children(spec, "initContainers")]
        maps = [
            resources[name]
            for holder in holders
            if (resources := holder.get("resources"))
            for name in ("requests", "limits")
            if resources.get(name)
        ]
        if spec.get("overhead"):
            maps.append(spec["overhead"])
    elif resource.plural == "nodes":
        node_status = child(obj, "status")
        maps = [child(node_status, "capacity"), child(node_status, "allocatable")]
    elif resource.plural == "leases":
        for field in ("acquireTime", "renewTime"):
            time = child(obj, "spec").get(field)
            if time is not None and not _MICRO_TIME.fullmatch(time):
                _refuse(resource, f'parsing time "{time}" as "2006-01-02T15:04:05.000000Z07:00"')
        return
    else:
        return
    for quantities in maps:
        for quantity in quantities.values():
            if quantity_of(quantity) is None:
                _refuse(resource, BAD_QUANTITY)


def _refuse(resource: Resource, problem: str) -> NoReturn:
    raise status.bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a '
        f"{resource.kind}: {problem}"
    )


def _validate_priority_class(priority_class: JsonObject) -> list[Cause]:
    name = priority_class["metadata"]["name"]
    value = priority_class.get("value", 0)
    causes = []
    if name.startswith(_SYSTEM_PREFIX):
        detail = (
            "priority class names with 'system-' prefix are reserved for system use only. error: "
            f"{name} is not a known system priority class"
        )
        causes.append(forbidden_value("metadata.name", detail))
    elif value > _USER_PRIORITY_MAX:
        detail = f"maximum allowed value of a user defined priority is {_USER_PRIORITY_MAX}"
        causes.append(forbidden_value("value", detail))
    policy = priority_class.get("preemptionPolicy")
    if policy not in ("PreemptLowerPriority", "Never"):
        supported = ("PreemptLowerPriority", "Never")
        causes.append(unsupported_value("preemptionPolicy", str(policy), supported))
    return causes


def validate_budget(budget: JsonObject) -> list[Cause]:
    """Validate a PodDisruptionBudget's selector; evictions rely on it."""
    selector = child(budget, "spec").get("selector")
    if selector is None:
        return []
    causes = []
    for key, value in (selector.get("matchLabels") or {}).items():
        if not isinstance(value, str):
            raise TypeError(f"the value of the label {key} is no string")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        path = f"spec.selector.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if not isinstance(expression.get("key"), str) or not expression["key"]:
            causes.append(required(f"{path}.key"))
        if operator not in _SELECTOR_OPERATORS:
            causes.append(invalid_value(f"{path}.operator", operator, "not a valid operator"))
        elif (operator in ("In", "NotIn")) != bool(values):
            detail = "must be specified when `operator` is 'In' or 'NotIn', and only then"
            causes.append(required(f"{path}.values", detail))
        if not all(isinstance(each, str) for each in values):
            raise TypeError("a label selector's values are not strings")
    return causes


def validate_event(resource: Resource, event: JsonObject) -> list[Cause]:
    """Validate an event in its stored form (pkg/apis/core/validation/events.go, v1.36)."""
    causes = _validate_event_basics(resource, event)
    if resource is CORE_EVENTS:
        return causes
    causes += _validate_name(resource, event["metadata"])
    if not event.get("eventTime"):
        causes.append(required("eventTime"))
    kind = event.get("type", "")
    if kind not in ("Normal", "Warning"):
        causes.append(invalid_value("type", kind, f"has invalid value: {kind}"))
    for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp"):
        if event.get(field):
            causes.append(invalid_value(core_name(field), event[field], "needs to be unset"))
    if event.get("deprecatedCount"):
        causes.append(invalid_value("count", event["deprecatedCount"], "needs to be unset"))
    if event.get("deprecatedSource"):
        causes.append(invalid_value("source", event["deprecatedSource"], "needs to be unset"))
    return causes


def _validate_event_basics(resource: Resource, event: JsonObject) -> list[Cause]:
    namespace = event["metadata"].get("namespace", "")
    about = child(event, "regarding").get("namespace", "")
    mismatch = invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    if not event.get("eventTime"):
        fits = namespace in ("", "default") if not about else namespace == about
        return [] if fits else [mismatch]
    causes = []
    if not about and namespace not in _CLUSTER_EVENT_NAMESPACES:
        causes.append(mismatch)
    controller = event.get("reportingController", "")
    field = "reportingComponent" if resource is CORE_EVENTS else "reportingController"
    if not controller:
        causes.append(required(field))
    elif not _QUALIFIED_NAME.match(controller):
        causes.append(invalid_value(field, controller, "name part must be a qualified name"))
    for name, chars_max in _EVENT_TEXT_CHARS_MAX.items():
        text = event.get(name, "")
        if not text:
            causes.append(required(name))
        elif len(text) > chars_max:
            causes.append(invalid_value(name, "", f"can have at most {chars_max} characters"))
    if len(event.get("note", "").encode()) > _EVENT_NOTE_BYTES_MAX:
        detail = f"can have at most {_EVENT_NOTE_BYTES_MAX} characters"
        causes.append(invalid_value("message", "", detail))
    return causes


# What a pod update may change, as ValidatePodUpdate words it.
_POD_UPDATE_MESSAGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)


def validate_pod_update(new: JsonObject, old: JsonObject) -> list[Cause]:
    """Validate a change of a pod's spec (ValidatePodUpdate, v1.36)."""
    old_spec = old["spec"]
    spec = dict(new["spec"])
    if spec == old_spec:
        return []
    causes = []
    gates = {gate.get("name") for gate in children(spec, "schedulingGates")}
    old_gates = {gate.get("name") for gate in children(old_spec, "schedulingGates")}
    if gates - old_gates:
        detail = "only deletion is allowed, but found new scheduling gate"
        causes.append(forbidden_value("spec.schedulingGates", detail))
    tolerations, old_tolerations = children(spec, "tolerations"), children(old_spec, "tolerations")
    if any(toleration not in tolerations for toleration in old_tolerations):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(forbidden_value("spec.tolerations", detail))
    free = ["schedulingGates", "tolerations", "activeDeadlineSeconds"]
    if old_gates:
        # A gated pod's placement may still be narrowed.
        free += ["nodeSelector", "affinity"]
    for field in free:
        spec.pop(field, None)
        if field in old_spec:
            spec[field] = old_spec[field]
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = _with_old_images(spec[field], children(old_spec, field))
    if spec != old_spec:
        causes.append(forbidden_value("spec", _POD_UPDATE_MESSAGE))
    return causes


def _with_old_images(containers: Any, old: list[JsonObject]) -> Any:
    if not isinstance(containers, list) or len(containers) != len(old):
        return containers
    return [
        {**new, "image": was.get("image")} if isinstance(new, dict) else new
        for new, was in zip(containers, old, strict=True)
    ]


_VALIDATORS: Final[dict[str, Callable[[JsonObject], list[Cause]]]] = {
    PODS.qualified: _validate_pod,
    PRIORITY_CLASSES.qualified: _validate_priority_class,
    DISRUPTION_BUDGETS.qualified: validate_budget,
}
