"""Dynamo's cost: prefill blocks less overlap, plus decode blocks."""

from tests.unit.sim.baselines.stage import busy, finish, number, prompt, send, started, stored, tell
from warmroute.core.decision import Reason
from warmroute.core.events import FirstToken
from warmroute.sim.baselines.dynamo_cost import DynamoCost


def test_it_listens_to_engines():
    assert started(DynamoCost).wants_events


def test_idle_targets_are_told_apart_by_what_engines_say_they_have():
    chooser = started(DynamoCost)
    tell(chooser, 2, stored(0, 60))
    tell(chooser, 3, stored(0, 61))
    decision = send(chooser, prompt(0))
    assert (number(decision), decision.reason) == (3, Reason.AFFINITY)


def test_what_was_sent_counts_for_nothing_until_the_engine_tells():
    chooser = started(DynamoCost)
    homes = set()
    for _ in range(60):
        decision = send(chooser, prompt(0))
        homes.add(number(decision))
        finish(chooser, decision)
    assert homes == {0, 1, 2, 3}


def test_the_cost_is_prefill_with_overlap_credited_plus_decode_blocks():
    chooser = started(DynamoCost, 2)
    tell(chooser, 0, stored(0, 90))
    [lease] = busy(chooser, 0, 1, tokens=1440)
    chooser.apply(FirstToken(lease.lease), 0)
    # Target 0: 10 to prefill, 90 + 100 to decode; target 1: 100 and 100.
    assert number(send(chooser, prompt(0))) == 0
    chooser = started(DynamoCost, 2)
    tell(chooser, 0, stored(0, 90))
    [lease] = busy(chooser, 0, 1, tokens=1456)
    chooser.apply(FirstToken(lease.lease), 0)
    # 201 against 200: decode blocks weigh as much as a prompt that would have to be computed.
    decision = send(chooser, prompt(0))
    assert (number(decision), decision.reason) == (1, Reason.OVERFLOW)


def test_pending_prompts_count_until_their_first_token():
    chooser = started(DynamoCost, 2)
    [slow] = busy(chooser, 0, 1, tokens=800)
    [fast] = busy(chooser, 1, 1, tokens=960, first=1 << 41)
    chooser.apply(FirstToken(fast.lease), 0)
    assert number(send(chooser, prompt(0))) == 1  # 60 decode blocks against 50 + 50
    assert slow.target.target_id == "instance-0"


def test_overlap_is_never_credited_below_zero_and_shared_decode_blocks_count_once():
    chooser = started(DynamoCost, 2)
    tell(chooser, 0, stored(0, 100))
    first = send(chooser, prompt(0))
    chooser.apply(FirstToken(first.lease), 0)
    # The same prompt again brings no new decode block there: cost 100, and 200 elsewhere.
    assert {number(send(chooser, prompt(0))) for _ in range(20)} == {0}


def test_ties_are_drawn():
    chooser = started(DynamoCost)
    assert {number(send(chooser, prompt(n * 1000))) for n in range(4)} == {0, 1, 2, 3}
