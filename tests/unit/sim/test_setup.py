"""A run, but for the policy."""

from warmroute.engine.profile import PROFILES
from warmroute.sim.setup import Setup
from warmroute.workload.arrivals import Recorded


def test_every_name_has_a_stream_of_its_own_that_the_seed_decides():
    one, same, other = [
        Setup(PROFILES["llama-3.1-8b-l4"], 1, Recorded([]), seed=seed).stream for seed in (1, 1, 2)
    ]
    assert one("engine 1").random() == same("engine 1").random()
    assert len({stream(name).random() for stream in (one, other) for name in ("engine 1", "engine 2")}) == 4
