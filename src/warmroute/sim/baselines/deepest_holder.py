"""The deepest holder in a trie, without any regard to load: production-stack's ``prefixaware``.

Prompts are cut into pieces of 128 characters and walked down a trie; one of the targets that hold the
deepest node reached is drawn, be it the root, which all hold. Nothing is ever forgotten.

Source: vLLM production-stack's documentation of its routing logics.
"""

from collections.abc import Sequence
from random import Random

from warmroute.core.decision import Reason, RoutingRequest
from warmroute.sim.baselines.base import Baseline, Pick, Place, lowest, matches
from warmroute.sim.baselines.history import History
from warmroute.workload.prompts import BLOCK_CHARACTERS, BLOCK_TOKENS, Request

PIECE_CHARACTERS = 128


class DeepestHolder(Baseline):
    """Goes where most of the text went before.

    Args:
        rng: Draws among equally deep holders.
    """

    def __init__(self, rng: Random) -> None:
        super().__init__(rng, History)

    def pick(self, candidates: Sequence[Place], request: Request, asked: RoutingRequest) -> Pick:  # noqa: ARG002
        """Return a holder of the deepest node."""
        matched = matches(candidates, request)
        pieces = [blocks * BLOCK_CHARACTERS // PIECE_CHARACTERS for blocks in matched]
        position = lowest([-depth for depth in pieces], self.rng)
        reason = Reason.AFFINITY if pieces[position] else Reason.RANDOM
        return Pick(candidates[position], reason, request.prompt_tokens - matched[position] * BLOCK_TOKENS)
