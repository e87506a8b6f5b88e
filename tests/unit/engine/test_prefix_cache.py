"""The prefix cache against block tables worked out by hand, and against a slow obvious one."""

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.engine.prefix_cache import BlocksRemoved, BlocksStored, PrefixCache


def run_through(cache, runs, blocks=None):
    """Let a sequence with this chain come and go."""
    total = sum(count for _, count in runs) if blocks is None else blocks
    hold = occupy(cache, runs, total)
    cache.release(hold)
    return hold


def occupy(cache, runs, total):
    found, _ = cache.match(runs, total)
    hold = cache.pin(runs, found)
    assert cache.reserve(hold, total - found)
    cache.publish(hold, total)
    return hold


def test_nothing_is_found_in_an_empty_cache():
    assert PrefixCache(10).match([(1, 5)], 5) == (0, 0)


def test_a_chain_is_found_from_its_start_as_far_as_it_is_the_same():
    cache = PrefixCache(100)
    run_through(cache, [(0, 4), (10, 6)])
    assert cache.match([(0, 4), (10, 6)], 99) == (10, 10)
    assert cache.match([(0, 4), (10, 3), (50, 5)], 99) == (7, 7)
    assert cache.match([(0, 4), (30, 6)], 99) == (4, 4)
    assert cache.match([(0, 4), (10, 6)], 5) == (5, 5)
    assert cache.match([(7, 4)], 99) == (0, 0)


def test_shared_blocks_count_once_and_are_pinned():
    cache = PrefixCache(20)
    first = occupy(cache, [(0, 8), (100, 2)], 10)
    second = occupy(cache, [(0, 8), (200, 3)], 11)
    assert (cache.used, cache.loose, cache.available) == (13, 0, 7)
    cache.release(first)
    assert (cache.used, cache.loose) == (11, 2)
    cache.release(second)
    assert (cache.used, cache.loose, cache.available) == (0, 13, 20)


def test_empty_blocks_are_taken_before_anything_is_evicted():
    cache = PrefixCache(10)
    run_through(cache, [(0, 6)])
    run_through(cache, [(50, 4)])
    assert (cache.evicted, cache.match([(0, 6)], 6)) == (0, (6, 6))
    run_through(cache, [(90, 1)])
    assert cache.evicted == 1


def test_the_least_recently_used_chain_is_evicted_from_its_end():
    cache = PrefixCache(10, record=True)
    run_through(cache, [(0, 5)])
    run_through(cache, [(50, 5)])
    run_through(cache, [(0, 5)])  # used again: the other one is older now
    cache.events.clear()
    run_through(cache, [(90, 2)])
    assert cache.events == [BlocksRemoved(53, 2, 3), BlocksStored(90, 2, 0)]
    assert cache.match([(50, 5)], 5) == (3, 3)
    assert cache.match([(0, 5)], 5) == (5, 5)


def test_the_rest_of_a_chain_keeps_its_place_when_its_head_is_used():
    cache = PrefixCache(10)
    run_through(cache, [(0, 6)])
    run_through(cache, [(50, 4)])
    run_through(cache, [(0, 2)])  # 0-1 are young now, 2-5 the oldest still
    run_through(cache, [(90, 5)])
    assert cache.match([(0, 6)], 6) == (2, 2)
    assert cache.match([(50, 4)], 4) == (3, 3)


def test_pinned_blocks_are_never_evicted():
    cache = PrefixCache(10)
    hold = occupy(cache, [(0, 7)], 7)
    other = cache.pin([(50, 9)], 0)
    assert cache.reserve(other, 3)
    assert not cache.reserve(other, 1)
    assert cache.match([(0, 7)], 7) == (7, 0)
    assert (hold.blocks, other.blocks) == (7, 3)


def test_blocks_that_another_sequence_computed_meanwhile_are_kept_once():
    cache = PrefixCache(20)
    first, second = cache.pin([(0, 6)], 0), cache.pin([(0, 4), (80, 2)], 0)
    cache.reserve(first, 6)
    cache.reserve(second, 6)
    assert cache.used == 12
    cache.publish(first, 6)
    cache.publish(second, 6)
    assert (cache.used, second.private) == (8, 0)


def test_blocks_that_were_computed_and_let_go_meanwhile_are_taken_up():
    cache = PrefixCache(20)
    slow = cache.pin([(0, 6)], 0)
    cache.reserve(slow, 6)
    run_through(cache, [(0, 6)])
    cache.publish(slow, 6)
    assert (cache.used, cache.loose) == (6, 0)


def test_stored_blocks_say_how_many_are_before_them():
    cache = PrefixCache(20, record=True)
    hold = cache.pin([(0, 2), (30, 4)], 0)
    cache.reserve(hold, 6)
    for blocks in (1, 2, 3, 6):
        cache.publish(hold, blocks)
    assert cache.events == [
        BlocksStored(0, 1, 0),
        BlocksStored(1, 1, 1),
        BlocksStored(30, 1, 2),
        BlocksStored(31, 3, 3),
    ]


def test_the_content_is_told_with_the_start_of_every_chain_first():
    cache = PrefixCache(20)
    run_through(cache, [(0, 4), (30, 4)])
    run_through(cache, [(0, 2), (50, 3)])
    assert cache.content() == (
        BlocksStored(0, 2, 0),
        BlocksStored(2, 2, 2),
        BlocksStored(50, 3, 2),
        BlocksStored(30, 4, 4),
    )
    assert PrefixCache(20).content() == ()


def test_publishing_more_than_was_reserved_is_a_broken_assumption():
    cache = PrefixCache(20)
    hold = cache.pin([(0, 6)], 0)
    cache.reserve(hold, 2)
    with pytest.raises(AssertionError, match="more blocks than were reserved"):
        cache.publish(hold, 3)


# Ten blocks. A is 0-3 then 10-12, B is 0-3 then 20-21, C is 50-54. What each step leaves behind: blocks in
# use, loose blocks, blocks evicted so far, and how many blocks of A, B and C are found.
TABLE = [
    ("A comes", 7, 0, 0, (7, 4, 0)),
    ("B comes", 9, 0, 0, (7, 6, 0)),  # 0-3 are shared
    ("A goes", 6, 3, 0, (7, 6, 0)),  # 10-12 are loose, 0-3 are B's
    ("B goes", 0, 9, 0, (7, 6, 0)),
    ("C comes", 5, 5, 4, (4, 5, 5)),  # one block is empty; 12, 11, 10 are evicted, then the end of B: 21
    ("C goes", 0, 10, 4, (4, 5, 5)),
    ("B comes", 6, 4, 5, (4, 6, 4)),  # 0-3 and 20 are taken up before 54 is evicted for 21
    ("B goes", 0, 10, 5, (4, 6, 4)),
    ("A comes", 7, 3, 8, (7, 6, 1)),  # C is the oldest: 53, 52, 51
]


def test_a_block_table_worked_out_by_hand():
    cache = PrefixCache(10)
    chains = {"A": [(0, 4), (10, 3)], "B": [(0, 4), (20, 2)], "C": [(50, 5)]}
    open_holds = {}
    for step, used, loose, evicted, found in TABLE:
        name, action = step.split()
        if action == "comes":
            open_holds[name] = occupy(cache, chains[name], sum(count for _, count in chains[name]))
        else:
            cache.release(open_holds.pop(name))
        assert (cache.used, cache.loose, cache.evicted) == (used, loose, evicted), step
        assert tuple(cache.match(chain, 99)[0] for chain in chains.values()) == found, step


# --- against a slow obvious one ---------------------------------------------------------------


class BlockByBlock:
    """One entry per block: references, and an order of those without any."""

    def __init__(self, blocks):
        self.blocks, self.references, self.free, self.private = blocks, {}, OrderedDict(), 0

    def match(self, chain):
        found = 0
        while found < len(chain) and chain[found] in self.references:
            found += 1
        return found

    def pinned(self):
        return sum(1 for count in self.references.values() if count)

    def reserve(self, count):
        if count > self.blocks - self.pinned() - self.private:
            return False
        self.private += count
        while len(self.references) + self.private > self.blocks:
            gone, _ = self.free.popitem(last=False)
            del self.references[gone]
        return True

    def hold(self, chain):
        for block in chain:
            self.references[block] = self.references.get(block, 0) + 1
            self.free.pop(block, None)

    def release(self, chain):
        for block in reversed(chain):
            self.references[block] -= 1
            if not self.references[block]:
                self.free[block] = None


# A small tree of prefixes: chains share 0-5, then branch, then branch again.
TREE = [
    [(0, 6), (100 * branch, 5), (1000 * branch + 100 * leaf, 4)] for branch in (1, 2, 3) for leaf in (1, 2)
]
STEPS = st.lists(
    st.tuples(st.sampled_from(["come", "go"]), st.integers(0, len(TREE) - 1), st.integers(1, 15)),
    max_size=60,
)


@settings(max_examples=300)
@given(blocks=st.integers(15, 60), steps=STEPS)
def test_every_history_ends_like_one_kept_block_by_block(blocks, steps):
    cache, slow, open_holds = PrefixCache(blocks, record=True), BlockByBlock(blocks), []
    known = set()
    for action, which, length in steps:
        if action == "go":
            if open_holds:
                hold, chain = open_holds.pop(which % len(open_holds))
                cache.release(hold)
                slow.release(chain)
            continue
        runs = TREE[which]
        chain = [start + each for start, count in runs for each in range(count)][:length]
        found, loose = cache.match(runs, length)
        assert found == slow.match(chain)
        assert loose == sum(1 for block in chain[:found] if block in slow.free)
        if length - found + loose > cache.available:
            continue
        hold = cache.pin(runs, found)
        slow.hold(chain[:found])
        assert cache.reserve(hold, length - found)
        assert slow.reserve(length - found)
        cache.publish(hold, length)
        slow.private -= length - found
        slow.hold(chain[found:])
        open_holds.append((hold, chain))
        assert (cache.used, cache.loose) == (slow.pinned(), len(slow.free))
        assert cache.used + cache.loose <= blocks
    told = {block for each in cache.content() for block in range(each.first, each.first + each.count)}
    assert told == set(slow.references)
    for event in cache.events:
        span = set(range(event.first, event.first + event.count))
        known = known | span if isinstance(event, BlocksStored) else known - span
    assert known == set(slow.references)
