"""Two choices by two hashes."""

from collections import Counter

from tests.unit.sim.baselines.stage import SETTINGS, busy, finish, number, prompt, send, served, started
from warmroute.core.decision import Reason
from warmroute.core.events import FirstToken
from warmroute.sim.baselines.dual_map import RECENT, RECENT_MIN, DualMap, Starts
from warmroute.sim.policy import Settings
from warmroute.workload.prompts import Request

FAST = Settings(1, 1, cache_blocks=100_000, prefill_tokens_per_s=4000.0)
"""10,000 prompt tokens in half of the objective."""


def dual_map(rng):
    return DualMap(rng, FAST)


def two_of(chooser, request):
    """The two targets of a prompt, by trying all others first."""
    key = chooser.asked(request).key
    return {int(place.row.target.instance_id[9:]) for place in chooser._two(chooser.candidates, key)}


def test_every_prompt_has_two_different_targets_that_do_not_change():
    chooser, other = started(dual_map, 6), started(dual_map, 6)
    pairs = {first: two_of(chooser, prompt(first)) for first in range(0, 60_000, 1000)}
    assert all(len(pair) == 2 for pair in pairs.values())
    assert pairs == {first: two_of(other, prompt(first)) for first in pairs}
    assert len({frozenset(pair) for pair in pairs.values()}) > 12


def test_a_prompt_goes_where_more_of_it_went_before():
    chooser = started(dual_map, 6)
    home = served(chooser, prompt(0))
    assert {served(chooser, prompt(0)) for _ in range(20)} == {home}


def test_new_prompts_use_both_choices():
    chooser = started(dual_map, 2)
    assert {served(chooser, prompt(first)) for first in range(0, 40_000, 1000)} == {0, 1}


def test_affinity_ends_where_the_estimate_passes_half_of_the_objective():
    chooser = started(dual_map, 2)
    home = served(chooser, prompt(0))
    busy(chooser, home, 1, tokens=10_000)
    assert number(send(chooser, prompt(0))) == home  # 10,000 and nothing of its own
    busy(chooser, home, 1, tokens=16, first=1 << 41)
    decision = send(chooser, prompt(0))
    assert (number(decision), decision.reason) == (1 - home, Reason.OVERFLOW)


def test_past_it_the_lower_estimate_decides_its_own_tokens_included():
    chooser = started(dual_map, 2)
    long = prompt(0, 16_000)
    home = served(chooser, long)
    leases = busy(chooser, home, 1, tokens=12_000)
    decision = send(chooser, long)  # 12,000 there against 16,000 elsewhere
    assert (number(decision), decision.reason) == (home, Reason.AFFINITY)
    chooser.apply(FirstToken(leases[0].lease), 0)
    assert number(send(chooser, long)) == home


def test_the_load_of_targets_that_are_neither_choice_does_not_matter():
    chooser = started(dual_map, 6)
    mine = two_of(chooser, prompt(0))
    for which in mine:
        busy(chooser, which, 3, tokens=20_000, first=(which + 1) << 41)
    assert {served(chooser, prompt(0)) for _ in range(10)} <= mine


def test_equal_matches_go_to_the_target_with_fewer_blocks_in_use():
    chooser = started(dual_map, 2)
    [lease] = busy(chooser, 0, 1)
    chooser.apply(FirstToken(lease.lease), 0)
    assert {served(chooser, prompt(first)) for first in range(0, 20_000, 1000)} == {1}


def test_one_target_is_both_choices():
    chooser = started(dual_map, 1)
    decision = send(chooser, prompt(0))
    finish(chooser, decision)
    assert number(decision) == 0
    two = started(dual_map, 2)
    assert number(send(two, prompt(0), tried=("instance-0",))) == 1


def test_without_a_known_cache_the_record_has_no_limit():
    chooser = started(lambda rng: DualMap(rng, Settings(1, 1)), 2)
    home = served(chooser, prompt(0))
    for n in range(1, 200):
        served(chooser, prompt(n * 1_000_000, 100_000))
    assert served(chooser, prompt(0)) == home


def test_a_popular_start_is_lengthened_until_it_is_rare_enough():
    starts = Starts()
    unpopular = starts.key(prompt(0), 0.25)
    assert unpopular == 7  # the 8th block: 128 tokens
    tails = [prompt(1000, 1600, tail=10_000 * n) for n in range(1, RECENT_MIN)]
    keys = [starts.key(each, 0.25) for each in tails]
    assert keys[:16] == [1007] * 16
    # Above a quarter of the traffic: longer, beyond the 90 blocks that they share, and each its own.
    assert len(set(keys[17:])) == len(keys[17:])
    assert starts.key(prompt(0), 0.25) == unpopular


def test_old_requests_are_forgotten():
    starts = Starts()
    for n in range(60):
        starts.key(prompt(1000, 1600, tail=10_000 * (n + 1)), 0.25)
    for n in range(RECENT):
        starts.key(prompt(1_000_000 + 1000 * n), 0.25)
    assert starts.key(prompt(1000, 1600, tail=5), 0.25) == 1007
    assert len(starts._recent) == RECENT
    assert all(count > 0 for count in starts._counts.values())


def test_a_short_prompt_has_a_key_too():
    starts = Starts()
    assert starts.key(Request(5, 5, ((30, 1),)), 0.5) == 30
    assert starts.key(Request(40, 5, ((30, 3),)), 0.5) == 31


def test_a_hot_prefix_is_spread_over_more_than_two_targets():
    chooser = started(lambda rng: DualMap(rng, SETTINGS), 8)
    homes = Counter()
    for n in range(300):
        homes[served(chooser, prompt(0, 1600, tail=10_000 * (n + 1)))] += 1
    assert len(homes) > 2
