"""Sampling of throughput as upstream does it, checked by hand-made times."""

import pytest

from bench.perf.samples import (
    Buckets,
    buckets_of,
    latencies_ms,
    percentiles,
    rate_samples,
    throughput,
    total,
)
from daemon.core.owner_counts import ALL_METRICS
from shared.telemetry.metrics import HistogramState


def test_percentiles_take_the_nearest_rank() -> None:
    figures = percentiles([float(n) for n in range(100, 0, -1)])
    assert figures is not None
    assert (figures.p50, figures.p90, figures.p95, figures.p99) == (50, 90, 95, 99)
    assert figures.average == pytest.approx(50.5)
    assert percentiles([]) is None


def test_the_first_count_starts_the_measurement_and_the_cut_interval_is_left_out() -> None:
    # Ticks at 1, 2, 3 s: counts 2, 5, 6. The pods after 3 s fall into an interval that is cut short.
    bound_s = [0.5, 0.9, 1.1, 1.2, 1.9, 2.5, 3.2, 3.3]
    assert rate_samples(bound_s, 0.0, 3.5, 1.0) == [3.0, 1.0]


def test_an_interval_without_bindings_is_added_to_the_next() -> None:
    # Ticks: 1 -> 1 (starts), 2 -> 1, 3 -> 1, 4 -> 7: six pods in three seconds, three samples of 2.
    bound_s = [0.5, 3.1, 3.2, 3.3, 3.4, 3.5, 3.6]
    assert rate_samples(bound_s, 0.0, 4.0, 1.0) == [2.0, 2.0, 2.0]


def test_nothing_counts_before_the_first_binding() -> None:
    assert rate_samples([5.5, 6.5, 6.6], 0.0, 7.0, 1.0) == [2.0]
    assert rate_samples([], 0.0, 7.0, 1.0) == []


def test_a_steady_stream_has_the_same_rate_everywhere() -> None:
    pods = [(0.0, (n + 0.5) / 100) for n in range(1000)]
    figures = throughput(pods, 0.0, 10.0)
    assert figures is not None
    assert (figures.average, figures.p50, figures.p99) == (100, 100, 100)
    assert (figures.sample_interval_s, figures.sample_count) == (1.0, 9)
    assert figures.overall == pytest.approx(1000 / 9.995)


def test_short_runs_are_sampled_more_finely_and_say_so() -> None:
    pods = [(0.0, (n + 0.5) / 1000) for n in range(1000)]
    figures = throughput(pods, 0.0, 1.0)
    assert figures is not None
    assert figures.sample_interval_s == 0.05
    assert figures.average == pytest.approx(1000)


def test_pods_bound_before_or_after_do_not_count() -> None:
    pods = [(0.0, 0.5), (0.0, 1.5), (1.0, 1.6), (1.0, 9.0)]
    figures = throughput(pods, 1.0, 2.0)
    assert figures is not None
    assert figures.overall == pytest.approx(2 / 0.6)
    assert throughput(pods, 20.0, 30.0) is None
    waits = latencies_ms(pods, 1.0, 2.0)
    assert waits is not None
    assert waits.p99 == pytest.approx(1500)
    assert waits.p50 == pytest.approx(600)


def test_percentiles_of_buckets_are_even_within_a_bucket() -> None:
    before = Buckets((1.0, 2.0, 4.0), [1, 0, 0, 0], 0.5)
    figures = (Buckets((1.0, 2.0, 4.0), [11, 80, 9, 1], 150.5) - before).percentiles_ms()
    assert figures is not None
    assert figures.p50 == pytest.approx(1500)
    assert figures.p90 == pytest.approx(2000)
    assert figures.p95 == pytest.approx(2000 + 2000 * 5 / 9)
    assert figures.average == pytest.approx(1500)


def test_what_is_above_all_bounds_counts_as_the_last() -> None:
    figures = Buckets((1.0,), [0, 100], 500.0).percentiles_ms()
    assert figures is not None
    assert (figures.p50, figures.p99, figures.average) == (1000, 1000, 5000)
    assert Buckets().percentiles_ms() is None


def test_buckets_are_told_by_the_first_label_and_summed_over_the_others() -> None:
    bounds = ALL_METRICS["attempt_s"].bounds
    zeros = [0] * (len(bounds) - 1)
    states = [
        HistogramState("attempt_s", ("scheduled", "p"), [1, 2, *zeros], 0.5),
        HistogramState("sli_s", ("1",), [7], 9.0),
        HistogramState("attempt_s", ("error", "p"), [3, 0, *zeros], 0.25),
        HistogramState("attempt_s", ("error", "q"), [1, 0, *zeros], 0.25),
    ]
    found = buckets_of(states, "attempt_s")
    assert found == {
        "scheduled": Buckets(bounds, [1, 2, *zeros], 0.5),
        "error": Buckets(bounds, [4, 0, *zeros], 0.5),
    }
    assert total(list(found.values())) == Buckets(bounds, [5, 2, *zeros], 1.0)
    assert buckets_of([], "attempt_s") == {}
    assert total([]) == Buckets()
