from dataclasses import replace

import pytest

from warmroute.core import limits
from warmroute.resources.instances import Failed, Observed, advance
from warmroute.resources.records import UNSTAMPED, InstanceRecord, InstanceState, Launch

STARTING = InstanceRecord("i-1", "ep", "v", 1, Launch("t", "m"), 60.0, 100.0, 100.0)
IN_SERVICE = replace(STARTING, state=InstanceState.IN_SERVICE, in_service_s=105.0)
DRAINING = replace(IN_SERVICE, state=InstanceState.DRAINING, draining_s=110.0, drain_version=7)
LOADING = Observed(running=True, probes=3, failures=3, detail="GET /ping answered 503")
READY = Observed(running=True, probes=1, ready=True, model_name="llm", open_leases=0)
EXITED = Observed(running=False, detail="It ended with exit status 1.")


def step(record, observed, **changes):
    values = {
        "refused": None,
        "busy": False,
        "now_s": 120.0,
        "acked_version": 7,
        "since_s": 0.0,
        "fixed": False,
        "drain_s": 60.0,
    }
    return advance(record, observed=observed, **values | changes)


def test_a_starting_instance_serves_when_it_is_ready():
    moved = step(STARTING, READY)
    assert (moved.state, moved.in_service_s, moved.model_name) == (InstanceState.IN_SERVICE, 120.0, "llm")
    assert moved.returns == 0


def test_one_that_returns_is_counted():
    assert step(replace(IN_SERVICE, state=InstanceState.STARTING), READY).returns == 1


@pytest.mark.parametrize("observed", [None, LOADING, Observed(running=True)])
def test_a_starting_instance_has_its_time(observed):
    assert step(STARTING, observed) is STARTING


@pytest.mark.parametrize(
    ("observed", "changes", "text", "fatal"),
    [
        (None, {"refused": "No room."}, "No room.", True),
        (EXITED, {}, "did not pass the ping health check. It ended with exit status 1.", False),
        (LOADING, {"now_s": 160.0}, "not ready after 60 s. GET /ping answered 503", True),
        (None, {"now_s": 160.0}, "It was never started.", True),
    ],
)
def test_a_starting_instance_fails(observed, changes, text, fatal):
    failed = step(STARTING, observed, **changes)
    assert isinstance(failed, Failed)
    assert text in failed.reason
    assert (failed.fatal, failed.attempts, failed.record) == (fatal, 1, STARTING)


def test_the_ping_text_names_the_variant():
    reason = step(STARTING, EXITED).reason
    assert reason.startswith(
        "The primary container for production variant v did not pass the ping health check"
    )


def test_the_last_attempt_that_ends_is_fatal():
    last = replace(STARTING, attempt=limits.INSTANCE_ATTEMPTS_MAX)
    assert step(last, EXITED).fatal
    assert not step(replace(last, attempt=last.attempt - 1), EXITED).fatal


def test_what_a_new_process_has_not_asked_yet_is_not_late():
    assert step(STARTING, Observed(running=True), now_s=1000.0) is STARTING
    assert step(STARTING, None, now_s=1000.0, since_s=990.0) is STARTING


def test_a_server_that_is_not_ours_is_waited_for_once_it_served():
    lost = replace(IN_SERVICE, state=InstanceState.STARTING)
    assert step(lost, LOADING, now_s=1000.0, fixed=True) is lost
    assert isinstance(step(lost, LOADING, now_s=1000.0), Failed)
    assert isinstance(step(STARTING, LOADING, now_s=1000.0, fixed=True), Failed)


def test_an_instance_in_service_goes_on_while_it_is_well():
    same = replace(READY, model_name=None)
    assert step(IN_SERVICE, same) is IN_SERVICE
    assert step(IN_SERVICE, replace(same, failures=limits.HEALTH_FAILURES_MAX - 1)) is IN_SERVICE
    assert step(IN_SERVICE, READY).model_name == "llm"
    known = replace(IN_SERVICE, model_name="llm")
    assert step(known, READY) is known


@pytest.mark.parametrize("observed", [None, EXITED, LOADING])
def test_an_instance_in_service_that_fails_is_replaced(observed):
    failed = step(IN_SERVICE, observed)
    assert isinstance(failed, Failed)
    assert not failed.fatal


def test_an_instance_under_an_action_may_be_missing_from_the_list():
    assert step(IN_SERVICE, None, busy=True) is IN_SERVICE


def test_a_server_that_is_not_ours_leaves_the_fleet_until_it_is_well():
    assert step(IN_SERVICE, LOADING, fixed=True).state is InstanceState.STARTING
    assert isinstance(step(IN_SERVICE, EXITED, fixed=True), Failed)


def test_long_service_makes_failures_be_counted_anew():
    tired = replace(IN_SERVICE, attempt=5)
    assert step(tired, EXITED, now_s=105.0 + limits.INSTANCE_STABLE_S).attempts == 1
    assert step(tired, EXITED, now_s=104.0 + limits.INSTANCE_STABLE_S).attempts == 5
    assert step(replace(tired, in_service_s=None), EXITED).attempts == 5


def test_a_draining_instance_waits_for_its_leases():
    assert step(DRAINING, replace(READY, open_leases=1)) is DRAINING
    assert step(DRAINING, replace(READY, open_leases=None)) is DRAINING
    assert step(DRAINING, READY).state is InstanceState.STOPPING


def test_a_draining_instance_waits_for_routers_to_know():
    assert step(DRAINING, READY, acked_version=6) is DRAINING
    for version in (None, UNSTAMPED):
        unstamped = replace(DRAINING, drain_version=version)
        assert step(unstamped, READY) is unstamped


@pytest.mark.parametrize(
    ("observed", "changes"),
    [(None, {}), (EXITED, {"acked_version": 0}), (replace(READY, open_leases=9), {"now_s": 170.0})],
)
def test_a_draining_instance_does_not_wait_for_ever(observed, changes):
    assert step(DRAINING, observed, **changes).state is InstanceState.STOPPING


def test_a_stopping_instance_stays_so():
    stopping = replace(IN_SERVICE, state=InstanceState.STOPPING)
    assert step(stopping, READY) is stopping
