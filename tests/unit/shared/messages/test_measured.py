"""What one process counted is added to what another has, and nothing that is not known."""

import msgspec

from shared.messages.admin import HistogramState, LabelledCount
from shared.messages.from_binder import BinderHeartbeat
from shared.messages.measured import NOTHING, Measured, add_to, told
from shared.telemetry.metrics import HISTOGRAMS
from shared.telemetry.tally import Tally, request_observer


def test_what_is_told_is_added() -> None:
    owner, binder = Tally(), Tally()
    owner.observe("request_s", ("POST", "h"), 2**-8)
    observe = request_observer(binder, "h")
    observe("POST", "201", 2**-8)
    observe("POST", "201", 128.0)
    observe("GET", "<error>", 0.03)
    add_to(owner, told(binder))
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
    assert told(tally) == NOTHING


def test_what_this_version_does_not_know_is_left_out() -> None:
    owner = Tally()
    bounds = len(HISTOGRAMS["request_s"].bounds) + 1
    add_to(
        owner,
        Measured(
            [LabelledCount("from_the_future", ["x"], 1), LabelledCount("requests", ["200"], 1)],
            [
                HistogramState("from_the_future_s", [], [1], 1.0),
                HistogramState("request_s", ["GET"], [1] * bounds, 1.0),
                HistogramState("request_s", ["GET", "h"], [1, 1], 1.0),
            ],
        ),
    )
    assert (owner.counts, owner.histograms) == ({}, {})


def test_it_travels_with_a_heartbeat() -> None:
    tally = Tally()
    tally.observe("extension_point_s", ("Bind", "Success", "p"), 0.004, times=3)
    sent = BinderHeartbeat(1, 2, 3, told(tally))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=BinderHeartbeat) == sent
