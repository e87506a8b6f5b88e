"""The prefix cache of one engine, exact to the block and kept by runs of blocks.

A block's number stands for its content and everything before it: equal number, equal prefix. A
prompt is a chain of blocks, written as runs ``(first, count)`` of consecutive numbers, and so is the
cache: all blocks of a node share one fate except that its tail is evicted before its head. A request
therefore costs as much as its chain has nodes, not blocks: 128,000 tokens of a conversation are a few
nodes and 8,000 blocks.

Rules, as in vLLM: only full blocks are cached; blocks of running sequences are pinned; free ones are
evicted least recently used first, of those released together the end of the chain first; empty blocks
are taken before anything is evicted. Unlike vLLM, two sequences that computed the same block at the
same time keep one copy of it (as SGLang does), so what is cached is always closed under prefixes.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

Run = tuple[int, int]
"""The first block's number, and how many consecutive ones."""


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """Blocks that can be found from now on: ``count`` from ``first``, behind ``depth`` others."""

    first: int
    count: int
    depth: int


@dataclass(frozen=True, slots=True)
class BlocksRemoved:
    """Blocks that were evicted: ``count`` from ``first``, of a chain with ``depth`` blocks before them."""

    first: int
    count: int
    depth: int


BlockEvent = BlocksStored | BlocksRemoved


class _Node:
    __slots__ = ("count", "depth", "first", "references")

    def __init__(self, first: int, count: int, *, depth: int, references: int) -> None:
        self.first = first
        self.count = count
        self.depth = depth
        self.references = references


class Hold:
    """What one running sequence occupies.

    Attributes:
        runs: Its chain.
        cached: Blocks of the chain, from its start, that it has pinned in the cache.
        private: Blocks it has for tokens that cannot be found yet.
    """

    __slots__ = ("_last", "_offset", "_run", "cached", "private", "runs")

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.cached = 0
        self.private = 0
        # Where the chain goes on after the cached part, and the node that ends there.
        self._run = 0
        self._offset = 0
        self._last: _Node | None = None

    @property
    def blocks(self) -> int:
        """All blocks it occupies."""
        return self.cached + self.private


class PrefixCache:
    """The blocks of one engine.

    Args:
        blocks: How many there are.
        record: Keep `events` for somebody who takes them out.
    """

    __slots__ = ("_nodes", "_record", "_reusable", "blocks", "events", "evicted", "loose", "used")

    def __init__(self, blocks: int, *, record: bool = False) -> None:
        self.blocks = blocks
        self.used = 0
        """Blocks of running sequences, shared ones counted once."""
        self.loose = 0
        """Blocks with content that nobody uses: found by a lookup, and evicted when room is needed."""
        self.evicted = 0
        """Blocks evicted so far."""
        self.events: list[BlockEvent] = []
        self._record = record
        self._nodes: dict[int, _Node] = {}
        # By identity, so that the rest of a node that is split keeps its place.
        self._reusable: OrderedDict[_Node, None] = OrderedDict()

    @property
    def available(self) -> int:
        """Blocks that can be had, if need be by eviction."""
        return self.blocks - self.used

    def match(self, runs: Sequence[Run], limit: int) -> tuple[int, int]:
        """Return how many blocks from the start of a chain are cached, and how many of these are loose.

        Args:
            runs: The chain.
            limit: Look no further than this many blocks.

        Cost:
            One dictionary lookup per node.
        """
        found = loose = 0
        for start, length in runs:
            first, left = start, min(length, limit - found)
            while left > 0:
                node = self._nodes.get(first)
                if node is None:
                    return found, loose
                step = min(node.count, left)
                if not node.references:
                    loose += step
                found += step
                first += step
                left -= step
        return found, loose

    def pin(self, runs: Sequence[Run], blocks: int) -> Hold:
        """Return a hold on the first blocks of a chain, all of which must be cached."""
        hold = Hold(runs)
        hold.private = blocks
        self.used += blocks
        self.publish(hold, blocks)
        return hold

    def reserve(self, hold: Hold, blocks: int) -> bool:
        """Give a hold more private blocks, evicting what must be; False when there are not enough."""
        if blocks > self.available:
            return False
        self._evict(blocks - (self.blocks - self.used - self.loose))
        hold.private += blocks
        self.used += blocks
        return True

    def publish(self, hold: Hold, blocks: int) -> None:
        """Let the first blocks of a hold's chain be found; they must be private or cached by now."""
        runs = hold.runs
        while hold.cached < blocks:
            start, length = runs[hold._run]  # noqa: SLF001  (one module)
            first = start + hold._offset  # noqa: SLF001
            count = min(length - hold._offset, blocks - hold.cached)  # noqa: SLF001
            node = self._nodes.get(first)
            count = self._store(hold, first, count) if node is None else self._share(hold, node, count)
            hold.private -= count
            hold.cached += count
            assert hold.private >= 0, "published more blocks than were reserved"
            hold._offset += count  # noqa: SLF001
            if hold._offset == length:  # noqa: SLF001
                hold._run += 1  # noqa: SLF001
                hold._offset = 0  # noqa: SLF001

    def release(self, hold: Hold) -> None:
        """Give everything back; what is cached stays until it is evicted, the end of the chain first."""
        self.used -= hold.private
        for node in reversed(self._held(hold)):
            node.references -= 1
            if not node.references:
                self.used -= node.count
                self.loose += node.count
                self._reusable[node] = None
        hold.private = hold.cached = 0

    def content(self) -> tuple[BlocksStored, ...]:
        """Return everything that can be found now, each block after those before it in its chain."""
        nodes = sorted(self._nodes.values(), key=lambda node: (node.depth, node.first))
        return tuple([BlocksStored(node.first, node.count, node.depth) for node in nodes])

    # --- nodes ------------------------------------------------------------------------------
    def _store(self, hold: Hold, first: int, count: int) -> int:
        last = hold._last  # noqa: SLF001
        if last is not None and last.references == 1 and last.first + last.count == first:
            last.count += count
        else:
            self._nodes[first] = hold._last = _Node(  # noqa: SLF001
                first, count, depth=hold.cached, references=1
            )
        if self._record:
            self.events.append(BlocksStored(first, count, hold.cached))
        return count

    def _share(self, hold: Hold, node: _Node, count: int) -> int:
        if node.count > count:
            node = self._split(node, count)
        # The hold's own blocks are given back for these: each is counted once.
        if node.references:
            self.used -= node.count
        else:
            self._reusable.pop(node, None)
            self.loose -= node.count
        node.references += 1
        hold._last = node  # noqa: SLF001
        return node.count

    def _split(self, node: _Node, count: int) -> _Node:
        """Cut the first blocks off a node; the rest keeps its identity and its place."""
        head = _Node(node.first, count, depth=node.depth, references=node.references)
        node.first += count
        node.depth += count
        node.count -= count
        self._nodes[head.first] = head
        self._nodes[node.first] = node
        return head

    def _held(self, hold: Hold) -> list[_Node]:
        nodes = []
        left = hold.cached
        for start, length in hold.runs:
            first, end = start, start + min(length, left)
            left -= end - start
            while first < end:
                node = self._nodes[first]
                nodes.append(node)
                first += node.count
            assert first == end, "a node reaches beyond a hold"
            if not left:
                break
        return nodes

    def _evict(self, blocks: int) -> None:
        while blocks > 0:
            node = next(iter(self._reusable))
            count = min(blocks, node.count)
            node.count -= count
            blocks -= count
            self.loose -= count
            self.evicted += count
            if self._record:
                self.events.append(BlocksRemoved(node.first + node.count, count, node.depth + node.count))
            if not node.count:
                del self._reusable[node], self._nodes[node.first]
