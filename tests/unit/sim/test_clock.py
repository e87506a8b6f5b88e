"""Virtual time."""

import pytest

from warmroute.sim.clock import Agenda


def test_things_happen_in_order_of_time_and_then_of_addition():
    agenda = Agenda()
    for at, what in [(5, "c"), (3, "a"), (5, "d"), (3, "b")]:
        agenda.add(at, what)
    happened = []
    while len(agenda):
        happened.append((agenda.next(), agenda.now_ns, agenda.more_now))
    assert happened == [("a", 3, True), ("b", 3, False), ("c", 5, True), ("d", 5, False)]


def test_things_that_cannot_be_compared_may_share_a_time():
    agenda = Agenda()
    first, second = object(), object()
    agenda.add(1, first)
    agenda.add(1, second)
    assert (agenda.next(), agenda.next()) == (first, second)


def test_nothing_happens_in_the_past():
    agenda = Agenda()
    agenda.add(4, "now")
    agenda.next()
    agenda.add(4, "also now")
    with pytest.raises(AssertionError, match="an event for 3 ns at 4 ns"):
        agenda.add(3, "too late")
