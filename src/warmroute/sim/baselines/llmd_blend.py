"""llm-d's weighted sums of scores, its defaults before August 2026: precise 3:2:2 and approximate 2:1:1.

The highest sum of three scores from 0 to 1 wins, ties are broken at random:

- **prefix**: precise, by KV events, with the blocks matched spread over 0 to 1 among the targets that have
  any (one alone, or several equal ones, have 1; targets without any have 0); approximate, by the router's
  own record, with the share of the prompt;
- **KV use**: the part of a target's cache that running sequences leave free;
- **queue**: requests waiting in its engine, spread over 1 to 0; 1 everywhere when they are equal.

The peer polls the last two from the engines. Here they come from what the router itself has in flight,
without delay: cache in use by prompts, shared blocks once; waiting are those that an engine cannot have
begun, since 8,192 prompt tokens of others are before them or the prompts in flight overfill its cache.

Source: llm-d's documentation of its scorers, its benchmark reports for the weights.
"""

from collections.abc import Sequence
from random import Random

from warmroute.core.decision import RoutingRequest
from warmroute.sim.baselines.base import Baseline, Pick, Place, lowest, matches, reason_of
from warmroute.sim.baselines.sticky import GRAIN_BLOCKS, approximate_matches, approximate_record
from warmroute.sim.baselines.view import View
from warmroute.sim.policy import Settings
from warmroute.workload.prompts import BLOCK_TOKENS, Request

STEP_TOKENS = 8192
"""Prompt tokens in one step of an engine."""
PRECISE, APPROXIMATE = (3, 2, 2), (2, 1, 1)
"""Weights of prefix, KV use and queue."""


class LlmdBlend(Baseline):
    """Takes the target with the highest sum.

    Args:
        rng: Breaks ties.
        settings: For the size of the caches; without it nothing is known of their use.
        precise: By KV events, with their weights.
    """

    def __init__(self, rng: Random, settings: Settings, *, precise: bool) -> None:
        super().__init__(rng, View if precise else lambda: approximate_record(settings), events=precise)
        self._precise = precise
        self._weights = PRECISE if precise else APPROXIMATE
        self._cache_blocks = settings.cache_blocks

    def pick(self, candidates: Sequence[Place], request: Request, asked: RoutingRequest) -> Pick:  # noqa: ARG002
        """Return the target with the highest sum."""
        if self._precise:
            matched = matches(candidates, request)
            prefixes = spread(matched)
        else:
            grains, total = approximate_matches(candidates, request)
            matched = [blocks * GRAIN_BLOCKS for blocks in grains]
            prefixes = [blocks / max(1, total) for blocks in grains]
        queues = emptiness([waiting(place, self._cache_blocks) for place in candidates])
        free = [self._free(place) for place in candidates]
        by_prefix, by_use, by_queue = self._weights
        sums = [
            by_prefix * prefix + by_use * unused + by_queue * queue
            for prefix, unused, queue in zip(prefixes, free, queues, strict=True)
        ]
        position = lowest([-each for each in sums], self.rng)
        uncached = request.prompt_tokens - matched[position] * BLOCK_TOKENS
        return Pick(candidates[position], reason_of(matched, position), uncached)

    def _free(self, place: Place) -> float:
        if not self._cache_blocks:
            return 0.0
        return 1 - min(1.0, place.active_blocks / self._cache_blocks)


def spread(matched: Sequence[int]) -> list[float]:
    """Return the precise prefix scores of targets by the blocks they hold."""
    holders = [blocks for blocks in matched if blocks]
    if not holders:
        return [0.0] * len(matched)
    low, high = min(holders), max(holders)
    if low == high:
        return [1.0 if blocks else 0.0 for blocks in matched]
    return [(blocks - low) / (high - low) if blocks else 0.0 for blocks in matched]


def emptiness(queues: Sequence[int]) -> list[float]:
    """Return the queue scores of targets by the requests that wait there."""
    low, high = min(queues), max(queues)
    return [(high - queue) / (high - low) if high > low else 1.0 for queue in queues]


def waiting(place: Place, cache_blocks: int) -> int:
    """Return how many requests an engine cannot have begun to compute.

    Args:
        place: The target.
        cache_blocks: Of its cache; 0 = not known.
    """
    if cache_blocks and place.active_blocks > cache_blocks:
        return len(place.pending)
    before = begun = 0
    for charge in place.pending:
        if before >= STEP_TOKENS:
            break
        before += charge.uncached_tokens
        begun += 1
    return len(place.pending) - begun
