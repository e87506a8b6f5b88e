import pytest

from warmroute.core.decision import Lease
from warmroute.core.events import Cancelled, Completed, Failed, FailureCause, Invocation
from warmroute.core.fleet import Target
from warmroute.core.ids import InstanceId, TargetId

LEASE = Lease(Target(TargetId("1"), InstanceId("1"), 1, "host", 80), 1, object())


@pytest.mark.parametrize(
    ("cause", "nothing_ran"),
    [
        (FailureCause.CONNECT_FAILED, True),
        (FailureCause.STALE_CONNECTION, True),
        (FailureCause.LOADING, True),
        (FailureCause.CLOSED, False),
        (FailureCause.FIRST_BYTE_TIMEOUT, False),
        (FailureCause.IDLE_TIMEOUT, False),
        (FailureCause.TOTAL_TIMEOUT, False),
        (FailureCause.BROKEN, False),
        (FailureCause.MALFORMED, False),
        (FailureCause.SERVER_ERROR, False),
    ],
)
def test_only_failures_before_any_execution_say_that_nothing_ran(cause, nothing_ran):
    assert cause.nothing_ran is nothing_ran


def test_the_table_above_knows_every_cause():
    assert len(FailureCause) == 10


@pytest.mark.parametrize("fact", [Completed(LEASE), Failed(LEASE, FailureCause.CLOSED), Cancelled(LEASE)])
def test_facts_cannot_be_changed(fact):
    with pytest.raises(AttributeError):
        fact.lease = None


def test_an_invocation_starts_with_nothing_but_its_name_and_its_time():
    record = Invocation("id", "/route", 5)
    assert (record.started_ns, record.attempts, record.rank, record.ended_ns) == (5, 0, -1, 0)
