"""What a worker proposes is taken apart pod by pod; nonsense costs another attempt and nothing else."""

from typing import Any

import msgspec
import pytest

from daemon.core.checker import Checker
from daemon.core.owner_counts import Count
from shared.dra.device_index import CLAIMS, CLASSES, SLICES
from shared.framework.runtime.profiles import PluginSet, ProfileConfig
from shared.kube.api.resource_v1 import ResourceClaimConsumer
from shared.kube.pod_record import PodRecord
from shared.messages.from_binder import BindFailed, BindFailureReason, BindReport
from shared.messages.from_scorer import Placements, Proposals
from shared.messages.to_owner import ObjectChanged
from shared.plugin_names import DYNAMIC_RESOURCES
from shared.plugins.in_tree import InTreeRegistry
from shared.transport.heard import Said
from tests.support import pipeline as pipelines
from tests.support.binding_work import claim_work
from tests.support.builders import make_node, make_pod
from tests.support.devices import device, make_claim, make_class, make_slice, with_claims_made
from tests.support.pipeline import BINDER, EPOCH, Pipeline
from tests.support.tasks import tasks_of


def with_work(pod_count: int, *, logs_attempts: bool = False) -> tuple[Pipeline, list[int]]:
    """Three nodes for one pod each, and pods of one class out with the only worker."""
    pipeline = Pipeline(logs_attempts=logs_attempts)
    pods = [make_pod(f"p{i}", cpu="1") for i in range(pod_count)]
    pipeline.sync([make_node(f"n{i}", cpu="1") for i in range(3)], pods)
    scorer = pipeline.scorers[0]
    while not scorer.work:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    return pipeline, [task.ticket for work in scorer.work for task in tasks_of(work)]


def propose(
    pipeline: Pipeline, tickets: list[int], rows: list[int], proposal_sequence: int = 1
) -> None:
    scorer = pipeline.scorers[0]
    placements = Placements(tickets, rows)
    told = Proposals(EPOCH, 1, proposal_sequence, scorer.replica.generation, placements, [], [])
    pipeline.handle(Said(scorer.peer, told))


def test_of_two_pods_on_one_full_row_the_first_has_it() -> None:
    pipeline, tickets = with_work(3)
    propose(pipeline, tickets, [1, 1, 2])
    assert [order.node_name for order in pipeline.orders] == ["n1", "n2"]
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] == 1
    pipeline.check()


def test_each_step_of_an_attempt_is_logged_with_its_ticket_where_that_is_wanted() -> None:
    pipeline, tickets = with_work(2, logs_attempts=True)
    names = [name for work in pipeline.scorers[0].work for name in work.names]
    propose(pipeline, tickets, [1, 1])
    told: dict[tuple[object, object], list[str]] = {}
    for note in pipeline.notes:
        if note.is_detail:
            told.setdefault((note.fields["pod"], note.fields["ticket"]), []).append(note.event)
    assert told[names[0], tickets[0]] == ["handed_out", "binding_ordered"]
    assert told[names[1], tickets[1]] == ["handed_out", "placement_refused"]
    again = [ticket for name, ticket in told if name == names[1] and ticket != tickets[1]]
    assert [told[names[1], ticket] for ticket in again] == [["handed_out"]]


def test_nothing_of_attempts_is_logged_where_nobody_asked() -> None:
    pipeline, tickets = with_work(2)
    propose(pipeline, tickets, [1, 1])
    assert not any(note.is_detail for note in pipeline.notes)
    assert not any(work.names for work in pipeline.scorers[0].work)


@pytest.mark.parametrize("row", [3, 10**6, -1])
def test_a_row_that_is_none_is_rejected(row: int) -> None:
    pipeline, tickets = with_work(2)
    propose(pipeline, tickets, [0, row])
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] >= 1
    pipeline.scorers[0].work.clear()
    pipeline.run_until_quiet()
    pipeline.check()


def test_an_unknown_or_repeated_ticket_is_stale() -> None:
    pipeline, tickets = with_work(1)
    propose(pipeline, [tickets[0], tickets[0], 999], [0, 1, 2])
    assert [order.name for order in pipeline.orders] == ["p0"]
    assert pipeline.state.counters[Count.PROPOSALS_STALE] == 2
    pipeline.check()


def with_device(number: int, **parts: Any) -> PodRecord:
    claims = [{"name": "c", "resourceClaimTemplateName": "t"}]
    pod = make_pod(f"p{number}", cpu="1", spec={"resourceClaims": claims}, **parts)
    return with_claims_made(pod, {"c": f"c{number}"})


def with_devices(pod_count: int) -> tuple[Pipeline, list[int]]:
    """Four nodes with two devices each, and pods with a claim each out with the only worker."""
    pipeline = Pipeline()
    nodes = [f"n{i}" for i in range(4)]
    pipeline.sync([make_node(name, cpu="9") for name in nodes], [])
    told: list[tuple[str, Any]] = [(CLASSES, make_class())]
    told += [(SLICES, make_slice(name, [device("a"), device("b")])) for name in nodes]
    told += [(CLAIMS, make_claim(f"c{i}", owner=f"uid-default-p{i}")) for i in range(pod_count)]
    for kind, each in told:
        key = "/".join(filter(None, (each.metadata.namespace, each.metadata.name)))
        pipeline.tell(ObjectChanged(kind, key, msgspec.Raw(msgspec.msgpack.encode(each))))
    for i in range(pod_count):
        pipeline.add_pod(with_device(i))
    scorer = pipeline.scorers[0]
    while len([task for work in scorer.work for task in tasks_of(work)]) < pod_count:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    return pipeline, [task.ticket for work in scorer.work for task in tasks_of(work)]


@pytest.mark.parametrize("is_left", [True, False])
def test_devices_of_a_claim_that_stays_allocated_are_not_given_away_before_the_watch_says_so(
    is_left: bool,
) -> None:
    """Somebody else bound the pod after the binder had written its claim."""
    pipeline, tickets = with_devices(3)
    propose(pipeline, tickets[:2], [0, 0])
    _, order = pipeline.orders
    pipeline.add_pod(with_device(1, node_name="n1", resource_version="2"))
    left = ("default/c1",) if is_left else ()
    failed = BindFailed(order.ticket, BindFailureReason.CONFLICT, "no", claims_left=left)
    pipeline.handle(Said(BINDER, BindReport(EPOCH, [], [failed])))
    propose(pipeline, tickets[2:], [0], proposal_sequence=2)
    assert len(pipeline.orders) == (2 if is_left else 3)
    allocated = make_claim("c1", owner="uid-default-p1")
    allocated.metadata.resource_version = "9"
    allocated.status.allocation = claim_work(order)[0].allocation
    user = ResourceClaimConsumer(resource="pods", name="p1", uid="uid-default-p1")
    allocated.status.reserved_for = [user]
    body = msgspec.Raw(msgspec.msgpack.encode(allocated))
    pipeline.tell(ObjectChanged(CLAIMS, "default/c1", body))
    pipeline.step_owner()
    if is_left:
        assert not pipeline.state.cache.objects.assumed_for(CLAIMS, "uid-default-p1")


def test_pods_with_a_device_each_are_checked_together_and_given_devices_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline, tickets = with_devices(7)
    asked: list[int] = []
    passing = Checker.passing

    def note(self: Checker, *parts: Any) -> Any:
        asked.append(len(parts[2]))
        return passing(self, *parts)

    monkeypatch.setattr(Checker, "passing", note)
    propose(pipeline, tickets, [0, 1, 2, 2, 3, 0, 0])
    assert asked == [3, 3, 1], "as far as rows are distinct"
    assert [order.node_name for order in pipeline.orders] == ["n0", "n1", "n2", "n2", "n3", "n0"]
    given = [claim_work(order)[0].allocation.devices.results or [] for order in pipeline.orders]
    assert [each[0].device for each in given] == ["a", "a", "a", "b", "a", "b"]
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] == 1, "n0 has no third device"
    pipeline.check()


def test_pods_whose_claims_nobody_looks_at_are_each_of_their_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without = {"multiPoint": PluginSet(disabled=[DYNAMIC_RESOURCES])}
    built = InTreeRegistry().build(ProfileConfig(plugins=without))
    monkeypatch.setattr(pipelines, "default_profile", lambda _: built)
    pipeline, tickets = with_devices(4)
    propose(pipeline, tickets, [0, 1, 2, 3])
    placed = [pipeline.state.cache.get_pod(order.uid) for order in pipeline.orders]
    assert [pod.pod_class.key[1] for pod in placed if pod is not None] == [
        bytes(pod.record.template) for pod in placed if pod is not None
    ]
    assert len({pod.pod_class.class_id for pod in placed if pod is not None}) == 4
    pipeline.check()
