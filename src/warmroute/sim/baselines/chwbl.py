"""Consistent hashing with bounded loads, as KubeAI's PrefixHash has it.

The first 100 characters of the first user message go to a point on a ring on which every target has 256
points. From there the ring is walked to the first target with at most 125 % of the mean load, the new
request counted in the mean.

Source: Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads" (2016); KubeAI's
documentation of its load balancing for the constants.
"""

from bisect import bisect_left
from collections.abc import Sequence
from random import Random

from xxhash import xxh3_64_intdigest

from warmroute.core.decision import Reason, RoutingRequest
from warmroute.sim.baselines.base import Baseline, Pick, Place
from warmroute.sim.baselines.first_message import FirstMessages
from warmroute.workload.prompts import Request

CHARACTERS = 100
POINTS = 256
LOAD_FACTOR = 1.25


class Chwbl(Baseline):
    """Walks the ring.

    Args:
        rng: Not used: the ring decides everything.
    """

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self._keys = FirstMessages(CHARACTERS)
        self._points: list[int] = []
        self._owners: list[Place] = []

    def changed(self) -> None:
        """Lay out the ring anew; points depend on names only."""
        ring = sorted(
            (
                (xxh3_64_intdigest(place.row.name, number), place)
                for place in self.candidates
                for number in range(POINTS)
            ),
            key=lambda point: (point[0], point[1].row.name),
        )
        self._points = [point for point, _ in ring]
        self._owners = [place for _, place in ring]

    def asked(self, request: Request) -> RoutingRequest:
        """Return the key of the first user message."""
        return RoutingRequest(key=self._keys.key(request))

    def pick(self, candidates: Sequence[Place], request: Request, asked: RoutingRequest) -> Pick:  # noqa: ARG002
        """Return the first target of the walk that is not too loaded."""
        assert asked.key is not None, "asked gives a key"
        total = sum([place.in_flight for place in candidates])
        limit = (total + 1) / len(candidates) * LOAD_FACTOR
        count = len(self._owners)
        start = bisect_left(self._points, asked.key)
        points = (self._owners[(start + step) % count] for step in range(count))
        walk = (place for place in points if place in candidates)  # others were tried already
        owner = next(walk)
        if owner.in_flight <= limit:
            return Pick(owner, Reason.AFFINITY)
        # There is one: somebody has at most the mean.
        return Pick(next(place for place in walk if place.in_flight <= limit), Reason.OVERFLOW)
