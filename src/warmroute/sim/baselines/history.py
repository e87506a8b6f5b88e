"""What a router sent to a target, least recently used first out: its guess of what is in the cache."""

from collections.abc import Sequence

from warmroute.engine.prefix_cache import PrefixCache, Run
from warmroute.sim.policy import News

UNLIMITED = 1 << 60
"""For a record that is never cut."""


class History:
    """Prompts sent to one target, as a cache of that size would keep them.

    Answers are not in it: a router sees them as a part of the next prompt.

    Args:
        blocks: How many blocks it keeps.
    """

    __slots__ = ("_cache",)

    def __init__(self, blocks: int = UNLIMITED) -> None:
        self._cache = PrefixCache(blocks)

    def match(self, runs: Sequence[Run], limit: int) -> int:
        """Return how many blocks from the start of a chain were sent and are still known."""
        return self._cache.match(runs, limit)[0]

    def sent(self, runs: Sequence[Run], blocks: int) -> None:
        """Note a prompt, or its start when it is longer than everything that is kept."""
        cache = self._cache
        blocks = min(blocks, cache.blocks)
        found, _ = cache.match(runs, blocks)
        hold = cache.pin(runs, found)
        reserved = cache.reserve(hold, blocks - found)
        assert reserved, "nothing else is pinned"
        cache.publish(hold, blocks)
        cache.release(hold)

    def heard(self, news: News) -> None:
        """Ignore it: the record is the router's own."""
