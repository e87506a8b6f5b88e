from itertools import count
from random import Random

import pytest

from warmroute.routing.homes import COUNT_MIN, DEVIATIONS, HITS, WINDOW, Homes

TARGETS = 7
SPREAD = 4.0
LIMIT = 1 / (SPREAD * TARGETS)
SYSTEM = 10**12
"""First block of a system prompt; its further blocks are numbered on from it."""


def system(blocks):
    return tuple(range(SYSTEM, SYSTEM + blocks))


class Traffic:
    """Requests with a start that a share of them has, and all else different."""

    def __init__(self, targets=TARGETS, seed=1):
        self.homes = Homes(SPREAD)
        self.targets = targets
        self.fresh = count(1)
        self.rng = Random(seed)

    def key(self, *chain):
        return self.homes.key(chain, self.targets)

    def unlike(self, times):
        """Requests that have nothing in common."""
        for _ in range(times):
            self.key(next(self.fresh))

    def share(self, start, share, times):
        """Requests of which this share has the start; return the keys of those."""
        keys = []
        for _ in range(times):
            if self.rng.random() < share:
                keys.append(self.key(*start, next(self.fresh)))
            else:
                self.unlike(1)
        return keys


# --- which start ------------------------------------------------------------------------------
def test_a_prompt_of_less_than_a_block_has_no_home_key():
    traffic = Traffic()
    assert traffic.key() is None
    assert traffic.homes._seen_now == 0


def test_a_start_that_nobody_else_has_is_known_by_its_first_block():
    traffic = Traffic()
    assert [traffic.key(first, first + 1, first + 2) for first in range(0, 3000, 3)] == list(
        range(0, 3000, 3)
    )


def test_what_everybody_has_is_no_home_key_and_what_comes_behind_it_is():
    traffic = Traffic()
    prompts = [(*system(1), 100 + n, 200 + n) for n in range(1000)]
    keys = [traffic.key(*prompt) for prompt in prompts]
    assert set(keys[: COUNT_MIN - 1]) == {SYSTEM}
    assert keys[COUNT_MIN - 1 :] == [prompt[1] for prompt in prompts[COUNT_MIN - 1 :]]


def test_lengths_are_doubled_in_characters_or_the_whole_prompt():
    """Blocks 1, 2, 3, 4, 5, 7, 11 end at 128, 256, 512 characters and so on."""
    traffic = Traffic()
    for n in range(200):
        traffic.key(*system(8), *range(10 * n, 10 * n + 8))
    assert traffic.key(*system(8), 9001, 9002, 9003, 9004) == 9003
    assert traffic.key(*system(8), 9001, 9002) == 9002
    assert traffic.key(*system(5), 9001, 9002, 9003) == 9002
    assert traffic.key(*system(4), 9001) == 9001


def test_it_says_how_many_blocks_of_the_last_prompt_are_popular():
    traffic = Traffic()
    for n in range(200):
        traffic.key(*system(5), 10 * n)
    for chain, popular in (((*system(5), 9001, 9002), 5), (system(3), 3), ((9003, 9004), 0), ((), 0)):
        traffic.key(*chain)
        assert traffic.homes.popular == popular


def test_a_prompt_that_is_popular_as_a_whole_is_known_by_all_of_it():
    traffic = Traffic()
    keys = [traffic.key(*system(3)) for _ in range(100)]
    assert keys[-1] == SYSTEM + 2
    assert traffic.key(*system(1)) == SYSTEM


def test_every_step_takes_as_many_requests_as_say_something():
    traffic = Traffic()
    keys = [traffic.key(*system(4), 1000 + n) for n in range(5 * COUNT_MIN)]
    steps = [keys.index(each) for each in sorted(set(keys) & set(system(4)))]
    assert steps == [0, COUNT_MIN - 1, 2 * COUNT_MIN - 2, 3 * COUNT_MIN - 3]
    assert keys[4 * COUNT_MIN - 4 :] == [1000 + n for n in range(4 * COUNT_MIN - 4, 5 * COUNT_MIN)]


@pytest.mark.parametrize("targets", [2, 7, 64])
def test_a_start_is_popular_above_one_over_spread_times_targets(targets):
    limit = 1 / (SPREAD * targets)
    rare, popular = Traffic(targets), Traffic(targets)
    windows = max(WINDOW, round(HITS / limit))
    assert set(rare.share(system(1), 0.4 * limit, 4 * windows)[COUNT_MIN:]) == {SYSTEM}
    assert SYSTEM not in popular.share(system(1), 1.6 * limit, 4 * windows)[-20:]


def test_at_first_a_start_must_be_more_popular_than_by_chance():
    """The eighth request with a start is one too many by chance where one in eight may have it: of 8, 3.5."""
    counts = {}
    for others in range(0, 60, 5):
        traffic = Traffic(targets=2)
        traffic.unlike(others)
        keys = [traffic.key(*system(1), 10**6 + n) for n in range(60)]
        counts[others] = next(n for n, key in enumerate(keys, 1) if key != SYSTEM)
    for others, count_ in counts.items():
        fair = (others + count_) / 8
        before = (others + count_ - 1) / 8
        assert count_ >= COUNT_MIN
        assert count_ > fair + DEVIATIONS * fair**0.5
        assert count_ == COUNT_MIN or count_ - 1 <= before + DEVIATIONS * before**0.5
    assert counts[0] == COUNT_MIN < counts[55]


@pytest.mark.parametrize(("more", "popular"), [(0, False), (1, True)])
def test_after_a_window_a_share_of_just_the_limit_is_not_too_popular(more, popular):
    """One in eight of all that is counted may have a start."""
    traffic = Traffic(targets=2)
    traffic.unlike(7 * 150 - more)
    for n in range(149 + more):
        traffic.key(*system(1), 10**6 + n)
    assert traffic.homes._seen_before + traffic.homes._seen_now + 1 == 8 * 150
    assert (traffic.key(*system(1), 99) == 99) is popular


def test_a_start_that_comes_into_use_later_is_counted_over_both_windows():
    traffic = Traffic()
    traffic.unlike(3 * WINDOW)
    assert SYSTEM not in traffic.share(system(1), 1.5 * LIMIT, 4 * WINDOW)[-20:]


def test_a_few_requests_of_the_first_do_not_make_a_start_popular():
    traffic = Traffic()
    assert {traffic.key(*system(1), n) for n in range(COUNT_MIN - 1)} == {SYSTEM}
    assert traffic.key(*system(1), 99) == 99


def test_prompts_of_one_block_repeated_have_different_starts():
    """The hashes are chained: repeated text gives another hash at every length."""
    traffic = Traffic()
    keys = [traffic.key(*system(64)) for _ in range(2000)]
    assert keys[-1] == SYSTEM + 63
    assert len(set(keys)) == 10


# --- how starts change ------------------------------------------------------------------------
def test_a_start_that_lost_half_of_its_share_is_a_home_key_again():
    traffic = Traffic()
    assert SYSTEM not in traffic.share(system(1), 2 * LIMIT, 3 * WINDOW)[-20:]
    assert set(traffic.share(system(1), 0.3 * LIMIT, 6 * WINDOW)[-20:]) == {SYSTEM}


def test_a_start_that_lost_less_than_half_stays_what_it_is():
    traffic = Traffic()
    traffic.share(system(1), 2 * LIMIT, 3 * WINDOW)
    assert SYSTEM not in traffic.share(system(1), 0.8 * LIMIT, 6 * WINDOW)


def test_a_start_that_nobody_asks_for_is_forgotten():
    traffic = Traffic()
    traffic.share(system(8), 1.0, 100)
    traffic.unlike(3 * WINDOW)
    assert not traffic.homes._popular
    assert not set(system(8)) & {*traffic.homes._now, *traffic.homes._before}


@pytest.mark.parametrize("period", [1, 2, 3, 4])
def test_a_share_that_swings_about_the_limit_moves_no_homes(period):
    """A quarter above and a quarter below, over as many windows each: once too popular, always so."""
    traffic = Traffic()
    traffic.share(system(1), 1.5 * LIMIT, 2 * WINDOW)
    for _ in range(6):
        for swing in (0.75, 1.25):
            assert SYSTEM not in traffic.share(system(1), swing * LIMIT, period * WINDOW)


@pytest.mark.parametrize("targets", [7, 64])
@pytest.mark.parametrize("swing", [0.6, 0.75, 0.9, 1.0])
def test_a_steady_share_below_the_limit_moves_homes_seldom(targets, swing):
    """Chance takes it above the limit now and then, and below half of it: not on one window in five."""
    traffic, windows = Traffic(targets), 40
    limit = 1 / (SPREAD * targets)
    window = max(WINDOW, round(HITS / limit))
    traffic.share(system(1), swing * limit, 3 * window)
    long = [key != SYSTEM for key in traffic.share(system(1), swing * limit, windows * window)]
    changes = sum(long[n] != long[n + 1] for n in range(len(long) - 1))
    assert changes <= windows / 5


def test_a_start_that_was_popular_at_first_by_chance_gets_its_home_back():
    traffic = Traffic()
    for n in range(2 * COUNT_MIN):
        traffic.key(*system(1), 10**6 + n)
    traffic.unlike(2 * WINDOW)
    assert traffic.key(*system(1), 99) == SYSTEM


# --- more and fewer targets -------------------------------------------------------------------
def test_a_target_fewer_moves_no_length_of_a_key():
    """What is rare at n targets is rare at n - 1, and what is popular at n stays so at once and later."""
    traffic = Traffic()
    shares = {10**12: 0.5, 10**13: 0.98, 10**14: 1.02, 10**15: 3.0}
    for start, share in shares.items():
        traffic.share((start,), share * LIMIT, 3 * WINDOW)

    def lengths(times):
        """Interleaved, as often as their shares are."""
        found = {start: set() for start in shares}
        for _ in range(times):
            for start, share in shares.items():
                if traffic.rng.random() < share * LIMIT:
                    found[start].add(traffic.key(start, next(traffic.fresh)) == start)
                else:
                    traffic.unlike(1)
        return found

    lengths(4 * WINDOW)
    before = lengths(WINDOW)
    traffic.targets -= 1
    assert lengths(4 * WINDOW) == before


# --- several routers --------------------------------------------------------------------------
def disagreement(share, *, routers=2, windows=40):
    """The part of the time that routers which share nothing, with parts of the same traffic, disagree."""
    several = [Traffic(seed=seed) for seed in range(routers)]
    apart = 0
    for _ in range(windows):
        last = {traffic.share(system(1), share * LIMIT, WINDOW)[-1] == SYSTEM for traffic in several}
        apart += len(last) > 1
    return apart / windows


@pytest.mark.parametrize("share", [0.4, 1.3, 2.0])
def test_routers_that_share_nothing_agree_away_from_the_limit(share):
    assert disagreement(share) <= 0.05


def test_routers_that_share_nothing_agree_most_of_the_time_at_the_limit():
    """The first that finds a start popular may be alone with that, but not for long."""
    assert disagreement(1.0) <= 0.2


def test_routers_that_saw_the_same_traffic_agree_on_every_key():
    one, other = Traffic(), Traffic()
    assert one.share(system(3), 1.0 * LIMIT, 5 * WINDOW) == other.share(system(3), 1.0 * LIMIT, 5 * WINDOW)


# --- memory -----------------------------------------------------------------------------------
@pytest.mark.parametrize("targets", [2, 7, 200])
def test_what_is_counted_is_bounded_by_two_windows_of_requests(targets):
    traffic = Traffic(targets)
    window = max(WINDOW, round(HITS * SPREAD * targets))
    for n in range(4 * window):
        traffic.key(*system(1), *range(10 * n, 10 * n + 9))
        levels = 1 + len(traffic.homes._popular)
        assert len(traffic.homes._now) <= levels * window
        assert len(traffic.homes._before) <= levels * window
    assert len(traffic.homes._popular) == 1
    assert traffic.homes._seen_now <= window


def test_popular_starts_are_no_more_than_their_shares_allow():
    """Twice ``spread`` times targets at every length: each has half of a share that made it popular."""
    traffic = Traffic()
    for n in range(40 * WINDOW):
        prompt = n % 300
        traffic.key(*range(1000 * prompt, 1000 * prompt + 64))
        if traffic.homes._seen_now == 0:
            assert len(traffic.homes._popular) <= 2 * SPREAD * TARGETS * 7
