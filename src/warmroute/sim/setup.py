"""A run, but for the policy."""

from dataclasses import dataclass
from random import Random

from warmroute.engine.profile import Profile
from warmroute.sim.faults import Fault
from warmroute.workload.arrivals import Source


@dataclass(frozen=True, slots=True)
class Setup:
    """A run, but for the policy.

    Attributes:
        profile: Of every instance.
        instances: How many there are at the start.
        source: Where requests come from.
        overhead_ns: Per request, at the instance, before the engine has it.
        token_overhead_ns: The same per prompt token.
        signal_ns: How old what engines tell of their caches is when routers hear it.
        signal_loss: Share of what they tell that a router does not get, 0 to 1.
        signal_resync_ns: From noticing that until the engine has answered with everything it has; 0 = never.
        metrics_ns: Routers poll engines' metrics so often; 0 = never.
        patience_ns: A client without a first token by then gives up; 0 = never.
        timeout_ns: A router without a first token by then, from the decision, gives up; 0 = never.
        jitter: Sigma of the logarithm of a factor on the time of every step.
        adapter_slots: LoRA adapters that an engine has room for, at least 1.
        adapter_load_ns: How long a load takes.
        faults: In any order.
        seed: Of what is random in the machines, not in the workload.
    """

    profile: Profile
    instances: int
    source: Source
    overhead_ns: int = 0
    token_overhead_ns: int = 0
    signal_ns: int = 0
    signal_loss: float = 0.0
    signal_resync_ns: int = 0
    metrics_ns: int = 0
    patience_ns: int = 0
    timeout_ns: int = 0
    jitter: float = 0.0
    adapter_slots: int = 1
    adapter_load_ns: int = 0
    faults: tuple[Fault, ...] = ()
    seed: int = 0

    def stream(self, name: str) -> Random:
        """Return a source of randomness of its own, the same one under any PYTHONHASHSEED."""
        return Random(f"{self.seed} {name}")  # noqa: S311  (a simulation)
