"""The null binder's answers, message by message."""

import msgspec

from bench.manual_clock import ManualClock
from bench.null_binder import NullBinder
from shared.messages.codec import Drain
from shared.messages.from_binder import BinderHello, BinderReady, BindReport
from shared.messages.to_binder import BindPod, BindPods, ReportPods, StatusPatch, Welcome
from shared.transport.channels import Connected

EPOCH = 7
ORDER = BindPod(3, "p", "default", "a", "uid-a", "n1", False)
VERDICT = StatusPatch("p", "default", "b", "uid-b", "Unschedulable", "0/1 nodes", True)


class Written:
    """A null binder and what it wrote."""

    def __init__(self) -> None:
        self.data = b""
        self.binder = NullBinder(0, "life", self.write, ManualClock(now_s=5.5))

    def write(self, data: bytes) -> None:
        self.data += data


def welcomed() -> Written:
    written = Written()
    assert written.binder.answers(Connected()) == [BinderHello(0)]
    assert written.binder.answers(Welcome(EPOCH)) == [BinderReady(EPOCH)]
    return written


def test_an_order_is_told_and_answered_as_done() -> None:
    written = welcomed()
    answers = written.binder.answers(BindPods(EPOCH, [ORDER]))
    assert answers == [BindReport(EPOCH, [3], [])]
    assert (
        written.data
        == b'{"type":"bound","uid":"uid-a","pod":"default/a","node":"n1","ordered_s":5.5,"claims":[]}\n'
    )


def test_a_verdict_is_told() -> None:
    written = welcomed()
    assert written.binder.answers(ReportPods(EPOCH, [VERDICT])) == []
    assert written.data.startswith(b'{"type":"refused","uid":"uid-b","pod":"default/b"')


def test_nominations_are_told_before_verdicts() -> None:
    written = welcomed()
    ended = StatusPatch("p", "default", "c", "uid-c", nominated_node_name="")
    both = msgspec.structs.replace(VERDICT, nominated_node_name="n1")
    assert written.binder.answers(ReportPods(EPOCH, [both, ended])) == []
    assert [line[:40] for line in written.data.splitlines()] == [
        b'{"type":"nominated","uid":"uid-b","pod":',
        b'{"type":"nominated","uid":"uid-c","pod":',
        b'{"type":"refused","uid":"uid-b","pod":"d',
    ]


def test_orders_of_another_epoch_are_neither_told_nor_answered() -> None:
    written = welcomed()
    assert written.binder.answers(BindPods(EPOCH + 1, [ORDER])) == []
    written.binder.answers(Connected())
    assert written.binder.answers(BindPods(EPOCH, [ORDER])) == []
    assert written.data == b""


def test_drained_it_ends() -> None:
    written = welcomed()
    assert not written.binder.is_drained
    assert written.binder.answers(Drain()) == []
    assert written.binder.is_drained
