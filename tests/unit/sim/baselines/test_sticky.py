"""Sticky until saturated."""

import pytest

from tests.unit.sim.baselines.stage import SETTINGS, busy, finish, number, prompt, send, served, started
from warmroute.core.decision import Reason
from warmroute.core.events import FirstToken
from warmroute.sim.baselines.sticky import (
    PENALTY_TOKENS,
    RECORD_BLOCKS,
    StickyUntilSaturated,
    approximate_record,
)
from warmroute.sim.policy import Settings


def sticky(rng):
    return StickyUntilSaturated(rng, SETTINGS)


def test_tau_is_the_peak_rate_times_the_longest_penalty():
    assert PENALTY_TOKENS == 286_704


@pytest.mark.parametrize(("matched", "stays"), [(1280, True), (1216, False)])
def test_four_fifths_of_the_prompt_make_a_target_warm(matched, stays):
    chooser = started(sticky, 2)
    home = served(chooser, prompt(0, matched))
    busy(chooser, home, 1, tokens=100_000)
    # 1,280 of 1,600 tokens are 80 % exactly.
    decision = send(chooser, prompt(0, 1600))
    assert (number(decision) == home) == stays
    assert decision.reason is (Reason.AFFINITY if stays else Reason.LEAST_OUTSTANDING)


def test_matches_are_counted_in_blocks_of_64_tokens():
    chooser = started(sticky, 2)
    home = served(chooser, prompt(0, 1264))  # 19.75 of 25 blocks: 19 are 76 %
    busy(chooser, home, 1, tokens=100_000)
    assert number(send(chooser, prompt(0, 1600))) != home


def test_a_warm_target_is_left_when_it_is_more_than_tau_behind():
    chooser = started(sticky, 2)
    home = served(chooser, prompt(0))
    busy(chooser, home, 1, tokens=PENALTY_TOKENS)
    assert number(send(chooser, prompt(0))) == home
    busy(chooser, home, 1, tokens=16, first=1 << 41)
    decision = send(chooser, prompt(0))
    assert (number(decision), decision.reason) == (1 - home, Reason.OVERFLOW)


def test_past_tau_the_tokens_in_flight_and_the_own_uncached_ones_decide_together():
    chooser = started(sticky, 3)
    long = prompt(0, 99_840)
    home = served(chooser, long)
    half, none = [which for which in range(3) if which != home]
    finish(chooser, send(chooser, prompt(0, 49_920), tried=(f"instance-{home}", f"instance-{none}")))
    busy(chooser, home, 1, tokens=PENALTY_TOKENS + 1)
    busy(chooser, half, 1, tokens=30_000, first=1 << 41)
    # 30,000 in flight and 49,920 of its own are less than 99,840 on the idle one.
    assert number(send(chooser, long)) == half


def test_what_is_in_flight_counts_without_what_is_cached_and_until_the_first_token():
    chooser = started(sticky, 2)
    home = served(chooser, prompt(0))
    send(chooser, prompt(0))
    place = chooser.candidates[home]
    assert place.pending_tokens == 0
    [decision] = busy(chooser, home, 1)
    assert place.pending_tokens == 1600
    chooser.apply(FirstToken(decision.lease), 0)
    assert (place.pending_tokens, place.in_flight) == (0, 2)


def test_among_warm_targets_and_among_cold_ones_the_least_tokens_decide():
    chooser = started(sticky, 3)
    for which in (0, 1):
        tried = tuple(f"instance-{other}" for other in range(3) if other != which)
        finish(chooser, send(chooser, prompt(0), tried=tried))
    busy(chooser, 0, 1)
    assert number(send(chooser, prompt(0))) == 1
    assert number(send(chooser, prompt(900_000))) in {1, 2}
    assert number(send(chooser, prompt(910_000))) != 0


def test_a_short_prompt_has_nothing_to_match():
    chooser = started(sticky, 4)
    served(chooser, prompt(0, 48))
    assert {number(send(chooser, prompt(0, 48))) for _ in range(40)} == {0, 1, 2, 3}


def test_all_warm_are_kept_whatever_their_load():
    chooser = started(sticky, 1)
    served(chooser, prompt(0))
    busy(chooser, 0, 1, tokens=3 * PENALTY_TOKENS)
    assert send(chooser, prompt(0)).reason is Reason.AFFINITY


def test_the_record_is_as_large_as_the_cache_or_31_250_blocks_of_64_tokens():
    small, unknown = approximate_record(SETTINGS), approximate_record(Settings(1, 1))
    for record in (small, unknown):
        record.sent(((0, 1_000_000),), 1_000_000)
    assert small.match(((0, 1_000_000),), 1_000_000) == SETTINGS.cache_blocks == 100_000
    assert unknown.match(((0, 1_000_000),), 1_000_000) == RECORD_BLOCKS == 125_000
