"""What a model server is at its start."""

from warmroute.core.decision import NO_PROMPT
from warmroute.engine.profile import PROFILES
from warmroute.engine.scheduler import Engine
from warmroute.sim.instance import Attempt, Instance
from warmroute.sim.records import Record
from warmroute.workload.arrivals import Arrival
from warmroute.workload.prompts import Request


def test_an_instance_starts_alive_and_empty_under_its_number():
    one, eleven = [Instance(number, Engine(PROFILES["llama-3.1-8b-l4"])) for number in (1, 11)]
    assert (one.target.target_id, eleven.target.target_id) == ("instance-1", "instance-11")
    assert (one.target.port, one.alive, one.open, one.wakes_ns) == (8001, True, {}, -1)
    assert one.open is not eleven.open


def test_an_attempt_starts_on_no_instance_and_without_a_lease():
    record = Record(0, Arrival(5, Request(10, 1, ())))
    attempt = Attempt(record, None, NO_PROMPT)
    assert (attempt.record, attempt.asked, attempt.tried) == (record, NO_PROMPT, ())
    assert (attempt.lease, attempt.instance, attempt.sequence) == (None, None, None)
