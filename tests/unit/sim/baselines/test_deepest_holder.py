"""The deepest holder in a trie."""

from collections import Counter

from tests.unit.sim.baselines.stage import busy, number, prompt, send, served, started, target
from warmroute.core.decision import Reason
from warmroute.sim.baselines.deepest_holder import DeepestHolder
from warmroute.workload.prompts import Request


def test_everything_piles_up_on_the_holder_of_a_common_start():
    chooser = started(DeepestHolder)
    home = served(chooser, prompt(0))
    busy(chooser, home, 300)
    # 32 tokens in common are one piece of 128 characters: enough, whatever the load.
    homes = Counter(
        number(send(chooser, Request(1600, 100, ((0, 2), (1000 * tail, 200))))) for tail in range(1, 200)
    )
    assert homes == {home: 199}


def test_less_than_a_piece_in_common_is_nothing_in_common():
    chooser = started(DeepestHolder)
    served(chooser, prompt(0))
    homes = {number(send(chooser, Request(1600, 100, ((0, 1), (1000 * tail, 200))))) for tail in range(1, 60)}
    assert homes == {0, 1, 2, 3}


def test_a_prompt_without_any_match_goes_anywhere():
    chooser = started(DeepestHolder)
    decisions = [send(chooser, prompt(first)) for first in range(0, 60_000, 1000)]
    assert {number(each) for each in decisions} == {0, 1, 2, 3}
    assert {each.reason for each in decisions} == {Reason.RANDOM}


def test_the_deepest_of_several_holders_is_taken_and_equals_are_drawn():
    chooser = started(DeepestHolder, 2)
    send(chooser, prompt(0, 800), tried=("instance-0",))
    send(chooser, prompt(0, 1600), tried=("instance-1",))
    assert {number(send(chooser, prompt(0, 1600))) for _ in range(20)} == {0}
    send(chooser, prompt(0, 1600), tried=("instance-0",))
    assert {number(send(chooser, prompt(0, 1600))) for _ in range(40)} == {0, 1}


def test_holders_that_left_are_passed_over():
    chooser = started(DeepestHolder, 3)
    home = served(chooser, prompt(0))
    chooser.apply_targets(2, tuple(target(which) for which in range(3) if which != home))
    decision = send(chooser, prompt(0))
    assert number(decision) != home
    assert decision.reason is Reason.RANDOM
