"""What is known of the targets' caches: which of them hold how much of a prompt's start.

Everything is kept as chained hashes of text blocks. One table over all targets says who holds a block, as
a set of bits, so that one look-up answers for every target; a prompt of n blocks takes about log2(n)
look-ups for every different length at which targets stop holding it.

Beside it each target has a shelf: its blocks in order of their last use. Facts told by the engine fill it
exactly; without them it is our own record of what was sent there, trimmed like an engine's cache.
"""

from collections import OrderedDict, deque
from collections.abc import Collection, Sequence
from enum import StrEnum
from heapq import heappop, heappush

from warmroute.core import limits

# Imported, they would be compiled in, and no test could make them small.
KV_GHOSTS_MAX = limits.KV_GHOSTS_MAX
KV_RECORD_BLOCKS_MAX = limits.KV_RECORD_BLOCKS_MAX
KV_RECORD_BLOCKS_MIN = limits.KV_RECORD_BLOCKS_MIN

EXPECTED_NS = 5_000_000_000
"""How long blocks that an engine should have told of, and has not, count after their request's end."""
CONTRADICTIONS_MAX = 20
"""Reports in a row of nothing cached where the record expects much: such an engine caches no prefixes."""
LEARNING = 0.97
"""Factor on a record's capacity when a report says that the engine has evicted what it holds."""


class Trust(StrEnum):
    """How well a target's cache is known."""

    EXACT = "exact"
    """The engine tells of every block."""
    ESTIMATED = "estimated"
    """Our own record of what was sent there, corrected by what the engine reports."""
    UNKNOWN = "unknown"
    """Nothing: the engine's reports contradict the record."""


class Shelf:
    """What one target holds, as far as it is known.

    Attributes:
        bit: Its bit in the table of holders.
        blocks: Held blocks, the least recently used first; the value says whether a request that brought
            them has ended well, before which they may be on their way only.
        capacity: Blocks that a record may have; learnt.
        doubtful: Its server was away, and may have come back with an empty cache.
        epoch: Grows when what was expected is forgotten.
        full: It has given up blocks for want of room, or keeps none: more go there in place of others only.
        trust: How the blocks are known.
        why: What the last change of ``trust`` was for.
        pending: Characters of prompts that no first token has shown to be computed.
        clear_ns: When they are computed, by the rate that engines have shown; 0 while that is not known.
        resident: Characters of the prompts of all requests in flight.
    """

    __slots__ = (
        "bit", "blocks", "capacity", "clear_ns", "contradictions", "doubtful", "epoch", "expected", "full",
        "pending", "resident", "trust", "why",
    )  # fmt: skip

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.blocks: OrderedDict[int, bool] = OrderedDict()
        self.capacity = KV_RECORD_BLOCKS_MAX
        self.contradictions = 0
        self.doubtful = False
        self.trust = Trust.ESTIMATED
        self.why = "the engine has told nothing of its cache"
        self.pending = 0
        self.clear_ns = 0
        self.resident = 0
        # With exact knowledge: blocks on their way to the cache, with how many requests bring them.
        self.expected: dict[int, int] = {}
        self.epoch = 0
        self.full = False

    def __repr__(self) -> str:
        return f"<{self.trust} ({self.why}), {len(self.blocks)} blocks, {self.pending} characters pending>"


class KvIndex:
    """The caches of a variant's targets.

    Attributes:
        shelves: By target id.
        evicted: Blocks given up, older ones counting less.
        asked_again: How many of them were asked for again, likewise.
    """

    __slots__ = ("_fading", "_free", "_ghosts", "_holders", "_taken", "asked_again", "evicted", "shelves")

    def __init__(self) -> None:
        self.shelves: dict[str, Shelf] = {}
        self.evicted = 0.0
        self.asked_again = 0.0
        self._holders: dict[int, int] = {}
        # Places in the table that targets left, the first of them the lowest; it has ``_taken`` in all.
        self._free: list[int] = []
        self._taken = 0
        # Blocks given up lately, with who did; not by its bit, which another may have by now.
        self._ghosts: OrderedDict[int, Shelf] = OrderedDict()
        # Requests that ended where their blocks were expected, by when these count no more.
        self._fading: deque[tuple[int, Shelf, int, tuple[int, ...]]] = deque()

    def __len__(self) -> int:
        """Return how many different blocks are known of."""
        return len(self._holders)

    # --- targets ----------------------------------------------------------------------------
    def join(self, target_id: str) -> Shelf:
        """Return the shelf of a target; an empty one for a new target."""
        shelf = self.shelves.get(target_id)
        if shelf is None:
            if not self._free:
                self._free.append(self._taken)
                self._taken += 1
            shelf = self.shelves[target_id] = Shelf(1 << heappop(self._free))
        return shelf

    def leave(self, target_id: str) -> None:
        """Forget a target and everything it holds."""
        shelf = self.shelves.pop(target_id, None)
        if shelf is not None:
            self.clear(shelf)
            heappush(self._free, shelf.bit.bit_length() - 1)
            self._lay_ghosts()

    # --- looking ----------------------------------------------------------------------------
    def depths(self, chain: Sequence[int]) -> list[tuple[int, int]]:
        """Return how many blocks of a chain, from its start, targets hold.

        Returns:
            Pairs of a set of bits and a length above 0, the shortest length first; targets in no set
            hold nothing of the chain.

        Cost:
            About log2(blocks) look-ups per pair.
        """
        if not chain:
            return []
        get = self._holders.get
        found = []
        low, end = 0, len(chain)
        mask = get(chain[0], 0)
        while mask:
            # All of the mask hold the block at ``low``. Find the first one that some of them do not.
            step, high = 1, low + 1
            while high < end and get(chain[high], 0) & mask == mask:
                low = high
                step *= 2
                high = low + step
            high = min(high, end)
            while low + 1 < high:
                middle = (low + high) // 2
                if get(chain[middle], 0) & mask == mask:
                    low = middle
                else:
                    high = middle
            left = get(chain[high], 0) & mask if high < end else 0
            found.append((mask & ~left, high))
            mask, low = left, high
        return found

    # --- requests ---------------------------------------------------------------------------
    def sent(self, shelf: Shelf, chain: Sequence[int]) -> None:
        """Note that a request with this chain goes to a target: the next one like it finds it there."""
        if shelf.trust is Trust.EXACT:
            self._expect(shelf, chain)
        elif shelf.trust is Trust.ESTIMATED:
            self._touch(shelf, chain, settled=False)

    def ended(self, shelf: Shelf, chain: tuple[int, ...], now_ns: int, *, epoch: int, well: bool) -> None:
        """Note the end of a request that was noted with `sent`.

        Args:
            shelf: Of its target.
            chain: Its chain.
            now_ns: Monotonic time.
            epoch: Of the shelf when the request was sent.
            well: The engine has computed the whole prompt.
        """
        if shelf.trust is Trust.EXACT:
            if epoch == shelf.epoch:
                self._fading.append((now_ns + EXPECTED_NS, shelf, epoch, chain))
        elif shelf.trust is Trust.ESTIMATED and well:
            # Engines order their blocks by when a request let go of them.
            self._touch(shelf, chain, settled=True)

    def settled(self, shelf: Shelf, block: int) -> bool:
        """Return whether a block was there, not only on its way, as far as our record knows."""
        return shelf.trust is Trust.ESTIMATED and shelf.blocks.get(block, False)

    def missed(self, chain: Sequence[int], depth: int) -> None:
        """Note that everything behind the first blocks of a chain has to be computed."""
        ghosts = self._ghosts
        for place in range(depth, len(chain)):
            if ghosts.pop(chain[place], None) is None:
                break  # what was evicted with it lies behind it
            self.asked_again += 1

    def gave_up(self, shelf: Shelf, block: int) -> bool:
        """Return whether a target's record gave a block up lately for want of capacity."""
        return self._ghosts.get(block) is shelf

    def _touch(self, shelf: Shelf, chain: Sequence[int], *, settled: bool) -> None:
        blocks, bit, holders = shelf.blocks, shelf.bit, self._holders
        move = blocks.move_to_end
        for block in reversed(chain):  # the start of a chain is the last to go
            if block in blocks:
                move(block)
                if settled:
                    blocks[block] = True
            else:
                blocks[block] = settled
                known = holders.get(block)
                # Not ``0 | bit``: with many targets that would be a large number for every block.
                holders[block] = bit if known is None else known | bit
        self._trim(shelf, shelf.capacity)

    def set_capacity(self, shelf: Shelf, capacity: int) -> None:
        """Let a record have so many blocks, within limits, and give up the least recently used beyond."""
        shelf.capacity = max(KV_RECORD_BLOCKS_MIN, min(capacity, KV_RECORD_BLOCKS_MAX))
        if shelf.trust is Trust.ESTIMATED:
            self._trim(shelf, shelf.capacity)

    def _trim(self, shelf: Shelf, capacity: int) -> None:
        blocks, expected, bit = shelf.blocks, shelf.expected, shelf.bit
        given_up = []
        for _ in range(len(blocks) - capacity):
            block = blocks.popitem(last=False)[0]
            if block not in expected:
                self._drop(block, bit)
            given_up.append(block)
        if given_up:
            self._haunt(shelf, given_up)

    def _drop(self, block: int, bit: int) -> None:
        left = self._holders[block] & ~bit
        if left:
            self._holders[block] = left
        else:
            del self._holders[block]

    def _haunt(self, shelf: Shelf, blocks: Collection[int]) -> None:
        if not blocks:
            return
        shelf.full = True
        ghosts = self._ghosts
        for block in blocks:
            ghosts[block] = shelf
            ghosts.move_to_end(block)
        self.evicted += len(blocks)
        self._lay_ghosts()
        if self.evicted > KV_GHOSTS_MAX * len(self.shelves):
            self.evicted /= 2
            self.asked_again /= 2

    def _lay_ghosts(self) -> None:
        ghosts, limit = self._ghosts, KV_GHOSTS_MAX * len(self.shelves)
        while len(ghosts) > limit:
            ghosts.popitem(last=False)

    # --- told by engines --------------------------------------------------------------------
    def stored(self, shelf: Shelf, blocks: Sequence[int]) -> None:
        """Note blocks that an engine has from now on; of no meaning unless its shelf is exact."""
        if shelf.trust is not Trust.EXACT:
            return
        held, bit, holders = shelf.blocks, shelf.bit, self._holders
        for block in reversed(blocks):  # beyond the limit, too, the start of a chain is the last to go
            held[block] = True
            known = holders.get(block)
            holders[block] = bit if known is None else known | bit
        self._trim(shelf, KV_RECORD_BLOCKS_MAX)

    def removed(self, shelf: Shelf, blocks: Sequence[int]) -> None:
        """Note blocks that an engine has no more; of no meaning unless its shelf is exact."""
        if shelf.trust is not Trust.EXACT:
            return
        gone = [block for block in blocks if shelf.blocks.pop(block, None) is not None]
        for block in gone:
            if block not in shelf.expected:
                self._drop(block, shelf.bit)
        self._haunt(shelf, gone)

    def clear(self, shelf: Shelf) -> None:
        """Forget what a target holds."""
        bit, blocks, holders = shelf.bit, shelf.blocks, self._holders
        for block in blocks:
            left = holders[block] ^ bit
            if left:
                holders[block] = left
            else:
                del holders[block]
        for block in shelf.expected:
            if block not in blocks:
                self._drop(block, bit)
        shelf.blocks.clear()
        shelf.expected.clear()
        shelf.epoch += 1
        shelf.full = False

    def trust(self, shelf: Shelf, trust: Trust, why: str) -> None:
        """Trust a target's shelf more, or less, from now on.

        A shelf that becomes exact or unknown is emptied. One that is exact no more keeps what it has: that
        is the best record there is, and the engine has room for it.
        """
        if trust is not Trust.ESTIMATED:
            self.clear(shelf)
        elif shelf.trust is Trust.EXACT:
            for block in reversed(shelf.expected):
                shelf.blocks.setdefault(block, False)
            shelf.expected.clear()
            shelf.epoch += 1
            self.set_capacity(shelf, max(shelf.capacity, len(shelf.blocks)))
        shelf.trust, shelf.why = trust, why
        shelf.full = shelf.full or trust is Trust.UNKNOWN
        shelf.contradictions = 0
        if trust is Trust.ESTIMATED:
            self._trim(shelf, shelf.capacity)

    # --- on their way -----------------------------------------------------------------------
    def _expect(self, shelf: Shelf, chain: Sequence[int]) -> None:
        expected, bit, holders = shelf.expected, shelf.bit, self._holders
        for block in chain:
            count = expected.get(block)
            if count is None:
                expected[block] = 1
                known = holders.get(block)
                holders[block] = bit if known is None else known | bit
            else:
                expected[block] = count + 1

    def fade(self, now_ns: int) -> None:
        """Let go of what was expected and should have been told of by now."""
        fading = self._fading
        while fading and fading[0][0] <= now_ns:
            _, shelf, epoch, chain = fading.popleft()
            if epoch == shelf.epoch:
                self._unexpect(shelf, chain)

    def _unexpect(self, shelf: Shelf, chain: Sequence[int]) -> None:
        expected = shelf.expected
        for block in chain:
            count = expected[block]
            if count > 1:
                expected[block] = count - 1
            else:
                del expected[block]
                if block not in shelf.blocks:
                    self._drop(block, shelf.bit)
