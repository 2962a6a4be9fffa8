"""Each channel decodes its own messages to their types and refuses all others."""

from typing import Any

import msgspec
import pytest

from shared.errors import FrameError
from shared.messages.admin import (
    ADMIN_ANSWER,
    ADMIN_REQUEST,
    CompareRequest,
    DumpRequest,
    QueueLengths,
    StatusAnswer,
    StatusRequest,
    StopRequest,
    TextAnswer,
)
from shared.messages.codec import Codec, Drain, seal
from shared.messages.from_binder import (
    FROM_BINDER,
    BinderHeartbeat,
    BinderHello,
    BinderReady,
    BindFailed,
    BindFailureReason,
    BindReport,
)
from shared.messages.from_scorer import (
    FROM_SCORER,
    AskForPods,
    Failure,
    Placements,
    Proposals,
    ResyncRequest,
    ScorerHeartbeat,
    ScorerHello,
)
from shared.messages.to_binder import TO_BINDER, BindPod, BindPods, ReportPods, StatusPatch, Welcome
from shared.messages.to_owner import (
    FROM_ADAPTER,
    TO_ADAPTER,
    AdapterBatch,
    AdapterHello,
    KindUnavailable,
    NodeDeleted,
    ObjectDeleted,
    StartSync,
    SyncFinished,
    SyncStarted,
)
from shared.messages.to_scorer import (
    TO_SCORER,
    ExtendedTask,
    GreetAgain,
    PodOnNode,
    PodsOnNodes,
    ScheduleExtended,
    SchedulePods,
    ScorerRefused,
    TaskRun,
    ToScorer,
)

BINDER_MESSAGES = [
    (FROM_BINDER, BinderHello(0)),
    (FROM_BINDER, BinderReady(2)),
    (
        FROM_BINDER,
        BindReport(2, [1], [BindFailed(2, BindFailureReason.GONE, "x")]),
    ),
    (FROM_BINDER, BinderHeartbeat(0)),
    (TO_BINDER, BindPods(1, [BindPod(1, "p", "ns", "n", "u", "node", look_first=True)])),
    (
        TO_BINDER,
        ReportPods(1, [StatusPatch("p", "ns", "n", "u", "Unschedulable", "no", True, "7", 3)]),
    ),
    (TO_BINDER, ReportPods(1, [StatusPatch("p", "ns", "n", "u", nominated_node_name="")])),
    (TO_BINDER, Welcome(9)),
    (TO_BINDER, Drain()),
]
OTHER_MESSAGES = [
    (FROM_SCORER, ScorerHello(0, "a")),
    (FROM_SCORER, ResyncRequest("gap")),
    (TO_SCORER, GreetAgain()),
    (TO_SCORER, ScorerRefused("why")),
    (
        FROM_SCORER,
        Proposals(
            epoch=1,
            batch_id=2,
            proposal_sequence=3,
            generation=4,
            placements=Placements([1], [2]),
            failures=[Failure([1], "m", ["P"], [], is_error=False)],
            skipped=[2],
        ),
    ),
    (FROM_SCORER, ScorerHeartbeat(2)),
    (FROM_SCORER, AskForPods(1, 2, 3, [4, 5])),
    (TO_SCORER, SchedulePods(1, 2, 3, 4, [TaskRun(5, 6), TaskRun(5, 1, "u")])),
    (TO_SCORER, ScheduleExtended(1, 2, [ExtendedTask(3, 4, True, "ns", "n", "u")])),
    (TO_SCORER, PodsOnNodes(1, 2, [PodOnNode(3, 4, "ns", "n", "u")])),
    (TO_ADAPTER, StartSync(4)),
    (
        FROM_ADAPTER,
        AdapterBatch(
            3,
            [
                AdapterHello(),
                SyncStarted("nodes"),
                NodeDeleted("n1"),
                SyncFinished("nodes", "17"),
                ObjectDeleted("services", "ns/s"),
                KindUnavailable("resourceslices", "404"),
            ],
        ),
    ),
    (ADMIN_REQUEST, StatusRequest()),
    (ADMIN_REQUEST, DumpRequest()),
    (ADMIN_REQUEST, CompareRequest()),
    (ADMIN_REQUEST, StopRequest()),
    (ADMIN_ANSWER, TextAnswer(["line"])),
    (
        ADMIN_ANSWER,
        StatusAnswer(1, 2, True, 3, 4, 5, QueueLengths(1, 2, 3, 4, 5), 1, 1, 0, {"scheduled": 4}),
    ),
]


@pytest.mark.parametrize(("channel", "message"), BINDER_MESSAGES + OTHER_MESSAGES)
def test_a_message_comes_out_as_it_went_in(channel: Codec[Any], message: msgspec.Struct) -> None:
    decoded, buffers = channel.decode(channel.encode(message, [b"column"]))
    assert decoded == message
    assert list(buffers) == [b"column"]


@pytest.mark.parametrize(
    ("channel", "message", "problem"),
    [
        (TO_BINDER, BinderHello(0), "Invalid value 'vh'"),
        (FROM_BINDER, StatusRequest(), "Invalid value 'qs'"),
        (FROM_ADAPTER, [AdapterHello()], "cannot be decoded"),
    ],
)
def test_a_message_of_another_channel_is_refused(
    channel: Codec[Any], message: object, problem: str
) -> None:
    with pytest.raises(FrameError, match=problem) as refused:
        channel.decode(Codec[Any]("x", object).encode(message))
    assert f"channel {channel.channel}: cannot be decoded" in str(refused.value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x92\xa2bW",
        b"\x92\xa2bW\xa1x",
        b"\x92\xa2bW\x01\x00",
        b"\x93\xa2vh\x01\x00\xa1\xff",
        b"\x91" * 100_000,
    ],
)
def test_bytes_that_are_no_message_are_refused_however_they_are_broken(body: bytes) -> None:
    for channel in (TO_BINDER, FROM_BINDER, FROM_ADAPTER):
        with pytest.raises(FrameError, match="cannot be decoded"):
            channel.decode(seal(body))


@pytest.mark.parametrize(
    "message",
    [
        SchedulePods(1, 2, 3, 4, [TaskRun(5, 1 << 62)]),
        SchedulePods(1, 2, 3, 4, [TaskRun(5, 0)]),
        SchedulePods(1, 2, 3, -1, [TaskRun(5, 6)]),
        SchedulePods(1, 2, 3, (1 << 64) - 1, [TaskRun(5, 6)]),
        ScheduleExtended(1, 2, [ExtendedTask(-3, 4, True, "ns", "n", "u")]),
    ],
)
def test_work_that_no_owner_hands_out_is_refused(message: ToScorer) -> None:
    """A worker would count for ever, or could not say what it has in hand."""
    with pytest.raises(FrameError, match="Expected `int`"):
        TO_SCORER.decode(TO_SCORER.encode(message))
