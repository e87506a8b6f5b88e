import tracemalloc

import pytest

from warmroute.core import limits
from warmroute.routing import kvindex
from warmroute.routing.kvindex import EXPECTED_NS, KvIndex, Shelf, Trust

NOW = 10**12


class Bench:
    """An index with shelves ``a``, ``b``, ``c``; what targets hold is told and asked by these names."""

    def __init__(self, trust=Trust.ESTIMATED, names="abc"):
        self.index = KvIndex()
        for name in names:
            shelf = self.index.join(name)
            if trust is not Trust.ESTIMATED:
                self.index.trust(shelf, trust, "a test says so")

    def __getitem__(self, name):
        return self.index.shelves[name]

    def sent(self, name, *chain):
        self.index.sent(self[name], chain)

    def ended(self, name, *chain, now_ns=NOW, well=True, epoch=None):
        epoch = self[name].epoch if epoch is None else epoch
        self.index.ended(self[name], chain, now_ns, epoch=epoch, well=well)

    def stored(self, name, *blocks):
        self.index.stored(self[name], blocks)

    def removed(self, name, *blocks):
        self.index.removed(self[name], blocks)

    def depths(self, *chain):
        """Names and lengths, as `KvIndex.depths` has them in bits."""
        return [
            ("".join(name for name, shelf in self.index.shelves.items() if shelf.bit & bits), length)
            for bits, length in self.index.depths(chain)
        ]

    def holds(self, name):
        return list(self[name].blocks)


@pytest.fixture
def small(monkeypatch):
    """Records of at most 8 blocks and at least 2, and 3 evicted ones remembered per target."""
    monkeypatch.setattr(kvindex, "KV_RECORD_BLOCKS_MAX", 8)
    monkeypatch.setattr(kvindex, "KV_RECORD_BLOCKS_MIN", 2)
    monkeypatch.setattr(kvindex, "KV_GHOSTS_MAX", 3)


# --- targets ----------------------------------------------------------------------------------
def test_a_new_target_has_an_empty_shelf_of_its_own_that_is_estimated():
    bench = Bench()
    shelves = [bench[name] for name in "abc"]
    assert len({shelf.bit for shelf in shelves}) == 3
    assert all(shelf.bit.bit_count() == 1 for shelf in shelves)
    assert [(shelf.trust, len(shelf.blocks), shelf.pending, shelf.resident) for shelf in shelves] == [
        (Trust.ESTIMATED, 0, 0, 0)
    ] * 3
    assert shelves[0].capacity == limits.KV_RECORD_BLOCKS_MAX


def test_joining_again_keeps_the_shelf():
    bench = Bench()
    bench.sent("a", 1)
    assert bench.index.join("a") is bench["a"]
    assert bench.depths(1) == [("a", 1)]


def test_a_target_that_leaves_takes_all_it_holds_with_it():
    bench = Bench()
    bench.sent("a", 1, 2)
    bench.sent("b", 1)
    bench.index.leave("a")
    assert bench.depths(1, 2) == [("b", 1)]
    assert len(bench.index) == 1


def test_a_target_that_is_not_there_may_leave():
    bench = Bench()
    bench.index.leave("d")
    assert set(bench.index.shelves) == set("abc")


def test_a_place_in_the_table_that_became_free_is_used_again_and_says_nothing_of_who_had_it():
    bench = Bench()
    bench.sent("b", 1, 2)
    freed = bench["b"].bit
    bench.index.leave("b")
    assert bench.index.join("d").bit == freed
    assert bench.depths(1, 2) == []
    assert bench.index.join("e").bit not in {freed, bench["a"].bit, bench["c"].bit}


def test_the_table_does_not_grow_with_targets_that_come_and_go():
    index = KvIndex()
    for number in range(1000):
        shelf = index.join(f"t{number}")
        index.sent(shelf, (number,))
        index.leave(f"t{number}")
    assert index.join("last").bit == 1
    assert len(index) == 0


def test_a_shelf_shows_what_matters_of_it():
    shelf = Shelf(4)
    shelf.blocks[1] = True
    shelf.pending = 30
    assert repr(shelf) == (
        "<estimated (the engine has told nothing of its cache), 1 blocks, 30 characters pending>"
    )


# --- looking ----------------------------------------------------------------------------------
def test_nothing_is_held_of_an_empty_chain_or_an_unknown_one():
    bench = Bench()
    bench.sent("a", 1, 2)
    assert bench.depths() == []
    assert bench.depths(7, 1, 2) == []


def test_a_chain_is_held_up_to_the_first_block_that_is_not():
    bench = Bench()
    bench.sent("a", 1, 2, 3)
    assert bench.depths(1, 2, 3) == [("a", 3)]
    assert bench.depths(1, 2, 3, 4, 5, 6, 7) == [("a", 3)]
    assert bench.depths(1) == [("a", 1)]
    assert bench.depths(1, 7, 8) == [("a", 1)]


def test_depths_are_told_the_shortest_first_and_each_target_once():
    bench = Bench(names="abcd")
    bench.sent("c", *range(1, 10))
    bench.sent("a", *range(1, 4))
    bench.sent("b", *range(1, 4))
    assert bench.depths(*range(1, 20)) == [("ab", 3), ("c", 9)]
    assert bench.depths(*range(1, 6)) == [("ab", 3), ("c", 5)]
    assert bench.depths(*range(1, 3)) == [("abc", 2)]


@pytest.mark.parametrize("end", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 100])
def test_every_depth_is_found_in_chains_of_every_length(end):
    chain = list(range(1, end + 1))
    for depth in range(1, end + 1):
        bench = Bench()
        bench.sent("a", *chain[:depth])
        bench.sent("b", chain[0])
        expected = [("ab", 1)] if depth == 1 else [("b", 1), ("a", depth)]
        assert bench.depths(*chain) == expected


class Counting(dict):
    """Counts look-ups."""

    looked_up = 0

    def get(self, key, default=None):
        self.looked_up += 1
        return super().get(key, default)


def test_a_look_up_takes_the_logarithm_of_a_chains_length_per_depth():
    bench = Bench()
    chain = tuple(range(1, 4097))
    bench.sent("a", *chain)
    bench.sent("b", *chain[:1000])
    bench.index._holders = counting = Counting(bench.index._holders)
    assert bench.depths(*chain) == [("b", 1000), ("a", 4096)]
    assert counting.looked_up <= 2 * 2 * 13


# --- a record of our own ----------------------------------------------------------------------
def test_a_request_is_in_the_record_from_the_moment_it_is_sent():
    bench = Bench()
    bench.sent("a", 1, 2, 3)
    assert bench.depths(1, 2, 3) == [("a", 3)]
    assert not bench.index.settled(bench["a"], 3)


def test_a_block_is_settled_once_a_request_that_brought_it_has_ended_well():
    bench = Bench()
    for name in "ab":
        bench.sent(name, 1, 2)
    bench.ended("a", 1, 2)
    bench.ended("b", 1, 2, well=False)
    assert bench.index.settled(bench["a"], 2)
    assert not bench.index.settled(bench["b"], 2)
    assert not bench.index.settled(bench["c"], 2)


def test_a_settled_block_stays_settled_when_it_is_sent_again():
    bench = Bench()
    bench.sent("a", 1, 2)
    bench.ended("a", 1, 2)
    bench.sent("a", 1, 2, 3)
    assert [bench.index.settled(bench["a"], block) for block in (1, 2, 3)] == [True, True, False]


def test_the_record_gives_up_the_least_recently_used_prompts_their_ends_first(small):
    bench = Bench()
    bench.sent("a", 1, 2, 3)
    bench.sent("a", 1, 20, 30)
    bench.sent("a", 4, 5, 6, 7)
    assert set(bench.holds("a")) == {1, 2, 20, 30, 4, 5, 6, 7}
    bench.sent("a", 1, 2)
    bench.sent("a", 8)
    assert set(bench.holds("a")) == {1, 2, 20, 4, 5, 6, 7, 8}


def test_a_prompt_longer_than_the_record_is_held_by_its_start(small):
    bench = Bench()
    bench.sent("a", *range(1, 20))
    assert bench.depths(*range(1, 20)) == [("a", 8)]
    assert len(bench.index) == 8


def test_a_request_that_ends_is_used_last_then(small):
    bench = Bench()
    bench.sent("a", 1, 2, 3, 4)
    bench.sent("a", 5, 6, 7, 8)
    bench.ended("a", 1, 2, 3, 4)
    bench.sent("a", 9, 10)
    assert set(bench.holds("a")) == {1, 2, 3, 4, 5, 6, 9, 10}


def test_a_request_that_failed_is_not_used_by_its_end(small):
    bench = Bench()
    bench.sent("a", 1, 2, 3, 4)
    bench.sent("a", 5, 6, 7, 8)
    bench.ended("a", 1, 2, 3, 4, well=False)
    bench.sent("a", 9, 10)
    assert set(bench.holds("a")) == {1, 2, 5, 6, 7, 8, 9, 10}


def test_a_record_gets_smaller_at_once_when_its_capacity_does_and_the_other_records_do_not(small):
    bench = Bench()
    bench.sent("a", 1, 2, 3, 4)
    bench.sent("b", 1, 2, 3, 4)
    bench.index.set_capacity(bench["a"], 3)
    assert bench.depths(1, 2, 3, 4) == [("a", 3), ("b", 4)]


@pytest.mark.parametrize(("asked", "kept"), [(-5, 2), (1, 2), (2, 2), (8, 8), (9, 8), (10**9, 8)])
def test_a_capacity_stays_within_limits(small, asked, kept):
    bench = Bench()
    bench.index.set_capacity(bench["a"], asked)
    assert bench["a"].capacity == kept


def test_an_exact_shelf_is_not_trimmed_to_the_capacity_of_a_record(small):
    bench = Bench(Trust.EXACT)
    bench.stored("a", 1, 2, 3, 4)
    bench.index.set_capacity(bench["a"], 3)
    assert bench.depths(1, 2, 3, 4) == [("a", 4)]


# --- what was given up ------------------------------------------------------------------------
def test_what_a_record_gives_up_is_remembered_with_who_gave_it_up(small):
    bench = Bench()
    bench.sent("a", 1, 2, 3, 4)
    bench.index.set_capacity(bench["a"], 2)
    assert [bench.index.gave_up(bench["a"], block) for block in (1, 2, 3, 4)] == [False, False, True, True]
    assert not bench.index.gave_up(bench["b"], 3)
    assert bench.index.evicted == 2


def test_given_up_blocks_that_are_asked_for_again_count_once(small):
    bench = Bench()
    bench.sent("a", 1, 2, 3, 4)
    bench.index.set_capacity(bench["a"], 2)
    bench.index.missed((1, 2, 3, 4), 2)
    bench.index.missed((1, 2, 3, 4), 2)
    assert bench.index.asked_again == 2
    assert not bench.index.gave_up(bench["a"], 3)


def test_what_lies_behind_a_block_that_nobody_gave_up_is_not_looked_at(small):
    bench = Bench()
    bench.sent("a", 1, 2, 3)
    bench.index.set_capacity(bench["a"], 2)
    bench.index.missed((1, 7, 3), 1)
    assert bench.index.asked_again == 0
    assert bench.index.gave_up(bench["a"], 3)


def test_no_more_given_up_blocks_are_remembered_than_a_limit_per_target(small):
    bench = Bench()
    for first in range(0, 1000, 10):
        bench.sent("a", *range(first, first + 10))
        assert len(bench.index._ghosts) <= 3 * 3
    given_up = [block for block in range(1000) if bench.index.gave_up(bench["a"], block)]
    assert len(given_up) == 9
    assert min(given_up) >= 980


def test_older_evictions_count_less_and_the_ratio_stays(small):
    bench = Bench(names="a")
    bench.sent("a", *range(8))
    bench.sent("a", 8, 9, 10)
    bench.index.missed((7, 6), 0)
    assert (bench.index.evicted, bench.index.asked_again) == (3, 2)
    bench.sent("a", 11)
    assert (bench.index.evicted, bench.index.asked_again) == (2, 1)


def test_a_target_that_takes_a_free_place_has_given_up_nothing(small):
    bench = Bench()
    bench.sent("a", 1, 2, 3, 4)
    bench.index.set_capacity(bench["a"], 2)
    bench.index.leave("a")
    bench.index.join("d")
    assert not bench.index.gave_up(bench["d"], 3)


def test_fewer_given_up_blocks_are_remembered_when_targets_leave(small):
    bench = Bench()
    bench.sent("a", *range(100, 200))
    assert len(bench.index._ghosts) == 9
    for name in "bc":
        bench.index.leave(name)
    assert len(bench.index._ghosts) == 3
    bench.index.leave("a")
    assert not bench.index._ghosts


# --- told by an engine ------------------------------------------------------------------------
def test_an_engine_that_tells_is_known_by_what_it_told():
    bench = Bench(Trust.EXACT)
    bench.stored("a", 1, 2)
    bench.stored("a", 3)
    bench.removed("a", 3)
    assert bench.depths(1, 2, 3) == [("a", 2)]
    bench.removed("a", 1, 2)
    assert bench.depths(1, 2, 3) == []
    assert len(bench.index) == 0


def test_blocks_told_twice_are_held_once_and_removed_at_once():
    bench = Bench(Trust.EXACT)
    bench.stored("a", 1, 1)
    bench.stored("a", 1)
    bench.removed("a", 1, 1)
    assert bench.depths(1) == []
    assert bench.index.evicted == 1


def test_a_removal_of_what_was_never_told_means_nothing():
    bench = Bench(Trust.EXACT)
    bench.stored("b", 1)
    bench.removed("a", 1)
    assert bench.depths(1) == [("b", 1)]
    assert bench.index.evicted == 0


@pytest.mark.parametrize("trust", [Trust.ESTIMATED, Trust.UNKNOWN])
def test_what_is_told_of_a_shelf_that_is_not_exact_means_nothing(trust):
    bench = Bench(trust)
    bench.sent("a", 1)
    before = bench.depths(1)
    bench.stored("a", 1, 2)
    assert bench.depths(1, 2) == before
    bench.removed("a", 1)
    assert bench.depths(1, 2) == before


def test_evictions_that_an_engine_tells_of_count_as_given_up():
    bench = Bench(Trust.EXACT)
    bench.stored("a", 1, 2)
    bench.removed("a", 2)
    assert bench.index.gave_up(bench["a"], 2)
    bench.index.missed((1, 2), 1)
    assert (bench.index.evicted, bench.index.asked_again) == (1, 1)


def test_an_engine_that_tells_of_too_many_blocks_is_not_followed_beyond_the_limit(small):
    bench = Bench(Trust.EXACT)
    for block in range(30):
        bench.stored("a", block)
    assert len(bench["a"].blocks) == len(bench.index) == 8


def test_of_a_prompt_told_in_one_piece_its_end_is_given_up_first(small):
    bench = Bench(Trust.EXACT)
    bench.stored("a", *range(1, 20))
    assert bench.depths(*range(1, 20)) == [("a", 8)]


# --- on the way to an engine that tells ----------------------------------------------------------
def test_a_request_on_its_way_is_expected_where_it_was_sent():
    bench = Bench(Trust.EXACT)
    bench.sent("a", 1, 2)
    assert bench.depths(1, 2) == [("a", 2)]
    assert bench.holds("a") == []
    assert not bench.index.settled(bench["a"], 2)


def test_what_was_expected_and_never_told_is_forgotten_a_while_after_the_end():
    bench = Bench(Trust.EXACT)
    bench.sent("a", 1, 2)
    bench.ended("a", 1, 2)
    bench.index.fade(NOW + EXPECTED_NS - 1)
    assert bench.depths(1, 2) == [("a", 2)]
    bench.index.fade(NOW + EXPECTED_NS)
    assert bench.depths(1, 2) == []
    assert len(bench.index) == 0


def test_what_was_told_in_time_stays():
    bench = Bench(Trust.EXACT)
    bench.sent("a", 1, 2)
    bench.stored("a", 1)
    bench.ended("a", 1, 2)
    bench.index.fade(NOW + EXPECTED_NS)
    assert bench.depths(1, 2) == [("a", 1)]


def test_what_two_requests_bring_is_expected_until_both_are_over():
    bench = Bench(Trust.EXACT)
    bench.sent("a", 1)
    bench.sent("a", 1, 2)
    bench.ended("a", 1)
    bench.index.fade(NOW + EXPECTED_NS)
    assert bench.depths(1, 2) == [("a", 2)]
    bench.ended("a", 1, 2, now_ns=NOW + 1)
    bench.index.fade(NOW + 1 + EXPECTED_NS)
    assert bench.depths(1, 2) == []


def test_a_block_that_is_evicted_while_another_request_brings_it_again_is_still_expected():
    bench = Bench(Trust.EXACT)
    bench.stored("a", 1)
    bench.sent("a", 1)
    bench.removed("a", 1)
    assert bench.depths(1) == [("a", 1)]
    bench.ended("a", 1)
    bench.index.fade(NOW + EXPECTED_NS)
    assert bench.depths(1) == []


def test_a_block_beyond_the_limit_is_held_while_it_is_expected(small):
    bench = Bench(Trust.EXACT)
    bench.sent("a", 0)
    for block in range(20):
        bench.stored("a", block)
    assert 0 not in bench["a"].blocks
    assert bench.depths(0) == [("a", 1)]
    bench.ended("a", 0)
    bench.index.fade(NOW + EXPECTED_NS)
    assert bench.depths(0) == []


def test_a_request_from_before_the_cache_was_cleared_takes_nothing_from_one_after():
    bench = Bench(Trust.EXACT)
    bench.sent("a", 1)
    before = bench["a"].epoch
    bench.index.trust(bench["a"], Trust.EXACT, "cleared")
    bench.sent("a", 1)
    bench.ended("a", 1, epoch=before)
    bench.index.fade(NOW + EXPECTED_NS)
    assert bench.depths(1) == [("a", 1)]


def test_a_request_that_faded_before_the_cache_was_cleared_takes_nothing_either():
    bench = Bench(Trust.EXACT)
    bench.sent("a", 1)
    bench.ended("a", 1)
    bench.index.trust(bench["a"], Trust.EXACT, "cleared")
    bench.sent("a", 1)
    bench.index.fade(NOW + EXPECTED_NS)
    assert bench.depths(1) == [("a", 1)]
    bench.ended("a", 1, now_ns=NOW + 1)
    bench.index.leave("a")
    bench.index.join("a")
    bench.index.fade(NOW + 1 + EXPECTED_NS)
    assert len(bench.index) == 0


# --- trust ------------------------------------------------------------------------------------
@pytest.mark.parametrize("trust", [Trust.EXACT, Trust.UNKNOWN])
def test_a_shelf_that_becomes_exact_or_unknown_is_emptied(trust):
    bench = Bench()
    bench.sent("a", 1, 2)
    bench["a"].contradictions = 3
    bench.index.trust(bench["a"], trust, "because")
    assert (bench["a"].trust, bench["a"].why, bench["a"].contradictions) == (trust, "because", 0)
    assert bench.depths(1, 2) == []
    assert len(bench.index) == 0


def test_nothing_is_noted_of_requests_to_an_unknown_target():
    bench = Bench(Trust.UNKNOWN)
    bench.sent("a", 1)
    bench.ended("a", 1)
    assert bench.depths(1) == []
    assert not bench.index._fading


def test_a_shelf_that_is_exact_no_more_keeps_what_it_has_and_what_is_on_its_way():
    bench = Bench(Trust.EXACT)
    bench.stored("a", 1)
    bench.sent("a", 1, 2)
    bench.index.trust(bench["a"], Trust.ESTIMATED, "lost")
    assert bench.depths(1, 2) == [("a", 2)]
    assert bench.index.settled(bench["a"], 1)
    assert not bench.index.settled(bench["a"], 2)
    assert not bench["a"].expected
    bench.ended("a", 1, 2)
    assert bench.index.settled(bench["a"], 2)


def test_an_engine_that_told_of_more_than_its_record_could_have_had_room_for_that(small):
    bench = Bench()
    bench.index.set_capacity(bench["a"], 3)
    bench.index.trust(bench["a"], Trust.EXACT, "told")
    bench.stored("a", 1, 2, 3, 4, 5)
    bench.index.trust(bench["a"], Trust.ESTIMATED, "lost")
    assert bench["a"].capacity == 5
    assert bench.depths(1, 2, 3, 4, 5) == [("a", 5)]


def test_a_record_that_was_exact_keeps_its_limit_and_the_starts_of_what_is_on_its_way(small):
    bench = Bench(Trust.EXACT)
    bench.stored("a", 1, 2, 3, 4, 5, 6)
    bench.sent("a", 11, 12, 13, 14, 15, 16, 17, 18)
    bench.removed("a", 1, 2, 3, 4, 5, 6)
    bench.stored("a", 21)
    bench.index.trust(bench["a"], Trust.ESTIMATED, "lost")
    assert len(bench.index) == 8
    assert bench.depths(*range(11, 19)) == [("a", 8)]


def test_trusting_a_record_as_before_changes_nothing_of_it():
    bench = Bench()
    bench.sent("a", 1, 2)
    bench.index.trust(bench["a"], Trust.ESTIMATED, "still")
    assert bench.depths(1, 2) == [("a", 2)]


def test_clearing_takes_what_is_expected_and_what_fades_as_well():
    bench = Bench(Trust.EXACT)
    bench.stored("a", 1)
    bench.sent("a", 1, 2)
    bench.ended("a", 1, 2)
    bench.index.clear(bench["a"])
    assert (len(bench.index), bench["a"].expected) == (0, {})
    bench.index.fade(NOW + EXPECTED_NS)
    assert len(bench.index) == 0


# --- memory -----------------------------------------------------------------------------------
def test_a_full_record_takes_no_more_memory_than_the_limits_say():
    """Twice as many blocks go through as it holds: tables that lose entries are larger than fresh ones."""
    index = KvIndex()
    shelf = index.join("a")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for first in range(0, 2 * limits.KV_RECORD_BLOCKS_MAX, 64):
            index.sent(shelf, tuple((first + n) * 0x9E3779B97F4A7C15 % 2**64 for n in range(64)))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(index) == len(shelf.blocks) == limits.KV_RECORD_BLOCKS_MAX
    assert len(index._ghosts) == limits.KV_GHOSTS_MAX
    assert taken < 20_000_000
