"""Factors on the time of steps."""

from random import Random
from statistics import mean, stdev

import pytest

from warmroute.engine.jitter import FACTOR_MAX, ONE, Jitter, stretched


@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.5])
def test_factors_have_a_mean_of_one_and_their_sigma(sigma):
    jitter = Jitter(sigma, Random(1))
    factors = [jitter.draw() / ONE for _ in range(20_000)]
    assert mean(factors) == pytest.approx(1, abs=0.02)
    assert stdev(factors) == pytest.approx(sigma, rel=0.2)


def test_equal_seeds_draw_equal_factors_and_no_sigma_draws_nothing():
    one, other = [Jitter(0.1, Random(3)) for _ in range(2)]
    assert [one.draw() for _ in range(9)] == [other.draw() for _ in range(9)]
    assert Jitter(0.0, None).draw() == ONE


def test_a_factor_is_more_than_nothing_and_has_a_limit():
    wide, wider = Jitter(3.0, Random(1)), Jitter(30.0, Random(1))
    assert max(wide.draw() for _ in range(5000)) == FACTOR_MAX * ONE
    assert min(wider.draw() for _ in range(100)) == 1


def test_a_factor_of_one_leaves_a_time_as_it_is():
    assert stretched(10_702_000_001, ONE) == 10_702_000_001
    assert stretched(100, ONE * 3 // 2) == 150
