"""Which adapter is to be on which copy."""

from dataclasses import replace
from itertools import permutations

import pytest

from warmroute.resources.lora.places import AdapterPlace, PlaceState
from warmroute.resources.lora.sets import Copy, Demand, Scene, Tuning, Use, arrange

LIMIT = 2
TUNING = Tuning(busy=4, residence_s=10, patience_s=2, cold_s=60, surplus_s=300, want_s=5)
NOW = 1000.0
LOADING, SERVING, LEAVING = PlaceState


def copy(name, *adapters, generation=1, host=None, is_open=True, state=SERVING, since=0.0, revision=1):
    places = tuple(
        AdapterPlace(a, revision, state, since, 0 if state is LOADING else generation) for a in adapters
    )
    return Copy(name, host or f"host-{name}", generation, is_open, places, LIMIT)


def scene(*copies, adapters="abcdef", asked=(), uses=None, **changes):
    demands = {name: Demand(0).asked(have, NOW) for name, have in asked}
    return replace(
        Scene(
            revisions=dict.fromkeys(adapters, 1),
            copies=copies,
            demands=demands,
            uses={at: Use(*use) for at, use in (uses or {}).items()},
            now_s=NOW,
        ),
        **changes,
    )


def states(arranged):
    return {
        instance_id: {place.adapter: place.state.value for place in places}
        for instance_id, places in arranged.places.items()
    }


def where(arranged, name, state=LOADING):
    return [
        instance_id
        for instance_id, places in arranged.places.items()
        if any(place.adapter == name and place.state is state for place in places)
    ]


def demand(places, asked_s=NOW, since_s=NOW, needed_s=NOW):
    return Demand(places, since_s, asked_s, needed_s)


# --- the first place -------------------------------------------------------------------------
def test_what_nobody_asks_for_is_not_loaded():
    assert states(arrange(scene(copy("1"), copy("2")), TUNING)) == {"1": {}, "2": {}}


def test_an_adapter_asked_for_gets_one_place():
    arranged = arrange(scene(copy("1"), copy("2"), asked=[("a", 0)]), TUNING)
    assert len(where(arranged, "a")) == 1


def test_the_order_does_not_depend_on_how_copies_and_adapters_are_given():
    copies = [copy("1"), copy("11"), copy("2", "c")]
    results = []
    for order in permutations(copies):
        for names in ("abc", "cba"):
            asked = [(name, 0) for name in names if name != "c"]
            results.append(arrange(scene(*order, adapters=names, asked=asked), TUNING).places)
    assert all(dict(sorted(each.items())) == dict(sorted(results[0].items())) for each in results)


def test_different_adapters_begin_on_different_copies():
    copies = [copy(str(number)) for number in range(4)]
    firsts = {where(arrange(scene(*copies, asked=[(name, 0)]), TUNING), name)[0] for name in "abcdef"}
    assert len(firsts) > 1


def test_the_least_burdened_copies_come_first():
    for name in "bcdef":
        arranged = arrange(scene(copy("1", "a"), copy("2"), asked=[(name, 0)]), TUNING)
        assert where(arranged, name) == ["2"]


def test_a_copy_that_is_not_in_service_gets_nothing():
    assert where(arrange(scene(copy("1", is_open=False), asked=[("a", 0)]), TUNING), "a") == []


def test_a_copy_on_which_it_failed_is_left_out():
    home = where(arrange(scene(copy("1"), copy("2"), asked=[("a", 0)]), TUNING), "a")[0]
    arranged = arrange(scene(copy("1"), copy("2"), asked=[("a", 0)], barred=frozenset({(home, "a")})), TUNING)
    assert where(arranged, "a") == [{"1": "2", "2": "1"}[home]]


# --- growth ----------------------------------------------------------------------------------
def test_a_busy_set_grows_by_one():
    arranged = arrange(scene(copy("1", "a"), copy("2"), copy("3"), asked=[("a", 1)]), TUNING)
    assert len(where(arranged, "a")) == 1


def test_two_routers_that_ask_at_once_mean_one_place():
    first = Demand().asked(1, NOW)
    assert first.asked(1, NOW + 1).places == first.places == 2


def test_growth_prefers_another_instance():
    copies = [copy("1", "a", host="h1"), copy("2", host="h1"), copy("3", host="h2")]
    assert where(arrange(scene(*copies, asked=[("a", 1)]), TUNING), "a") == ["3"]


def test_a_set_grows_to_every_copy_and_no_further():
    copies = [copy("1", "a"), copy("2", "a")]
    assert states(arrange(scene(*copies, asked=[("a", 2)]), TUNING)) == {
        "1": {"a": "serving"},
        "2": {"a": "serving"},
    }


def test_growth_does_not_drive_out_what_is_in_use():
    copies = [copy("1", "a", "b"), copy("2", "c", "d")]
    uses = {("2", "c"): (0, NOW - 30), ("2", "d"): (0, NOW - 59)}
    arranged = arrange(scene(*copies, asked=[("a", 1)], uses=uses), TUNING)
    assert where(arranged, "c", LEAVING) == where(arranged, "d", LEAVING) == []


def test_growth_takes_the_place_of_what_is_cold():
    copies = [copy("1", "a", "b"), copy("2", "c", "d")]
    uses = {("2", "c"): (0, NOW - 30), ("2", "d"): (0, NOW - 60)}
    arranged = arrange(scene(*copies, asked=[("a", 1)], uses=uses), TUNING)
    assert where(arranged, "d", LEAVING) == ["2"]


# --- no room ---------------------------------------------------------------------------------
def full(*, c=30.0, d=40.0, flights=(0, 0), **changes):
    uses = {
        ("1", "a"): (0, NOW),
        ("1", "b"): (0, NOW),
        ("2", "c"): (flights[0], NOW - c),
        ("2", "d"): (flights[1], NOW - d),
    }
    copies = [copy("1", "a", "b"), copy("2", "c", "d")]
    return scene(*copies, uses=uses, **{"asked": [("e", 0)]} | changes)


def test_the_least_recently_used_gives_its_place():
    arranged = arrange(full(), TUNING)
    assert where(arranged, "d", LEAVING) == ["2"]
    assert sum(map(len, arranged.places.values())) == 4


def test_nothing_is_loaded_before_its_predecessor_is_unloaded():
    arranged = arrange(full(), TUNING)
    again = arrange(
        full(
            copies=tuple(Copy(name, f"host-{name}", 1, True, arranged.places[name], LIMIT) for name in "12")
        ),
        TUNING,
    )
    assert states(again) == states(arranged)


def test_what_leaves_no_longer_wants_its_place():
    assert arrange(full(), TUNING).demands["d"].places == 0


def test_the_freed_place_goes_to_the_one_who_waits():
    copies = [copy("1", "a", "b"), copy("2", "c")]
    arranged = arrange(scene(*copies, asked=[("e", 0)]), TUNING)
    assert where(arranged, "e") == ["2"]


def test_two_who_wait_take_two_places():
    arranged = arrange(full(asked=[("e", 0), ("f", 0)]), TUNING)
    leaving = [name for name in "abcd" if where(arranged, name, LEAVING)]
    assert leaving == ["c", "d"]


def test_what_was_just_loaded_stays():
    copies = [copy("1", "a", "b", since=NOW - 9), copy("2", "c", "d", since=NOW - 9)]
    arranged = arrange(scene(*copies, asked=[("e", 0)]), TUNING)
    assert all(state == "serving" for places in states(arranged).values() for state in places.values())


def test_a_further_place_goes_before_an_only_one():
    uses = {
        ("1", "a"): (0, NOW - 1),
        ("1", "b"): (0, NOW - 30),
        ("2", "a"): (0, NOW - 1),
        ("2", "d"): (0, NOW - 30),
    }
    copies = [copy("1", "a", "b"), copy("2", "a", "d")]
    arranged = arrange(scene(*copies, asked=[("e", 0)], uses=uses), TUNING)
    assert len(where(arranged, "a", LEAVING)) == 1
    assert arranged.demands["a"].places == 1


def test_what_has_requests_stays_while_something_is_idle():
    arranged = arrange(full(c=0.0, d=50.0, flights=(0, 1)), TUNING)
    assert where(arranged, "d", LEAVING) == []


def all_busy(since_s, in_flight=1):
    uses = dict.fromkeys((("1", "a"), ("1", "b"), ("2", "c"), ("2", "a")), (in_flight, NOW))
    copies = [copy("1", "a", "b"), copy("2", "c", "a")]
    demands = {"e": demand(1, since_s=since_s)}
    return scene(*copies, uses=uses, demands=demands)


def test_while_everything_has_requests_it_waits():
    arranged = arrange(all_busy(NOW - 1.9), TUNING)
    assert not any(where(arranged, name, LEAVING) for name in "abc")


@pytest.mark.parametrize("in_flight", [1, None])
def test_after_some_patience_a_further_place_is_emptied(in_flight):
    arranged = arrange(all_busy(NOW - 2, in_flight), TUNING)
    assert len(where(arranged, "a", LEAVING)) == 1


def test_after_some_patience_an_only_place_is_emptied():
    given = all_busy(NOW - 2)
    copies = (copy("1", "a", "b"), copy("2", "c", "d"))
    uses = {
        ("1", "a"): Use(1, NOW - 4),
        ("1", "b"): Use(1, NOW),
        ("2", "c"): Use(1, NOW),
        ("2", "d"): Use(1, NOW),
    }
    arranged = arrange(replace(given, copies=copies, uses=uses), TUNING)
    assert where(arranged, "a", LEAVING) == ["1"]


def test_growth_never_empties_a_place():
    given = all_busy(NOW - 100)
    copies = (copy("1", "a", "b"), copy("2", "c", "d"))
    uses = {(name, adapter): Use(1, NOW) for name in "12" for adapter in "abcd"}
    arranged = arrange(
        replace(given, copies=copies, uses=uses, demands={"a": demand(2, since_s=0.0)}), TUNING
    )
    assert not any(where(arranged, name, LEAVING) for name in "abcd")


def test_a_first_place_comes_before_a_second():
    copies = [copy("1", "a", "b"), copy("2", "c")]
    demands = {"a": demand(2, since_s=NOW - 50), "e": demand(1)}
    arranged = arrange(scene(*copies, demands=demands, uses={("2", "c"): (0, NOW)}), TUNING)
    assert (where(arranged, "e"), where(arranged, "a")) == (["2"], [])


def test_what_was_asked_for_long_ago_is_forgotten():
    arranged = arrange(full(asked=(), demands={"e": demand(1, asked_s=NOW - 5)}), TUNING)
    assert not any(where(arranged, name, LEAVING) for name in "abcd")
    assert arranged.demands["e"].places == 0


def test_what_was_lost_with_its_copy_comes_back_where_there_is_room():
    arranged = arrange(scene(copy("1"), demands={"a": demand(1, asked_s=0)}), TUNING)
    assert where(arranged, "a") == ["1"]


# --- shrinking -------------------------------------------------------------------------------
def wide(in_flight, needed_s):
    uses = {("1", "a"): (in_flight, NOW), ("2", "a"): (0, NOW)}
    return scene(copy("1", "a"), copy("2", "a"), uses=uses, demands={"a": demand(2, needed_s=needed_s)})


def test_a_place_that_was_not_needed_for_long_is_given_up():
    arranged = arrange(wide(1, NOW - 300), TUNING)
    assert where(arranged, "a", LEAVING) == ["2"]
    assert arranged.demands["a"] == demand(1, needed_s=NOW)


@pytest.mark.parametrize(("in_flight", "needed_s"), [(1, NOW - 299), (2, NOW - 300), (9, 0.0)])
def test_a_place_that_is_needed_stays(in_flight, needed_s):
    assert where(arrange(wide(in_flight, needed_s), TUNING), "a", LEAVING) == []


def test_need_is_remembered():
    assert arrange(wide(2, 0.0), TUNING).demands["a"].needed_s == NOW
    assert arrange(wide(1, 900.0), TUNING).demands["a"].needed_s == 900.0


def test_what_was_just_loaded_is_not_given_up():
    given = replace(wide(0, 0.0), copies=(copy("1", "a", since=NOW), copy("2", "a", since=NOW)))
    assert where(arrange(given, TUNING), "a", LEAVING) == []


def test_a_lower_limit_takes_away_what_was_used_least():
    uses = {("1", "a"): (0, NOW - 1), ("1", "b"): (0, NOW - 2), ("1", "c"): (2, NOW - 3)}
    arranged = arrange(scene(copy("1", "a", "b", "c"), uses=uses), TUNING)
    assert states(arranged)["1"] == {"a": "serving", "b": "leaving", "c": "serving"}


# --- engines that forget, adapters that go ---------------------------------------------------
def test_a_server_that_was_started_anew_gets_its_adapters_again():
    given = scene(replace(copy("1", "a"), generation=2))
    place = arrange(given, TUNING).places["1"][0]
    assert (place.state, place.since_s, place.generation) == (LOADING, NOW, 0)


def test_a_copy_that_is_away_keeps_its_adapters_for_its_return():
    given = scene(replace(copy("1", "a"), generation=2, open=False))
    assert states(arrange(given, TUNING)) == {"1": {"a": "serving"}}


def test_a_copy_that_is_not_listed_for_a_moment_loses_nothing():
    given = scene(replace(copy("1", "a"), generation=0))
    assert states(arrange(given, TUNING)) == {"1": {"a": "serving"}}


def test_what_was_leaving_a_server_started_anew_is_gone():
    left = AdapterPlace("a", 1, LEAVING, 0.0, generation=1, leave_version=3)
    given = scene(Copy("1", "h", 2, True, (left,), LIMIT))
    assert states(arrange(given, TUNING)) == {"1": {}}


def test_what_was_being_loaded_into_a_copy_that_leaves_is_given_up():
    assert states(arrange(scene(copy("1", "a", state=LOADING, is_open=False)), TUNING)) == {"1": {}}


@pytest.mark.parametrize("state", [LOADING, SERVING])
def test_a_deleted_adapter_leaves(state):
    arranged = arrange(scene(copy("1", "a", state=state), adapters="b"), TUNING)
    assert arranged.places["1"] == (AdapterPlace("a", 1, LEAVING, NOW, generation=1),)


def test_a_deleted_adapter_of_a_server_started_anew_is_gone():
    assert states(arrange(scene(replace(copy("1", "a"), generation=2), adapters="b"), TUNING)) == {"1": {}}


def test_where_an_engine_is_being_told_something_nothing_changes():
    given = scene(copy("1", "a", "b", state=LOADING), adapters="c", busy=frozenset({("1", "a")}))
    assert states(arrange(given, TUNING)) == {"1": {"a": "loading", "b": "leaving"}}


def test_what_is_found_at_a_start_is_kept():
    arranged = arrange(scene(copy("1", "a"), copy("2", "a", is_open=False)), TUNING)
    assert arranged.demands["a"].places == 2


# --- another artifact ------------------------------------------------------------------------
def renewed(*copies, **changes):
    return scene(*copies, revisions={"a": 2}, demands={"a": demand(len(copies))}, **changes)


def test_a_new_artifact_is_loaded_beside_the_old_where_there_is_room():
    arranged = arrange(scene(copy("1", "a"), copy("2"), revisions={"a": 2}), TUNING)
    assert states(arranged) == {"1": {"a": "serving"}, "2": {"a": "loading"}}
    assert arranged.demands["a"].places == 1


def test_without_room_one_old_place_is_emptied():
    arranged = arrange(renewed(copy("1", "a"), copy("2", "a")), TUNING)
    assert states(arranged) == {"1": {"a": "leaving"}, "2": {"a": "serving"}}
    assert arranged.demands["a"].places == 2


def test_the_emptied_place_gets_the_new_artifact():
    arranged = arrange(renewed(copy("1"), copy("2", "a")), TUNING)
    assert states(arranged) == {"1": {"a": "loading"}, "2": {"a": "serving"}}


def test_old_places_wait_while_the_first_new_one_is_loaded():
    arranged = arrange(renewed(copy("1", "a", state=LOADING, revision=2), copy("2", "a")), TUNING)
    assert states(arranged) == {"1": {"a": "loading"}, "2": {"a": "serving"}}


def test_old_places_go_one_after_the_other():
    new = copy("1", "a", revision=2)
    arranged = arrange(renewed(new, copy("2", "a"), copy("3", "a")), TUNING)
    assert states(arranged) == {"1": {"a": "serving"}, "2": {"a": "leaving"}, "3": {"a": "serving"}}
    left = copy("2", "a", state=LEAVING)
    again = arrange(renewed(new, left, copy("3", "a")), TUNING)
    assert where(again, "a", LEAVING) == ["2"]


def test_what_was_to_be_loaded_is_loaded_in_its_newest_form():
    arranged = arrange(renewed(copy("1", "a", state=LOADING)), TUNING)
    assert arranged.places["1"][0].revision == 2
