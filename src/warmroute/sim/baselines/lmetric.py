"""LMetric: prompt tokens that would have to be computed, times the batch; the lowest product wins.

It has no parameter: a factor on either term changes no order. The batch is the requests in flight with
this one. A prompt whose whole blocks are all in a cache costs next to nothing there, however long the queue.

Source: Zhang et al., "LMetric: Simple is Better - Multiplication May Be All You Need for LLM Request
Scheduling" (arXiv 2603.15202); llm-d's documentation of lmetric-scorer for the + 1.
"""

from collections.abc import Sequence
from random import Random

from warmroute.core.decision import RoutingRequest
from warmroute.sim.baselines.base import Baseline, Pick, Place, lowest, matches, reason_of
from warmroute.sim.baselines.view import View
from warmroute.workload.prompts import BLOCK_TOKENS, Request


class LMetric(Baseline):
    """Takes the target with the lowest product, by KV events.

    Args:
        rng: Breaks ties.
    """

    def __init__(self, rng: Random) -> None:
        super().__init__(rng, View, events=True)

    def pick(self, candidates: Sequence[Place], request: Request, asked: RoutingRequest) -> Pick:  # noqa: ARG002
        """Return the target with the lowest product."""
        matched = matches(candidates, request)
        uncached = [request.prompt_tokens - blocks * BLOCK_TOKENS for blocks in matched]
        costs = [tokens * (place.in_flight + 1) for place, tokens in zip(candidates, uncached, strict=True)]
        position = lowest(costs, self.rng)
        return Pick(candidates[position], reason_of(matched, position), uncached[position])
