"""Slots for adapters, worked out by hand."""

import pytest

from warmroute.engine.adapters import AdapterSlots


def test_an_adapter_is_loaded_once_and_stays_while_there_is_room():
    slots = AdapterSlots(2, 70)
    assert [slots.take("a"), slots.take("a"), slots.take("b")] == [70, 0, 70]
    for name in ("a", "a", "b"):
        slots.give_back(name)
    assert [slots.take("a"), slots.take("b")] == [0, 0]
    assert slots.loads == 2


def test_the_least_recently_used_one_gives_way():
    slots = AdapterSlots(2, 70)
    for name in ("a", "b", "a"):
        slots.take(name)
        slots.give_back(name)
    slots.take("c")
    assert slots.loaded == ("c", "a")
    assert slots.take("a") == 0


def test_adapters_in_use_stay_and_others_find_no_room():
    slots = AdapterSlots(2, 70)
    slots.take("a")
    slots.take("b")
    assert (slots.has_room_for("a"), slots.has_room_for("c")) == (True, False)
    with pytest.raises(AssertionError, match="without room"):
        slots.take("c")
    slots.give_back("b")
    assert slots.has_room_for("c")
    assert slots.take("c") == 70
    assert slots.loaded == ("a", "c")


def test_one_of_two_users_leaves_the_adapter_in_use():
    slots = AdapterSlots(1, 70)
    slots.take("a")
    slots.take("a")
    slots.give_back("a")
    assert not slots.has_room_for("b")
