"""The index of caches against a slow reference, over random histories.

The reference keeps a set of blocks per target and scans prompts from their start. Prompts are paths in a
small tree, so that many share a start; a block's number says which path it ends.
"""

from collections import OrderedDict
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from warmroute.routing import kvindex
from warmroute.routing.kvindex import EXPECTED_NS, KvIndex, Trust

NAMES = ["1", "11", "2", "21", "111"]
BLOCKS_MAX, BLOCKS_MIN, GHOSTS_MAX = 12, 3, 4


def chain_of(path):
    """The chained hashes of a path: each stands for all of it up to there."""
    chain, link = [], 1
    for step in path:
        link = link * 4 + step + 1
        chain.append(link)
    return tuple(chain)


paths = st.lists(st.integers(0, 1), max_size=9)
chains = paths.map(chain_of)
# Anything, as an engine may tell: blocks whose predecessors are not held.
loose = st.lists(chains.filter(bool).map(lambda chain: chain[-1]), max_size=6).map(tuple)


# --- looking ----------------------------------------------------------------------------------
def scan(held, chain):
    """How many blocks of a chain a set of them has from its start."""
    depth = 0
    while depth < len(chain) and chain[depth] in held:
        depth += 1
    return depth


def index_of(holdings):
    """An index of engines that told of these blocks, and the name of every bit."""
    index = KvIndex()
    for name, held in holdings.items():
        shelf = index.join(name)
        index.trust(shelf, Trust.EXACT, "the reference says so")
        index.stored(shelf, sorted(held))
    return index, {shelf.bit: name for name, shelf in index.shelves.items()}


def depths_by_name(index, names, chain):
    found = index.depths(chain)
    lengths = [length for _, length in found]
    assert lengths == sorted(set(lengths))
    assert all(bits for bits, _ in found)
    by_name = {name: length for bits, length in found for bit, name in names.items() if bits & bit}
    assert len(by_name) == sum(bits.bit_count() for bits, _ in found)
    return by_name


def closed(prompts):
    return {block for chain in prompts for block in chain}


@given(st.lists(st.lists(chains, max_size=4), min_size=1, max_size=5), chains)
def test_depths_are_those_of_a_scan_where_every_block_is_held_with_those_before_it(prompts, chain):
    holdings = {name: closed(held) for name, held in zip(NAMES, prompts, strict=False)}
    expected = {name: scan(held, chain) for name, held in holdings.items()}
    assert depths_by_name(*index_of(holdings), chain) == {
        name: depth for name, depth in expected.items() if depth
    }


@given(st.lists(st.integers(0, 200), min_size=1, max_size=70), st.integers(1, 200))
def test_depths_of_many_targets_in_a_long_chain_are_those_of_a_scan(held, length):
    chain = tuple(range(1000, 1200))
    holdings = {f"t{n}": set(chain[:depth]) for n, depth in enumerate(held)}
    expected = {f"t{n}": min(depth, length) for n, depth in enumerate(held) if depth}
    assert depths_by_name(*index_of(holdings), chain[:length]) == expected


@given(st.lists(st.sets(st.integers(0, 15)), min_size=1, max_size=5), st.integers(0, 16))
def test_with_holes_a_target_holds_the_first_and_the_last_block_claimed_and_not_the_next(holdings, length):
    """Whatever engines tell: who holds the first block is claimed once, and never beyond what it holds."""
    holdings = dict(zip(NAMES, holdings, strict=False))
    chain = tuple(range(length))
    found = depths_by_name(*index_of(holdings), chain)
    assert set(found) == {name for name, held in holdings.items() if length and 0 in held}
    for name, depth in found.items():
        held = holdings[name]
        assert chain[depth - 1] in held
        assert depth == length or chain[depth] not in held


# --- histories --------------------------------------------------------------------------------
class Reference:
    """One target, kept as plainly as possible."""

    def __init__(self):
        self.trust = Trust.ESTIMATED
        self.capacity = BLOCKS_MAX
        self.blocks = OrderedDict()  # the least recently used first
        self.told = False  # some blocks are from an engine, in an order of its own
        self.expecting = []  # chains of requests to an engine that tells, and when they count no more

    @property
    def expected(self):
        return {block for entry in self.expecting for block in entry["chain"]}

    @property
    def held(self):
        return set(self.blocks) | self.expected

    def use(self, chain, *, settled):
        for block in reversed(chain):
            settled_before = self.blocks.pop(block, False)
            self.blocks[block] = settled or settled_before
        self.trim(self.capacity)

    def trim(self, capacity):
        while len(self.blocks) > capacity:
            self.blocks.popitem(last=False)

    def forget(self):
        self.blocks.clear()
        self.expecting.clear()
        self.told = False


class Caches(RuleBasedStateMachine):
    """Requests, what engines tell, time, and targets that come and go."""

    def __init__(self):
        super().__init__()
        self.patches = [
            mock.patch.object(kvindex, name, value)
            for name, value in (
                ("KV_RECORD_BLOCKS_MAX", BLOCKS_MAX),
                ("KV_RECORD_BLOCKS_MIN", BLOCKS_MIN),
                ("KV_GHOSTS_MAX", GHOSTS_MAX),
            )
        ]
        for patch in self.patches:
            patch.start()
        self.index = KvIndex()
        self.model = {}
        self.under_way = []  # requests: name, shelf, epoch, chain, and what the reference expects for it
        self.now_ns = 10**12

    def teardown(self):
        for name in list(self.model):
            self.index.leave(name)
        try:
            assert len(self.index) == 0
            assert not self.index._holders
            assert not self.index._ghosts
            self.index.fade(self.now_ns + 2 * EXPECTED_NS)
            assert not self.index._fading
            assert len(self.index) == 0
        finally:
            for patch in self.patches:
                patch.stop()

    # --- targets ------------------------------------------------------------------------------
    @initialize(names=st.sets(st.sampled_from(NAMES)))
    def begin(self, names):
        for name in sorted(names):
            self.join(name)

    @rule(name=st.sampled_from(NAMES))
    def join(self, name):
        known = self.index.shelves.get(name)
        shelf = self.index.join(name)
        assert known is None or shelf is known
        self.model.setdefault(name, Reference())

    @rule(name=st.sampled_from(NAMES))
    def leave(self, name):
        self.index.leave(name)
        self.model.pop(name, None)

    def there(self, name):
        self.join(name)
        return self.index.shelves[name], self.model[name]

    # --- requests -----------------------------------------------------------------------------
    @rule(name=st.sampled_from(NAMES), chain=chains)
    def send(self, name, chain):
        shelf, reference = self.there(name)
        entry = {"chain": chain, "until_ns": None}
        self.index.sent(shelf, chain)
        if reference.trust is Trust.EXACT:
            reference.expecting.append(entry)
        elif reference.trust is Trust.ESTIMATED:
            reference.use(chain, settled=False)
        self.under_way.append((name, shelf, shelf.epoch, entry))

    @rule(data=st.data(), well=st.booleans())
    def end(self, data, well):
        """A request ends; its target may be gone, or another one by now, which the caller knows."""
        if not self.under_way:
            return
        place = data.draw(st.integers(0, len(self.under_way) - 1), label="which")
        name, shelf, epoch, entry = self.under_way.pop(place)
        if self.index.shelves.get(name) is not shelf:
            return
        reference = self.model[name]
        self.index.ended(shelf, entry["chain"], self.now_ns, epoch=epoch, well=well)
        if reference.trust is Trust.EXACT:
            entry["until_ns"] = self.now_ns + EXPECTED_NS
        elif reference.trust is Trust.ESTIMATED and well:
            reference.use(entry["chain"], settled=True)

    @rule(step_ns=st.sampled_from([0, 1, EXPECTED_NS // 2, EXPECTED_NS - 1, EXPECTED_NS, 10 * EXPECTED_NS]))
    def time_passes(self, step_ns):
        self.now_ns += step_ns
        self.index.fade(self.now_ns)
        for reference in self.model.values():
            reference.expecting = [
                entry for entry in reference.expecting
                if entry["until_ns"] is None or entry["until_ns"] > self.now_ns
            ]  # fmt: skip

    # --- told by engines ----------------------------------------------------------------------
    @rule(name=st.sampled_from(NAMES), blocks=loose | chains)
    def store(self, name, blocks):
        shelf, reference = self.there(name)
        self.index.stored(shelf, blocks)
        if reference.trust is Trust.EXACT:
            reference.told = True
            for block in reversed(blocks):
                reference.blocks[block] = True
            reference.trim(BLOCKS_MAX)

    @rule(name=st.sampled_from(NAMES), blocks=loose | chains)
    def remove(self, name, blocks):
        shelf, reference = self.there(name)
        self.index.removed(shelf, blocks)
        if reference.trust is Trust.EXACT:
            for block in blocks:
                reference.blocks.pop(block, None)

    @rule(name=st.sampled_from(NAMES))
    def clear(self, name):
        shelf, reference = self.there(name)
        self.index.clear(shelf)
        reference.forget()

    @rule(name=st.sampled_from(NAMES), trust=st.sampled_from(Trust))
    def change_trust(self, name, trust):
        shelf, reference = self.there(name)
        self.index.trust(shelf, trust, "the reference says so")
        if trust is not Trust.ESTIMATED:
            reference.forget()
        elif reference.trust is Trust.EXACT:
            reference.told = True
            for block in self.order_of_the_expected(reference):
                reference.blocks.setdefault(block, False)
            reference.expecting.clear()
            reference.capacity = min(BLOCKS_MAX, max(reference.capacity, len(reference.blocks)))
        reference.trust = trust
        if trust is Trust.ESTIMATED:
            reference.trim(reference.capacity)

    @staticmethod
    def order_of_the_expected(reference):
        return reversed(list(dict.fromkeys(block for e in reference.expecting for block in e["chain"])))

    @rule(name=st.sampled_from(NAMES), capacity=st.integers(-1, BLOCKS_MAX + 2))
    def change_capacity(self, name, capacity):
        shelf, reference = self.there(name)
        self.index.set_capacity(shelf, capacity)
        reference.capacity = max(BLOCKS_MIN, min(capacity, BLOCKS_MAX))
        if reference.trust is Trust.ESTIMATED:
            reference.trim(reference.capacity)

    # --- looking ------------------------------------------------------------------------------
    @rule(name=st.sampled_from(NAMES), chain=chains, depth=st.integers(0, 9))
    def look(self, name, chain, depth):
        shelf, reference = self.there(name)
        for block in chain:
            known = reference.trust is Trust.ESTIMATED and reference.blocks.get(block, False)
            assert self.index.settled(shelf, block) is known
            self.index.gave_up(shelf, block)
        before = self.index.asked_again
        self.index.missed(chain, depth)
        assert before <= self.index.asked_again <= before + max(0, len(chain) - depth)

    @rule(chain=chains)
    def ask(self, chain):
        names = {shelf.bit: name for name, shelf in self.index.shelves.items()}
        assert len(names) == len(self.index.shelves)
        found = depths_by_name(self.index, names, chain)
        held = {name: reference.held for name, reference in self.model.items()}
        assert set(found) == {name for name in held if chain and chain[0] in held[name]}
        for name, depth in found.items():
            assert chain[depth - 1] in held[name]
            assert depth == len(chain) or chain[depth] not in held[name]
            if self.is_closed(name):
                assert depth == scan(held[name], chain)

    def is_closed(self, name):
        """Whether every block is held with all before it: they are the numbers it grew from."""
        held = self.model[name].held
        return all(block in chain_of([0]) + chain_of([1]) or (block - 1) // 4 in held for block in held)

    # --- always -------------------------------------------------------------------------------
    @invariant()
    def every_shelf_is_as_the_reference_has_it(self):
        assert set(self.index.shelves) == set(self.model)
        for name, reference in self.model.items():
            shelf = self.index.shelves[name]
            assert (shelf.trust, shelf.capacity) == (reference.trust, reference.capacity)
            assert list(shelf.blocks.items()) == list(reference.blocks.items())
            assert set(shelf.expected) == reference.expected

    @invariant()
    def the_table_is_the_union_of_the_shelves(self):
        table = {}
        for name, reference in self.model.items():
            for block in reference.held:
                table[block] = table.get(block, 0) | self.index.shelves[name].bit
        assert self.index._holders == table
        assert len(self.index) == len(table)

    @invariant()
    def bits_are_few_and_different(self):
        bits = [shelf.bit for shelf in self.index.shelves.values()]
        assert len(set(bits)) == len(bits)
        assert max(bits, default=0) < 1 << len(NAMES)

    @invariant()
    def memory_is_bounded(self):
        assert all(len(shelf.blocks) <= BLOCKS_MAX for shelf in self.index.shelves.values())
        assert len(self.index._ghosts) <= GHOSTS_MAX * len(self.index.shelves)
        assert self.index.asked_again >= 0
        assert self.index.evicted >= 0

    @invariant()
    def a_record_of_our_own_has_no_holes(self):
        """Starts of prompts are the last to go."""
        for name, reference in self.model.items():
            assert reference.told or self.is_closed(name)


class TestCaches(Caches.TestCase):
    settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
