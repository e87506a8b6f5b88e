import pytest

from warmroute.core.events import FailureCause
from warmroute.core.limits import ATTEMPTS_MAX, RETRY_BUDGET_FLOOR, RETRY_BUDGET_RATIO
from warmroute.routing.retry import WINDOW_NS, RetryBudget, may_try_again

NOW = 1_000 * WINDOW_NS
PERMITTED = {
    FailureCause.CONNECT_FAILED: True,
    FailureCause.STALE_CONNECTION: True,
    FailureCause.LOADING: True,
    FailureCause.CLOSED: False,
    FailureCause.FIRST_BYTE_TIMEOUT: False,
    FailureCause.IDLE_TIMEOUT: False,
    FailureCause.TOTAL_TIMEOUT: False,
    FailureCause.BROKEN: False,
    FailureCause.MALFORMED: False,
    FailureCause.SERVER_ERROR: False,
}


def taken(budget, now_ns, wanted=10_000):
    """How many retries the budget gives out."""
    return sum(budget.take(now_ns) for _ in range(wanted))


def invoke(budget, now_ns, times):
    for _ in range(times):
        budget.invocation(now_ns)


@pytest.mark.parametrize("cause", FailureCause)
def test_another_target_is_tried_only_when_the_request_cannot_have_been_executed(cause):
    assert may_try_again(cause, attempts=1, budget=RetryBudget(), now_ns=NOW) is PERMITTED[cause]


@pytest.mark.parametrize("cause", [cause for cause, permitted in PERMITTED.items() if not permitted])
def test_a_refused_retry_is_not_charged(cause):
    budget = RetryBudget()
    for _ in range(1000):
        may_try_again(cause, attempts=1, budget=budget, now_ns=NOW)
    assert taken(budget, NOW) == RETRY_BUDGET_FLOOR


@pytest.mark.parametrize(("attempts", "again"), [(1, True), (ATTEMPTS_MAX - 1, True), (ATTEMPTS_MAX, False)])
def test_an_invocation_has_a_bounded_number_of_attempts(attempts, again):
    cause = FailureCause.CONNECT_FAILED
    assert may_try_again(cause, attempts=attempts, budget=RetryBudget(), now_ns=NOW) is again


def test_a_permitted_retry_is_charged_once():
    budget = RetryBudget()
    assert may_try_again(FailureCause.LOADING, attempts=1, budget=budget, now_ns=NOW)
    assert taken(budget, NOW) == RETRY_BUDGET_FLOOR - 1


def test_a_spent_budget_sends_failures_to_the_caller():
    budget = RetryBudget()
    taken(budget, NOW)
    assert not may_try_again(FailureCause.CONNECT_FAILED, attempts=1, budget=budget, now_ns=NOW)


def test_a_quiet_endpoint_has_the_floor_and_not_one_more():
    assert taken(RetryBudget(), NOW) == RETRY_BUDGET_FLOOR


@pytest.mark.parametrize("invocations", [1, 5, 9, 10, 1000])
def test_traffic_adds_its_share(invocations):
    budget = RetryBudget()
    invoke(budget, NOW, invocations)
    assert taken(budget, NOW) == RETRY_BUDGET_FLOOR + int(invocations * RETRY_BUDGET_RATIO)


def test_what_was_counted_in_the_window_before_still_counts():
    budget = RetryBudget()
    invoke(budget, NOW, 1000)
    taken(budget, NOW, wanted=100)
    share = int(1000 * RETRY_BUDGET_RATIO)
    assert taken(budget, NOW + WINDOW_NS) == RETRY_BUDGET_FLOOR + share - 100


def test_two_windows_later_everything_is_forgotten():
    budget = RetryBudget()
    invoke(budget, NOW, 1000)
    taken(budget, NOW)
    assert taken(budget, NOW + 2 * WINDOW_NS) == RETRY_BUDGET_FLOOR


def test_a_count_is_forgotten_after_two_windows_also_when_the_first_ended_late():
    budget = RetryBudget()
    taken(budget, NOW)
    assert taken(budget, NOW + 19 * WINDOW_NS // 10) == 0
    assert taken(budget, NOW + 2 * WINDOW_NS) == RETRY_BUDGET_FLOOR


def test_one_nanosecond_before_its_end_the_window_is_the_same():
    budget = RetryBudget()
    taken(budget, NOW)
    assert taken(budget, NOW + WINDOW_NS - 1) == 0


def test_a_window_starts_with_the_first_use_not_with_the_clocks_zero():
    budget = RetryBudget()
    invoke(budget, NOW + WINDOW_NS // 2, 10)
    assert taken(budget, NOW + WINDOW_NS) == RETRY_BUDGET_FLOOR + 2
