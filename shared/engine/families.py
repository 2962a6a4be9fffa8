"""Families: pods that differ in requests, claims and labels alone: one of them speaks for all.

Where every pod asks for another amount, or has a volume, devices or a Deployment of its own, every pod
is a class of its own, though nearly all else about them is equal. Plugins say whether they ignore
requests (`ignores_requests`), whether they read claims (`reads_claims`), and what else they look at.
What those say that look at none of these is the same for a whole family, and is kept for it as it is for
a class. Only the others are asked for each pod, and about claims only where it has some. Pods with the
same labels are a family of their own, for which those speak, too, that look at labels.
"""

import enum
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from shared.columns.schema import Bools, Rows
from shared.dra.device_index import takes_devices
from shared.engine.evaluation import Alike, Evaluation, Evaluations
from shared.engine.row_states import RowStates
from shared.framework.cluster_view import ClusterView, Follower
from shared.framework.plugin_api import (
    DEPENDENCE_OF,
    ClaimsLikener,
    Reads,
    RoomAsked,
    RoomFilter,
    Scope,
    ScoreKeeper,
)
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.plans import PreFilterOutcome
from shared.framework.runtime.prepared_pod import prepared
from shared.kube.api.core_v1 import PodSpec, Volume

FAMILIES_MAX: Final = 1 << 14
"""So many are told apart before all are forgotten; of most there is no more than the key."""
FAMILIES_BYTES_MAX: Final = 16 << 20
"""Of all that is kept: nobody says when the last pod of a family is gone, and where pods have labels of
their own (a batch, a release) new families come for ever. 50 with scores at 5,000 nodes."""
ALONE_MAX: Final = 4
"""So many pods of a class may each be looked at as if it were the only one; with more, keeping what is
known of the class pays. Of a class with labels of its own, one."""

_SELECTING: Final = Reads.PODS | Reads.OBJECTS
_encoder: Final = msgspec.msgpack.Encoder()

KeyOf = Callable[[PodInfo, str], Hashable]


class _Facts(enum.Enum):
    """Of a pod."""

    REQUESTS = enum.auto()
    CLAIMS = enum.auto()
    LABELS = enum.auto()
    OTHERS = enum.auto()


class Division(NamedTuple):
    """Plugins that ignore requests, by how often they are asked."""

    once: Framework
    """For a whole family."""
    each: Framework | None
    """About each of its pods; None: nobody is."""
    each_with_claims: Framework
    """The same where the pods have claims."""


class FrameworkParts(NamedTuple):
    """The plugins of a profile, by what they look at."""

    own: Framework
    """At requests."""
    labels_alike: Division
    """The others, for a family of pods with the same labels."""
    labels_apart: Division
    """The same, whatever labels the pods have."""
    room_filters: Sequence[RoomFilter] | None
    """The filters of those that look at requests, where they look at nothing but room; else None."""
    likeners: Sequence[ClaimsLikener] | None
    """Those that look at claims, where they can tell which come to the same, and where what those that
    look at requests say follows from the requests; else None."""
    unfollowed_kinds: frozenset[str] | None
    """Of objects that some filter reads, and nobody follows (`ObjectFollower`); None: all."""


class Family(NamedTuple):
    """What is known of a pod by its family, and whom to ask about the rest."""

    shared: Evaluation
    own: Framework
    each: Framework | None
    """Of those that ignore requests; None: what they all say is `shared`."""


class Families:
    """The families of the pods that were asked about lately, each with what its pods have in common."""

    def __init__(
        self,
        cluster: ClusterView,
        frameworks: dict[str, Framework],
        row_bytes: int,
        states: RowStates | None = None,
    ) -> None:
        """`row_bytes` and `states` as of `Evaluations`."""
        self._cluster = cluster
        self.parts = {
            profile: parts
            for profile, framework in frameworks.items()
            if (parts := _split(framework)) is not None
        }
        """By profile; without those of which pods have to be looked at one by one."""
        self.kept = Evaluations(cluster, row_bytes, FAMILIES_BYTES_MAX, states)
        self._seen: set[Hashable] = set()
        self._keys: WeakKeyDictionary[PodInfo, dict[KeyOf, Hashable]] = WeakKeyDictionary()
        """Of those who speak for others."""
        self._follower = Follower(cluster)
        self._epoch = 0
        self._alone: dict[Hashable, int] = {}
        """How many pods of a class, or alike, were looked at as if they had no like."""

    def of(
        self, key: Hashable, info: PodInfo, profile: str, *, is_single: bool = True
    ) -> Family | Alike | None:
        """What is known of the pod's family; None where the pod had better be looked at by its class:
        somebody nominated some pod, devices provide what others like it want, too, there were more
        of the class, or it is the first of its family. Of more pods that are alike but for their claims,
        how they are known. `key` as of `key_of`. `is_single`: no other of the class is in sight; else
        what is found out of the first with its labels had better be kept."""
        if profile not in self.parts or len(self._cluster.nominations):
            return None
        if takes_devices(info, self._cluster):
            return None
        alike = key if isinstance(key, Alike) else None
        counted = key if alike is None else (alike, self._objects_epoch(profile))
        count = self._alone.get(counted, 0)
        if count >= ALONE_MAX:
            return alike
        parts = self.parts[profile]
        family, division = self._key(family_key, info, profile), parts.labels_apart
        labelled = family, self._key(labels_key, info, profile)
        if self._was_seen(labelled):
            family, division = labelled, parts.labels_alike
        elif not self._was_seen(family) or not is_single:
            return None
        if len(self._alone) >= FAMILIES_MAX:
            self._alone.clear()
        self._alone[counted] = count + 1 if division.each is None else ALONE_MAX
        evaluation = self.kept.of(family, _without_claims(info), division.once)
        each = division.each_with_claims if _may_have_claims(info) else division.each
        return Family(evaluation, parts.own, each)

    def _was_seen(self, family: Hashable) -> bool:
        """It is not the first of this family."""
        if family in self._seen:
            return True
        if len(self._seen) >= FAMILIES_MAX:
            self._seen.clear()
        self._seen.add(family)
        return False

    def key_of(self, class_id: int, info: PodInfo, profile: str) -> int | Alike:
        """Equal for pods of which plugins say the same of nodes that none of them came to: those that
        are alike but for their claims; else, and where a nominated pod may be about to take what a claim
        asks for, those of the class."""
        parts = self.parts.get(profile)
        if not info.takes_claims or parts is None or parts.likeners is None:
            return class_id
        said: list[Hashable] = []
        for plugin in parts.likeners:
            likeness = plugin.claims_likeness(info, self._cluster)
            if likeness is None or (likeness != () and len(self._cluster.nominations)):
                return class_id
            said.append(likeness)
        return Alike((self._key(likeness_key, info, profile), *said))

    def _key(self, key_of: KeyOf, info: PodInfo, profile: str) -> Hashable:
        """What does not depend on a pod's own facts is found once for all that share the rest."""
        if info.kin is None:
            return key_of(info, profile)
        known = self._keys.get(info.kin)
        if known is None:
            known = self._keys[info.kin] = {}
        if key_of not in known:
            known[key_of] = key_of(info, profile)
        return known[key_of]

    def _objects_epoch(self, profile: str) -> int:
        """Another number when an object changed that starts what is known of pods that are alike
        afresh: then it has to pay again."""
        if self._follower.concerns(self.parts[profile].unfollowed_kinds):
            self._epoch += 1
        self._follower.note_objects()
        return self._epoch


def passing_part(
    part: Framework,
    info: PodInfo,
    cluster: ClusterView,
    rows: Rows,
    states: RowStates | None = None,
) -> Bools | None:
    """Shape (n,): where some plugins of a profile let the pod go; None where they say more than that."""
    pod = prepared(part, info, cluster)
    if not pod.outcome.status.is_success or pod.outcome.node_names is not None:
        return None
    asked = pod.passing_of if states is None else partial(states.passing, pod)
    passes = asked(pod.plan.active, rows)
    return None if pod.has_failed else passes


def rooms_asked(
    filters: Sequence[RoomFilter], pod: PodInfo, cluster: ClusterView
) -> list[RoomAsked] | None:
    """What the pod asks for, of each filter; None where some have to be asked about each row."""
    asked: list[RoomAsked] = []
    for plugin in filters:
        room = plugin.room_asked(pod, cluster)
        if room is None:
            return None
        asked.append(room)
    return asked


def likeness_key(info: PodInfo, profile: str) -> bytes:
    """Equal for pods that differ in claims alone."""
    volumes = [v for v in info.spec.volumes or () if v.persistent_volume_claim is None]
    bare = replace(info.spec, volumes=volumes, resource_claims=None)
    rest = replace(info.template, spec=bare, own=None)
    return _encoder.encode((profile, info.namespace, rest))


def family_key(info: PodInfo, profile: str) -> bytes:
    """Equal for pods of which plugins that ignore requests, claims and labels say the same."""
    spec = info.spec
    bare = replace(
        spec,
        containers=[replace(each, resources=None) for each in spec.containers],
        init_containers=[replace(each, resources=None) for each in spec.init_containers or ()],
        resources=None,
        overhead=None,
        volumes=_images(spec),
        resource_claims=None,
    )
    return _encoder.encode((profile, info.namespace, info.requests.scalars, bare))


def labels_key(info: PodInfo, _: str) -> bytes:
    """Equal for pods of a family that nobody can tell apart by their labels, nor by who runs them."""
    return _encoder.encode((info.template.labels, info.template.controller))


def _without_claims(info: PodInfo) -> PodInfo:
    """What speaks for its family: the pod without what is its own, which goes when the pod goes."""
    if info.template.own is None:
        return info
    bare = replace(info.spec, volumes=_images(info.spec), resource_claims=None)
    return PodInfo(info.namespace, replace(info.template, spec=bare, own=None))


def _images(spec: PodSpec) -> list[Volume]:
    """The volumes that are images: nobody claims them, and nodes are rated by who has them."""
    return [volume for volume in spec.volumes or () if volume.image is not None]


def _may_have_claims(info: PodInfo) -> bool:
    """Whether plugins that read claims may have something to say."""
    spec = info.spec
    return bool(spec.volumes or spec.resource_claims or info.requests.scalars)


def _split(framework: Framework) -> FrameworkParts | None:
    """None where the plugins that look at requests are not as simple as the in-tree ones are."""
    if framework.sampling is not None:
        return None
    own = _part(framework, _Facts.REQUESTS)
    if own.may_fail or any(each.filter_depends.scope is not Scope.ROW for each in own.filters):
        return None
    for scorer, weight, *_ in own.scores:
        if not weight or scorer.score_depends.scope is not Scope.ROW:
            return None
        if hasattr(scorer, "normalize") or getattr(scorer, "pre_score_depends", None) is not None:
            return None
    claims = _part(framework, _Facts.CLAIMS)
    scorers = [entry.plugin for entry in claims.scores]
    readers = dict.fromkeys([*claims.pre_filters, *claims.filters, *scorers])
    likeners = [plugin for plugin in readers if isinstance(plugin, ClaimsLikener)]
    room_filters = _room_filters(own)
    can_tell = (
        len(likeners) == len(readers)
        and room_filters is not None
        and all(isinstance(plugin, ScoreKeeper) for plugin, *_ in own.scores)
    )
    labels_alike = Division(_part(framework, _Facts.OTHERS, _Facts.LABELS), None, claims)
    labels_apart = Division(
        _part(framework, _Facts.OTHERS),
        _part(framework, _Facts.LABELS),
        _part(framework, _Facts.LABELS, _Facts.CLAIMS),
    )
    kinds = framework.plan(PreFilterOutcome()).unfollowed_kinds  # All have a say.
    likening = likeners if can_tell else None
    return FrameworkParts(own, labels_alike, labels_apart, room_filters, likening, kinds)


def _part(framework: Framework, *facts: _Facts) -> Framework:
    return framework.only(lambda plugin: _facts_of(plugin) in facts)


def _facts_of(plugin: object) -> _Facts:
    """What a plugin looks at of a pod, as far as it matters here."""
    if not getattr(plugin, "ignores_requests", False):
        return _Facts.REQUESTS
    if getattr(plugin, "reads_claims", False):
        return _Facts.CLAIMS
    # Whoever compares a pod with others, or asks objects about it, may do so by its labels.
    named = getattr(plugin, "reads_labels", None)
    stated = [getattr(plugin, attribute, None) for attribute in DEPENDENCE_OF.values()]
    is_selecting = any(depends and depends.reads & _SELECTING for depends in stated)
    return _Facts.LABELS if named is None or named or is_selecting else _Facts.OTHERS


def _room_filters(framework: Framework) -> list[RoomFilter] | None:
    """The filters of a framework that looks at nothing but room; None: some plugin looks at more."""
    filters: list[RoomFilter] = [f for f in framework.filters if isinstance(f, RoomFilter)]
    names = {plugin.NAME for plugin in filters}
    has_more = len(filters) < len(framework.filters) or any(
        plugin.NAME not in names for plugin in framework.pre_filters
    )
    return None if has_more else filters
