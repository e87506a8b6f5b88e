from dataclasses import replace

import pytest

from tests.unit.resources.carrying import component, specification
from tests.unit.resources.planned import world
from warmroute.core import limits
from warmroute.resources.components.progress import (
    Wish,
    advance_component,
    confirm_component,
    give_up,
    without_endpoint,
    without_place,
)
from warmroute.resources.instances import Failed
from warmroute.resources.lifecycle import ComponentStatus
from warmroute.resources.metrics.alarms import AlarmState
from warmroute.resources.records import UNSTAMPED, ComponentRollout, InstanceRecord, Launch

C = ComponentStatus
ONE, TWO = specification(1), specification(2)


def serving(**changes):
    values = {"status": C.IN_SERVICE, "active": ONE, "pending": None, "count": 2}
    return replace(component(), **values | changes)


def updating(**changes):
    values = {"status": C.UPDATING, "pending": TWO, "rollout": ComponentRollout(1)}
    return serving(**values | changes)


def failed(revision=1, fatal=True):
    copy = InstanceRecord("c", "ep", "v", revision, Launch("gpus", "m"), 60.0, 0.0, 0.0, component="ic")
    return Failed(copy, "why", 1, fatal=fatal)


def test_a_creation_wants_all_its_copies_and_serves_when_they_are_there():
    record, wishes = advance_component(component(count=2), {1: 1}, world())
    assert (record.active, wishes) == (None, (Wish(ONE, 2),))
    record, wishes = advance_component(component(count=2), {1: 2}, world())
    assert (record.active, record.pending, wishes) == (ONE, None, (Wish(ONE, 2),))


@pytest.mark.parametrize("status", [C.DELETING, C.FAILED])
def test_what_ends_wants_no_copies(status):
    record = serving(status=status)
    assert advance_component(record, {1: 2}, world()) == (record, ())


def test_what_serves_wants_its_number_of_copies():
    assert advance_component(serving(), {}, world()) == (serving(), (Wish(ONE, 2),))


def test_copies_that_go_on_running_the_same_thing_take_no_rollout():
    other = specification(1, binpack=True)
    record, wishes = advance_component(updating(pending=other), {1: 2}, world())
    assert (record.active, record.pending, record.rollout) == (other, None, None)
    assert wishes == (Wish(other, 2),)


def test_a_rollout_wants_some_of_both():
    record, wishes = advance_component(updating(), {1: 2}, world())
    assert wishes == (Wish(ONE, 2), Wish(TWO, 1))
    assert record.rollout.moved == 1


def test_a_finished_rollout_leaves_the_new_and_a_rollback_the_old():
    done = updating(rollout=ComponentRollout(1, moved=2))
    record, wishes = advance_component(done, {2: 2}, world())
    assert (record.active, record.pending, record.rollout, wishes) == (TWO, None, None, (Wish(TWO, 2),))
    back = updating(rollout=ComponentRollout(1, moved=2, back=True))
    record, wishes = advance_component(back, {1: 2}, world())
    assert (record.active, record.pending, wishes) == (ONE, None, (Wish(ONE, 2),))


def test_a_component_is_in_service_when_every_router_knows_its_copies():
    waiting = confirm_component(serving(status=C.CREATING), {1: 2}, 2, world())
    assert waiting.awaits == UNSTAMPED
    assert confirm_component(waiting, {1: 2}, 2, world(acked_version=9)) == waiting
    stamped = replace(waiting, awaits=5)
    assert confirm_component(stamped, {1: 2}, 2, world(acked_version=4)) == stamped
    done = confirm_component(stamped, {1: 2}, 2, world(now_s=7.0, acked_version=5))
    assert (done.status, done.awaits, done.modified_s) == (C.IN_SERVICE, None, 7.0)


@pytest.mark.parametrize(("there", "live"), [({1: 1}, 2), ({1: 2}, 3)])
def test_missing_copies_and_those_too_many_are_waited_for(there, live):
    record = serving(status=C.UPDATING)
    assert confirm_component(record, there, live, world()) == record


@pytest.mark.parametrize("record", [serving(), updating(), component()])
def test_what_does_not_change_or_is_not_complete_is_not_confirmed(record):
    assert confirm_component(record, {1: 2, 2: 2}, 2, world()) == record


@pytest.mark.parametrize("status", [C.CREATING, C.UPDATING])
def test_a_component_that_never_served_fails(status):
    record = give_up(component(status=status), [failed()], no_room=None, world=world(3.0))
    assert (record.status, record.failure_reason, record.modified_s) == (C.FAILED, "why", 3.0)


def test_a_long_reason_is_cut():
    record = give_up(component(), [], no_room="x" * 2000, world=world())
    assert len(record.failure_reason) == limits.FAILURE_REASON_CHARACTERS_MAX


def test_failures_that_may_still_turn_out_well_change_nothing():
    assert give_up(component(), [failed(fatal=False)], no_room=None, world=world()) == component()


def test_a_rollout_that_fails_is_rolled_back():
    record = give_up(updating(), [failed(2)], no_room=None, world=world())
    assert (record.status, record.rollout.back, record.failure_reason) == (C.UPDATING, True, "why")
    assert give_up(record, [failed(2), failed(1, fatal=False)], no_room=None, world=world()) == record


@pytest.mark.parametrize(
    ("failures", "no_room", "why"), [([], "no room", "no room"), ([failed(1)], None, "why")]
)
def test_a_rollback_that_gets_no_further_ends_with_the_copies_there_are(failures, no_room, why):
    back = updating(rollout=ComponentRollout(1, back=True, beside=False), failure_reason="It was bad.")
    record = give_up(back, failures, no_room=no_room, world=world(3.0))
    assert (record.status, record.active, record.pending, record.rollout) == (C.IN_SERVICE, ONE, None, None)
    assert record.failure_reason == f"It was bad. The rollback failed: {why}"


def test_failures_of_old_copies_do_not_end_a_rollout():
    assert give_up(updating(), [failed(1)], no_room=None, world=world()) == updating()


def test_a_change_of_the_number_ends_with_what_is_there():
    record = give_up(serving(status=C.UPDATING), [], no_room="no room", world=world(3.0))
    assert (record.status, record.failure_reason, record.count) == (C.IN_SERVICE, "no room", 2)
    assert give_up(serving(), [failed()], no_room="no room", world=world()) == serving()


@pytest.mark.parametrize(("state", "back"), [(AlarmState.ALARM, True), (AlarmState.OK, False)])
def test_an_alarm_rolls_back(state, back):
    record = updating(rollout=ComponentRollout(1, alarms=("a", "unknown")))
    after = give_up(record, [], no_room=None, world=world(alarms={"a": state}))
    assert after.rollout.back is back
    assert ("Alarm a was in ALARM" in (after.failure_reason or "")) is back


def test_an_update_has_its_time():
    record = updating(rollout=ComponentRollout(1, timeout_s=600.0))
    assert give_up(record, [], no_room=None, world=world(599.0)) == record
    after = give_up(record, [], no_room=None, world=world(600.0))
    assert "longer than MaximumExecutionTimeoutInSeconds, 600 s" in after.failure_reason
    assert give_up(record, [], no_room="no room", world=world()).failure_reason == "no room"


def test_without_its_endpoint_nothing_is_waited_for():
    assert without_endpoint(serving(), 1.0) == serving()
    assert without_endpoint(serving(status=C.DELETING), 1.0) is None
    failed_ = without_endpoint(component(), 1.0)
    assert (failed_.status, failed_.pending) == (C.FAILED, ONE)
    kept = without_endpoint(updating(awaits=3), 1.0)
    assert (kept.status, kept.pending, kept.rollout, kept.awaits) == (C.IN_SERVICE, None, None, None)
    assert kept.failure_reason == "Endpoint ep does not exist any more."


def test_without_its_place_a_change_ends():
    lost = without_place(updating(), "The variant is gone.", 1.0)
    assert (lost.status, lost.pending, lost.rollout) == (C.IN_SERVICE, None, None)
    assert (lost.failure_reason, lost.modified_s) == ("The variant is gone.", 1.0)
    assert without_place(serving(), "The variant is gone.", 1.0) == serving()
