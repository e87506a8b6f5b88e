"""The radix-tree policy and its two gates."""

import pytest

from tests.unit.sim.baselines.stage import busy, finish, number, prompt, send, served, started
from warmroute.core.decision import Reason
from warmroute.sim.baselines.radix_tree import RadixTree


def fleet_gate(rng):
    return RadixTree(rng, fleet_gate=True)


def candidate_gate(rng):
    return RadixTree(rng, fleet_gate=False)


BOTH = pytest.mark.parametrize("make", [fleet_gate, candidate_gate])


@BOTH
def test_a_prompt_follows_its_longest_match(make):
    chooser = started(make)
    home = served(chooser, prompt(0))
    other = next(which for which in range(4) if which != home)
    # The other holds a shorter part of it.
    send(chooser, prompt(0, 800), tried=tuple(f"instance-{w}" for w in range(4) if w != other))
    decision = send(chooser, prompt(0, 1700))
    assert (number(decision), decision.reason) == (home, Reason.AFFINITY)


@BOTH
@pytest.mark.parametrize(("tokens", "followed"), [(5280, True), (5344, False)])
def test_a_match_of_30_percent_of_the_whole_prompt_or_less_does_not_count(make, tokens, followed):
    chooser = started(make, 2)
    home = served(chooser, prompt(0, 1600))
    busy(chooser, home, 3)
    # 1,600 of 5,280 tokens are 30.3 %, of 5,344 they are 29.9 %: a long tail hides the shared head.
    decision = send(chooser, prompt(0, tokens))
    assert (number(decision) == home) == followed
    assert decision.reason is (Reason.AFFINITY if followed else Reason.LEAST_OUTSTANDING)


def test_the_fleet_gate_drops_affinity_for_everyone():
    chooser = started(fleet_gate)
    calm = served(chooser, prompt(0))
    hot, cold = [which for which in range(4) if which != calm][:2]
    busy(chooser, hot, 64, first=1 << 41)
    busy(chooser, calm, 1)
    assert number(send(chooser, prompt(0))) == calm  # 64 more than the least loaded: not over it
    busy(chooser, hot, 1, first=1 << 42)
    decision = send(chooser, prompt(0))
    # One target elsewhere is over the bounds, and a prompt whose own home is calm loses it.
    assert number(decision) != calm
    assert decision.reason is Reason.OVERFLOW
    assert chooser.in_flight()[f"instance-{cold}"] <= 1


def test_the_fleet_gate_needs_both_bounds():
    chooser = started(fleet_gate, 2)
    home = served(chooser, prompt(0))
    busy(chooser, home, 200)
    busy(chooser, 1 - home, 134, first=1 << 41)
    decision = send(chooser, prompt(0))  # 66 more, but 1.49 times as many
    assert (number(decision), decision.reason) == (home, Reason.AFFINITY)


def test_the_candidate_gate_looks_at_the_match_alone():
    chooser = started(candidate_gate)
    calm = served(chooser, prompt(0))
    hot = (calm + 1) % 4
    busy(chooser, hot, 300, first=1 << 41)
    assert number(send(chooser, prompt(0))) == calm


def test_the_candidate_gate_spills_and_the_spilled_text_gains_a_home():
    chooser = started(candidate_gate)
    home = served(chooser, prompt(0))
    leases = busy(chooser, home, 86, tokens=160)
    # Mean 21.5: 86 is over 1.5 times that and over 64 more.
    spilled = send(chooser, prompt(0))
    assert number(spilled) != home
    assert spilled.reason is Reason.OVERFLOW
    finish(chooser, spilled)
    for lease in leases:
        finish(chooser, lease)
    assert {served(chooser, prompt(0)) for _ in range(40)} == {home, number(spilled)}


def test_later_builds_decide_load_by_tokens_and_earlier_ones_by_requests():
    by_tokens, by_requests = started(candidate_gate, 2), started(fleet_gate, 2)
    for chooser in (by_tokens, by_requests):
        busy(chooser, 0, 1, tokens=16_000)
        busy(chooser, 1, 2, tokens=1600, first=1 << 41)
    assert number(send(by_tokens, prompt(0))) == 1
    assert number(send(by_requests, prompt(0))) == 0


def test_first_uses_are_spread():
    chooser = started(fleet_gate)
    assert {served(chooser, prompt(first)) for first in range(0, 40_000, 1000)} == {0, 1, 2, 3}
