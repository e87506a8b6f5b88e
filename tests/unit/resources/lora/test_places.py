"""One place of an adapter, from loading to gone."""

import pytest

from warmroute.resources.lora.places import (
    AdapterPlace,
    PlaceState,
    done,
    leaving,
    loading,
    may_unload,
    shown,
    stamp_places,
)

LOADING = AdapterPlace("a", 1, PlaceState.LOADING, 5.0)
SERVING = AdapterPlace("a", 1, PlaceState.SERVING, 5.0, generation=3)
LEAVING = AdapterPlace("a", 1, PlaceState.LEAVING, 5.0, generation=3, leave_version=7)


def test_what_is_loaded_serves_with_the_generation_it_was_loaded_into():
    assert done(LOADING, generation=3, now_s=9.0) == AdapterPlace("a", 1, PlaceState.SERVING, 9.0, 3)


def test_what_is_unloaded_is_gone():
    assert done(LEAVING, generation=3, now_s=9.0) is None


def test_what_leaves_waits_for_a_fleet_without_it():
    place = leaving(SERVING, 9.0)
    assert place == AdapterPlace("a", 1, PlaceState.LEAVING, 9.0, 3)
    assert stamp_places((SERVING, place), 12) == (
        SERVING,
        AdapterPlace("a", 1, PlaceState.LEAVING, 9.0, 3, 12),
    )


def test_a_stamp_is_given_once():
    places = (SERVING, LEAVING)
    assert stamp_places(places, 12) is places


def test_what_is_loaded_anew_has_no_generation():
    assert loading(LEAVING, 9.0) == AdapterPlace("a", 1, PlaceState.LOADING, 9.0)


@pytest.mark.parametrize(
    ("place", "acked", "in_flight", "expected"),
    [
        (LEAVING, 7, 0, True),
        (LEAVING, 6, 0, False),
        (LEAVING, 7, 1, False),
        (LEAVING, 7, None, False),
        (leaving(SERVING, 9.0), 7, 0, False),
        (SERVING, 7, 0, False),
        (LOADING, 7, 0, False),
    ],
)
def test_an_adapter_is_unloaded_when_no_request_can_miss_it(place, acked, in_flight, expected):
    assert may_unload(place, acked_version=acked, in_flight=in_flight) is expected


def test_a_fleet_shows_what_serves_in_this_generation():
    other = AdapterPlace("b", 1, PlaceState.SERVING, 5.0, generation=2)
    last = AdapterPlace("0", 1, PlaceState.SERVING, 5.0, generation=3)
    assert shown((LOADING, SERVING, LEAVING, other, last), 3) == ("0", "a")
