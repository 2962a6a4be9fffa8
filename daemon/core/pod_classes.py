"""Pod classes: pods that no plugin can tell apart, known by what matters of their template's bytes.

A template is decoded, its requests are added up, and its class gets a number once, when its first
pod appears; the ten thousandth pod of a Deployment costs a dictionary look-up. Labels that nobody
selects by do not matter (`selected_labels.py`). A class lives as long as one of its pods does, and
somewhat longer: the next pod of its Deployment comes later.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

import msgspec

from daemon.core.selected_labels import SelectedLabels, keys_of_pod
from shared.columns.delta import ClassDefinition
from shared.columns.pod_table import start_time_s
from shared.columns.table import NodeTable
from shared.columns.usage import PodUsage, usage_of
from shared.faults import reading
from shared.framework.pod_info import PodInfo, PodInfos
from shared.kube.pod_record import PodRecord
from shared.limits import SHARED_TEMPLATES_MAX, UNUSED_CLASSES_MAX


class PodClass:
    __slots__ = ("claim_keys", "class_id", "info", "is_bound_plainly", "is_of_pending",
                 "is_reserved", "is_suspect", "key", "last_message", "may_be_gated", "pod_count",
                 "priority", "profile", "usage")  # fmt: skip

    def __init__(
        self, class_id: int, key: tuple[str, bytes], info: PodInfo, table: NodeTable
    ) -> None:
        """`key`: namespace and template, a `PodTemplate` as msgpack without what does not matter; `info`
        was read of them."""
        self.class_id = class_id
        self.key = key
        self.info = info
        self.claim_keys = self.info.claim_keys
        self.info.read_for_others()
        self.count_usage(table)
        self.profile = self.info.spec.scheduler_name
        self.priority = self.info.priority
        self.pod_count = 0
        self.is_of_pending = False
        """Some of its pods came without a node."""
        self.is_suspect = False
        """Scorers were lost with its pods in hand: that is forgotten with the last of these."""
        self.last_message = ""
        """Of the last attempt of a pod of the class that failed: all of them are told the like."""
        self.may_be_gated: bool | None = None
        """Some PreEnqueue plugin may keep its pods out; None: nobody has asked yet."""
        self.is_reserved: bool | None = None
        """Some Reserve plugin may have a say about its pods; None: nobody has asked yet."""
        self.is_bound_plainly: bool | None = None
        """Nothing is asked or written before a binder binds its pods; None: nobody has asked yet."""

    def count_usage(self, table: NodeTable) -> None:
        """What a pod takes of a node, in the resources that `table` has now."""
        self.usage: PodUsage = usage_of(table, self.info.requests, self.info.host_ports)

    @property
    def may_come_again(self) -> bool:
        """A pod that is to be placed may be of it though none is left."""
        is_unlike_others = self.info.template.own is not None
        return self.is_of_pending and not (self.is_suspect or is_unlike_others)

    @property
    def definition(self) -> ClassDefinition:
        namespace, template = self.key
        return ClassDefinition(self.class_id, namespace, self.profile, template)


Reclassed = Callable[[PodRecord, PodClass], PodClass | None]
"""The class that a pod of another is of by now, as `acquire` gives it; None: the same."""


class PodClasses:
    """All classes that some pod of cache or queue belongs to, or did lately."""

    def __init__(self, table: NodeTable, labels: SelectedLabels | None = None) -> None:
        """`labels`: None: all matter."""
        self._table = table
        self.labels = labels or SelectedLabels(None)
        self._known: dict[bytes, tuple[msgspec.Raw, bytes]] = {}
        """By template as it came: one for pods that are alike, and what of it matters."""
        self._by_key: dict[tuple[str, bytes], PodClass] = {}
        self._unused: OrderedDict[int, PodClass] = OrderedDict()
        """By id: without pods. The first has been so for longest."""
        self._read = PodInfos()
        self._next_id = 1
        self.infos: dict[int, PodInfo] = {}
        """By id: what plugins see."""
        self.born: list[PodClass] = []
        """Classes that were made since somebody last took this list."""
        self.retired: list[int] = []
        """Ids of classes that died since somebody last took this list."""

    def acquire(self, record: PodRecord) -> PodClass:
        """The class of a pod, counted as used once more. Raises ObjectError, and has changed nothing
        then, for a pod of which anything that the cache needs cannot be read."""
        if record.started:
            start_time_s(record.started)  # It is read again where writing it must not fail.
        key = self.key_of(record)
        found = self._by_key.get(key)
        if found is None:
            with reading("pod", record):
                found = PodClass(self._next_id, key, self._read.of(*key), self._table)
            self.select_by(keys_of_pod(found.info))
            self._next_id += 1
            self._by_key[key] = found
            self.infos[found.class_id] = found.info
            self.born.append(found)
        elif not found.pod_count:
            self._unused.pop(found.class_id)
        found.pod_count += 1
        found.is_of_pending = found.is_of_pending or not record.node_name
        return found

    def key_of(self, record: PodRecord) -> tuple[str, bytes]:
        """What pods of a class have in common. The record's template becomes one that pods alike share:
        as it came, it is a window on the whole message that brought it, and would keep that in memory as
        long as the pod lives."""
        came = bytes(record.template)
        known = self._known.get(came)
        if known is None:
            if len(self._known) >= SHARED_TEMPLATES_MAX:
                self._known.clear()
            known = self._known[came] = msgspec.Raw(came), self.labels.without_others(came)
        msgspec.structs.force_setattr(record, "template", known[0])
        return record.namespace, known[1]

    def select_by(self, keys: Iterable[str]) -> None:
        """Somebody selects pods by these labels. Where one is new, pods may be of other classes than
        they were (`take_changes`)."""
        if self.labels.name(keys):
            self._known.clear()

    def take_changes(self) -> Reclassed | None:
        """What pods are of by now, once somebody selects by labels that nobody selected by when this
        was last asked; None: nobody does."""
        may_differ = self.labels.take_news()
        if may_differ is None:
            return None

        def reclassed(record: PodRecord, pod_class: PodClass) -> PodClass | None:
            if not may_differ(record) or self.key_of(record) == pod_class.key:
                return None
            return self.acquire(record)

        return reclassed

    def retain(self, pod_class: PodClass, count: int = 1) -> None:
        """Counts a class that is in hand as used once more, or `count` times."""
        assert pod_class.pod_count > 0, "retained after its last release"
        pod_class.pod_count += count

    def release(self, pod_class: PodClass) -> None:
        assert pod_class.pod_count > 0, "released more often than acquired"
        pod_class.pod_count -= 1
        if pod_class.pod_count:
            return
        if pod_class.may_come_again:
            self._unused[pod_class.class_id] = pod_class
            if len(self._unused) <= UNUSED_CLASSES_MAX:
                return
            _, pod_class = self._unused.popitem(last=False)
        del self._by_key[pod_class.key]
        del self.infos[pod_class.class_id]
        self.retired.append(pod_class.class_id)

    def __iter__(self) -> Iterator[PodClass]:
        return iter(self._by_key.values())
