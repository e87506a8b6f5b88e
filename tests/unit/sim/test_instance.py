"""What a model server is at its start."""

from warmroute.engine.profile import PROFILES
from warmroute.engine.scheduler import Engine
from warmroute.sim.instance import Instance


def test_an_instance_starts_alive_and_empty_under_its_number():
    one, eleven = [Instance(number, Engine(PROFILES["llama-3.1-8b-l4"])) for number in (1, 11)]
    assert (one.target.target_id, eleven.target.target_id) == ("instance-1", "instance-11")
    assert (one.target.port, one.alive, one.open, one.wakes_ns) == (8001, True, {}, -1)
    assert one.open is not eleven.open
