"""Objects of every kind but pods and nodes, with what is assumed of them.

Assumptions about objects travel from the owner to the scorers as the objects themselves do, under the
kind with a prefix, and are absolute: the assumption that is held now, or none. What a scorer assumes for
its own placements stays with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from shared.grouped import Grouped
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.decode import decode_object

CHANGES_MAX: Final = 1 << 16
"""Remembered changes of objects; a reader that is further behind reads all objects again."""

NOISY_KINDS: Final = frozenset(
    {"namespaces", "services", "replicationcontrollers", "replicasets", "statefulsets"}
)
"""Kinds whose status, which is not kept here, changes with every pod. That is no change to anybody:
each version of them would start the evaluations of all pods over whose spreading they decide."""

PREFIX: Final = "assumed/"
"""No plural of an API kind has a slash."""

ObjectChange = tuple[str, str, bytes]
"""As in `shared.columns.delta.DeltaBody.objects`."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(tuple[tuple[str, ...], msgspec.Raw])
"""Of an assumption: its pods, then the object."""


class Assumed(NamedTuple):
    """An object as it will be once the API server has been told."""

    value: Any
    pod_uids: tuple[str, ...]
    """The pods for which it is assumed: the one that it was made for, then those that share it."""


class ObjectStore:
    """Objects of every kind but pods and nodes, by kind (plural) and key (`namespace/name`). On top of
    what the API server said lie assumptions: a volume that was given to a claim, a claim whose node was
    chosen, before anybody has been told. They hold for those who ask for `latest`, until the API server
    says something newer of the object, or they are taken back."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, Any]] = {}
        self._by_namespace = Grouped[tuple[str, str], str, Any]()
        self._assumed: dict[str, dict[str, Assumed]] = {}
        self._assumed_for = Grouped[tuple[str, str], str, Any]()
        """The same by kind and uid of the pod: however many pods are assumed, one is asked about."""
        self._told: dict[tuple[str, str], Assumed] = {}
        """In a scorer's copy, by kind and key: what the owner assumes. It lies below what the scorer
        assumes for its own placements, of pods that share a claim, and shows again without these."""
        self._of_group: dict[tuple[str, str], None] | None = None
        """Kind and key of what was assumed since a group is being tried; None: none is."""
        self.assumption_news: dict[tuple[str, str], None] = {}
        """Kind and key of assumptions that came or went since somebody last took this."""
        self._changes: list[tuple[str, str]] = []
        self.version = 0
        """Raised by each change; what was computed from objects is valid for one version."""

    def put(self, kind: str, key: str, value: Any) -> None:
        of_kind = self._by_kind.setdefault(kind, {})
        old = of_kind.get(key)
        of_kind[key] = value
        self._by_namespace.put((kind, key.rpartition("/")[0]), key, value)
        assumed = self._assumed.get(kind, {}).get(key)
        if assumed is not None and _overtakes(value, assumed):
            self._lay_on(kind, key, None)
            return
        if kind in NOISY_KINDS and old is not None and _differ_in_version_only(old, value):
            return
        self._note(kind, key)

    def remove(self, kind: str, key: str) -> None:
        if self._by_kind.get(kind, {}).pop(key, None) is not None:
            self._by_namespace.drop((kind, key.rpartition("/")[0]), key)
            if key in self._assumed.get(kind, {}):
                self._lay_on(kind, key, None)
            else:
                self._note(kind, key)

    def get(self, kind: str, key: str) -> Any | None:
        return self._by_kind.get(kind, {}).get(key)

    def all(self, kind: str) -> dict[str, Any]:
        """Objects of a kind by key, in the order they came; read only."""
        return self._by_kind.get(kind, {})

    def in_namespace(self, kind: str, namespace: str) -> dict[str, Any]:
        """The same of one namespace only; "" for kinds without namespace."""
        return self._by_namespace.get((kind, namespace), {})

    def changes_since(self, version: int) -> list[tuple[str, str]] | None:
        """Kind and key of what changed after `version`, oldest first, perhaps several times; None
        where that is longer ago than is remembered."""
        start = version - (self.version - len(self._changes))
        return None if start < 0 else self._changes[start:]

    # Assumptions -----------------------------------------------------------------------------

    def assume(self, kind: str, key: str, value: Any, pod_uid: str) -> None:
        """Lays `value` over the object, which it was made from; the last assumption counts."""
        self._lay_on(kind, key, Assumed(value, (pod_uid,)))
        if self._of_group is not None:
            self._of_group[kind, key] = None

    def share_assumed(self, kind: str, key: str, pod_uid: str) -> None:
        """Has an assumption last as long as any pod needs it, and this is one more of them."""
        held = self._assumed[kind][key]
        self._assumed[kind][key] = Assumed(held.value, (*held.pod_uids, pod_uid))
        self._assumed_for.put((kind, pod_uid), key, held.value)
        self.assumption_news[kind, key] = None

    @contextmanager
    def for_one_group(self) -> Iterator[None]:
        """What is assumed within is `shared` by all pods that are looked at within."""
        self._of_group = {}
        try:
            yield
        finally:
            # Whoever found it shared does so no more.
            for kind, key in self._of_group:
                self._note(kind, key)
            self._of_group = None

    def shared(self, kind: str, key: str) -> Any | None:
        """The object as it is assumed for others of the group that is being tried, if it is."""
        if not self._of_group or (kind, key) not in self._of_group:
            return None
        assumed = self.assumed(kind).get(key)
        return None if assumed is None else assumed.value

    def forget_assumed(self, kind: str, key: str) -> None:
        """Takes an assumption back, a scorer's own before the owner's; nothing where there is none."""
        if key in self._assumed.get(kind, {}):
            self._lay_on(kind, key, self._told.get((kind, key)))

    def forget_assumed_for(self, kind: str, pod_uid: str) -> None:
        """Takes back what is assumed of a kind for a pod, as far as no other shares it."""
        for key in list(self.assumed_for(kind, pod_uid)):
            held = self._assumed[kind][key]
            others = tuple(uid for uid in held.pod_uids if uid != pod_uid)
            if not others:
                self.forget_assumed(kind, key)
                continue
            self._assumed_for.drop((kind, pod_uid), key)
            self._assumed[kind][key] = Assumed(held.value, others)
            self.assumption_news[kind, key] = None

    def assumed_for(self, kind: str, pod_uid: str) -> dict[str, Any]:
        """Objects of a kind by key as they are assumed for a pod; read only."""
        return self._assumed_for.get((kind, pod_uid), {})

    def assumed(self, kind: str) -> dict[str, Assumed]:
        """Assumptions about a kind by key; read only. Usually few."""
        return self._assumed.get(kind, {})

    def assumed_kinds(self) -> list[str]:
        """Kinds that may have assumptions."""
        return list(self._assumed)

    def latest(self, kind: str, key: str) -> Any | None:
        """The object with what is assumed of it."""
        assumed = self._assumed.get(kind, {}).get(key)
        return self.get(kind, key) if assumed is None else assumed.value

    # From the owner to the scorers -----------------------------------------------------------

    def take_news(self) -> list[ObjectChange]:
        """What became of the assumptions that came or went since the last call."""
        news = [self._change(kind, key) for kind, key in self.assumption_news]
        self.assumption_news.clear()
        return news

    def all_assumptions(self) -> list[ObjectChange]:
        """Every assumption there is."""
        return [self._change(kind, key) for kind, held in self._assumed.items() for key in held]

    def assume_told(self, kind: str, key: str, body: bytes) -> None:
        """Takes over what `take_news` or `all_assumptions` of the owner's store said, whatever the
        scorer did; `kind` has PREFIX."""
        kind = kind.removeprefix(PREFIX)
        if body:
            pod_uids, value = _decoder.decode(body)
            self._told[kind, key] = Assumed(decode_object(kind, value), pod_uids)
        else:
            self._told.pop((kind, key), None)
        if body or key in self._assumed.get(kind, {}):
            self._lay_on(kind, key, self._told.get((kind, key)))

    # Inside ----------------------------------------------------------------------------------

    def _change(self, kind: str, key: str) -> ObjectChange:
        assumed = self._assumed.get(kind, {}).get(key)
        body = b"" if assumed is None else _encoder.encode((assumed.pod_uids, assumed.value))
        return PREFIX + kind, key, body

    def _lay_on(self, kind: str, key: str, assumed: Assumed | None) -> None:
        """In place of what is assumed now; None: nothing is assumed any more."""
        of_kind = self._assumed.setdefault(kind, {})
        if key in of_kind:
            for pod_uid in of_kind.pop(key).pod_uids:
                self._assumed_for.drop((kind, pod_uid), key)
        self.assumption_news[kind, key] = None
        if assumed is not None:
            of_kind[key] = Assumed(assumed.value, ())
            for pod_uid in assumed.pod_uids:
                self.share_assumed(kind, key, pod_uid)
        self._note(kind, key)

    def _note(self, kind: str, key: str) -> None:
        self._changes.append((kind, key))
        self.version += 1
        if len(self._changes) > CHANGES_MAX:
            del self._changes[: len(self._changes) // 2]


def _differ_in_version_only(old: Any, new: Any) -> bool:
    """Whether two objects are the same but for metadata.resourceVersion."""
    version = new.metadata.resource_version
    new.metadata.resource_version = old.metadata.resource_version
    is_same: bool = old == new
    new.metadata.resource_version = version
    return is_same


def _overtakes(value: Any, assumed: Assumed) -> bool:
    """Whether the API server's word is newer than what an assumption was made from. The allocation of a
    resource claim is told to it in two steps, finalizer first, and the watch may be behind: it may yet
    tell what was written for an earlier pod and taken back. What was assumed must outlive all that, or
    its devices would be given away in between. A claim that is still to be made has no uid."""
    if value.metadata.resource_version == assumed.value.metadata.resource_version:
        return False
    if isinstance(value, ResourceClaim):
        is_another = assumed.value.metadata.uid not in ("", value.metadata.uid)
        users = {user.uid for user in value.status.reserved_for or ()}
        # Where it is reserved for a group, the assumption says so.
        expected = {user.uid for user in assumed.value.status.reserved_for or ()}
        is_written = value.status.allocation is not None
        return is_another or (is_written and bool(users & {*expected, *assumed.pod_uids}))
    return True
