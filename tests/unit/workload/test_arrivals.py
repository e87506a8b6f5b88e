"""Times of open loops, and clients that wait."""

from random import Random
from statistics import mean, pstdev

import pytest

from warmroute.workload.arrivals import (
    NOBODY,
    NS_PER_S,
    Arrival,
    ClosedLoop,
    OpenLoop,
    Recorded,
    SessionLoop,
    Stages,
    bursts,
    constant,
    gamma,
    poisson,
    scattered,
    thinking,
    varying,
    wave,
)
from warmroute.workload.prompts import Request

HOUR = 3600 * NS_PER_S


class Counting:
    """Makes requests whose length says which they are."""

    def __init__(self, limit=10**9):
        self.made, self.limit = 0, limit

    def next(self, client):
        self.made += 1
        return request(self.made) if self.made <= self.limit else None


def request(tokens):
    return Request(tokens, 1, ((tokens * 10, 1),))


def distances(times):
    times = [0, *times]
    return [later - sooner for sooner, later in zip(times, times[1:], strict=False)]


def test_constant_times_are_at_equal_distances():
    assert list(constant(4, start_ns=NS_PER_S, end_ns=2 * NS_PER_S)) == [
        1_000_000_000, 1_250_000_000, 1_500_000_000, 1_750_000_000,
    ]  # fmt: skip


@pytest.mark.parametrize("variation", [0.5, 1.0, 3.0])
def test_gamma_times_have_their_rate_and_variation(variation):
    between = distances(gamma(5, variation, Random(1), start_ns=0, end_ns=HOUR))
    assert mean(between) == pytest.approx(NS_PER_S / 5, rel=0.06)
    assert pstdev(between) / mean(between) == pytest.approx(variation, rel=0.06)


def test_poisson_times_vary_as_much_as_their_mean():
    between = distances(poisson(5, Random(1), start_ns=0, end_ns=HOUR))
    assert mean(between) == pytest.approx(NS_PER_S / 5, rel=0.03)
    assert pstdev(between) / mean(between) == pytest.approx(1, rel=0.03)


def test_bursts_come_at_once_and_keep_the_mean_rate():
    times = list(bursts(5, 10, Random(1), start_ns=0, end_ns=HOUR))
    assert len(times) == pytest.approx(5 * 3600, rel=0.1)
    assert len(set(times)) * 10 == len(times)


def test_scattered_times_are_as_many_as_the_rate_makes_and_anywhere():
    times = list(scattered(3, Random(1), start_ns=100 * NS_PER_S, end_ns=200 * NS_PER_S))
    assert len(times) == 300
    assert times == sorted(times)
    assert 100 * NS_PER_S <= times[0] < times[-1] < 200 * NS_PER_S
    between = distances([at - 100 * NS_PER_S for at in times])
    assert pstdev(between) / mean(between) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("square", [False, True])
def test_a_wave_goes_up_first_and_keeps_its_mean(square):
    rate = wave(10, 0.5, 60, square=square)
    assert rate(15) == pytest.approx(15)
    assert rate(45) == pytest.approx(5)
    assert mean(rate(at / 10) for at in range(600)) == pytest.approx(10, rel=0.01)
    assert rate(1) == pytest.approx(15 if square else 10.52, rel=0.01)


def test_varying_times_follow_their_rate():
    rate = wave(10, 1.0, 60, square=True)
    times = list(varying(rate, 20, Random(1), start_ns=0, end_ns=HOUR))
    up = sum(at % (60 * NS_PER_S) < 30 * NS_PER_S for at in times)
    assert len(times) == up == pytest.approx(10 * 3600, rel=0.03)


def drained(source, took_ns):
    """Let every request take so long; return when each came."""
    times, open_requests = [], list(source.first())
    while open_requests:
        arrival = open_requests.pop(0)
        times.append(arrival.at_ns)
        open_requests += source.after(arrival, arrival.at_ns + took_ns)
    return times


@pytest.mark.parametrize(("took_s", "later_s"), [(1, 5), (4, 5), (9, 10)])
def test_a_stage_begins_after_its_pause_and_not_before_the_one_before_has_ended(took_s, later_s):
    def make(rate, start, end):
        return constant(rate, start_ns=start, end_ns=end)

    source = Stages([(1, 2), (2, 1)], make, Counting(), pause_ns=3 * NS_PER_S)
    assert drained(source, took_s * NS_PER_S) == [
        0, NS_PER_S, later_s * NS_PER_S, later_s * NS_PER_S + NS_PER_S // 2,
    ]  # fmt: skip


def test_a_stage_without_requests_is_passed_over():
    def make(rate, start, end):
        return constant(rate, start_ns=start, end_ns=end)

    source = Stages([(1, 1), (9, 0), (1, 1), (9, 0)], make, Counting(), pause_ns=2 * NS_PER_S)
    assert drained(source, 1) == [0, 5 * NS_PER_S]


def test_an_open_loop_asks_at_its_times_and_never_waits():
    source = OpenLoop([3, 5, 9], Counting(), clients=2)
    came = list(source.first())
    assert came == [Arrival(3, request(1), 0), Arrival(5, request(2), 1), Arrival(9, request(3), 0)]
    assert source.after(came[0], 50) == ()


def test_an_open_loop_ends_with_its_maker():
    came = list(OpenLoop([1, 2, 3], Counting(2)).first())
    assert [each.client for each in came] == [NOBODY, NOBODY]


def test_a_recording_is_replayed_at_its_speed():
    source = Recorded([Arrival(10, request(1), 4)], speed=2)
    assert list(source.first()) == [Arrival(5, request(1), 4)]
    assert source.after(Arrival(5, request(1)), 9) == ()


def test_closed_clients_begin_one_after_the_other_and_ask_when_they_have_thought():
    source = ClosedLoop(2, Counting(), think=lambda: 7, ramp_ns=10, end_ns=100)
    first = list(source.first())
    assert [(each.at_ns, each.client) for each in first] == [(0, 0), (5, 1)]
    assert source.after(first[1], 50) == (Arrival(57, request(3), 1),)
    assert source.after(first[0], 93) == ()


def test_closed_clients_end_with_their_maker():
    assert len(list(ClosedLoop(3, Counting(2), think=lambda: 0, ramp_ns=0, end_ns=1).first())) == 2


def test_think_times_have_their_mean_and_may_be_nothing():
    think = thinking(2.0, Random(1))
    assert mean(think() for _ in range(20_000)) == pytest.approx(2 * NS_PER_S, rel=0.03)
    assert thinking(0, Random(1))() == 0


def test_a_session_asks_in_order_and_the_next_one_follows():
    sessions = [[(0, request(1)), (7, request(2))], [(0, request(3))], [], [(0, request(4))]]
    source = SessionLoop(sessions, at_once=2, ramp_ns=10, end_ns=1000)
    first, other = source.first()
    assert (first, other) == (Arrival(0, request(1), 0), Arrival(5, request(3), 1))
    assert source.after(first, 20) == (Arrival(27, request(2), 0),)
    assert source.after(other, 30) == (Arrival(30, request(4), 1),)
    assert source.after(first, 40) == ()


def test_sessions_stop_at_the_end_and_there_may_be_none():
    source = SessionLoop([[(0, request(1)), (1, request(2))]], at_once=5, ramp_ns=0, end_ns=10)
    (only,) = source.first()
    assert source.after(only, 10) == ()
    assert list(SessionLoop([], at_once=3, ramp_ns=0, end_ns=10).first()) == []
    assert list(SessionLoop([[]], at_once=3, ramp_ns=0, end_ns=10).first()) == []
