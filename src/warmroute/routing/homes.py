"""Home keys: which start of a prompt decides where it belongs, chosen by the traffic.

A start that much of the traffic has (a system prompt) is no good: it would have one home. The home key is
the shortest start, of 128, 256, 512, … characters, that at most one request in ``spread`` times the number of
targets has. Starts become too popular and cease to be with hysteresis, so that keys do not flip.
"""

from collections.abc import Sequence
from typing import Final

from warmroute.routing.key import twice

WINDOW: Final = 1024
"""Requests in one of the two windows over which shares are counted, at least."""
HITS: Final = 16
"""Requests with a start just popular enough in a window, at least: fewer are above or below by chance, and
the homes of such starts would change every few windows."""
COUNT_MIN: Final = 8
"""Requests with a start before it may be called popular: the first few say nothing."""
DEVIATIONS: Final = 3.0
"""How far above the limit a count must be in the first window, in standard deviations of one at the limit:
a session's first burst is no popularity, and of routers that share nothing each would see another."""


class Homes:
    """Counts how popular starts of prompts are.

    Args:
        spread: Homes that a start may have at most, times targets, is one over its share.

    Attributes:
        popular: Text blocks that are popular at the start of the prompt that was counted last.
    """

    __slots__ = ("_before", "_now", "_popular", "_seen_before", "_seen_now", "popular", "spread")

    def __init__(self, spread: float) -> None:
        self.spread = spread
        self.popular = 0
        self._now: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._seen_now = 0
        self._seen_before = 0
        self._popular: set[int] = set()

    def key(self, chain: Sequence[int], targets: int) -> int | None:
        """Count a request and return its home key; None for a prompt of less than a block.

        Args:
            chain: Hashes of its text blocks.
            targets: How many there are.
        """
        self.popular = 0
        if not chain:
            return None
        limit = 1 / (self.spread * targets)
        fair = limit * (self._seen_now + self._seen_before + 1)
        chance = 0.0 if self._seen_before else DEVIATIONS * fair**0.5
        most = max(COUNT_MIN - 1.0, fair + chance)
        now, before, popular = self._now, self._before, self._popular
        length, end = 1, len(chain)
        while True:
            block = chain[length - 1]
            count = now[block] = now.get(block, 0) + 1
            if block not in popular:
                count += before.get(block, 0)
                if count <= most:
                    break
                popular.add(block)
            self.popular = length
            if length == end:
                break
            length = min(twice(length), end)
        self._seen_now += 1
        if self._seen_now >= max(WINDOW, round(HITS / limit)):
            self._turn(limit)
        return block

    def _turn(self, limit: float) -> None:
        """Begin a new window; what has lost half of the share that made it popular is popular no more."""
        seen = self._seen_now + self._seen_before
        now, before = self._now, self._before
        self._popular = {
            block for block in self._popular if now.get(block, 0) + before.get(block, 0) > limit * seen / 2
        }
        self._before, self._seen_before = now, self._seen_now
        self._now, self._seen_now = {}, 0
