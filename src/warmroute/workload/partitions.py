"""Requests that share nothing although their prompts may be equal: other adapter, other tenant, other time.

Engines keep a cache per LoRA adapter and per cache salt, and a changed system prompt leaves nothing of
what stood behind it. All three are the same to a cache: the blocks have other numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from warmroute.workload.arrivals import NOBODY, Arrival, Source
from warmroute.workload.prompts import Request, Zipf

PARTITION_BLOCKS = 1 << 48
"""Numbers of blocks that each partition has for itself; no workload uses more."""
PARTITIONS_MAX = 1 << 14
"""All numbers stay below 2**62."""


class Partitioned:
    """Another source's requests, spread over partitions.

    A client keeps its adapter and its salt; requests of nobody in particular draw theirs one by one.

    Args:
        source: Whose requests.
        rng: Source of randomness.
        adapters: LoRA adapters that requests name; 0 = none name one.
        exponent: Of the Zipf distribution of their popularity; 0 = equal.
        salts: Tenants with a cache salt of their own, all equally active; 0 or 1 = none.
        every_ns: Prompts have another start so often; 0 = never.
    """

    def __init__(
        self,
        source: Source,
        rng: Random,
        *,
        adapters: int = 0,
        exponent: float = 0.0,
        salts: int = 0,
        every_ns: int = 0,
    ) -> None:
        self._source = source
        self._rng = rng
        self._adapters = adapters
        self._zipf = Zipf(adapters, exponent)
        self._salts = max(1, salts)
        self._every_ns = every_ns
        self._of: dict[int, tuple[int, int]] = {}

    def first(self) -> Iterator[Arrival]:
        """Return what comes whatever the answers are."""
        return map(self._placed, self._source.first())

    def after(self, ended: Arrival, now_ns: int) -> Sequence[Arrival]:
        """Return what comes because a request has ended."""
        return tuple([self._placed(each) for each in self._source.after(ended, now_ns)])

    def _placed(self, arrival: Arrival) -> Arrival:
        if arrival.client == NOBODY:
            adapter, salt = self._draw()
        else:
            if arrival.client not in self._of:
                self._of[arrival.client] = self._draw()
            adapter, salt = self._of[arrival.client]
        version = arrival.at_ns // self._every_ns if self._every_ns else 0
        number = (version * self._salts + salt) * (self._adapters + 1) + adapter
        assert number < PARTITIONS_MAX, f"there are more than {PARTITIONS_MAX} partitions"
        shift = number * PARTITION_BLOCKS
        request = arrival.request
        moved = Request(
            request.prompt_tokens,
            request.output_tokens,
            tuple([(first + shift, count) for first, count in request.runs]),
            f"adapter-{adapter}" if adapter else "",
        )
        return replace(arrival, request=moved)

    def _draw(self) -> tuple[int, int]:
        """Return an adapter, 0 for none, and a salt."""
        adapter = self._zipf.draw(self._rng) + 1 if self._adapters else 0
        return adapter, int(self._rng.random() * self._salts)
