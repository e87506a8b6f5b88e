"""The limits that come from elsewhere agree with their source, and those that depend on each other fit.

That each limit holds, at it and one past it, is tested where it is enforced.
"""

import ast
import inspect

import botocore.session
import pytest

from warmroute.core import limits

NUMBERS = {name: value for name, value in vars(limits).items() if name.isupper()}


def range_of(service, shape):
    model = botocore.session.get_session().get_service_model(service)
    metadata = model.shape_for(shape).metadata
    return metadata["min"], metadata["max"]


def test_prefix_length_has_the_range_of_the_service_model():
    expected = range_of("sagemaker", "PrefixAwareRoutingPrefixLength")
    assert expected == (limits.PREFIX_LENGTH_MIN, limits.PREFIX_LENGTH_MAX)


def test_concurrency_threshold_has_the_range_of_the_service_model():
    expected = range_of("sagemaker", "PrefixAwareRoutingConcurrencyThreshold")
    assert expected == (limits.CONCURRENCY_THRESHOLD_MIN, limits.CONCURRENCY_THRESHOLD_MAX)


def test_the_prefix_aware_id_has_the_length_of_the_service_model():
    assert range_of("sagemaker-runtime", "PrefixAwareIdHeader") == (1, limits.PREFIX_AWARE_ID_CHARACTERS_MAX)


def test_a_session_id_has_the_length_of_the_service_model():
    model = botocore.session.get_session().get_service_model("sagemaker-runtime")
    assert model.shape_for("SessionIdHeader").metadata["max"] == limits.SESSION_ID_CHARACTERS_MAX


def test_a_native_invocation_is_answered_before_boto3_stops_reading():
    assert limits.FIRST_BYTE_NATIVE_S < 60


def test_idle_upstream_connections_are_retired_before_the_common_servers_close_them():
    assert limits.UPSTREAM_IDLE_S_MAX < 5


def test_many_bodies_of_the_largest_size_fit_into_the_buffer_limit():
    assert limits.BUFFERED_BODIES_BYTES_MAX >= 16 * limits.BODY_BYTES_MAX


def test_a_failing_fleet_costs_at_most_a_share_of_the_invocations_in_retries():
    assert 0 < limits.RETRY_BUDGET_RATIO < 1
    assert limits.ATTEMPTS_MAX >= 2


@pytest.mark.parametrize("name", NUMBERS)
def test_every_limit_is_a_positive_number(name):
    assert isinstance(NUMBERS[name], int | float)
    assert NUMBERS[name] > 0


def test_every_limit_or_pair_of_limits_is_followed_by_its_reason():
    body = ast.parse(inspect.getsource(limits)).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and not statement.target.id.endswith("_MIN"):
            documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            assert documented, statement.target.id
