import pytest

from warmroute.cli.connection import with_hint
from warmroute.cli.failure import Refused


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ('Could not find endpoint "a".', "warmroute endpoints list shows"),
        ('Could not find endpoint configuration "a".', "Make it first, or let warmroute apply"),
        ('Could not find model "a".', "warmroute models list shows"),
        ('Could not find inference component "a".', "warmroute components list shows"),
        ('Could not find instance "a".', "warmroute endpoints describe shows"),
        ('Cannot update in-progress endpoint "a".', "warmroute endpoints wait returns"),
    ],
)
def test_what_to_do_next_is_said_where_it_is_known(message, hint):
    told = with_hint(Refused("ValidationException", message))
    assert told.message.startswith(f"{message} {hint}")
    assert (told.code, told.status) == ("ValidationException", 1)


def test_other_refusals_stay_as_they_are():
    error = Refused("X", "No.")
    assert with_hint(error) is error
