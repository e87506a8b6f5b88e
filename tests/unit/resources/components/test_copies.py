from dataclasses import replace

import pytest

from tests.unit.resources.carrying import RULES, component, specification
from tests.unit.resources.planned import EXITED, LOADING, READY, world
from warmroute.core import limits
from warmroute.resources.components.copies import (
    advance_copies,
    come_back,
    leave,
    lost_copies,
    new_copy,
    order_of_leaving,
    successor,
)
from warmroute.resources.components.placement import Placed, host_of
from warmroute.resources.instances import Failed
from warmroute.resources.records import UNSTAMPED, CopyNeeds, InstanceRecord, InstanceState, Launch

State = InstanceState


def copy(number=1, **changes):
    made = InstanceRecord(
        f"c-{number}", "ep", "v", 1, Launch("gpus", "m"), 100.0, 0.0, 0.0, component="ic", host="h",
        devices=(1,), needs=CopyNeeds(128),
    )  # fmt: skip
    return replace(made, **changes)


def advanced(record, **given):
    records, failures = advance_copies([record], world(**given), RULES)
    return records["c-1"], failures


def test_a_copy_comes_into_service_as_an_instance_does():
    record, failures = advanced(copy(), observed={"c-1": READY})
    assert (record.state, failures) == (State.IN_SERVICE, [])


def test_a_copy_whose_health_check_fails_is_not_replaced_and_serves_again_when_it_is_well():
    serving = copy(state=State.IN_SERVICE, in_service_s=1.0)
    ill = replace(READY, ready=False, failures=limits.HEALTH_FAILURES_MAX)
    record, failures = advanced(serving, now_s=1000.0, observed={"c-1": ill})
    assert (record.state, failures) == (State.STARTING, [])
    record, failures = advanced(record, now_s=9000.0, observed={"c-1": ill})
    assert (record.state, failures) == (State.STARTING, [])
    record, failures = advanced(record, now_s=9001.0, observed={"c-1": READY})
    assert (record.state, record.returns, failures) == (State.IN_SERVICE, 1, [])


def test_a_copy_that_ends_early_is_no_reason_to_give_up():
    record, (failed,) = advanced(copy(attempt=9), now_s=99.0, observed={"c-1": EXITED})
    assert record.state is State.STOPPING
    assert not failed.fatal
    assert failed.reason.startswith("The primary container of inference component ic did not pass")


@pytest.mark.parametrize(("first_s", "fatal"), [(None, True), (0.0, True), (50.0, False)])
def test_a_row_of_failures_is_hopeless_when_the_startup_time_is_over(first_s, fatal):
    _, (failed,) = advanced(copy(first_s=first_s, attempt=2), now_s=100.0, observed={"c-1": EXITED})
    assert failed.fatal is fatal


def test_the_time_during_which_control_was_away_does_not_count():
    given = replace(world(200.0, observed={"c-1": EXITED}), since_s=150.0)
    _, (failed,) = advance_copies([copy(first_s=0.0, attempt=2)], given, RULES)
    assert not failed.fatal


def test_a_copy_that_served_for_a_while_begins_a_row_of_its_own():
    served = copy(state=State.IN_SERVICE, in_service_s=10.0)
    now_s = 10.0 + limits.INSTANCE_STABLE_S
    _, (failed,) = advanced(replace(served, startup_s=1.0), now_s=now_s, observed={"c-1": EXITED})
    assert not failed.fatal
    made = successor(failed, world(now_s))
    assert (made.attempt, made.first_s, made.not_before_s) == (2, None, now_s)


def test_a_copy_that_serves_and_dies_again_and_again_is_hopeless_too():
    served = copy(state=State.IN_SERVICE, in_service_s=95.0, first_s=0.0, attempt=4)
    _, (failed,) = advanced(served, now_s=101.0, observed={"c-1": EXITED})
    assert failed.fatal


def test_a_refusal_is_final():
    _, (failed,) = advanced(copy(), refused={"c-1": "no such image"})
    assert (failed.fatal, failed.reason) == (True, "no such image")


def test_a_copy_that_is_never_ready_is_given_up_by_its_own_time():
    _, (failed,) = advanced(copy(not_before_s=50.0), now_s=150.0, observed={"c-1": LOADING})
    assert failed.fatal
    assert "It was not ready after 100 s" in failed.reason


def test_a_change_waits_for_a_sick_copy_no_longer_than_for_one_that_starts():
    sick = copy(in_service_s=5.0)
    changing = replace(component(), modified_s=50.0)
    assert lost_copies(changing, [sick], 149.0) == []
    (one,) = lost_copies(changing, [sick, copy(2), copy(3, state=State.IN_SERVICE, in_service_s=5.0)], 150.0)
    assert (one.record, one.fatal) == (sick, True)


def test_only_copies_that_serve_drain():
    draining = leave(copy(state=State.IN_SERVICE, served=True), 5.0)
    assert (draining.state, draining.draining_s, draining.drain_version) == (State.DRAINING, 5.0, UNSTAMPED)
    assert come_back(draining) == copy(state=State.IN_SERVICE, served=True)
    assert leave(copy(state=State.IN_SERVICE), 5.0).state is State.STOPPING
    stopping = leave(copy(), 5.0)
    assert (stopping.state, stopping.reason) == (State.STOPPING, "not wanted")


def test_what_starts_leaves_first_then_the_fullest_host_or_with_binpack_the_emptiest():
    serving = State.IN_SERVICE
    copies = [
        copy(1, state=serving, host="full", created_s=1.0),
        copy(2, state=serving, host="full", created_s=2.0),
        copy(3, state=serving, host="other", created_s=3.0),
        copy(4, host="full", created_s=4.0),
    ]
    spread = [one.instance_id for one in order_of_leaving(copies, binpack=False)]
    assert spread == ["c-4", "c-2", "c-3", "c-1"]
    packed = [one.instance_id for one in order_of_leaving(copies, binpack=True)]
    assert packed == ["c-4", "c-3", "c-2", "c-1"]


@pytest.mark.parametrize(("startup_s", "expected"), [(None, 100.0), (60.0, 60.0)])
def test_a_new_copy_knows_its_host_its_devices_and_its_time(startup_s, expected):
    given = specification(revision=7)
    (one,) = given.copies
    host = host_of("h", RULES.instance_types["gpus"], (2, 3), ())
    placed = Placed(host, replace(one, startup_s=startup_s), (2,))
    made = new_copy(component(), given, placed, world(9.0), RULES)
    assert (made.component, made.host, made.devices, made.revision) == ("ic", "h", (2,), 7)
    assert (made.launch.instance_type, made.launch.image) == ("gpus", "img")
    assert (made.startup_s, made.created_s, made.state) == (expected, 9.0, State.STARTING)


def failed(record, attempts):
    return Failed(record, "why", attempts, fatal=False)


def test_a_successor_takes_the_same_place_after_a_wait_that_doubles():
    first = successor(failed(copy(), 1), world(5.0))
    assert (first.host, first.devices, first.replaces, first.attempt) == ("h", (1,), "c-1", 2)
    assert (first.first_s, first.not_before_s) == (0.0, 5.0)
    fourth = successor(failed(copy(attempt=4, first_s=0.0), 4), world(20.0))
    assert fourth.not_before_s == 24.0


def test_the_last_try_comes_when_the_time_of_the_row_is_over():
    last = successor(failed(copy(first_s=0.0), 9), world(90.0))
    assert last.not_before_s == 100.0
    beyond = successor(failed(copy(first_s=0.0), 9), world(120.0))
    assert beyond.not_before_s == 120.0 + limits.INSTANCE_BACKOFF_S_MAX


def test_a_successor_inherits_nothing_of_its_predecessors_life():
    before = copy(
        state=State.STOPPING, served=True, returns=2, model_name="llm", reason="why", in_service_s=3.0,
        draining_s=4.0, drain_version=5, drain_ordered=True,
    )  # fmt: skip
    made = successor(failed(before, 1), world(5.0))
    fresh = copy()
    for name in (
        "served",
        "returns",
        "model_name",
        "reason",
        "in_service_s",
        "draining_s",
        "drain_version",
        "drain_ordered",
    ):
        assert getattr(made, name) == getattr(fresh, name), name
