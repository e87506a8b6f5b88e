import pytest

from warmroute.resources.lifecycle import CHANGING, MOVES, EndpointStatus, move

S = EndpointStatus


def test_every_status_has_its_moves():
    assert set(MOVES) == set(EndpointStatus)


@pytest.mark.parametrize("old", list(EndpointStatus))
@pytest.mark.parametrize("new", list(EndpointStatus))
def test_only_moves_of_the_table_are_made(old, new):
    if old is new or new in MOVES[old]:
        assert move(old, new) is new
    else:
        with pytest.raises(AssertionError, match="cannot go from"):
            move(old, new)


def test_a_failed_endpoint_can_only_be_deleted():
    assert MOVES[S.FAILED] == {S.DELETING}


def test_an_update_never_ends_in_failed():
    assert S.FAILED not in MOVES[S.UPDATING] | MOVES[S.ROLLING_BACK]


def test_settled_statuses_are_not_changing():
    assert {S.IN_SERVICE, S.FAILED}.isdisjoint(CHANGING)
