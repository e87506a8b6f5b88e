"""The cost of NVIDIA Dynamo's KV router, fed by KV events.

In blocks: what the target has to prefill with this request, less what it has of the prompt in its cache,
plus the blocks of all sequences it would then be decoding, shared ones once. Both terms weigh 1, the
overlap is credited in full, the lowest cost wins and ties are broken at random (temperature 0). Prefill
counts until the first token, by the estimates made at each decision.

Source: Dynamo's documentation of its router, its defaults.
"""

from collections.abc import Sequence
from random import Random

from warmroute.core.decision import RoutingRequest
from warmroute.sim.baselines.base import Baseline, Pick, Place, lowest, matches, prompt_runs, reason_of
from warmroute.sim.baselines.view import View
from warmroute.workload.prompts import BLOCK_TOKENS, Request


class DynamoCost(Baseline):
    """Takes the target with the lowest sum of prefill and decode blocks.

    Args:
        rng: Breaks ties.
    """

    def __init__(self, rng: Random) -> None:
        super().__init__(rng, View, events=True)

    def pick(self, candidates: Sequence[Place], request: Request, asked: RoutingRequest) -> Pick:  # noqa: ARG002
        """Return the target with the lowest cost."""
        matched = matches(candidates, request)
        runs = prompt_runs(request)
        costs = []
        for place, blocks in zip(candidates, matched, strict=True):
            prefill = max(0, place.pending_tokens + request.prompt_tokens - blocks * BLOCK_TOKENS)
            costs.append(prefill / BLOCK_TOKENS + place.active_blocks + place.new_blocks(runs))
        position = lowest(costs, self.rng)
        return Pick(
            candidates[position],
            reason_of(matched, position),
            request.prompt_tokens - matched[position] * BLOCK_TOKENS,
        )
