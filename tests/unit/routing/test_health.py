import pytest

from warmroute.core.events import FailureCause
from warmroute.routing.health import (
    CONSECUTIVE_FAILURES_MAX,
    EJECTION_NS_MAX,
    EJECTION_NS_MIN,
    HealthChange,
    HealthRecord,
)

NOW = 50_000_000_000
CERTAIN = [FailureCause.CONNECT_FAILED, FailureCause.LOADING]
UNCERTAIN = [c for c in FailureCause if c not in CERTAIN and c is not FailureCause.STALE_CONNECTION]


def fail(record, cause, *, now_ns=NOW, others=0, targets=7):
    return record.fail(cause, now_ns=now_ns, others_ejected=others, targets=targets)


def fail_in_a_row(record, times, *, cause=FailureCause.SERVER_ERROR, **kwargs):
    return [fail(record, cause, **kwargs) for _ in range(times)]


def eject(record, now_ns=NOW):
    assert fail(record, FailureCause.CONNECT_FAILED, now_ns=now_ns)


def test_a_new_target_is_healthy():
    record = HealthRecord()
    assert (record.ejected, record.probation, record.consecutive, record.ejections) == (False, False, 0, 0)


@pytest.mark.parametrize("cause", CERTAIN)
def test_a_target_that_takes_no_requests_is_ejected_at_once(cause):
    record = HealthRecord()
    assert fail(record, cause)
    assert record.ejected
    assert record.until_ns == NOW + EJECTION_NS_MIN


@pytest.mark.parametrize("cause", CERTAIN)
def test_a_target_that_takes_no_requests_is_ejected_even_when_it_is_the_last(cause):
    assert fail(HealthRecord(), cause, others=6, targets=7)
    assert fail(HealthRecord(), cause, others=0, targets=1)


@pytest.mark.parametrize("cause", UNCERTAIN)
def test_other_failures_eject_after_a_run_of_them(cause):
    record = HealthRecord()
    ejected = fail_in_a_row(record, CONSECUTIVE_FAILURES_MAX, cause=cause)
    assert ejected == [False, False, False, False, True]


def test_failures_of_different_kinds_make_one_run():
    record = HealthRecord()
    assert [fail(record, cause) for cause in UNCERTAIN[:5]] == [False, False, False, False, True]


def test_a_success_ends_the_run():
    record = HealthRecord()
    fail_in_a_row(record, 4)
    assert not record.succeed()
    assert fail_in_a_row(record, 5) == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("others", "targets", "ejected"),
    [(0, 1, False), (0, 2, True), (1, 2, False), (0, 3, True), (1, 3, False), (2, 7, True), (3, 7, False),
     (3, 8, True), (4, 8, False), (0, 0, False)],
)  # fmt: skip
def test_uncertain_failures_eject_at_most_half_of_the_targets(others, targets, ejected):
    record = HealthRecord()
    assert fail_in_a_row(record, 5, others=others, targets=targets)[-1] is ejected
    assert record.ejected is ejected


def test_a_target_spared_by_the_half_rule_is_ejected_when_another_has_come_back():
    record = HealthRecord()
    fail_in_a_row(record, 5, others=1, targets=2)
    assert fail(record, FailureCause.CLOSED, others=0, targets=2)


def test_a_connection_that_idled_too_long_is_nobodys_failure():
    record = HealthRecord()
    assert not any(fail_in_a_row(record, 100, cause=FailureCause.STALE_CONNECTION))
    assert record.consecutive == 0


def test_late_failures_of_an_ejected_target_do_not_prolong_its_ejection():
    record = HealthRecord()
    eject(record)
    assert not fail(record, FailureCause.CONNECT_FAILED, now_ns=NOW + 1)
    assert record.until_ns == NOW + EJECTION_NS_MIN
    assert record.ejections == 1


def test_a_late_success_of_an_ejected_target_does_not_bring_it_back():
    record = HealthRecord()
    eject(record)
    assert not record.succeed()
    assert record.ejected
    assert record.ejections == 1


def test_after_its_ejection_a_target_is_on_probation():
    record = HealthRecord()
    eject(record)
    record.parole()
    assert (record.ejected, record.probation) == (False, True)


def test_a_success_on_probation_is_a_recovery():
    record = HealthRecord()
    eject(record)
    record.parole()
    assert record.succeed()
    assert (record.probation, record.ejections, record.consecutive) == (False, 0, 0)


def test_a_second_success_is_no_second_recovery():
    record = HealthRecord()
    eject(record)
    record.parole()
    record.succeed()
    assert not record.succeed()


@pytest.mark.parametrize("cause", CERTAIN + UNCERTAIN)
def test_one_failure_on_probation_ejects_again(cause):
    record = HealthRecord()
    eject(record)
    record.parole()
    assert fail(record, cause)
    assert (record.ejected, record.probation) == (True, False)


def test_the_half_rule_holds_on_probation_too():
    record = HealthRecord()
    eject(record)
    record.parole()
    assert not fail(record, FailureCause.SERVER_ERROR, others=1, targets=2)
    assert record.probation


def test_ejections_in_a_row_double_up_to_their_limit():
    record = HealthRecord()
    lengths = []
    for _ in range(12):
        eject(record)
        lengths.append((record.until_ns - NOW) // EJECTION_NS_MIN)
        record.parole()
    assert lengths == [1, 2, 4, 8, 16, *[EJECTION_NS_MAX // EJECTION_NS_MIN] * 7]


def test_a_recovery_makes_the_next_ejection_short_again():
    record = HealthRecord()
    for _ in range(4):
        eject(record)
        record.parole()
    record.succeed()
    eject(record)
    assert record.until_ns == NOW + EJECTION_NS_MIN


def test_a_change_of_health_names_the_generation_it_is_about():
    change = HealthChange("1", 2, ejected=True, reason="closed")
    assert (change.target_id, change.generation, change.ejected, change.reason) == ("1", 2, True, "closed")
