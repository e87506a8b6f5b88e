"""Consistent hashing with bounded loads."""

from collections import Counter

from tests.unit.sim.baselines.stage import busy, number, prompt, send, served, started, target
from warmroute.core.decision import Reason
from warmroute.sim.baselines.chwbl import Chwbl

UNRELATED = prompt(1 << 50)
"""Sent first, so that there is no common start."""


def ring(count=4):
    chooser = started(Chwbl, count)
    served(chooser, UNRELATED)
    return chooser


def test_a_key_stays_at_its_owner_while_the_fleet_is_idle():
    chooser = ring()
    homes = {first: served(chooser, prompt(first)) for first in range(0, 40_000, 1000)}
    assert homes == {first: served(chooser, prompt(first, 800, tail=77)) for first in homes}
    assert len(set(homes.values())) == 4


def test_no_target_gets_beyond_125_percent_of_the_mean():
    chooser = ring()
    for sent in range(400):
        decision = send(chooser, prompt(0))
        # In the walk: in flight <= 1.25 times the mean, the new one counted in the mean.
        assert decision.in_flight <= 1.25 * (sent + 1) / 4
    # Of one hot key the owner and the next ones of the walk are full to the bound, the last gets the rest.
    counts = sorted(chooser.in_flight().values())
    assert counts[0] < 40
    assert counts[1] > 120
    assert counts[3] <= 126


def test_the_bound_is_reached_at_exactly_125_percent():
    chooser = ring()
    owner = served(chooser, prompt(0))
    others = [which for which in range(4) if which != owner]
    # (15 + 1) / 4 * 1.25 = 5: five in flight are allowed, six are not.
    busy(chooser, owner, 5)
    busy(chooser, others[0], 10, first=1 << 41)
    decision = send(chooser, prompt(0))
    assert (number(decision), decision.reason) == (owner, Reason.AFFINITY)
    busy(chooser, owner, 1, first=1 << 42)
    decision = send(chooser, prompt(0))
    assert number(decision) != owner
    assert decision.reason is Reason.OVERFLOW


def test_overflow_goes_to_the_next_of_the_walk_and_not_to_the_least_loaded():
    chooser = ring(8)
    owner = served(chooser, prompt(0))
    busy(chooser, owner, 40)
    spilled = Counter(served(chooser, prompt(0)) for _ in range(50))
    assert len(spilled) == 1
    assert owner not in spilled


def test_targets_that_were_tried_are_passed_over_in_the_walk():
    chooser = ring()
    owner = served(chooser, prompt(0))
    second = send(chooser, prompt(0), tried=(f"instance-{owner}",))
    assert number(second) != owner
    assert second.reason is Reason.AFFINITY


def test_a_target_that_leaves_moves_only_its_keys():
    chooser = ring()
    before = {first: served(chooser, prompt(first)) for first in range(0, 200_000, 1000)}
    chooser.apply_targets(2, tuple(target(which) for which in (0, 1, 3)))
    after = {first: served(chooser, prompt(first)) for first in before}
    moved = {first for first in before if before[first] != after[first]}
    assert moved == {first for first, home in before.items() if home == 2}
    assert 0.12 < len(moved) / len(before) < 0.4


def test_prompts_that_differ_only_behind_100_characters_collide():
    chooser = ring(8)
    homes = {served(chooser, prompt(0, 1600, tail=tail)) for tail in range(10_000, 60_000, 5000)}
    assert len(homes) == 1


def test_the_ring_is_the_same_for_every_router():
    one, other = ring(), ring()
    other.rng.random()
    firsts = range(0, 30_000, 1000)
    assert [served(one, prompt(f)) for f in firsts] == [served(other, prompt(f)) for f in firsts]
