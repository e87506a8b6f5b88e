"""The radix-tree policy of SMG (``cache_aware``, text trees), with the gates of earlier and later builds.

The router remembers which text it sent where. A request follows the longest match if that covers more
than 30 % of its whole prompt, otherwise load decides; whoever gets it is remembered for its text.

Gates against overload:

- **fleet** (builds until August 2026, vLLM's router): when the most loaded target has over 64 requests
  more than the least loaded one and over 1.5 times as many, nobody's match counts and the target with
  the fewest requests takes the request;
- **candidate** (later builds): only a match whose own target has over 1.5 times the mean and over 64 more
  than it is not followed. Load is decided by tokens in flight. (These builds decide by an expected wait
  of two terms that both rise with the tokens; on equal instances the order is the same.)

The tree is cut to 67,108,864 characters per target; there it happens every 120 s, here at once. Where
several targets hold the longest match the tree names any; here one is drawn.

Source: SMG's documentation and source comments, defaults of its command line.
"""

from collections.abc import Sequence
from random import Random

from warmroute.core.decision import Reason, RoutingRequest
from warmroute.sim.baselines.base import Baseline, Pick, Place, least_in_flight, lowest, matches
from warmroute.sim.baselines.history import History
from warmroute.workload.prompts import BLOCK_CHARACTERS, BLOCK_TOKENS, Request

CACHE_THRESHOLD = 0.3
BALANCE_ABSOLUTE = 64
BALANCE_RELATIVE = 1.5
TREE_BLOCKS = 67_108_864 // BLOCK_CHARACTERS


class RadixTree(Baseline):
    """Follows the longest match of its own record.

    Args:
        rng: Breaks ties.
        fleet_gate: Imbalance anywhere counts; else only that of the match's target.
    """

    def __init__(self, rng: Random, *, fleet_gate: bool) -> None:
        super().__init__(rng, lambda: History(TREE_BLOCKS))
        self._fleet_gate = fleet_gate

    def pick(self, candidates: Sequence[Place], request: Request, asked: RoutingRequest) -> Pick:  # noqa: ARG002
        """Return the match's target or, past a gate, the least loaded one."""
        matched = matches(candidates, request)
        position = lowest([-blocks for blocks in matched], self.rng)
        blocks = matched[position]
        if blocks * BLOCK_TOKENS / request.prompt_tokens <= CACHE_THRESHOLD:
            return self._least_loaded(candidates, request, Reason.LEAST_OUTSTANDING)
        if self._closed(candidates, candidates[position]):
            return self._least_loaded(candidates, request, Reason.OVERFLOW)
        return Pick(candidates[position], Reason.AFFINITY, request.prompt_tokens - blocks * BLOCK_TOKENS)

    def _closed(self, candidates: Sequence[Place], match: Place) -> bool:
        loads = [place.in_flight for place in candidates]
        if self._fleet_gate:
            high, low = max(loads), min(loads)
            return high - low > BALANCE_ABSOLUTE and high > BALANCE_RELATIVE * low
        mean = sum(loads) / len(loads)
        return match.in_flight > BALANCE_RELATIVE * mean and match.in_flight > mean + BALANCE_ABSOLUTE

    def _least_loaded(self, candidates: Sequence[Place], request: Request, reason: Reason) -> Pick:
        if self._fleet_gate:
            return Pick(least_in_flight(candidates, self.rng), reason)
        loads = [place.prompt_tokens + request.prompt_tokens for place in candidates]
        return Pick(candidates[lowest(loads, self.rng)], reason)
