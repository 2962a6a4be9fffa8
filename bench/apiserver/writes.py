"""POST, PUT and PATCH: create, update with optimistic locking, patch, and the status subresource.

The order of checks is that of staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go
(v1.36): decode and default, admission, strategy, validation, then the write. An update that changes
nothing writes nothing and gets no new version.
"""

from typing import Any, Final

from bench.apiserver import api_status as status
from bench.apiserver import patches
from bench.apiserver.admission import admit_changed_pod, admit_new, check_priority_class
from bench.apiserver.api_cluster import Cluster
from bench.apiserver.defaults import (
    apply_defaults,
    apply_zero_values,
    initial_status,
    merge_label_keys,
)
from bench.apiserver.event_forms import complete_event, core_form, stored_form
from bench.apiserver.json_objects import (
    JsonObject,
    UnreadableJsonError,
    decode_json,
    has_nulls,
    summarize_body,
    without_nulls,
)
from bench.apiserver.reads import Answer
from bench.apiserver.representation import representation_of
from bench.apiserver.selection import kept_fields
from bench.apiserver.served_resources import (
    CORE_EVENTS,
    DISRUPTION_BUDGETS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    Resource,
)
from bench.apiserver.store import StoredObject, item_at_version
from bench.apiserver.validation import (
    check_readable,
    forbidden_value,
    invalid_value,
    required,
    validate_budget,
    validate_new,
    validate_pod_update,
)

# Members of metadata that the client of a create may set.
_CREATE_METADATA: Final = ("labels", "annotations", "ownerReferences", "finalizers")
# Members of metadata that only the server sets.
_SERVER_METADATA: Final = (
    "generateName",
    "namespace",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_OBJECT_MEMBERS: Final = ("metadata", "spec", "status")


def create(
    cluster: Cluster, resource: Resource, namespace: str, body: bytes, now_s: float
) -> Answer:
    """Answer POST of a collection."""
    obj = decode_object(resource, resource.kind, body)
    obj = _with_new_metadata(cluster, resource, namespace, obj, now_s)
    try:
        if resource is CORE_EVENTS or resource is EVENTS:
            obj = _prepare_event(resource, obj)
            admit_new(cluster, resource, obj)
        else:
            _prepare_object(cluster, resource, obj, now_s)
        causes = validate_new(resource, obj)
    except _SHAPE_ERRORS as error:
        raise _misshapen(resource, error) from error
    name = obj["metadata"]["name"]
    if causes:
        raise status.invalid(resource.kind, _message_group(resource), name, causes)
    table = cluster.store.table(resource)
    if table.get(namespace, name) is not None:
        raise status.already_exists(resource.qualified, name)
    stored = store_object(cluster, resource, obj, None, now_s)
    return Answer(201, representation_of(resource).object_bytes(stored.item) + b"\n")


def decode_object(resource: Resource, kind: str, body: bytes) -> JsonObject:
    """Decode a request body that must hold an object of `kind`, and drop its type members."""
    try:
        obj = decode_json(body)
    except UnreadableJsonError as error:
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get "
            f"version/kind; json parse error: {error} ({summarize_body(body)})"
        ) from None
    if not isinstance(obj, dict):
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get "
            "version/kind; json parse error: json: cannot unmarshal into Go value of type struct "
            f"({summarize_body(body)})"
        )
    given_kind = obj.pop("kind", None) or kind
    given_version = obj.pop("apiVersion", None)
    if given_kind != kind:
        raise status.bad_request(
            f'{given_kind} in version "{given_version}" cannot be handled as a {kind}: unable to '
            f"convert {given_kind} to {kind}"
        )
    if given_version not in (None, "", resource.group_version) and kind == resource.kind:
        raise status.bad_request(
            f"the API version in the data ({given_version}) does not match the expected API "
            f"version ({resource.group_version})"
        )
    for member in _OBJECT_MEMBERS:
        if not isinstance(obj.get(member, _NOTHING), dict):
            if obj[member] is not None:
                raise bad_shape(resource, f"Go struct field {kind}.{member}")
            del obj[member]
    if has_nulls(body):
        pruned: JsonObject = without_nulls(obj)
        return pruned
    return obj


_NOTHING: Final[JsonObject] = {}


def bad_shape(resource: Resource, where: str) -> status.ApiError:
    """Make the 400 of a member that has the wrong type."""
    return status.bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        f"json: cannot unmarshal into {where}"
    )


# What walking an object of the wrong shape raises. The schema is not checked up front: that would
# cost every good request for the sake of bad ones.
_SHAPE_ERRORS: Final = (AttributeError, TypeError, KeyError, IndexError, ValueError)


def _misshapen(resource: Resource, error: Exception) -> status.ApiError:
    return bad_shape(resource, f"the object ({type(error).__name__}: {error})")


def _with_new_metadata(
    cluster: Cluster, resource: Resource, namespace: str, obj: JsonObject, now_s: float
) -> JsonObject:
    given: JsonObject = obj.pop("metadata", _NOTHING)
    if given.get("namespace", namespace) != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if given.get("resourceVersion"):
        raise status.internal("resourceVersion should not be set on objects to be created")
    metadata: JsonObject = {}
    name = given.get("name")
    prefix = given.get("generateName")
    if not name:
        if not prefix or not isinstance(prefix, str):
            cause = required("metadata.name", "name or generateName is required")
            raise status.invalid(resource.kind, _message_group(resource), "", [cause])
        name = cluster.generated_name(prefix)
    elif not isinstance(name, str):
        raise bad_shape(resource, f"Go struct field {resource.kind}.metadata.name of type string")
    metadata["name"] = name
    if prefix:
        metadata["generateName"] = prefix
    if namespace:
        metadata["namespace"] = namespace
    metadata["uid"] = cluster.new_uid()
    # Set by the store; its place in the text is here.
    metadata["resourceVersion"] = ""
    if resource.has_generation:
        metadata["generation"] = 1
    metadata["creationTimestamp"] = cluster.timestamp(now_s)
    for member in _CREATE_METADATA:
        value = given.get(member)
        if value:
            metadata[member] = value
    check_metadata_shape(resource, metadata)
    return {"metadata": metadata, **obj}


def check_metadata_shape(resource: Resource, metadata: JsonObject) -> None:
    """Refuse members of metadata of the wrong type; labels in particular are relied on."""
    for member in ("labels", "annotations"):
        texts = metadata.get(member)
        if texts is None:
            continue
        if not isinstance(texts, dict) or not all(isinstance(each, str) for each in texts.values()):
            raise bad_shape(resource, f"Go struct field {resource.kind}.metadata.{member}")
    for member in ("ownerReferences", "finalizers"):
        if not isinstance(metadata.get(member, []), list):
            raise bad_shape(resource, f"Go struct field {resource.kind}.metadata.{member}")


def _prepare_event(resource: Resource, event: JsonObject) -> JsonObject:
    stored = stored_form(event) if resource is CORE_EVENTS else event
    complete_event(stored)
    return stored


def _prepare_object(cluster: Cluster, resource: Resource, obj: JsonObject, now_s: float) -> None:
    check_readable(resource, obj)
    apply_defaults(resource, obj)
    admit_new(cluster, resource, obj)
    initial_status(resource, obj, cluster.timestamp(now_s))
    if resource is PODS:
        merge_label_keys(obj)
    apply_zero_values(resource, obj)


def _message_group(resource: Resource) -> str:
    # Events of both groups are validated as core events.
    return "" if resource is EVENTS else resource.group


def store_object(
    cluster: Cluster,
    resource: Resource,
    obj: JsonObject,
    before: StoredObject | None,
    now_s: float,
) -> StoredObject:
    """Write an object and remember when it runs out, if it does."""
    table = cluster.store.table(resource)
    try:
        stored = cluster.store.put(table, obj, before, kept_fields(resource, obj))
    except TypeError as error:
        raise _misshapen(resource, error) from error
    except ValueError as error:
        raise status.internal(f"etcdserver: request is too large: {error}") from None
    if table is cluster.events:
        due_s = now_s + cluster.options.event_ttl_s
        cluster.expiring_events.append((due_s, stored.key, stored.version))
    return stored


def replace(
    cluster: Cluster,
    resource: Resource,
    namespace: str,
    name: str,
    subresource: str,
    body: bytes,
    now_s: float,
) -> Answer:
    """Answer PUT of an object or of its status."""
    obj = decode_object(resource, resource.kind, body)
    given: JsonObject = obj.get("metadata", _NOTHING)
    if given.get("name", name) != name:
        raise status.bad_request(
            f"the name of the object ({given.get('name')}) does not match the name on the URL "
            f"({name})"
        )
    if given.get("namespace", namespace) != namespace:
        raise status.bad_request(
            f"the namespace of the object ({given.get('namespace')}) does not match the namespace "
            f"on the URL ({namespace})"
        )
    stored = cluster.store.table(resource).get(namespace, name)
    if stored is None:
        if resource.creates_on_update and not subresource:
            return create(cluster, resource, namespace, body, now_s)
        raise status.not_found(resource.qualified, name)
    if not given.get("resourceVersion") and not resource.allows_blind_update:
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise status.invalid(resource.kind, _message_group(resource), name, [cause])
    if resource is CORE_EVENTS:
        obj = stored_form(obj)
    return _update(cluster, resource, stored, obj, subresource, now_s)


def patch(
    cluster: Cluster,
    resource: Resource,
    namespace: str,
    name: str,
    subresource: str,
    patch_type: str,
    body: bytes,
    now_s: float,
) -> Answer:
    """Answer PATCH of an object or of its status."""
    if patch_type not in (patches.MERGE_PATCH, patches.STRATEGIC_PATCH, patches.JSON_PATCH):
        raise status.unsupported_patch_type()
    stored = cluster.store.table(resource).get(namespace, name)
    if stored is None:
        raise status.not_found(resource.qualified, name)
    try:
        change = decode_json(body)
    except UnreadableJsonError as error:
        raise status.bad_request(f"error decoding patch: {error}") from None
    current = stored.decoded()
    if resource is CORE_EVENTS:
        current = core_form(current)
    document = {"kind": resource.kind, "apiVersion": resource.group_version, **current}
    try:
        patched = _patched(patch_type, document, change)
    except _SHAPE_ERRORS as error:
        raise _misshapen(resource, error) from error
    for member in ("kind", "apiVersion"):
        patched.pop(member, None)
    if has_nulls(body):
        patched = without_nulls(patched)
    if not isinstance(patched.get("metadata"), dict):
        raise bad_shape(resource, f"Go struct field {resource.kind}.metadata")
    if resource is CORE_EVENTS:
        patched = stored_form(patched)
    return _update(cluster, resource, stored, patched, subresource, now_s)


def _patched(patch_type: str, document: JsonObject, change: Any) -> JsonObject:
    if patch_type == patches.JSON_PATCH:
        patched = patches.apply_json_patch(document, change)
    elif not isinstance(change, dict):
        raise status.bad_request("error decoding patch: the patch is not an object")
    elif patch_type == patches.STRATEGIC_PATCH:
        patched = patches.apply_strategic_patch(document, change)
    else:
        patched = patches.apply_merge_patch(document, change)
    if not isinstance(patched, dict):
        raise status.bad_request("the patched document is not an object")
    return patched


def _update(
    cluster: Cluster,
    resource: Resource,
    stored: StoredObject,
    new: JsonObject,
    subresource: str,
    now_s: float,
) -> Answer:
    current = stored.decoded()
    given: JsonObject = new.get("metadata", _NOTHING)
    _check_preconditions(resource, stored, given)
    try:
        result = _merged(resource, current, new, given, subresource)
        if resource is PODS and not subresource:
            admit_changed_pod(cluster, result, current)
        _check_update(cluster, resource, result, current, subresource)
    except _SHAPE_ERRORS as error:
        raise _misshapen(resource, error) from error
    shown = representation_of(resource)
    if result == current:
        return Answer(200, shown.object_bytes(stored.item) + b"\n")
    if _is_finished(resource, result):
        version = cluster.store.remove(cluster.store.table(resource), stored)
        return Answer(200, shown.object_bytes(item_at_version(stored, version)) + b"\n")
    written = store_object(cluster, resource, result, stored, now_s)
    return Answer(200, shown.object_bytes(written.item) + b"\n")


def _check_preconditions(resource: Resource, stored: StoredObject, given: JsonObject) -> None:
    uid = given.get("uid")
    if uid and uid != stored.uid:
        raise status.conflict(
            resource.qualified,
            stored.name,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored.uid}",
        )
    version = given.get("resourceVersion")
    if version and version != str(stored.version):
        raise status.stale_version(resource.qualified, stored.name)


def _merged(
    resource: Resource,
    current: JsonObject,
    new: JsonObject,
    given: JsonObject,
    subresource: str,
) -> JsonObject:
    """Put together what may come from the client and what stays as it is."""
    old_metadata = current["metadata"]
    metadata: JsonObject = {
        "name": old_metadata["name"],
        "resourceVersion": old_metadata["resourceVersion"],
    }
    for member in _SERVER_METADATA:
        if member in old_metadata:
            metadata[member] = old_metadata[member]
    for member in _CREATE_METADATA:
        kept = old_metadata if subresource and member == "ownerReferences" else given
        if kept.get(member):
            metadata[member] = kept[member]
    check_metadata_shape(resource, metadata)
    if subresource == "status":
        result = {**current, "metadata": metadata, "status": new.get("status", {})}
        if resource is PODS and "qosClass" in current["status"]:
            result["status"].setdefault("qosClass", current["status"]["qosClass"])
        if resource is NODES:
            apply_defaults(resource, result)
        apply_zero_values(resource, result)
        return result
    if subresource == "resize":
        new = _resized(current, new)
        metadata = {**old_metadata}
    result = {**new, "metadata": metadata}
    if resource is EVENTS or resource is CORE_EVENTS:
        complete_event(result)
        return result
    if resource.has_status:
        result.pop("status", None)
        if "status" in current:
            result["status"] = current["status"]
    check_readable(resource, result)
    apply_defaults(resource, result)
    apply_zero_values(resource, result)
    if resource.has_generation and result.get("spec") != current.get("spec"):
        metadata["generation"] = old_metadata.get("generation", 0) + 1
    return result


def _resized(current: JsonObject, new: JsonObject) -> JsonObject:
    """The pod with the amounts of its containers replaced and nothing else (dropNonResizeUpdates in
    pkg/registry/core/pod/strategy.go, v1.36.2)."""
    spec = {**current["spec"]}
    for field in ("containers", "initContainers"):
        given = {each["name"]: each for each in new["spec"].get(field) or ()}
        if given.keys() != {each["name"] for each in spec.get(field) or ()}:
            raise status.bad_request(f"spec.{field}: containers may not be added or removed")
        if given:
            spec[field] = [
                {**each, **{k: v for k, v in given[each["name"]].items() if k in _RESIZED}}
                for each in spec[field]
            ]
    return {**current, "spec": spec}


_RESIZED: Final = ("resources", "resizePolicy")


def _check_update(
    cluster: Cluster,
    resource: Resource,
    result: JsonObject,
    current: JsonObject,
    subresource: str,
) -> None:
    if subresource:
        return
    causes = []
    if resource is PODS:
        causes = validate_pod_update(result, current)
    elif resource is PRIORITY_CLASSES:
        for field in ("value", "preemptionPolicy"):
            if result.get(field) != current.get(field):
                causes.append(forbidden_value(field, "may not be changed in an update."))
        check_priority_class(cluster, result)
    elif resource is DISRUPTION_BUDGETS:
        causes = validate_budget(result)
    if causes:
        name = current["metadata"]["name"]
        raise status.invalid(resource.kind, _message_group(resource), name, causes)


def _is_finished(resource: Resource, obj: JsonObject) -> bool:
    """Tell whether the update removed the last thing that held a deleted object back."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if resource is NAMESPACES:
        return not obj.get("spec", _NOTHING).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")
