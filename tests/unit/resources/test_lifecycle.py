import pytest

from warmroute.resources.lifecycle import (
    CHANGING,
    COMPONENT_CHANGING,
    COMPONENT_MOVES,
    MOVES,
    ComponentStatus,
    EndpointStatus,
    move,
    move_component,
)

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


@pytest.mark.parametrize("old", list(ComponentStatus))
@pytest.mark.parametrize("new", list(ComponentStatus))
def test_only_moves_of_the_components_table_are_made(old, new):
    if old is new or new in COMPONENT_MOVES[old]:
        assert move_component(old, new) is new
    else:
        with pytest.raises(AssertionError, match="inference component cannot go from"):
            move_component(old, new)


def test_a_settled_component_can_be_updated_or_deleted_and_a_changing_one_cannot():
    settled = set(ComponentStatus) - COMPONENT_CHANGING
    assert settled == {ComponentStatus.IN_SERVICE, ComponentStatus.FAILED}
    assert all(
        {ComponentStatus.UPDATING, ComponentStatus.DELETING} <= COMPONENT_MOVES[status] for status in settled
    )
