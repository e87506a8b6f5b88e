"""The LMetric product."""

from tests.unit.sim.baselines.stage import busy, number, prompt, send, started, stored, tell
from warmroute.core.decision import Reason
from warmroute.sim.baselines.lmetric import LMetric


def test_it_listens_to_engines():
    assert started(LMetric).wants_events


def test_new_tokens_are_multiplied_by_the_batch():
    chooser = started(LMetric, 2)
    tell(chooser, 0, stored(0, 75))
    busy(chooser, 0, 2, tokens=16)
    # 400 x 3 against 1,600 x 1.
    decision = send(chooser, prompt(0))
    assert (number(decision), decision.reason) == (0, Reason.AFFINITY)
    # 400 x 5 against 1,600 x 1.
    busy(chooser, 0, 1, tokens=16, first=1 << 41)
    decision = send(chooser, prompt(0))
    assert (number(decision), decision.reason) == (1, Reason.OVERFLOW)


def test_without_matches_it_is_least_in_flight():
    chooser = started(LMetric, 3)
    for which in (0, 2):
        busy(chooser, which, 1, first=(which + 1) << 41)
    decision = send(chooser, prompt(0))
    assert (number(decision), decision.reason) == (1, Reason.LEAST_OUTSTANDING)


def test_a_prompt_that_is_cached_as_a_whole_costs_nothing_however_long_the_queue():
    chooser = started(LMetric, 2)
    tell(chooser, 0, stored(0, 100))
    busy(chooser, 0, 200, tokens=16)
    assert {number(send(chooser, prompt(0))) for _ in range(20)} == {0}


def test_the_length_of_other_prompts_does_not_matter():
    chooser = started(LMetric, 2)
    busy(chooser, 0, 1, tokens=100_000)
    busy(chooser, 1, 2, tokens=16, first=1 << 41)
    assert number(send(chooser, prompt(0))) == 0
