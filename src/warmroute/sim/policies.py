"""Every policy by its name: the live ones, and those of other projects to compare with.

The only module that knows the latter; nothing that serves requests imports it.
"""

from collections.abc import Callable, Mapping
from random import Random

from warmroute.sim.baselines.chwbl import Chwbl
from warmroute.sim.baselines.deepest_holder import DeepestHolder
from warmroute.sim.baselines.dual_map import DualMap
from warmroute.sim.baselines.dynamo_cost import DynamoCost
from warmroute.sim.baselines.llmd_blend import LlmdBlend
from warmroute.sim.baselines.lmetric import LMetric
from warmroute.sim.baselines.power_of_two import PowerOfTwo
from warmroute.sim.baselines.radix_tree import RadixTree
from warmroute.sim.baselines.round_robin import RoundRobin
from warmroute.sim.baselines.sticky import StickyUntilSaturated
from warmroute.sim.policy import LIVE_POLICIES, Chooser, ChooserMaker, Settings


def _plain(made: Callable[[Random], Chooser]) -> ChooserMaker:
    """Make a baseline that needs no settings."""
    return lambda _, rng: made(rng)


def _radix_fleet_gate(_: Settings, rng: Random) -> Chooser:
    return RadixTree(rng, fleet_gate=True)


def _radix_candidate_gate(_: Settings, rng: Random) -> Chooser:
    return RadixTree(rng, fleet_gate=False)


def _llmd_precise(settings: Settings, rng: Random) -> Chooser:
    return LlmdBlend(rng, settings, precise=True)


def _llmd_approximate(settings: Settings, rng: Random) -> Chooser:
    return LlmdBlend(rng, settings, precise=False)


BASELINES: Mapping[str, ChooserMaker] = {
    "round-robin": _plain(RoundRobin),
    "power-of-two": _plain(PowerOfTwo),
    "chwbl": _plain(Chwbl),
    "radix-fleet-gate": _radix_fleet_gate,
    "radix-candidate-gate": _radix_candidate_gate,
    "deepest-holder": _plain(DeepestHolder),
    "sticky-until-saturated": lambda settings, rng: StickyUntilSaturated(rng, settings),
    "dynamo-cost": _plain(DynamoCost),
    "lmetric": _plain(LMetric),
    "dual-map": lambda settings, rng: DualMap(rng, settings),
    "llmd-precise": _llmd_precise,
    "llmd-approximate": _llmd_approximate,
}
"""Policies of other projects."""
POLICIES: Mapping[str, ChooserMaker] = {**LIVE_POLICIES, **BASELINES}
"""Every policy. Another one is another entry: whatever has the face of a `Chooser`."""
