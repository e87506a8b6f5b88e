"""EndpointStatus and the moves it may make. Source: shape EndpointStatus of the service model."""

from enum import StrEnum


class EndpointStatus(StrEnum):
    """SageMaker's EndpointStatus enum."""

    OUT_OF_SERVICE = "OutOfService"
    CREATING = "Creating"
    UPDATING = "Updating"
    SYSTEM_UPDATING = "SystemUpdating"
    ROLLING_BACK = "RollingBack"
    IN_SERVICE = "InService"
    DELETING = "Deleting"
    FAILED = "Failed"
    UPDATE_ROLLBACK_FAILED = "UpdateRollbackFailed"


_S = EndpointStatus

MOVES: dict[EndpointStatus, frozenset[EndpointStatus]] = {
    _S.CREATING: frozenset({_S.IN_SERVICE, _S.FAILED}),
    _S.IN_SERVICE: frozenset({_S.UPDATING, _S.DELETING}),
    _S.UPDATING: frozenset({_S.IN_SERVICE, _S.ROLLING_BACK}),
    _S.ROLLING_BACK: frozenset({_S.IN_SERVICE}),
    _S.FAILED: frozenset({_S.DELETING}),
    _S.DELETING: frozenset(),
    _S.OUT_OF_SERVICE: frozenset(),
    _S.SYSTEM_UPDATING: frozenset(),
    _S.UPDATE_ROLLBACK_FAILED: frozenset(),
}
"""From each status, those that may follow; a deleted endpoint's record goes away.

The last three are SageMaker's and never entered here: nothing updates an endpoint unasked, and a
rollback only drops instances that never served, so it cannot fail."""

CHANGING = frozenset({_S.CREATING, _S.UPDATING, _S.SYSTEM_UPDATING, _S.ROLLING_BACK, _S.DELETING})
"""An endpoint in one of these takes no update and no deletion."""


def move(old: EndpointStatus, new: EndpointStatus) -> EndpointStatus:
    """Return ``new``; every change of a status goes through here.

    Raises:
        AssertionError: The table does not have the move; staying is always allowed.
    """
    assert old is new or new in MOVES[old], f"an endpoint cannot go from {old} to {new}"
    return new
