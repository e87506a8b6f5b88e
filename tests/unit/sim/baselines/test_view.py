"""The exact view of a cache: intervals that do what a set of blocks would do."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sim.baselines.stage import removed, stored
from warmroute.engine.prefix_cache import BlocksStored, PrefixCache
from warmroute.sim.baselines.view import View
from warmroute.sim.policy import News


def view(*events):
    made = View()
    made.heard(News("a", 1, events))
    return made


@pytest.mark.parametrize(
    ("runs", "limit", "found"),
    [
        (((0, 10),), 10, 10),
        (((0, 10),), 4, 4),
        (((0, 20),), 20, 10),
        (((3, 20),), 20, 7),
        (((10, 5),), 5, 0),
        (((0, 5), (50, 5)), 10, 8),
        (((0, 10), (50, 3), (70, 9)), 22, 22),
        (((0, 10), (50, 3), (70, 9)), 12, 12),
        (((60, 5),), 5, 0),
        ((), 5, 0),
        (((0, 10),), 0, 0),
    ],
)
def test_the_longest_start_of_a_chain_is_found_across_runs(runs, limit, found):
    assert view(stored(0, 10), stored(50, 3), stored(70, 30)).match(runs, limit) == found


def test_nothing_is_found_before_anything_was_told():
    assert View().match(((0, 10),), 10) == 0


def test_evicted_blocks_are_gone_and_those_around_them_are_not():
    known = view(stored(0, 100), removed(40, 20))
    assert known.match(((0, 100),), 100) == 40
    assert known.match(((60, 40),), 40) == 40
    assert known.blocks == 80


def test_what_was_sent_counts_only_when_the_engine_tells():
    known = View()
    known.sent(((0, 10),), 10)
    assert known.match(((0, 10),), 10) == 0


def test_a_gap_changes_nothing_and_a_snapshot_everything():
    known = view(stored(0, 10))
    known.heard(News("a", 1, (stored(30, 5),), lost=True))
    assert known.blocks == 15
    known.heard(News("a", 1, (stored(50, 2),), lost=True, snapshot=True))
    assert (known.blocks, known.match(((50, 2),), 2), known.match(((0, 10),), 10)) == (2, 2, 0)


EVENTS = st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(1, 12)), max_size=25)


@given(EVENTS, st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=3), st.integers(0, 30))
def test_it_is_a_set_of_blocks_even_when_events_contradict_each_other(drawn, runs, limit):
    known, blocks = View(), set()
    for store, first, count in drawn:
        known.heard(News("a", 1, ((stored if store else removed)(first, count),)))
        (blocks.update if store else blocks.difference_update)(range(first, first + count))
        assert known.blocks == len(blocks)
        assert all(start < end for start, end in zip(known._starts, known._ends, strict=True))
        assert all(end < start for end, start in zip(known._ends, known._starts[1:], strict=False))
    chain = [number for first, count in runs for number in range(first, first + count)][:limit]
    expected = next((place for place, number in enumerate(chain) if number not in blocks), len(chain))
    assert known.match(runs, limit) == expected


def test_it_follows_a_cache_under_pressure():
    rng, cache, known = Random(5), PrefixCache(200, record=True), View()
    for _ in range(300):
        prefix, tail = rng.randrange(6), rng.randrange(1 << 30)
        runs, total = ((prefix * 1000, 20), (10_000 + tail * 50, rng.randrange(1, 30))), 0
        total = sum(count for _, count in runs)
        found, _ = cache.match(runs, total)
        hold = cache.pin(runs, found)
        cache.reserve(hold, total - found)
        cache.publish(hold, total)
        cache.release(hold)
        known.heard(News("a", 1, tuple(cache.events)))
        cache.events.clear()
        assert known.match(runs, total) == cache.match(runs, total)[0] == total
    assert known.blocks == cache.loose
    assert cache.evicted > 1000
    assert isinstance(cache.content()[0], BlocksStored)
