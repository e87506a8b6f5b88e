"""Power of two choices."""

from collections import Counter

from tests.unit.sim.baselines.stage import busy, number, prompt, send, served, started
from warmroute.sim.baselines.power_of_two import PowerOfTwo


def test_the_most_loaded_target_is_never_taken_while_the_least_loaded_one_often_is():
    chooser = started(PowerOfTwo, 4)
    for which, count in enumerate((1, 20, 40, 60)):
        busy(chooser, which, count, first=(which + 1) << 40)
    counts = Counter(served(chooser, prompt(0)) for _ in range(600))
    # Drawn in half of the pairs it wins; the third in one of six; the last never.
    assert counts[3] == 0
    assert 250 < counts[0] < 350
    assert 60 < counts[2] < 140


def test_only_two_are_looked_at():
    chooser = started(PowerOfTwo, 10)
    busy(chooser, 0, 1)
    for which in range(1, 10):
        busy(chooser, which, 2, first=(which + 1) << 40)
    # The one idle target is seen by two in ten decisions.
    counts = Counter(served(chooser, prompt(0)) for _ in range(500))
    assert 60 < counts[0] < 140


def test_ties_are_drawn():
    chooser = started(PowerOfTwo, 2)
    assert {served(chooser, prompt(0)) for _ in range(50)} == {0, 1}


def test_one_candidate_needs_no_draw():
    chooser = started(PowerOfTwo, 2)
    assert number(send(chooser, prompt(0), tried=("instance-1",))) == 0
