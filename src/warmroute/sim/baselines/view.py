"""What an engine's own events say is in its cache: exact as long as none of them is late or lost."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from warmroute.engine.prefix_cache import BlocksStored, Run
from warmroute.sim.policy import News


class View:
    """Blocks of one cache, kept as intervals of consecutive numbers.

    Gaps in the events are not acted on: what was missed stays wrong until it is told again, or until the
    engine tells everything it has. Events that contradict what is known are taken as they are.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []  # rising; no two intervals touch
        self._ends: list[int] = []

    def match(self, runs: Sequence[Run], limit: int) -> int:
        """Return how many blocks from the start of a chain are there, looking at ``limit`` at most.

        Cost:
            A binary search among the intervals per run.
        """
        found = 0
        for first, count in runs:
            wanted = min(count, limit - found)
            if wanted <= 0:
                break
            place = bisect_right(self._starts, first) - 1
            there = self._ends[place] - first if place >= 0 else 0
            if there < wanted:
                return found + max(0, there)
            found += wanted
        return found

    def sent(self, runs: Sequence[Run], blocks: int) -> None:
        """Wait for the engine to tell."""

    def heard(self, news: News) -> None:
        """Take over what the engine told."""
        if news.snapshot:
            self._starts.clear()
            self._ends.clear()
        for event in news.events:
            if isinstance(event, BlocksStored):
                self._add(event.first, event.first + event.count)
            else:
                self._remove(event.first, event.first + event.count)

    @property
    def blocks(self) -> int:
        """How many there are."""
        return sum(self._ends) - sum(self._starts)

    def _add(self, start: int, end: int) -> None:
        starts, ends = self._starts, self._ends
        # Those that overlap or touch [start, end) become one with it.
        low = bisect_left(ends, start)
        high = bisect_right(starts, end, low)
        if low < high:
            start, end = min(start, starts[low]), max(end, ends[high - 1])
        starts[low:high] = [start]
        ends[low:high] = [end]

    def _remove(self, start: int, end: int) -> None:
        starts, ends = self._starts, self._ends
        low = bisect_right(ends, start)
        high = bisect_left(starts, end, low)
        if low == high:
            return
        kept = [
            (first, last) for first, last in ((starts[low], start), (end, ends[high - 1])) if first < last
        ]
        starts[low:high] = [first for first, _ in kept]
        ends[low:high] = [last for _, last in kept]
