"""Distributions and courses of a run, worked out by hand."""

import pytest

from warmroute.sim.records import Record, Run
from warmroute.sim.series import QUANTILES, change_of, course_of, goodput_share, ttft_quantiles
from warmroute.workload.arrivals import Arrival
from warmroute.workload.prompts import Request

MS, S = 1_000_000, 1_000_000_000


def record(at_s, *, ttft_ms=0, took_s=0.0, target="a", cached=0, tokens=11, outcome="completed"):
    made = Record(0, Arrival(round(at_s * S), Request(100, tokens, ())))
    made.target, made.outcome, made.cached_tokens = target, outcome, cached
    made.first_token_ns = made.arrival.at_ns + ttft_ms * MS if outcome == "completed" else 0
    made.ended_ns = made.arrival.at_ns + ttft_ms * MS + round(took_s * S)
    return made


def run(*records, targets=("a", "b"), ended_s=10):
    return Run(records=list(records), targets=list(targets), ended_ns=round(ended_s * S))


def test_a_course_has_hit_rates_by_arrival_and_what_was_in_flight_by_time():
    course = course_of(
        run(
            record(0.5, ttft_ms=1000, took_s=1, cached=50),  # waits 0.5-1.5, in flight until 2.5
            record(0.75, ttft_ms=250, target="b"),  # in flight 0.75-1
            record(3, outcome="failed", took_s=0.5, target="b"),  # waits all its time, no hit to speak of
            ended_s=4,
        ),
        warmup_ns=round(0.6 * S),
    )
    assert course.bucket_s == 1
    assert course.hit_rate == (0.25, None, None, None)
    assert course.in_flight == (0.75, 1, 0.5, 0.5)
    assert course.waiting == (0.75, 0.5, 0, 0.5)
    assert course.shares == (("a", 0), ("b", 1))


@pytest.mark.parametrize(
    ("ended_s", "width"), [(36, 1), (36.1, 2), (360, 10), (600, 20), (3600, 120), (10**6, 7200)]
)
def test_a_course_has_at_most_three_dozen_points_but_for_a_run_of_days(ended_s, width):
    course = course_of(run(ended_s=ended_s))
    assert course.bucket_s == width
    assert len(course.in_flight) == max(1, -(-ended_s // width))


def test_what_ends_with_the_run_stays_within_its_points():
    course = course_of(run(record(4, ttft_ms=0), record(3, took_s=1), ended_s=4))
    assert course.in_flight == (0, 0, 0, 1)
    assert course.hit_rate == (None, None, None, 0)
    late = course_of(run(record(3, took_s=5), ended_s=4))
    assert late.in_flight == (0, 0, 0, 1)


def test_an_empty_run_has_an_empty_course():
    course = course_of(Run(targets=["a"]))
    assert (course.hit_rate, course.in_flight, course.shares) == ((None,), (0,), (("a", 0),))
    assert set(ttft_quantiles(Run())) == {0}
    assert goodput_share(Run()) == 0


def test_quantiles_are_of_completed_requests_after_the_warm_up():
    records = [record(1 + n / 1000, ttft_ms=n) for n in range(101)]
    quantiles = ttft_quantiles(
        run(record(0, ttft_ms=9000), record(2, outcome="failed"), *records), warmup_ns=S
    )
    assert quantiles[QUANTILES.index(0.5)] == 50
    assert quantiles[0] == 0
    assert quantiles[-1] == 100
    assert quantiles[QUANTILES.index(0.995)] == pytest.approx(99.5)


def test_a_change_is_seen_in_the_minute_after_it_and_compared_with_all_before():
    change = change_of(
        run(
            record(1, ttft_ms=5000),  # warm-up
            record(10, ttft_ms=100, cached=80),
            record(20, ttft_ms=100, cached=40),
            record(30, ttft_ms=300),
            record(89.9, ttft_ms=300, cached=20),
            record(90, ttft_ms=9000),  # later than a minute
        ),
        at_ns=30 * S,
        warmup_ns=5 * S,
    )
    assert (change.ttft_p99_before_ms, change.ttft_p99_after_ms) == (100, 300)
    assert (change.hit_before, change.hit_after) == (0.6, 0.1)
    assert change_of(run(), at_ns=0).hit_after == 0


def test_goodput_counts_what_began_in_time_and_kept_its_pace():
    made = run(
        record(0, ttft_ms=2000, took_s=0.25),  # 10 gaps of 25 ms
        record(0, ttft_ms=2001),
        record(0, ttft_ms=10, took_s=0.26),
        record(0, ttft_ms=10, tokens=1),
        record(9, outcome="failed", took_s=1),
    )
    assert goodput_share(made) == 2 / 5
    assert goodput_share(made, warmup_ns=S) == 0
