"""DELETE: grace, preconditions, finalizers, collections, and what happens when grace has passed.

The rules are those of BeforeDelete in staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go and
of podStrategy.CheckGracefulDelete (v1.36). There is no kubelet here, so the server plays its part:
`run_due` removes a bound pod when its grace (or `kubelet_delay_s`) has passed, with the MODIFIED
and DELETED events that a kubelet's final delete causes. A namespace is emptied and removed the same
way, as its controller would do.
"""

import calendar
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from bench.apiserver import api_status as status
from bench.apiserver.api_cluster import Cluster
from bench.apiserver.json_objects import JsonObject, UnreadableJsonError, child, decode_json
from bench.apiserver.reads import Answer, ListOptions
from bench.apiserver.representation import representation_of
from bench.apiserver.selection import kept_fields
from bench.apiserver.served_resources import NAMESPACES, PODS, Resource
from bench.apiserver.store import StoredObject, item_at_version


class DeleteOptions(NamedTuple):
    """What a delete asks for, from its query and its body."""

    grace_s: int | None = None
    uid: str | None = None
    version: str | None = None


_NOW = DeleteOptions(grace_s=0)


def read_delete_options(query: Mapping[str, str], body: bytes) -> DeleteOptions:
    """Read the options of a DELETE request; the body wins over the query."""
    options: Any = {}
    if body:
        try:
            options = decode_json(body)
        except UnreadableJsonError as error:
            raise status.bad_request(f"the delete options are not JSON: {error}") from None
        if not isinstance(options, dict):
            raise status.bad_request("the delete options are not an object")
    return parse_delete_options(options, query)


def parse_delete_options(options: JsonObject, query: Mapping[str, str]) -> DeleteOptions:
    """Read DeleteOptions as an object and as a query."""
    grace = options.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    preconditions = child(options, "preconditions")
    if grace is not None:
        try:
            grace = int(grace)
        except (TypeError, ValueError):
            raise status.bad_request(f"gracePeriodSeconds is not a number: {grace!r}") from None
        # Upstream reads negative values as one second.
        grace = 1 if grace < 0 else grace
    return DeleteOptions(grace, preconditions.get("uid"), preconditions.get("resourceVersion"))


def delete_object(
    cluster: Cluster,
    resource: Resource,
    namespace: str,
    name: str,
    options: DeleteOptions,
    now_s: float,
) -> Answer:
    """Answer DELETE of one object."""
    stored = cluster.store.table(resource).get(namespace, name)
    if stored is None:
        raise status.not_found(resource.qualified, name)
    _check_preconditions(resource, stored, options)
    item, is_gone = _delete(cluster, resource, stored, options, now_s)
    if is_gone and not resource.returns_deleted:
        body = status.deleted_status(name, resource.plural, resource.group, stored.uid)
        return Answer(200, body)
    return Answer(200, representation_of(resource).object_bytes(item) + b"\n")


def delete_collection(
    cluster: Cluster,
    resource: Resource,
    list_options: ListOptions,
    options: DeleteOptions,
    now_s: float,
) -> Answer:
    """Answer DELETE of a collection with the list of what it deleted, as it was before."""
    table = cluster.store.table(resource)
    chosen = [
        table.objects[key]
        for key in table.sorted_keys()
        if list_options.selection.matches(table.objects[key])
    ]
    for stored in chosen:
        _delete(cluster, resource, stored, options, now_s)
    shown = representation_of(resource)
    items = b",".join([shown.list_item(stored.item) for stored in chosen])
    body = b'%b"metadata":{"resourceVersion":"%d"},"items":[%b]}\n' % (
        shown.list_head,
        cluster.store.version,
        items,
    )
    return Answer(200, body)


def run_due(cluster: Cluster, now_s: float) -> None:
    """Do what the rest of a cluster would have done by now."""
    for stored in cluster.take_expired_events(now_s):
        cluster.store.remove(cluster.events, stored)
    while (due := cluster.next_due(now_s)) is not None:
        table, stored = due
        if table is cluster.namespaces:
            _empty_namespace(cluster, stored, now_s)
        else:
            _delete(cluster, table.resource, stored, _NOW, now_s)


def _check_preconditions(resource: Resource, stored: StoredObject, options: DeleteOptions) -> None:
    if options.uid is not None and options.uid != stored.uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({stored.uid}). The object might have been deleted and then recreated"
        )
    elif options.version is not None and options.version != str(stored.version):
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the "
            f"ResourceVersion in record ({stored.version}). The object might have been modified"
        )
    else:
        return
    qualified_kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    raise status.conflict(qualified_kind, stored.name, why)


def _delete(
    cluster: Cluster,
    resource: Resource,
    stored: StoredObject,
    options: DeleteOptions,
    now_s: float,
) -> tuple[bytes, bool]:
    """Delete as far as grace and finalizers let it; return the last state and whether it is gone."""
    if resource is PODS:
        return _delete_pod(cluster, stored, options, now_s)
    obj = stored.decoded()
    if resource is NAMESPACES:
        return _terminate_namespace(cluster, stored, obj, now_s), False
    if obj["metadata"].get("finalizers"):
        return _mark_deleted(cluster, resource, stored, obj, 0, now_s).item, False
    return _remove(cluster, resource, stored), True


def _delete_pod(
    cluster: Cluster, stored: StoredObject, options: DeleteOptions, now_s: float
) -> tuple[bytes, bool]:
    pod = stored.decoded()
    metadata = pod["metadata"]
    finalizers = metadata.get("finalizers")
    if "deletionTimestamp" in metadata:
        pending_s = metadata.get("deletionGracePeriodSeconds", 0)
        if pending_s == 0:
            return (stored.item, False) if finalizers else (_remove(cluster, PODS, stored), True)
        if options.grace_s is None or options.grace_s >= pending_s:
            return stored.item, False
        # Only a shorter grace is taken; it counts from the first delete.
        asked_s = _seconds(metadata["deletionTimestamp"]) - pending_s
        grace_s = options.grace_s
        metadata["deletionTimestamp"] = cluster.timestamp(asked_s + grace_s)
        metadata["deletionGracePeriodSeconds"] = grace_s
        marked = cluster.store.put(cluster.pods, pod, stored, kept_fields(PODS, pod))
    else:
        grace_s = _grace_s(pod, options)
        marked = _mark_deleted(cluster, PODS, stored, pod, grace_s, now_s)
    if grace_s == 0:
        return (marked.item, False) if finalizers else (_remove(cluster, PODS, marked), True)
    delay_s = cluster.options.kubelet_delay_s
    due_s = now_s + (grace_s if delay_s is None else min(grace_s, delay_s))
    cluster.schedule(due_s, cluster.pods, marked)
    return marked.item, False


def _grace_s(pod: JsonObject, options: DeleteOptions) -> int:
    spec = pod["spec"]
    if not spec.get("nodeName") or pod["status"].get("phase") in ("Failed", "Succeeded"):
        return 0
    if options.grace_s is not None:
        return options.grace_s
    grace_s: int = spec.get("terminationGracePeriodSeconds", 0)
    return 1 if grace_s < 0 else grace_s


def _mark_deleted(
    cluster: Cluster,
    resource: Resource,
    stored: StoredObject,
    obj: JsonObject,
    grace_s: int,
    now_s: float,
) -> StoredObject:
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        return stored
    metadata["deletionTimestamp"] = cluster.timestamp(now_s + grace_s)
    metadata["deletionGracePeriodSeconds"] = grace_s
    if metadata.get("generation"):
        metadata["generation"] += 1
    table = cluster.store.table(resource)
    return cluster.store.put(table, obj, stored, kept_fields(resource, obj))


def _remove(cluster: Cluster, resource: Resource, stored: StoredObject) -> bytes:
    version = cluster.store.remove(cluster.store.table(resource), stored)
    return item_at_version(stored, version)


def _terminate_namespace(
    cluster: Cluster, stored: StoredObject, obj: JsonObject, now_s: float
) -> bytes:
    if "deletionTimestamp" in obj["metadata"]:
        return stored.item
    obj["metadata"]["deletionTimestamp"] = cluster.timestamp(now_s)
    obj["status"] = {**child(obj, "status"), "phase": "Terminating"}
    marked = cluster.store.put(cluster.namespaces, obj, stored, kept_fields(NAMESPACES, obj))
    cluster.schedule(now_s, cluster.namespaces, marked)
    return marked.item


def _empty_namespace(cluster: Cluster, namespace: StoredObject, now_s: float) -> None:
    has_content = False
    for table in cluster.store.tables():
        if not table.resource.is_namespaced:
            continue
        inside = [each for each in table.objects.values() if each.namespace == namespace.name]
        for stored in inside:
            _, is_gone = _delete(cluster, table.resource, stored, DeleteOptions(), now_s)
            has_content = has_content or not is_gone
    if has_content:
        # Pods with grace and objects with finalizers: look again.
        cluster.schedule(now_s + 1.0, cluster.namespaces, namespace)
    else:
        cluster.store.remove(cluster.namespaces, namespace)


def _seconds(timestamp: str) -> int:
    return calendar.timegm(time.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ"))
