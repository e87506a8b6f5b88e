"""Two choices by two hashes, after DualMap.

The start of a prompt is hashed twice, to two targets. The one that holds more of the prompt takes it
while its estimated time to first token stays below half of the objective of 5 s; else the one of the
two with the lower estimate. The estimate is the prompt tokens to compute there, pending ones included,
by the prefill rate of an instance, which the peer wants measured too. Ties go to the target with fewer
blocks in use, then one is drawn.

The hashed start is lengthened where it is popular, since two targets can carry only 2/n of the traffic:
here from 128 tokens by doubling, until less than that share of the last 1,000 requests had it. What is in a
cache is the router's own record, as large as the cache. Like the original but for: rendezvous orders
with two salts instead of two rings, these lengths, and no moving of requests that wait (the original
holds them back in the router; the simulator dispatches at once).

Source: Yuan et al., "DualMap: Enabling Both Cache Affinity and Load Balancing for Distributed LLM Serving"
(arXiv 2602.06502) and its published defaults.
"""

from collections import Counter, deque
from collections.abc import Sequence
from random import Random

from xxhash import xxh3_64_intdigest

from warmroute.core.decision import Reason, RoutingRequest
from warmroute.routing.rendezvous import weights
from warmroute.sim.baselines.base import Baseline, Pick, Place, lowest, matches
from warmroute.sim.baselines.first_message import number_at
from warmroute.sim.baselines.history import UNLIMITED, History
from warmroute.sim.policy import Settings
from warmroute.workload.prompts import BLOCK_TOKENS, Request

TTFT_S = 5.0
"""Objective; half of it switches from affinity to load."""
START_BLOCKS = 128 // BLOCK_TOKENS
RECENT = 1000
RECENT_MIN = 64
"""Shares of fewer requests than this say nothing and are taken as of this many."""


class Starts:
    """Finds how long a start of a prompt must be so that it is not too popular."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, ...]] = deque()
        self._counts: Counter[int] = Counter()

    def key(self, request: Request, share: float) -> int:
        """Return the last block's number of the shortest start that has at most a share of the traffic.

        Args:
            request: Counted with this call.
            share: 0 to 1.
        """
        blocks = max(1, request.prompt_tokens // BLOCK_TOKENS)
        starts, length = [], START_BLOCKS
        while length < blocks:
            starts.append(number_at(request.runs, length - 1))
            length *= 2
        starts.append(number_at(request.runs, blocks - 1))
        self._recent.append(tuple(starts))
        self._counts.update(starts)
        if len(self._recent) > RECENT:
            gone = self._recent.popleft()
            self._counts.subtract(gone)
            for start in gone:
                if not self._counts[start]:
                    del self._counts[start]
        limit = share * max(RECENT_MIN, len(self._recent))
        return next((start for start in starts if self._counts[start] <= limit), starts[-1])


class DualMap(Baseline):
    """Takes the better of two fixed targets.

    Args:
        rng: Breaks ties.
        settings: For the prefill rate and the size of the caches.
    """

    def __init__(self, rng: Random, settings: Settings) -> None:
        super().__init__(rng, lambda: History(settings.cache_blocks or UNLIMITED))
        self._tokens_max = settings.prefill_tokens_per_s * TTFT_S / 2
        self._starts = Starts()

    def asked(self, request: Request) -> RoutingRequest:
        """Return the key of the prompt's start."""
        share = 2 / max(2, len(self.candidates))
        return RoutingRequest(key=self._starts.key(request, share))

    def pick(self, candidates: Sequence[Place], request: Request, asked: RoutingRequest) -> Pick:
        """Return one of the prompt's two targets."""
        assert asked.key is not None, "asked gives a key"
        two = self._two(candidates, asked.key)
        matched = matches(two, request)
        uncached = [request.prompt_tokens - blocks * BLOCK_TOKENS for blocks in matched]
        waits = [place.pending_tokens + tokens for place, tokens in zip(two, uncached, strict=True)]
        position = self._better([-blocks for blocks in matched], two)
        reason = Reason.AFFINITY
        if waits[position] > self._tokens_max:
            warm, position = position, self._better(waits, two)
            reason = Reason.AFFINITY if position == warm else Reason.OVERFLOW
        return Pick(two[position], reason, uncached[position])

    def _two(self, candidates: Sequence[Place], key: int) -> list[Place]:
        rows = [place.row for place in candidates]
        first = _winner(weights(_salted(key, 1), rows))
        others = [place for place in candidates if place is not candidates[first]]
        if not others:
            return [candidates[first]]
        second = _winner(weights(_salted(key, 2), [place.row for place in others]))
        return [candidates[first], others[second]]

    def _better(self, values: Sequence[int], two: Sequence[Place]) -> int:
        """Return the place of the lower value."""
        least = min(values)
        blocks = [
            place.active_blocks if value == least else UNLIMITED
            for place, value in zip(two, values, strict=True)
        ]
        return lowest(blocks, self.rng)


def _winner(scores: Sequence[int]) -> int:
    return scores.index(max(scores))


def _salted(key: int, salt: int) -> int:
    return xxh3_64_intdigest(key.to_bytes(8), salt)
