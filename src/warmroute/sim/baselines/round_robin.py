"""Round robin: each target in turn, whatever it has and however loaded it is. The usual default."""

from collections.abc import Sequence

from warmroute.core.decision import Reason, RoutingRequest
from warmroute.sim.baselines.base import Baseline, Pick, Place
from warmroute.workload.prompts import Request


class RoundRobin(Baseline):
    """Takes turns, in order of the targets' names."""

    _turn = 0

    def pick(
        self,
        candidates: Sequence[Place],
        request: Request,  # noqa: ARG002  (a Baseline)
        asked: RoutingRequest,  # noqa: ARG002
    ) -> Pick:
        """Return the one whose turn it is."""
        place = candidates[self._turn % len(candidates)]
        self._turn += 1
        return Pick(place, Reason.RANDOM)
