"""What berth still holds of pods that are gone: in the usual places, and every text that it can reach.

A dictionary that nobody empties shows whatever it is called.
"""

import gc
from collections.abc import Callable, Collection, Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final

import msgspec
import numpy as np

from bench.sim.berth import Berth
from bench.sim.copies import has_all
from bench.sim.schedule import SimulatedFailure
from daemon.core.bindings import BinderPool
from shared.engine.evaluation import Evaluations
from shared.framework.class_index import ClassIndex
from shared.framework.cluster_view import ClusterView
from shared.framework.object_store import ObjectStore

_SKIPPED: Final = (
    type, ModuleType, BuiltinFunctionType, CodeType, np.ndarray, int, float, bytes, type(None),
    ObjectStore, ClassIndex,
)  # fmt: skip
"""What an `ObjectStore` holds is there; a `ClassIndex` catches up when it is asked, and has a bound of
its own."""


def judge_nothing_is_kept(berth: Berth, gone: Collection[str]) -> None:
    """Raises where anything is left when all objects are gone; `gone`: uids of pods that there were."""
    owner = berth.owner
    assert owner is not None, "judged at rest"
    state = owner.state
    kept = {
        "pods of the cache": state.cache.pod_count(),
        "nodes": len(state.cache.node_infos()),
        "pods of the queue": len(state.queue),
        "classes": sum(not each.may_come_again for each in state.cache.classes),
        "classes in use": sum(each.pod_count > 0 for each in state.cache.classes),
        "attempts": sum(len(scorer.attempts) for scorer in state.scorers),
        "bindings": state.binders.in_flight_count(),
        "nominations": len(state.cache.view.nominations),
        "victims": victims_in_flight_count(state.binders),
        "assumptions": sum(
            len(state.cache.objects.assumed(kind)) for kind in state.cache.objects.assumed_kinds()
        ),
        "events in flight": sum(state.queue.in_flight.events_by_label().values()),
    }
    for what, count in kept.items():
        if count:
            raise SimulatedFailure("kept", f"{count} {what} when nothing is left")
    # A scorer that has lost the last deltas learns of it with the next work.
    whole = [each for each in berth.scorers if has_all(each, owner)]
    roots = [(owner.name, owner.state), *((each.name, each.loop) for each in whole)]
    for process, root in roots:
        for told in holders(root, gone):
            raise SimulatedFailure("kept", f"{process}: the uid of a pod that is gone: {told}")


def victims_in_flight_count(binders: BinderPool) -> int:
    """Deletions that are ordered and not answered."""
    return len(binders.victims) + sum(len(binder.victims) for binder in binders)


def holders(root: object, texts: Collection[str]) -> list[str]:
    """Where any of some texts is held: the classes on the way there. The simulation's own objects are
    not looked into."""
    way: dict[int, tuple[object, int]] = {id(root): (root, 0)}
    todo: list[object] = [root]
    found: dict[str, None] = {}
    is_skipped: dict[type, bool] = {}
    while todo:
        holder = todo.pop()
        for each in _held_by(holder):
            kind = type(each)
            if kind is str:
                if each in texts:
                    found[_told(way, holder)] = None
                continue
            skipped = is_skipped.get(kind)
            if skipped is None:
                skipped = is_skipped[kind] = issubclass(kind, _SKIPPED) or _is_ours(kind)
            if skipped or id(each) in way or (kind is FunctionType and _is_ours(each)):
                continue
            way[id(each)] = each, id(holder)
            todo.append(each)
    return list(found)


def _is_ours(each: object) -> bool:
    return str(getattr(each, "__module__", "")).startswith("bench.")


def _held_by(holder: object) -> Iterable[object]:
    kind = type(holder)
    held_by = _readers.get(kind)
    if held_by is None:
        found = (reads for known, reads in _SPECIAL.items() if issubclass(kind, known))
        held_by = _readers[kind] = next(found, gc.get_referents)
    return held_by(holder)


def _of_struct(holder: Any) -> Iterable[object]:
    return [getattr(holder, name) for name in holder.__struct_fields__]


def _of_view(holder: Any) -> Iterable[object]:
    return [held for name, held in vars(holder).items() if name != "_derived"]


def _of_evaluations(holder: Any) -> Iterable[object]:
    return [each for key, each in vars(holder)["_kept"].items() if not isinstance(key, tuple)]


def _of_function(holder: Any) -> Iterable[object]:
    return [cell.cell_contents for cell in holder.__closure__ or () if _is_filled(cell)]


_SPECIAL: Final[dict[type, Callable[[Any], Iterable[object]]]] = {
    msgspec.Struct: _of_struct,  # Not all of them are known to the collector.
    ClusterView: _of_view,  # What is derived catches up when it is asked.
    # Of pods that are alike but for their claims (keys that are tuples) the one that was asked about
    # last stays, within the bound, until another comes.
    Evaluations: _of_evaluations,
    FunctionType: _of_function,  # Its globals are the module's.
}
_readers: Final[dict[type, Callable[[Any], Iterable[object]]]] = {}
"""Kind -> what objects of it hold."""


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 # Raises where there is nothing.
    except ValueError:
        return False
    return True


def _told(way: dict[int, tuple[object, int]], holder: object) -> str:
    names: list[str] = []
    place = id(holder)
    while place:
        each, before = way[place]
        if not isinstance(each, (dict, list, tuple, set)):
            names.append(type(each).__name__)
        elif isinstance(way[before][0] if before else None, object) and before:
            names.append(f"{type(each).__name__} {_attribute(way[before][0], each)}")
        place = before
    return " in ".join(names)


def _attribute(owner: object, held: object) -> str:
    for name, value in getattr(owner, "__dict__", {}).items():
        if value is held:
            return str(name)
    return ""
