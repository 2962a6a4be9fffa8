"""What one process counted is added to what another has, and nothing that is not known."""

import msgspec
import pytest

from daemon.core.owner_counts import ALL_METRICS, add_to
from shared.limits import METRIC_SERIES_MAX
from shared.messages.from_binder import BinderHeartbeat
from shared.telemetry.metrics import (
    METRICS,
    NOTHING,
    OTHER,
    HistogramState,
    LabelledCount,
    Measured,
    Tally,
    measured_by,
    request_observer,
)


def test_what_is_told_is_added() -> None:
    owner, binder = Tally(ALL_METRICS), Tally()
    owner.observe("request_s", ("POST", "h"), 2**-8)
    observe = request_observer(binder, "h")
    observe("POST", "201", 2**-8)
    observe("POST", "201", 128.0)
    observe("GET", "<error>", 0.03)
    add_to(owner, measured_by(binder))
    assert owner.counts == {
        ("requests", ("201", "POST", "h")): 2,
        ("requests", ("<error>", "GET", "h")): 1,
    }
    posts = owner.histograms["request_s", ("POST", "h")]
    assert (posts.counts[0], posts.counts[-1], posts.sum) == (2, 1, 128 + 2**-7)
    assert sum(owner.histograms["request_s", ("GET", "h")].counts) == 1


def test_after_it_was_told_it_counts_anew() -> None:
    tally = Tally()
    tally.count("requests", ("200", "GET", "h"))
    tally.clear()
    assert measured_by(tally) == NOTHING


def test_what_this_version_does_not_know_is_left_out() -> None:
    owner = Tally(ALL_METRICS)
    bounds = len(METRICS["request_s"].bounds) + 1
    add_to(
        owner,
        Measured(
            [LabelledCount("from_the_future", ("x",), 1), LabelledCount("requests", ("200",), 1)],
            [
                HistogramState("from_the_future_s", (), [1], 1.0),
                HistogramState("request_s", ("GET",), [1] * bounds, 1.0),
                HistogramState("request_s", ("GET", "h"), [1, 1], 1.0),
            ],
        ),
    )
    assert (owner.counts, owner.histograms) == ({}, {})


def test_what_no_number_can_hold_is_told_as_far_as_one_can() -> None:
    owner = Tally(ALL_METRICS)
    bounds = len(METRICS["request_s"].bounds) + 1
    most = HistogramState("request_s", ("GET", "h"), [2**64 - 1] * bounds, 1.0)
    said = Measured([LabelledCount("requests", ("200", "GET", "h"), 2**64 - 1)], [most])
    add_to(owner, said)
    add_to(owner, said)
    assert msgspec.msgpack.decode(
        msgspec.msgpack.encode(measured_by(owner)), type=Measured
    ) == Measured(said.counts, [msgspec.structs.replace(most, sum=2.0)])


def test_it_travels_with_a_heartbeat() -> None:
    tally = Tally()
    tally.observe("extension_point_s", ("Bind", "Success", "p"), 0.004, times=3)
    sent = BinderHeartbeat(1, measured_by(tally))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=BinderHeartbeat) == sent


def test_series_that_are_made_up_are_counted_together_and_take_no_room() -> None:
    owner = Tally(ALL_METRICS)
    owner.count("requests", ("200", "GET", "h"))
    bounds = len(METRICS["request_s"].bounds) + 1
    for round_ in range(3):
        names = [f"{round_}-{i}" for i in range(METRIC_SERIES_MAX)]
        counts = [LabelledCount("requests", (each, each, each), 2) for each in names]
        histograms = [
            HistogramState("request_s", (each, each), [1] * bounds, 1.0) for each in names
        ]
        add_to(owner, Measured(counts, histograms))
    assert len(owner.counts) == len(owner.histograms) == METRIC_SERIES_MAX + 1
    assert sum(owner.counts.values()) == 1 + 2 * 3 * METRIC_SERIES_MAX
    assert (
        sum(sum(each.counts) for each in owner.histograms.values())
        == 3 * METRIC_SERIES_MAX * bounds
    )
    owner.count("requests", ("200", "GET", "h"))
    assert owner.counts["requests", ("200", "GET", "h")] == 2
    owner.count("queue_incoming", ("x" * 10_000, "e"))
    assert owner.counts["queue_incoming", (OTHER, OTHER)] == 1


@pytest.mark.parametrize("total", [float("nan"), float("inf"), -float("inf")])
def test_figures_that_nobody_counts_are_left_out(total: float) -> None:
    owner = Tally(ALL_METRICS)
    bounds = len(METRICS["request_s"].bounds) + 1
    state = HistogramState("request_s", ("GET", "h"), [1] * bounds, total)
    less = HistogramState("request_s", ("GET", "h"), [-1] * bounds, 1.0)
    count = LabelledCount("requests", ("200", "GET", "h"), -1)
    add_to(owner, Measured([count], [state, less]))
    assert measured_by(owner) == NOTHING
