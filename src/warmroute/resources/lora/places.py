"""Where a LoRA adapter is on the copies of its base component, and how one place of it moves on."""

from dataclasses import dataclass, replace
from enum import StrEnum

from warmroute.core.ids import ComponentName


class PlaceState(StrEnum):
    """Where an adapter stands on a copy."""

    LOADING = "loading"
    """It is to be loaded, or may be loaded already: no router knows of it."""
    SERVING = "serving"
    """Loaded, and in the fleet."""
    LEAVING = "leaving"
    """Out of the fleet; it is unloaded when every router knows so and its leases have ended."""


@dataclass(frozen=True, slots=True)
class AdapterPlace:
    """A LoRA adapter on a copy of its base component, written before it is loaded, removed when it is not.

    Attributes:
        adapter: Name of the adapter's component.
        revision: Of its artifact.
        state: See ``PlaceState``.
        since_s: Since when it is in this state, epoch seconds.
        generation: Of the copy's target when it was loaded: another one has an empty engine.
        leave_version: Version of the fleet that does not show it any more; 0 until that is built.
        after_base: Requests have to ask for it as ``MODEL:NAME``.
    """

    adapter: ComponentName
    revision: int
    state: PlaceState
    since_s: float
    generation: int = 0
    leave_version: int = 0
    after_base: bool = False


def leaving(place: AdapterPlace, now_s: float) -> AdapterPlace:
    """Return a place on its way out; no fleet that does not show it has a version yet."""
    return replace(place, state=PlaceState.LEAVING, since_s=now_s, leave_version=0)


def loading(place: AdapterPlace, now_s: float) -> AdapterPlace:
    """Return a place that is to be loaded, whatever its engine has."""
    return replace(place, state=PlaceState.LOADING, since_s=now_s, generation=0, leave_version=0)


def done(
    place: AdapterPlace, *, generation: int, now_s: float, after_base: bool = False
) -> AdapterPlace | None:
    """Return a place after its engine has done what it was told; None when it is unloaded.

    Args:
        place: Loading or leaving.
        generation: Of the copy's target when it was told.
        now_s: Epoch seconds.
        after_base: See ``AdapterPlace``.
    """
    if place.state is PlaceState.LEAVING:
        return None
    return replace(
        place, state=PlaceState.SERVING, since_s=now_s, generation=generation, after_base=after_base
    )


def may_unload(place: AdapterPlace, *, acked_version: int, in_flight: int | None) -> bool:
    """Whether a leaving adapter can be unloaded without any request missing it.

    Args:
        place: Of any state.
        acked_version: Every live router decides with this fleet or a later one.
        in_flight: Its leases on the copy, over all routers; None when one has not said.
    """
    return place.state is PlaceState.LEAVING and 0 < place.leave_version <= acked_version and in_flight == 0


def stamp_places(places: tuple[AdapterPlace, ...], version: int) -> tuple[AdapterPlace, ...]:
    """Write the version of the fleet that does not show leaving places into those that wait for it."""
    if not any(place.state is PlaceState.LEAVING and place.leave_version == 0 for place in places):
        return places
    return tuple(
        replace(place, leave_version=version)
        if place.state is PlaceState.LEAVING and place.leave_version == 0
        else place
        for place in places
    )


def shown(places: tuple[AdapterPlace, ...], generation: int) -> tuple[str, ...]:
    """Return the adapters that a fleet shows on a copy, in order of their names.

    Args:
        places: Of the copy.
        generation: Of its target now; what was loaded into an earlier one is gone.
    """
    return tuple(
        sorted(
            place.adapter
            for place in places
            if place.state is PlaceState.SERVING and place.generation == generation
        )
    )
