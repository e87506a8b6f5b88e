"""llm-d's weighted sums."""

import pytest

from tests.unit.sim.baselines.stage import (
    SETTINGS,
    busy,
    finish,
    number,
    prompt,
    send,
    served,
    started,
    stored,
    tell,
)
from warmroute.core.decision import Reason
from warmroute.core.events import FirstToken
from warmroute.sim.baselines.llmd_blend import LlmdBlend, emptiness, spread, waiting
from warmroute.sim.policy import Settings


def precise(rng):
    return LlmdBlend(rng, SETTINGS, precise=True)


def approximate(rng):
    return LlmdBlend(rng, SETTINGS, precise=False)


def test_only_the_precise_one_listens_to_engines():
    assert started(precise).wants_events
    assert not started(approximate).wants_events


@pytest.mark.parametrize(
    ("matched", "scores"),
    [
        ([0, 0, 0], [0, 0, 0]),
        ([0, 7, 0], [0, 1, 0]),
        ([7, 7, 0], [1, 1, 0]),
        ([10, 20, 30], [0, 0.5, 1]),
        ([0, 10, 30], [0, 0, 1]),
    ],
)
def test_precise_prefix_scores_are_spread_among_the_holders(matched, scores):
    assert spread(matched) == scores


@pytest.mark.parametrize(("queues", "scores"), [([3, 3], [1, 1]), ([0, 5, 10], [1, 0.5, 0])])
def test_queue_scores_are_spread_from_the_longest_to_the_shortest(queues, scores):
    assert emptiness(queues) == scores


def test_waiting_are_those_behind_a_full_step_of_prompt_tokens():
    chooser = started(precise, 1)
    place = chooser.candidates[0]
    leases = busy(chooser, 0, 5, tokens=4096)
    assert waiting(place, 0) == 3
    chooser.apply(FirstToken(leases[0].lease), 0)
    assert waiting(place, 0) == 2


def test_nothing_is_begun_while_the_prompts_in_flight_overfill_the_cache():
    chooser = started(precise, 1)
    busy(chooser, 0, 2, tokens=1600)
    assert waiting(chooser.candidates[0], 200) == 0
    assert waiting(chooser.candidates[0], 199) == 2


def test_a_warm_target_wins_over_an_idle_cold_one():
    chooser = started(precise, 2)
    tell(chooser, 0, stored(0, 50))
    for lease in busy(chooser, 0, 3):
        chooser.apply(FirstToken(lease.lease), 0)
    decision = send(chooser, prompt(0))
    assert (number(decision), decision.reason) == (0, Reason.AFFINITY)


def test_queue_and_cache_use_together_outweigh_the_prefix():
    chooser = started(precise, 2)
    tell(chooser, 0, stored(0, 50))
    # 3 for the prefix against 2 for the queue and 2 x 0.6 for the cache.
    leases = busy(chooser, 0, 6, tokens=160_000)
    decision = send(chooser, prompt(0))
    assert (number(decision), decision.reason) == (1, Reason.OVERFLOW)
    for lease in leases:
        chooser.apply(FirstToken(lease.lease), 0)
    # Without the queue it is 3 against 1.2.
    assert number(send(chooser, prompt(0))) == 0


def test_of_unknown_caches_the_use_is_not_counted():
    def unknown(rng):
        return LlmdBlend(rng, Settings(1, 1), precise=True)

    chooser = started(unknown, 2)
    for lease in busy(chooser, 0, 1, tokens=800_000):
        chooser.apply(FirstToken(lease.lease), 0)
    assert {served(chooser, prompt(n)) for n in range(0, 40_000, 1000)} == {0, 1}


def test_without_matches_the_emptier_cache_wins():
    chooser = started(precise, 2)
    [lease] = busy(chooser, 0, 1)
    chooser.apply(FirstToken(lease.lease), 0)
    decision = send(chooser, prompt(0))
    assert (number(decision), decision.reason) == (1, Reason.LEAST_OUTSTANDING)


def test_the_approximate_one_believes_what_it_sent():
    chooser = started(approximate)
    home = served(chooser, prompt(0))
    assert {served(chooser, prompt(0)) for _ in range(20)} == {home}
    tell(chooser, (home + 1) % 4, stored(0, 200))
    assert served(chooser, prompt(0)) == home


def test_the_approximate_one_scores_the_share_of_the_prompt():
    chooser = started(approximate, 2)
    home = served(chooser, prompt(0, 1600))
    # All of a short prompt is 2, and 1,600 of 16,000 tokens are 0.2 only: the queue decides.
    busy(chooser, home, 4, tokens=4096)
    assert number(send(chooser, prompt(0, 1600))) == home
    assert number(send(chooser, prompt(0, 16_000))) == 1 - home


def test_leases_that_end_take_their_weight_along():
    chooser = started(precise, 2)
    for lease in busy(chooser, 0, 6, tokens=160_000):
        finish(chooser, lease)
    assert {served(chooser, prompt(n)) for n in range(0, 40_000, 1000)} == {0, 1}
