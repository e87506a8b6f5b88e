"""What all baselines share: targets, leases, and the weight of a lease on its target."""

from random import Random

import pytest

from tests.unit.sim.baselines.stage import finish, number, prompt, send, started, stored, target, tell
from warmroute.core.decision import NO_PROMPT, Reason, Refusal, Refused
from warmroute.core.events import Cancelled, Completed, Failed, FailureCause, FirstToken
from warmroute.core.fleet import TargetState
from warmroute.sim.baselines.base import (
    Baseline,
    NoMemory,
    Pick,
    least_in_flight,
    lowest,
    matches,
    prompt_runs,
    reason_of,
)
from warmroute.sim.baselines.view import View
from warmroute.workload.prompts import Request


class First(Baseline):
    """Picks the first by name."""

    def pick(self, candidates, request, asked):
        return Pick(candidates[0], Reason.RANDOM)


class Known(First):
    """Says that 100 tokens are uncached, whatever they are."""

    def __init__(self, rng):
        super().__init__(rng, View, events=True)

    def pick(self, candidates, request, asked):
        return Pick(candidates[0], Reason.AFFINITY, 100)


def names(chooser):
    return [place.row.target.target_id for place in chooser.candidates]


def test_candidates_are_in_order_of_their_names_whatever_the_order_of_the_fleet():
    chooser = First(Random(1))
    chooser.apply_targets(1, (target(2), target(0), target(1)))
    assert names(chooser) == ["instance-0", "instance-1", "instance-2"]


def test_a_draining_target_gets_nothing_new_and_keeps_what_it_has():
    chooser = started(First, 2)
    kept = send(chooser, prompt(0))
    chooser.apply_targets(2, (target(0, state=TargetState.DRAINING), target(1)))
    assert number(send(chooser, prompt(0))) == 1
    assert chooser.in_flight() == {"instance-0": 1, "instance-1": 1}
    finish(chooser, kept)
    assert chooser.in_flight() == {"instance-0": 0, "instance-1": 1}


def test_a_target_that_left_is_counted_until_its_last_lease_ends():
    chooser = started(First, 2)
    leases = [send(chooser, prompt(0)) for _ in range(2)]
    chooser.apply_targets(2, (target(1),))
    assert names(chooser) == ["instance-1"]
    assert (chooser.open_leases(), chooser.in_flight()) == (2, {"instance-0": 2, "instance-1": 0})
    chooser.apply(Failed(leases[0].lease, FailureCause.CLOSED), 0)
    assert chooser.in_flight() == {"instance-0": 1, "instance-1": 0}
    finish(chooser, leases[1])
    assert (chooser.open_leases(), chooser.in_flight()) == (0, {"instance-1": 0})


def test_an_idle_target_that_left_is_forgotten_at_once():
    chooser = started(First, 2)
    chooser.apply_targets(2, (target(0),))
    assert chooser.in_flight() == {"instance-0": 0}


def test_a_target_that_comes_back_finds_its_leases():
    chooser = started(First, 2)
    send(chooser, prompt(0))
    chooser.apply_targets(2, (target(1),))
    chooser.apply_targets(3, (target(0), target(1)))
    assert chooser.in_flight()["instance-0"] == 1


def test_a_new_generation_starts_empty_and_releases_of_the_old_one_are_void():
    chooser = started(Known, 1)
    old = send(chooser, prompt(0))
    tell(chooser, 0, stored(0, 50))
    chooser.apply_targets(2, (target(0, generation=2),))
    place = chooser.candidates[0]
    assert (place.in_flight, place.pending_tokens, matches([place], prompt(0))) == (0, 0, [0])
    send(chooser, prompt(0))
    finish(chooser, old)
    assert (place.in_flight, place.pending_tokens, chooser.open_leases()) == (1, 100, 1)


def test_what_is_told_of_another_generation_or_of_nobody_is_void():
    chooser = started(Known, 1)
    tell(chooser, 0, stored(0, 50), generation=2)
    tell(chooser, 9, stored(0, 50))
    assert matches(chooser.candidates, prompt(0)) == [0]
    tell(chooser, 0, stored(0, 50))
    assert matches(chooser.candidates, prompt(0)) == [50]


def test_targets_that_failed_the_invocation_are_passed_over():
    chooser = started(First, 3)
    assert number(send(chooser, prompt(0), tried=("instance-0", "instance-1"))) == 2


@pytest.mark.parametrize(("count", "refusal"), [(2, Refusal.ALL_TRIED), (0, Refusal.NO_TARGET)])
def test_no_candidate_is_a_refusal_with_its_reason(count, refusal):
    chooser = started(First, count)
    tried = ("instance-0", "instance-1")
    assert chooser.decide(prompt(0), NO_PROMPT, 0, tried) == Refused(refusal)
    assert chooser.open_leases() == 0


@pytest.mark.parametrize("end", [Completed, Cancelled, lambda lease: Failed(lease, FailureCause.CLOSED)])
def test_a_lease_weighs_until_it_ends_and_its_prompt_until_the_first_token(end):
    chooser = started(Known, 1)
    decision = send(chooser, prompt(0))
    place = chooser.candidates[0]
    assert (place.in_flight, place.prompt_tokens, place.pending_tokens, place.active_blocks) == (
        1, 1600, 100, 100,
    )  # fmt: skip
    for _ in range(2):
        chooser.apply(FirstToken(decision.lease), 0)
        assert (place.in_flight, place.prompt_tokens, place.pending_tokens) == (1, 1600, 0)
    chooser.apply(end(decision.lease), 0)
    assert (place.in_flight, place.prompt_tokens, place.active_blocks) == (0, 0, 0)


def test_an_end_without_a_first_token_takes_everything_off():
    chooser = started(First, 1)
    decision = send(chooser, prompt(0))
    assert chooser.candidates[0].pending_tokens == 1600
    chooser.apply(Cancelled(decision.lease), 0)
    assert (chooser.candidates[0].pending_tokens, chooser.candidates[0].pending) == (0, {})


def test_a_lease_is_released_once():
    chooser = started(First, 1)
    decision = send(chooser, prompt(0))
    finish(chooser, decision)
    with pytest.raises(AssertionError, match="released twice"):
        chooser.apply(Completed(decision.lease), 0)


def test_blocks_that_open_prompts_share_count_once():
    chooser = started(First, 1)
    place = chooser.candidates[0]
    long, short = send(chooser, prompt(0, 1600)), send(chooser, prompt(0, 800))
    tailed = send(chooser, prompt(0, 1600, tail=5000))
    assert place.active_blocks == 100 + 10
    assert place.new_blocks(prompt_runs(prompt(0, 3200))) == 100
    finish(chooser, long)
    assert place.active_blocks == 90 + 10
    finish(chooser, tailed)
    assert place.active_blocks == 50
    finish(chooser, short)
    assert place.active_blocks == 0


def test_pending_leases_are_in_the_order_they_were_taken():
    chooser = started(First, 1)
    decisions = [send(chooser, prompt(n * 1000, 160 * (n + 1))) for n in range(3)]
    chooser.apply(FirstToken(decisions[1].lease), 0)
    assert [charge.prompt_tokens for charge in chooser.candidates[0].pending] == [160, 480]


def test_an_assignment_says_how_loaded_the_target_was_and_of_how_many_it_was_one():
    chooser = started(First, 3)
    send(chooser, prompt(0))
    decision = send(chooser, prompt(0), tried=("instance-2",))
    assert (decision.in_flight, decision.candidates, decision.rank) == (1, 2, -1)


def test_nothing_is_ever_due_and_most_need_no_key():
    chooser = started(First, 1)
    chooser.on_deadline(5)
    assert chooser.next_deadline_ns() is None
    assert chooser.asked(prompt(0)) is NO_PROMPT
    assert not chooser.wants_events


def test_without_a_memory_nothing_is_known():
    memory = NoMemory()
    memory.sent(prompt(0).runs, 100)
    tell(started(First, 1), 0, stored(0, 100))
    assert memory.match(prompt(0).runs, 100) == 0


def test_only_whole_blocks_of_the_prompt_are_its_chain():
    assert prompt_runs(Request(40, 100, ((0, 1), (50, 9)))) == ((0, 1), (50, 1))
    assert prompt_runs(Request(15, 100, ((0, 9),))) == ()


def test_ties_are_broken_by_the_rng_and_a_single_lowest_value_needs_none():
    assert lowest([3, 1, 2], Random(1)) == 1
    drawn = [lowest([1, 5, 1, 1], rng) for rng in [Random(3)] for _ in range(200)]
    assert set(drawn) == {0, 2, 3}


def test_least_in_flight_is_exact():
    chooser = started(First, 3)
    send(chooser, prompt(0))
    send(chooser, prompt(0), tried=("instance-0",))
    assert least_in_flight(chooser.candidates, Random(1)).row.target.target_id == "instance-2"


@pytest.mark.parametrize(
    ("matched", "position", "reason"),
    [
        ([0, 0], 1, Reason.LEAST_OUTSTANDING),
        ([4, 9], 1, Reason.AFFINITY),
        ([9, 9], 0, Reason.AFFINITY),
        ([4, 9], 0, Reason.OVERFLOW),
    ],
)
def test_the_reason_says_whether_the_best_match_was_taken(matched, position, reason):
    assert reason_of(matched, position) is reason
