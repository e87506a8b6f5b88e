"""The log of a run."""

from warmroute.sim.records import OUTCOMES, Record, Run
from warmroute.workload.arrivals import Arrival
from warmroute.workload.prompts import Request


def test_a_record_is_one_line_of_the_log():
    record = Record(3, Arrival(10, Request(100, 5, ((0, 7),)), 2))
    record.target, record.reason, record.attempts, record.rank = "instance-1", "affinity", 1, 0
    record.dispatched_ns, record.first_token_ns, record.ended_ns, record.cached_tokens = 10, 20, 30, 64
    record.outcome = OUTCOMES[0]
    assert record.line() == "3 10 2 100 5 1 instance-1 affinity 0 64 10 20 30 completed"


def test_runs_do_not_share_their_records():
    Run().records.append(Record(0, Arrival(0, Request(1, 1, ()))))
    assert Run().records == []
