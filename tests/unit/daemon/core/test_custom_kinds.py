"""Kinds that only a plugin knows, as the owner waits for them."""

from collections.abc import Sequence

from daemon.adapter.api_source import watched_kinds
from daemon.core.administration import status_of
from daemon.core.state import SchedulerState
from daemon.owner.owner_assembly import make_state
from shared.config import parse_configuration
from shared.feature_gates import FeatureGates
from shared.messages.to_owner import (
    AdapterBatch,
    AdapterHello,
    AdapterMessage,
    KindUnavailable,
    SyncFinished,
    SyncStarted,
)
from shared.plugins.in_tree import InTreeRegistry
from shared.runtime_options import RuntimeOptions
from shared.transport.heard import Said

FOOS = "foos.v1.example.com"
ADAPTER = b"adapter"
EPOCH = 7


def tell(state: SchedulerState, messages: Sequence[AdapterMessage], epoch: int = EPOCH) -> None:
    state.handle([Said(ADAPTER, AdapterBatch(epoch, list(messages)))], 0.0)


def list_of(kind: str) -> list[AdapterMessage]:
    return [SyncStarted(kind), SyncFinished(kind, "1")]


def test_the_owner_waits_for_them_until_they_are_listed_or_known_not_to_be() -> None:
    options = RuntimeOptions(custom_kinds=(FOOS,))
    gates, registry = FeatureGates(), InTreeRegistry(entry_points=())
    state = make_state(parse_configuration("", ""), gates, registry, options, EPOCH, 0.0)
    tell(state, [AdapterHello()], epoch=0)
    for kind in watched_kinds(RuntimeOptions()):
        tell(state, list_of(kind.plural))
    assert status_of(state).awaited_kinds == [FOOS]
    assert not state.is_synced
    tell(state, [KindUnavailable(FOOS, "404 NotFound: no such page")])
    assert state.is_synced
    assert status_of(state).unavailable_kinds == {FOOS: "404 NotFound: no such page"}
    tell(state, list_of(FOOS))
    assert status_of(state).unavailable_kinds == {}
