"""Raw answers about one kind to messages for the owner; the part of a watch that has no I/O.

Callers may rely on: an object that cannot be decoded is reported and skipped; pods that have finished
are told as deleted, whatever the server selected; events that repeat what was told are dropped and
counted, and a node that reports what it had reported is not told (`recent_events.py`), nor a pod that
stays as it was told on its node;
`resource_version` is always one that a watch may resume from, or empty when only a new list helps.

Pods are most of what a cluster has, and a new owner is to know them soon. What was told of them is
kept and told again, with a list of those alone that have no node: bindings that an owner ordered are
in a list, but a watch may bring them later. So what the list shows otherwise is waited for.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from daemon.adapter.recent_events import RecentEvents, ToldObjects
from shared.errors import ObjectError
from shared.faults import reading
from shared.in_hand import WHY, InHand
from shared.kube.api.core_v1 import FINISHED_PHASES, ApiObject, Node, Pod
from shared.kube.api.meta_v1 import NamedObject, ObjectIdentity
from shared.kube.api_errors import ApiError
from shared.kube.decode import Bookmark, KindDecoder, ObjectEvent, RejectedObject
from shared.kube.pod_record import PodRecord, split_pod
from shared.kube.resources import ResourceKind
from shared.messages.to_owner import (
    AdapterMessage,
    KindUnavailable,
    NodeChanged,
    NodeDeleted,
    ObjectChanged,
    ObjectDeleted,
    ObjectRejected,
    PodChanged,
    PodDeleted,
    SyncFinished,
    SyncStarted,
)

_SMALL_BYTES: Final = 64

_NAMED_WITHIN_BYTES: Final = 2048
"""The metadata come first, and the names before the rest of them: two of 253 characters at most."""
_NAMES: Final = re.compile(rb'"(name|namespace)": ?"([a-z0-9.:-]+)"')

_NAMELESS: Final = ObjectIdentity()
_encoder: Final = msgspec.msgpack.Encoder()
_decoder_of: Final = cache(KindDecoder)


class KindFeed:
    """Turns what the server says about one kind into messages, in order."""

    def __init__(
        self,
        kind: ResourceKind,
        emit: Callable[[AdapterMessage, int], None],
        in_hand: InHand | None = None,
    ) -> None:
        """`emit` takes a message and roughly its bytes; `in_hand`: for who is to say what it reads."""
        self._kind = kind
        self._emit = emit
        self._in_hand = in_hand
        self._decoder = _decoder_of(kind)
        self._listed_version = ""
        self._is_listing = False
        self._recent = RecentEvents()
        self._told = ToldObjects()
        self._told_pods: dict[str, PodChanged] = {}
        """By uid."""
        self._awaited: dict[str, str] = {}
        """Uids of pods of which the watch has news still, and the version at which it is no news any
        more; empty: none, but to be bound or gone."""
        self._has_left_out = False
        """An object since the list began: what was told is not all."""
        self.repeated_count = 0
        """Events dropped because they had been told before, since somebody set this to 0."""
        self.resource_version = ""
        """Where a watch may resume; empty: what was seen is no base any more, a list must come first."""

    # A new owner ----------------------------------------------------------------------------------

    def tell_to(self, emit: Callable[[AdapterMessage, int], None]) -> None:
        """From now on. Whoever it is has not been told anything."""
        self._emit = emit
        self._awaited = {}
        if self._kind.struct_type is not Pod or self._has_left_out:
            self.resource_version = ""

    def tell_again(self, waiting: Mapping[str, str]) -> Iterator[None]:
        """Pods as the last owner knew them; goes on as its caller asks. `waiting`: uids and versions of
        those that have no node, by a list that was made since."""
        self._emit(SyncStarted(self._kind.plural), _SMALL_BYTES)
        known = {}
        for uid, message in self._told_pods.items():
            self._emit(message, len(message.pod.template))
            if not message.pod.node_name:
                known[uid] = message.pod.resource_version
            yield
        news = known.items() ^ waiting.items()
        self._awaited = {uid: waiting.get(uid, "") for uid, _ in news}
        if not self._awaited:
            self._finish(self.resource_version)

    @property
    def is_behind(self) -> bool:
        """Something is to come by the watch before the pods are told as a whole."""
        return bool(self._awaited)

    def _keep(self, message: PodChanged | PodDeleted) -> None:
        pod = message.pod
        if isinstance(message, PodDeleted):
            self._told_pods.pop(pod.uid, None)
        else:
            self._told_pods[pod.uid] = message
            if not pod.node_name and self._awaited.get(pod.uid) != pod.resource_version:
                return
        if self._awaited.pop(pod.uid, None) is not None and not self._awaited:
            self._finish(self.resource_version)

    def _stays_as_told(self, pod: PodRecord) -> bool:
        """On its node, and with nothing new that is read, as after most words of a kubelet. Of a pod
        that waits its version is news: what is written of it is told anew with each."""
        told = self._told_pods.get(pod.uid) if pod.node_name else None
        return told is not None and pod == replace(told.pod, resource_version=pod.resource_version)

    # A list ---------------------------------------------------------------------------------------

    def list_started(self) -> None:
        """A list begins, or begins again; what an unfinished one told is void."""
        self.resource_version = ""
        self._listed_version = ""
        self._is_listing = True
        self._recent, self._told = RecentEvents(), ToldObjects()
        self._told_pods, self._awaited, self._has_left_out = {}, {}, False
        self._emit(SyncStarted(self._kind.plural), _SMALL_BYTES)

    def page(self, body: bytes) -> None:
        """One page of the list."""
        items, page = self._decoder.page(body)
        size_bytes = len(body) // max(1, len(items))
        for item in items:
            if isinstance(item, RejectedObject):
                self._reject(item.where, item.problem, item.meta)
                continue
            if not self._is_named(item):
                continue
            if isinstance(item, Pod) and item.status.phase in FINISHED_PHASES:
                continue
            if self._in_hand is None:
                self._tell(item, size_bytes)
                continue
            meta = item.metadata
            content = f"{self._kind.plural} {meta.key} {meta.resource_version}".encode()
            if not self._in_hand.do(content, partial(self._tell, item, size_bytes)):
                self._reject(meta.key, WHY, meta)
        self._listed_version = page.resource_version

    def list_finished(self) -> None:
        self._finish(self._listed_version)

    # A watch --------------------------------------------------------------------------------------

    def line(self, line: bytes) -> None:
        """One line of a watch. Raises the `ApiError` with which the server ends the watch, or
        `UnreadableAnswerError`."""
        if self._in_hand is None:
            self._line(line)
        elif not self._in_hand.do(line, partial(self._line, line)):
            self._reject(_name_in(line), WHY)

    def _line(self, line: bytes) -> None:
        event = self._decoder.line(line)
        match event:
            case ObjectEvent():
                if self._is_named(event.object):
                    if self._is_repeated(event):
                        # Nor is its version one to resume from: it may be long ago.
                        return
                    self._tell(event.object, len(line), is_deletion=event.type == "DELETED")
                self._advance(event.object.metadata.resource_version)
            case Bookmark():
                if event.ends_initial_events and self._is_listing:
                    self._finish(event.resource_version)
                self._advance(event.resource_version)
            case ApiError():
                raise event
            case RejectedObject():
                self._reject(event.where, event.problem, event.meta)
                self._advance(event.meta.resource_version)
            case _:
                assert_never(event)

    def can_wait(self, lines: bytes) -> bool:
        """Whether these whole lines say of pods alone that stay on their nodes, as the echo of a binding
        of ours does: news that nobody waits for. By what is nowhere else in the text of a pod; what
        only looks so comes a moment later."""
        is_of_pods = self._kind.struct_type is Pod
        return is_of_pods and lines.endswith(b"\n") and all(map(_stays, lines.splitlines()))

    def unavailable(self, reason: str) -> None:
        self._emit(KindUnavailable(self._kind.plural, reason), _SMALL_BYTES + len(reason))

    def _is_named(self, item: ApiObject) -> bool:
        meta = item.metadata
        is_namespaced = bool(meta.namespace)
        if meta.name and meta.uid and self._kind.is_namespaced in (is_namespaced, None):
            return True
        where = item.metadata.key or "an object without a name"
        problem = "metadata.name, metadata.uid or metadata.namespace is not as the kind demands"
        self._reject(where, problem)
        return False

    def _is_repeated(self, event: ObjectEvent) -> bool:
        meta = event.object.metadata
        is_deletion = event.type == "DELETED"
        if self._recent.is_repetition(meta.uid, meta.resource_version, is_deletion=is_deletion):
            self.repeated_count += 1
            return True
        # An object that only leaves the selection is told as deleted too, and may come back.
        if is_deletion and (not self._kind.field_selector or meta.deletion_timestamp):
            self._recent.has_gone(meta.uid)
        return False

    def _tell(self, item: ApiObject, size_bytes: int, *, is_deletion: bool = False) -> None:
        try:
            with reading("", item.metadata):
                message = message_of(self._kind, item, is_gone=is_deletion)
        except ObjectError as error:
            self._reject(error.where, error.problem, item.metadata)
            return
        if self._kind.is_told_by_content and isinstance(item, NamedObject):
            if is_deletion:
                self._told.has_gone(item.metadata.key)
            elif self._told.is_known(item):
                return
        if not (isinstance(message, PodChanged) and self._stays_as_told(message.pod)):
            self._emit(message, size_bytes)
        if isinstance(message, PodChanged | PodDeleted):
            self._keep(message)

    def _advance(self, version: str) -> None:
        # While initial events arrive, their versions are those of the objects and say nothing about
        # what else has been sent: the version stays empty until the list part is closed.
        if version and self.resource_version:
            self.resource_version = version

    def _finish(self, version: str) -> None:
        self._is_listing = False
        self.resource_version = version
        self._emit(SyncFinished(self._kind.plural, version), _SMALL_BYTES)

    def _reject(self, where: str, problem: str, meta: ObjectIdentity = _NAMELESS) -> None:
        self._has_left_out = True
        self._told.has_gone(meta.key)  # As it can be read again it is news.
        key = meta.uid if self._kind.struct_type is Pod else meta.key
        message = ObjectRejected(self._kind.plural, where, problem, key)
        self._emit(message, _SMALL_BYTES + len(problem))


def message_of(kind: ResourceKind, item: ApiObject, *, is_gone: bool = False) -> AdapterMessage:
    """The message that an object was listed, added or modified, or is gone, as a pod is that has
    finished. Takes a pod over (`split_pod`)."""
    if isinstance(item, Pod):
        make = PodDeleted if is_gone or item.status.phase in FINISHED_PHASES else PodChanged
        return make(split_pod(item))
    if isinstance(item, Node):
        return NodeDeleted(item.metadata.name) if is_gone else NodeChanged(item)
    key = item.metadata.key
    if is_gone:
        return ObjectDeleted(kind.plural, key)
    return ObjectChanged(kind.plural, key, msgspec.Raw(_encoder.encode(item)))


_LEAVING: Final = (
    b'"deletionTimestamp":"',
    *(f'"phase":"{phase}"'.encode() for phase in FINISHED_PHASES),
)
"""In the text of a pod that gives its room up."""


def _stays(line: bytes) -> bool:
    if not line.startswith(b'{"type":"MODIFIED"') or b'"nodeName":"' not in line:
        return False
    for sign in _LEAVING:  # noqa: SIM110  # A generator would be another frame for each binding.
        if sign in line:
            return False
    return True


def _name_in(line: bytes) -> str:
    """What an object that is not to be decoded is called, as well as can be seen."""
    found = dict(reversed(_NAMES.findall(line[:_NAMED_WITHIN_BYTES])))  # The first of each.
    names = (found.get(b"namespace", b""), found.get(b"name", b""))
    return b"/".join(filter(None, names)).decode() or f"a watch line of {len(line)} bytes"
