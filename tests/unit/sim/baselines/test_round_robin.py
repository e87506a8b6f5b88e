"""Round robin."""

from tests.unit.sim.baselines.stage import busy, number, prompt, send, started, target
from warmroute.core.decision import Reason
from warmroute.sim.baselines.round_robin import RoundRobin


def test_targets_take_turns():
    chooser = started(RoundRobin, 3)
    assert [number(send(chooser, prompt(0))) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_neither_the_prompt_nor_the_load_matters():
    chooser = started(RoundRobin, 2)
    busy(chooser, 0, 50)
    assert sorted(number(send(chooser, prompt(0))) for _ in range(10)) == [0] * 5 + [1] * 5
    assert send(chooser, prompt(0)).reason is Reason.RANDOM


def test_turns_go_on_when_targets_come_and_go():
    chooser = started(RoundRobin, 3)
    send(chooser, prompt(0))
    chooser.apply_targets(2, (target(0), target(2)))
    assert {number(send(chooser, prompt(0))) for _ in range(2)} == {0, 2}
