"""llm-d's "sticky until saturated", its default since August 2026.

Targets that hold at least 80 % of a prompt by the router's own record are kept and all others dropped,
unless the best of the kept has so many more uncached tokens in flight than the best of the others that
its first token would come over 18 s later at 15,928 prompt tokens per second (a measurement on two H100
that the project ships as a default). The least sum of uncached tokens in flight and of the request itself
decides among those left. A prompt's tokens count until its first token.

The record is of 64-token blocks, at most the first 131,072 tokens of a prompt, as many as the engine's
cache holds (31,250 blocks where that is not known).

Source: llm-d's documentation of prefix-cache-affinity-filter, token-load-scorer, approx-prefix-cache-producer
and in-flight-load-producer.
"""

from collections.abc import Sequence
from random import Random

from warmroute.core.decision import Reason, RoutingRequest
from warmroute.sim.baselines.base import Baseline, Pick, Place, lowest
from warmroute.sim.baselines.history import History
from warmroute.sim.policy import Settings
from warmroute.workload.prompts import BLOCK_TOKENS, Request

AFFINITY = 0.80
PENALTY_TOKENS = 15_928 * 18
"""Prefill tokens per second times seconds."""
GRAIN_BLOCKS = 64 // BLOCK_TOKENS
MATCHED_TOKENS_MAX = 131_072
RECORD_BLOCKS = 31_250 * GRAIN_BLOCKS


def approximate_record(settings: Settings) -> History:
    """Return an empty record of what was sent to one target, as large as its cache if that is known."""
    return History(settings.cache_blocks or RECORD_BLOCKS)


def approximate_matches(candidates: Sequence[Place], request: Request) -> tuple[list[int], int]:
    """Return how much of a prompt was sent to each candidate, and how much is compared: 64-token blocks."""
    total = min(request.prompt_tokens, MATCHED_TOKENS_MAX) // BLOCK_TOKENS // GRAIN_BLOCKS
    limit = total * GRAIN_BLOCKS
    return [place.memory.match(request.runs, limit) // GRAIN_BLOCKS for place in candidates], total


class StickyUntilSaturated(Baseline):
    """Stays on warm targets until they are far behind.

    Args:
        rng: Breaks ties.
        settings: For the size of the caches.
    """

    def __init__(self, rng: Random, settings: Settings) -> None:
        super().__init__(rng, lambda: approximate_record(settings))

    def pick(self, candidates: Sequence[Place], request: Request, asked: RoutingRequest) -> Pick:  # noqa: ARG002
        """Return the least loaded target of those that are left."""
        matched, total = approximate_matches(candidates, request)
        uncached = [request.prompt_tokens - blocks * GRAIN_BLOCKS * BLOCK_TOKENS for blocks in matched]
        everyone = range(len(candidates))
        warm = [place for place in everyone if total and matched[place] >= AFFINITY * total]
        cold = [place for place in everyone if place not in warm]
        saturated = bool(warm and cold) and (
            min([candidates[place].pending_tokens for place in warm])
            > min([candidates[place].pending_tokens for place in cold]) + PENALTY_TOKENS
        )
        kept = warm if warm and not saturated else everyone
        loads = [candidates[place].pending_tokens + uncached[place] for place in kept]
        position = kept[lowest(loads, self.rng)]
        reason = Reason.LEAST_OUTSTANDING
        if warm:
            reason = Reason.AFFINITY if position in warm else Reason.OVERFLOW
        return Pick(candidates[position], reason, uncached[position])
