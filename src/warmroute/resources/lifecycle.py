"""Statuses and the moves they may make.

Source: shapes EndpointStatus and InferenceComponentStatus of the service model.
"""

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
    _S.ROLLING_BACK: frozenset({_S.IN_SERVICE, _S.UPDATE_ROLLBACK_FAILED}),
    _S.FAILED: frozenset({_S.DELETING}),
    _S.DELETING: frozenset(),
    _S.OUT_OF_SERVICE: frozenset(),
    _S.SYSTEM_UPDATING: frozenset(),
    _S.UPDATE_ROLLBACK_FAILED: frozenset({_S.UPDATING, _S.DELETING}),
}
"""From each status, those that may follow; a deleted endpoint's record goes away.

OutOfService and SystemUpdating are SageMaker's and never entered here: nothing updates an endpoint
unasked. UpdateRollbackFailed follows only the rollback of a rolling update whose old instances do not
come back: all other rollbacks start nothing. It serves with what it has; UpdateEndpoint repairs it."""

CHANGING = frozenset({_S.CREATING, _S.UPDATING, _S.SYSTEM_UPDATING, _S.ROLLING_BACK, _S.DELETING})
"""An endpoint in one of these takes no update and no deletion."""


class ComponentStatus(StrEnum):
    """SageMaker's InferenceComponentStatus enum."""

    CREATING = "Creating"
    IN_SERVICE = "InService"
    UPDATING = "Updating"
    FAILED = "Failed"
    DELETING = "Deleting"


_C = ComponentStatus

COMPONENT_MOVES: dict[ComponentStatus, frozenset[ComponentStatus]] = {
    _C.CREATING: frozenset({_C.IN_SERVICE, _C.FAILED}),
    _C.IN_SERVICE: frozenset({_C.UPDATING, _C.DELETING}),
    _C.UPDATING: frozenset({_C.IN_SERVICE, _C.FAILED}),
    _C.FAILED: frozenset({_C.UPDATING, _C.DELETING}),
    _C.DELETING: frozenset(),
}
"""From each status, those that may follow; a deleted component's record goes away."""

COMPONENT_CHANGING = frozenset({_C.CREATING, _C.UPDATING, _C.DELETING})
"""A component in one of these takes no update and no deletion."""


def move_component(old: ComponentStatus, new: ComponentStatus) -> ComponentStatus:
    """Return ``new``; every change of a component's status goes through here.

    Raises:
        AssertionError: The table does not have the move; staying is always allowed.
    """
    assert old is new or new in COMPONENT_MOVES[old], f"an inference component cannot go from {old} to {new}"
    return new


def move(old: EndpointStatus, new: EndpointStatus) -> EndpointStatus:
    """Return ``new``; every change of a status goes through here.

    Raises:
        AssertionError: The table does not have the move; staying is always allowed.
    """
    assert old is new or new in MOVES[old], f"an endpoint cannot go from {old} to {new}"
    return new
