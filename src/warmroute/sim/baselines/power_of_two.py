"""Power of two choices: of two targets drawn at random, the one with fewer requests in flight.

Source: Mitzenmacher, "The power of two choices in randomized load balancing" (2001); the fallback of Ray
Serve and a strategy of SMG, vLLM's router and AIBrix.
"""

from collections.abc import Sequence

from warmroute.core.decision import Reason, RoutingRequest
from warmroute.sim.baselines.base import Baseline, Pick, Place, least_in_flight
from warmroute.workload.prompts import Request


class PowerOfTwo(Baseline):
    """Draws two different targets and takes the less loaded one."""

    def pick(
        self,
        candidates: Sequence[Place],
        request: Request,  # noqa: ARG002  (a Baseline)
        asked: RoutingRequest,  # noqa: ARG002
    ) -> Pick:
        """Return one of two."""
        drawn = self.rng.sample(candidates, min(2, len(candidates)))
        return Pick(least_in_flight(drawn, self.rng), Reason.LEAST_OUTSTANDING)
