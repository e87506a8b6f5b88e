import pytest

from warmroute.resources import errors
from warmroute.resources.errors import HTTP_STATUS, ApiCode, ApiError


def test_every_code_has_a_status():
    assert set(HTTP_STATUS) == set(ApiCode)


@pytest.mark.parametrize("code", list(ApiCode))
def test_an_error_carries_its_row(code):
    error = ApiError(code, "text")
    assert (error.status, str(error), error.message) == (HTTP_STATUS[code], "text", "text")


def test_the_messages_clients_match_on():
    assert errors.not_found("endpoint", "A").message == 'Could not find endpoint "A".'
    assert errors.already_exists("model", "A").message == 'Cannot create already existing model "A".'
    assert errors.in_progress("A").message == 'Cannot update in-progress endpoint "A".'
    assert errors.unsupported("X", "Use Y.").message == "X is not supported by warmroute. Use Y."
    assert errors.invalid("t").code is ApiCode.VALIDATION
