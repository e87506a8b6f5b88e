"""Numbers of a run, worked out by hand."""

import pytest

from warmroute.sim.metrics import metrics_of, percentile
from warmroute.sim.records import Record, Run
from warmroute.workload.arrivals import Arrival
from warmroute.workload.prompts import Request

MS, S = 1_000_000, 1_000_000_000


def record(
    number, at, *, ttft=0, tokens=11, took=0, target="a", cached=0, reason="affinity", outcome="completed"
):
    made = Record(number, Arrival(at, Request(100, tokens, ())))
    made.target, made.reason, made.outcome = target, reason, outcome
    made.first_token_ns, made.ended_ns = at + ttft, at + ttft + took
    made.cached_tokens, made.ideal_tokens = cached, 80
    return made


def test_a_run_comes_to_its_numbers():
    run = Run(
        records=[
            record(0, 0, ttft=10 * S, took=S, target="c"),  # before the warm-up is over
            record(1, 1 * S, ttft=100 * MS, took=S, cached=64),
            record(2, 2 * S, ttft=300 * MS, took=2 * S, target="b", reason="overflow"),
            record(3, 3 * S, ttft=200 * MS, tokens=1, reason="saturated"),
            record(4, 4 * S, outcome="failed", took=S),
        ],
        targets=["a", "b", "c"],
        decisions=4,
        decision_ns=20_000,
    )
    metrics = metrics_of(run, warmup_ns=1 * S)
    assert (metrics.requests, metrics.failed) == (4, 1)
    assert (metrics.ttft_mean_ms, metrics.ttft_p50_ms) == (200, 200)
    assert metrics.ttft_p90_ms == pytest.approx(280)
    assert metrics.ttft_p99_ms == pytest.approx(298)
    assert metrics.itl_p50_ms == pytest.approx(150)
    # The last of them is over at 4.3 s, the first one came at 1 s.
    assert metrics.throughput_rps == pytest.approx(3 / 3.3)
    assert metrics.output_tokens_per_s == pytest.approx(23 / 3.3)
    assert metrics.hit_rate == pytest.approx(64 / 300)
    assert metrics.ideal_hit_rate == pytest.approx(0.8)
    assert (metrics.share_min, metrics.share_max, metrics.overflow_rate) == (0, 0.75, 0.5)
    assert metrics.decision_us == 5


def test_a_request_that_its_client_gave_up_has_not_failed():
    outcomes = ("completed", "cancelled", "rejected", "failed")
    metrics = metrics_of(Run(records=[record(n, n, outcome=each) for n, each in enumerate(outcomes)]))
    assert (metrics.requests, metrics.failed) == (4, 2)


def test_throughput_leaves_out_the_last_twentieth_to_end():
    records = [record(n, n * S, took=S, tokens=10) for n in range(19)] + [record(19, 19 * S, took=1000 * S)]
    metrics = metrics_of(Run(records=records))
    assert metrics.throughput_rps == pytest.approx(19 / 19)
    assert metrics.output_tokens_per_s == pytest.approx(190 / 19)


def test_a_run_without_requests_is_all_zeros():
    metrics = metrics_of(Run())
    assert (metrics.requests, metrics.ttft_p50_ms, metrics.throughput_rps, metrics.share_max) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.5, 0), ([7], 0.9, 7), ([1, 2, 3], 0.5, 2), ([1, 2], 0.25, 1.25), ([1, 2], 1, 2)],
)
def test_percentiles_are_interpolated(values, share, expected):
    assert percentile(values, share) == expected
