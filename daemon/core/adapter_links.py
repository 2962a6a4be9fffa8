"""The adapter: who it is, when it lists, and each thing that it says, handed to who applies it.

An object that cannot be understood is counted, noted and left out. An owner that may die of an object
takes objects one by one and says which it has in hand (`shared/in_hand.py`).
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from typing import Final, assert_never, cast

import msgspec
from msgspec.structs import replace

from daemon.core.attempt_ends import forget_written, written_claims
from daemon.core.cluster_changes import ClusterChanges
from daemon.core.events import Tell
from daemon.core.holdings import Part
from daemon.core.owner_counts import Count
from daemon.core.permit_stage import PermitStage
from shared.dra.device_index import CLAIMS
from shared.errors import ObjectError
from shared.in_hand import WHY, InHand
from shared.kube.pod_record import scheduler_name_of
from shared.kube.resources import NODES, PODS
from shared.limits import SELECTED_KEYS_MAX
from shared.messages import to_owner
from shared.transport.channels import Channel

_encode: Final = msgspec.msgpack.Encoder().encode


class AdapterLinks(Part):
    _changes: ClusterChanges
    _permit: PermitStage
    _lists_at_s: float
    """At the latest, whatever binders have in flight."""
    _in_hand: InHand | None
    _peer: bytes | None = None
    _is_sync_due: bool = False
    _written_claims: dict[str, str] = msgspec.field(default_factory=dict)
    """Key and pod of claims that a list under way shows as they were left for the pod, or later."""

    def hear(self, peer: bytes, batch: to_owner.AdapterBatch, now_s: float) -> None:
        owner, counters = self._owner, self._owner.counters
        is_current = batch.epoch == owner.epoch and peer == self._peer
        counters[Count.ADAPTER_BATCHES] += is_current
        begun_s = counters.stopwatch()
        for kind, run in groupby(batch.messages, type):
            if kind is to_owner.AdapterHello:
                self._peer = peer
                self._is_sync_due = True
            elif not is_current:
                continue  # Of an adapter that was replaced, or listed for another life of the owner.
            elif self._in_hand is not None:
                for message in run:
                    self._take_carefully(self._in_hand, message, now_s)
            elif kind is to_owner.NodeChanged:
                self._take_nodes(cast("Iterable[to_owner.NodeChanged]", run), now_s)
            elif kind is to_owner.PodChanged:
                self._take_pods(cast("Iterable[to_owner.PodChanged]", run), now_s)
            else:
                for message in run:
                    self._take(message, now_s)
        events = self._changes.events
        if events:
            each_s = (counters.stopwatch() - begun_s) / sum(events.values())
            for each, count in events.items():
                label = each if isinstance(each, str) else each.label
                counters.observe("event_s", (label,), each_s, count)
            events.clear()
        self._reclass(now_s)

    def lose(self, peer: bytes) -> None:
        """Its connection is closed."""
        if peer == self._peer:
            self._peer, self._is_sync_due = None, False

    def pass_time(self, now_s: float) -> None:
        """Lists begin when no binder has anything of an earlier owner in flight."""
        if not self._is_sync_due:
            return
        assert self._peer is not None, "due of somebody"
        owner = self._owner
        clear_count = sum(binder.is_clear for binder in owner.binders)
        is_calm = clear_count >= owner.settings.options.binders
        if is_calm or now_s >= self._lists_at_s:
            self._is_sync_due = False
            start = to_owner.StartSync(owner.epoch)
            owner.effects.append(Tell(Channel.ADAPTER, self._peer, start))

    def next_wakeup_s(self) -> float:
        """When lists begin at the latest, or what is late is told; infinite if neither is to come."""
        lists_at_s = self._lists_at_s if self._is_sync_due else math.inf
        return min(lists_at_s, self._changes.late_at_s)

    def tell_late(self, now_s: float) -> None:
        """What became of pods meanwhile (`ClusterChanges.late`)."""
        for record in self._changes.take_late():
            try:
                self._changes.pod_changed(record, now_s, is_late=True)
            except ObjectError as error:
                self._reject_message(to_owner.PodChanged(record), error)
        self._reclass(now_s)

    def _reclass(self, now_s: float) -> None:
        if self._changes.reclass(now_s):
            problem = f"selectors name more than {SELECTED_KEYS_MAX} different keys"
            self._owner.warn("all_labels_tell_pods_apart", problem=problem)

    def _take_carefully(self, hand: InHand, message: to_owner.AdapterMessage, now_s: float) -> None:
        brought = _brought(message)
        if brought is None:
            self._take(message, now_s)
            return
        kind, key, name, content = brought
        if not hand.do(content, partial(self._take, message, now_s)):
            # What is held of the object stays as it was; but a pending pod is not to be placed so.
            self._owner.syncs.see(kind, key)
            if isinstance(message, to_owner.PodChanged) and not message.pod.node_name:
                profile = scheduler_name_of(message.pod.template)
                self._changes.refuse_pod(message.pod, profile, WHY)
                self._permit.drop_gone((key,), now_s)
            self._reject(ObjectError(name, WHY))

    def _take(self, message: to_owner.AdapterMessage, now_s: float) -> None:
        try:
            self._apply(message, now_s)
        except ObjectError as error:
            self._reject_message(message, error)

    def _apply(self, message: to_owner.AdapterMessage, now_s: float) -> None:
        syncs, changes = self._owner.syncs, self._changes
        match message:
            case to_owner.PodChanged():
                self._take_pods((message,), now_s)
            case to_owner.PodDeleted(pod):
                syncs.unsee(PODS.plural, pod.uid)
                changes.pod_deleted(pod.uid, now_s, pod)
                self._permit.drop_gone((pod.uid,), now_s)
            case to_owner.NodeChanged():
                self._take_nodes((message,), now_s)
            case to_owner.NodeDeleted(name):
                syncs.unsee(NODES.plural, name)
                changes.node_deleted(name, now_s)
            case to_owner.ObjectChanged(kind, key, body):
                syncs.see(kind, key)
                changes.object_changed(kind, key, body, now_s)
            case to_owner.ObjectDeleted(kind, key):
                syncs.unsee(kind, key)
                changes.object_deleted(kind, key, now_s)
            case to_owner.SyncStarted(kind):
                syncs.start(kind)
                if kind == CLAIMS:
                    self._written_claims = written_claims(self._owner.cache)
            case to_owner.SyncFinished(kind, _):
                # Word of both: /readyz need not wait for what the adapter says each 4 s.
                syncs.adapter_told_s = syncs.api_heard_s[kind] = now_s
                self._finish_sync(kind, now_s)
                self._permit.drop_gone(list(self._owner.waiting.by_uid), now_s)
            case to_owner.KindUnavailable(kind, reason):
                syncs.settle(kind, reason)  # The adapter's log names it.
            case to_owner.ObjectRejected(kind, where, problem, key):
                syncs.see(kind, key)  # A list that shows what cannot be read shows it.
                self._reject(ObjectError(f"{kind} {where}", problem))
            case to_owner.AdapterMeasured(measured, told_s, heard_s):
                self._owner.counters.add(measured)
                syncs.adapter_told_s, syncs.api_heard_s = told_s, heard_s
            case to_owner.AdapterHello():
                raise AssertionError("heard before")
            case _:
                assert_never(message)

    def _take_pods(self, messages: Iterable[to_owner.PodChanged], now_s: float) -> None:
        owner = self._owner
        is_listed, waits = owner.syncs.is_listed(PODS.plural), bool(owner.waiting.by_uid)
        for message in messages:
            pod = message.pod
            if is_listed:
                owner.syncs.see(PODS.plural, pod.uid)
            try:
                self._changes.pod_changed(pod, now_s)
            except ObjectError as error:
                self._reject_message(message, error)
            if waits:
                self._permit.drop_gone((pod.uid,), now_s)

    def _take_nodes(self, messages: Iterable[to_owner.NodeChanged], now_s: float) -> None:
        nodes = [message.node for message in messages]
        for node in nodes:
            self._owner.syncs.see(NODES.plural, node.metadata.name)
        self._changes.nodes_changed(nodes, self._reject, now_s)

    def _finish_sync(self, kind: str, now_s: float) -> None:
        cache, queue, syncs = self._owner.cache, self._owner.queue, self._owner.syncs
        changes = self._changes
        seen = syncs.seen(kind)
        if seen is None:
            return
        if kind == PODS.plural:
            held = {pod.record.uid for pod in cache.pods()} | {pod.record.uid for pod in queue}
            delete: Callable[[str, float], None] = changes.pod_deleted
        elif kind == NODES.plural:
            held = {info.name for info in cache.node_infos() if info.node is not None}
            delete = changes.node_deleted
        else:
            held = set(cache.objects.all(kind))
            delete = partial(changes.object_deleted, kind)
        missed = sorted(held - seen)
        for key in missed:
            delete(key, now_s)
        if kind == CLAIMS:
            forget_written(cache, self._written_claims)
            self._written_claims = {}
        if missed and kind not in syncs.awaited:
            self._owner.counters[Count.MISSED_DELETES] += len(missed)
            what = {"kind": kind, "count": len(missed), "first": missed[0]}
            self._owner.warn("missed_deletes_repaired", **what)
        syncs.settle(kind)

    def _reject_message(self, message: to_owner.AdapterMessage, error: ObjectError) -> None:
        brought = _brought(message)
        name = "" if brought is None else brought[2]
        where = error.where if name in error.where else f"{name}: {error.where}"
        self._reject(ObjectError(where, error.problem))

    def _reject(self, error: ObjectError) -> None:
        self._owner.counters[Count.OBJECTS_REJECTED] += 1
        self._owner.warn("object_left_out", where=error.where, problem=error.problem)


def _brought(message: to_owner.AdapterMessage) -> tuple[str, str, str, bytes] | None:
    """An object's kind and key, its name for people, and what an owner may die of; None for a message
    that brings none: what is gone is not listed again."""
    match message:
        case to_owner.PodChanged(pod):
            # A condition that we write makes another version, not another pod.
            content = _encode(replace(pod, resource_version="", told_why=b""))
            return PODS.plural, pod.uid, f"pod {pod.key}", content
        case to_owner.NodeChanged(node):
            name, metadata = node.metadata.name, replace(node.metadata, resource_version="")
            content = _encode(replace(node, metadata=metadata))
            return NODES.plural, name, f"node {name}", content
        case to_owner.ObjectChanged(kind, key, body):
            return kind, key, f"{kind} {key}", f"{kind} {key} ".encode() + body
        case _:
            return None
