"""The steps of a deployment, by themselves; test_planner_rollouts.py has them with instances."""

from dataclasses import replace

import pytest

from tests.policies import blue_green, instances, percent, rolling
from warmroute.resources.deployments.rollout import (
    base,
    begin,
    check_time,
    give_up_going_back,
    go_back,
    go_on,
    shifted,
    shown,
    steps,
    turn_back,
    waits_for,
    wanted,
)
from warmroute.resources.errors import ApiError
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.records import (
    UNSTAMPED,
    Deployment,
    EndpointRecord,
    Launch,
    Rollout,
    RolloutPhase,
    VariantRecord,
)

P = RolloutPhase


def variant(count=4, revision=1, name="v", **changes):
    return VariantRecord(name, revision, Launch("t", f"m{revision}"), count, **changes)


CANARY = blue_green("CANARY", bake=10, CanarySize=percent(10))
LINEAR = blue_green("LINEAR", bake=10, LinearStepSize=percent(30))


def updating(policy, old=None, new=None, **changes):
    old, new = old or (variant(),), new or (variant(revision=2),)
    endpoint = EndpointRecord(
        "ep", "arn", EndpointStatus.UPDATING, 0.0, 0.0,
        active=Deployment("c", old, 0.0), pending=Deployment("c2", new, 0.0, policy=policy),
    )  # fmt: skip
    endpoint = replace(endpoint, **changes)
    return replace(endpoint, rollout=begin(endpoint, endpoint.pending, 0.0))


def at(endpoint, step, phase, **changes):
    return replace(endpoint, rollout=Rollout(step, phase, 0.0, **changes))


def shares(endpoint, serving=()):
    return {one.variant.group: pytest.approx(one.share) for one in shown(endpoint, dict(serving))}


def counts(endpoint):
    return {group: variant.count for group, variant in wanted(endpoint).items()}


# --- what goes in steps ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("policy", "in_steps"),
    [(None, False), ({}, False), (blue_green(), False), (blue_green(bake=1), True),
     (blue_green(termination=1), True), (CANARY, True), (LINEAR, True), (rolling(percent(50)), True)],
)  # fmt: skip
def test_a_deployment_with_waits_or_shares_goes_in_steps(policy, in_steps):
    assert (updating(policy).rollout is not None) is in_steps


def test_a_change_that_keeps_every_instance_is_none_in_steps():
    assert updating(CANARY, new=(variant(weight=0.5),)).rollout is None


def test_host_slots_go_all_at_once():
    assert updating(CANARY, new=(variant(revision=2, carries_copies=True),)).rollout is None


def test_a_repair_with_what_serves_already_goes_all_at_once():
    mixed = (variant(2), variant(2, 2))
    assert updating(CANARY, mixed=mixed).rollout is None
    assert updating(CANARY, new=(variant(revision=3),), mixed=mixed).rollout is not None


# --- the steps -----------------------------------------------------------------------------------
def test_a_canary_has_two_steps():
    assert [step.share["v"] for step in steps(updating(CANARY))] == [0.1, 1.0]
    sized = blue_green("CANARY", bake=1, CanarySize=instances(1))
    assert [step.share["v"] for step in steps(updating(sized))] == [0.25, 1.0]


@pytest.mark.parametrize(
    ("size", "expected"),
    [(percent(10), [n / 10 for n in range(1, 11)]), (percent(30), [0.3, 0.6, 0.9, 1.0]),
     (percent(33), [0.33, 0.66, 0.99, 1.0]), (percent(50), [0.5, 1.0]),
     (instances(1), [0.25, 0.5, 0.75, 1.0])],
)  # fmt: skip
def test_linear_steps_add_up(size, expected):
    policy = blue_green("LINEAR", bake=1, LinearStepSize=size)
    assert [step.share["v"] for step in steps(updating(policy))] == pytest.approx(expected)
    assert steps(updating(policy))[-1].share["v"] == 1.0


def test_blue_green_has_all_new_instances_from_the_first_step_and_all_old_ones_to_the_last():
    made = steps(updating(LINEAR, new=(variant(7, 2),)))
    assert {step.new["v"] for step in made} == {7}
    assert {step.old["v"] for step in made} == {4}


def test_variants_of_different_sizes_have_steps_of_their_own():
    policy = blue_green("LINEAR", bake=1, LinearStepSize=instances(1))
    old = (variant(4), variant(2, name="w"))
    new = (variant(4, 2), variant(2, 2, name="w"))
    assert [step.share for step in steps(updating(policy, old, new))] == [
        {"v": 0.25, "w": 0.5}, {"v": 0.5, "w": 1.0}, {"v": 0.75, "w": 1.0}, {"v": 1.0, "w": 1.0},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("size", "old", "new", "expected"),
    [
        (instances(1), 4, 4, [(1, 0.25, 3), (2, 0.5, 2), (3, 0.75, 1), (4, 1.0, 0)]),
        (percent(50), 4, 4, [(2, 0.5, 2), (4, 1.0, 0)]),
        (percent(40), 5, 5, [(2, 0.4, 3), (4, 0.8, 1), (5, 1.0, 0)]),
        (percent(50), 1, 1, [(1, 1.0, 0)]),
        (percent(50), 6, 2, [(1, 0.5, 3), (2, 1.0, 0)]),
        (percent(50), 2, 6, [(3, 0.5, 1), (6, 1.0, 0)]),
        (percent(50), 3, 0, [(0, 1.0, 0)]),
    ],
)
def test_rolling_goes_batch_by_batch(size, old, new, expected):
    made = steps(updating(rolling(size), (variant(old),), (variant(new, 2),)))
    assert [(step.new["v"], step.share["v"], step.old["v"]) for step in made] == expected


def test_a_rolling_update_never_has_less_capacity_than_one_batch_below_the_old():
    for count in range(1, 30):
        made = steps(updating(rolling(percent(20)), (variant(count),), (variant(count, 2),)))
        assert all(step.new["v"] + step.old["v"] >= count for step in made)
        assert made[-1].new["v"] == count


@pytest.mark.parametrize(("bound", "allowed"), [(620, True), (600, True), (30, False), (31, True)])
def test_waits_must_be_shorter_than_the_execution_may_take(bound, allowed):
    endpoint = updating(blue_green("CANARY", bake=10, termination=10, timeout=bound, CanarySize=percent(10)))
    if allowed:
        check_time(endpoint)
        return
    with pytest.raises(ApiError, match="is 30, and the deployment waits 30 s: 2 times .* 10 and Term.* 10"):
        check_time(endpoint)


def test_a_deployment_all_at_once_waits_for_nothing():
    check_time(updating(blue_green(timeout=600)))


# --- what it is at -----------------------------------------------------------------------------
def test_the_phases_follow_one_another():
    serving, endpoint, seen, now_s, acked = {("v", 1): 4}, updating(CANARY), [], 0.0, True
    for _ in range(12):
        seen.append((endpoint.rollout.step, endpoint.rollout.phase.value))
        endpoint = go_on(endpoint, serving, now_s=now_s, acked=acked)
        if endpoint.rollout is None:
            break
        serving["v", 2] = 4
        now_s += 5.0
    assert list(dict.fromkeys(seen)) == [
        (0, "provisioning"), (0, "shifting"), (0, "baking"), (1, "shifting"), (1, "baking"),
    ]  # fmt: skip
    assert (endpoint.active.config_name, endpoint.pending, endpoint.awaits) == ("c2", None, UNSTAMPED)


def test_a_share_is_baked_only_when_every_router_knows_it():
    endpoint = at(updating(CANARY), 0, P.SHIFTING)
    assert go_on(endpoint, {}, now_s=1e6, acked=False) is endpoint
    baking = go_on(endpoint, {}, now_s=5.0, acked=True)
    assert (baking.rollout.phase, baking.rollout.since_s) == (P.BAKING, 5.0)
    assert go_on(baking, {("v", 2): 4}, now_s=14.9, acked=True).rollout.step == 0
    assert go_on(baking, {("v", 2): 4}, now_s=15.0, acked=True).rollout.step == 1


def test_old_instances_wait_for_the_termination():
    endpoint = at(updating(blue_green(bake=0, termination=30)), 0, P.BAKING)
    waiting = go_on(endpoint, {}, now_s=1.0, acked=False)
    assert waiting.rollout.phase is P.TERMINATING
    assert counts(waiting) == {("v", 1): 4, ("v", 2): 4}
    assert go_on(waiting, {}, now_s=30.9, acked=True) is waiting
    assert go_on(waiting, {}, now_s=31.0, acked=True).pending is None


@pytest.mark.parametrize(
    ("step", "phase", "green"),
    [(0, P.PROVISIONING, None), (0, P.SHIFTING, 0.1), (0, P.BAKING, 0.1), (1, P.PROVISIONING, 0.1),
     (1, P.SHIFTING, 1.0), (1, P.TERMINATING, 1.0)],
)  # fmt: skip
def test_shares_change_when_a_step_shifts(step, phase, green):
    endpoint = at(updating(CANARY), step, phase)
    if green is None:
        assert shifted(endpoint) is None
        assert shares(endpoint) == {("v", 1): 1.0}
    else:
        assert shares(endpoint) == {("v", 1): 1 - green, ("v", 2): green}


def test_variants_that_keep_their_instances_change_with_the_first_share():
    old = (variant(), variant(name="w", weight=1.0))
    new = (variant(revision=2, weight=3.0), variant(name="w", weight=0.25))
    endpoint = updating(CANARY, old, new)
    before = {one.variant.group: one.variant.weight for one in shown(endpoint, {})}
    assert before == {("v", 1): 1.0, ("w", 1): 1.0}
    after = {one.variant.group: one.variant.weight for one in shown(at(endpoint, 0, P.SHIFTING), {})}
    assert after == {("v", 1): 3.0, ("w", 1): 0.25, ("v", 2): 3.0}


def test_a_rolling_update_wants_a_batch_more_than_it_had_and_lets_as_many_go_after_the_bake():
    endpoint = updating(rolling(instances(1)))
    wants = [counts(at(endpoint, step, P.BAKING)) for step in range(4)]
    assert [(each["v", 1], each["v", 2]) for each in wants] == [(4, 1), (3, 2), (2, 3), (1, 4)]


def test_nothing_is_waited_for_where_no_instance_is_added():
    assert waits_for(updating(None, new=(variant(3),))) == {}
    assert waits_for(updating(None, new=(variant(5),))) == {("v", 1): 5}
    assert waits_for(updating(rolling(instances(1)))) == {("v", 2): 1}
    assert waits_for(at(updating(rolling(instances(1))), 2, P.PROVISIONING)) == {("v", 2): 3}
    assert waits_for(updating(None, active=None)) == {("v", 2): 4}


def test_the_shadow_is_wanted_beside_all_others_and_waited_for():
    endpoint = updating(CANARY)
    old, new = variant(1, name="s"), variant(2, 2, name="s")
    endpoint = replace(
        endpoint, active=replace(endpoint.active, shadow=old), pending=replace(endpoint.pending, shadow=new)
    )
    assert counts(endpoint) == {("v", 1): 4, ("v", 2): 4, ("s", 1): 1, ("s", 2): 2}
    assert waits_for(endpoint) == {("v", 2): 4, ("s", 2): 2}
    assert ("s", 1) not in shares(endpoint)


# --- going back ----------------------------------------------------------------------------------
def test_blue_green_goes_back_at_once():
    back = turn_back(at(updating(CANARY), 1, P.BAKING), {("v", 1): 4, ("v", 2): 4})
    assert (back.pending, back.rollout, back.awaits) == (None, None, UNSTAMPED)
    assert shares(back) == {("v", 1): 1.0}
    assert counts(back) == {("v", 1): 4}


def test_before_the_first_share_there_is_nothing_to_tell_the_routers():
    assert turn_back(updating(CANARY), {}).awaits is None
    assert turn_back(updating(None), {}).awaits is None


def test_a_rolling_update_that_has_let_no_instance_go_goes_back_at_once():
    back = turn_back(at(updating(rolling(instances(1))), 0, P.BAKING), {("v", 1): 4, ("v", 2): 1})
    assert (back.pending, back.rollout) == (None, None)


def test_a_rolling_update_gives_back_the_old_instances():
    endpoint = at(updating(rolling(instances(1))), 3, P.BAKING)
    serving = {("v", 1): 1, ("v", 2): 4}
    back = turn_back(endpoint, serving)
    assert counts(back) == {("v", 1): 4, ("v", 2): 4}
    assert shares(back, serving) == {("v", 1): 0.5, ("v", 2): 0.5}
    serving["v", 1] = 2
    back = go_back(back, serving)
    assert shares(back, serving) == {("v", 1): 1.0}
    assert counts(back) == {("v", 1): 4, ("v", 2): 0}
    serving["v", 1] = 1
    assert go_back(back, serving) is back
    assert shares(back, serving) == {("v", 1): 1.0}
    done = go_back(back, {("v", 1): 4})
    assert (done.pending, done.rollout, done.awaits) == (None, None, UNSTAMPED)


def test_old_instances_come_back_in_batches_of_their_own():
    policy = rolling(instances(2), RollbackMaximumBatchSize=instances(1))
    endpoint = at(updating(policy, (variant(6),), (variant(6, 2),)), 2, P.SHIFTING)
    back = turn_back(endpoint, {("v", 1): 2, ("v", 2): 6})
    assert counts(back)["v", 1] == 3
    assert go_back(back, {("v", 1): 2}) is back
    assert counts(go_back(back, {("v", 1): 3}))["v", 1] == 4


def test_a_rollback_that_fails_leaves_what_serves():
    endpoint = at(updating(rolling(instances(1))), 3, P.BAKING)
    serving = {("v", 1): 1, ("v", 2): 4}
    left = give_up_going_back(turn_back(endpoint, serving), serving)
    assert (left.pending, left.rollout) == (None, None)
    assert {v.group: v.count for v in left.mixed} == {("v", 1): 1, ("v", 2): 4}
    assert shares(left) == {("v", 1): 0.2, ("v", 2): 0.8}
    assert counts(left) == {("v", 1): 1, ("v", 2): 4}


def test_a_rollback_that_fails_with_nothing_left_goes_on_trying_to_have_one():
    endpoint = at(updating(rolling(instances(1))), 3, P.BAKING)
    left = give_up_going_back(turn_back(endpoint, {}), {})
    assert counts(left) == {("v", 1): 1}


def test_a_repair_shifts_from_both_revisions_to_a_third():
    mixed = (variant(1), variant(3, 2))
    endpoint = updating(CANARY, new=(variant(revision=3),), mixed=mixed)
    assert counts(endpoint) == {("v", 1): 1, ("v", 2): 3, ("v", 3): 4}
    shares_now = shares(at(endpoint, 0, P.BAKING))
    assert shares_now == {("v", 1): 0.225, ("v", 2): 0.675, ("v", 3): 0.1}
    back = turn_back(at(endpoint, 0, P.BAKING), {})
    assert counts(back) == {("v", 1): 1, ("v", 2): 3}
    done = go_on(at(endpoint, 1, P.TERMINATING), {}, now_s=0.0, acked=False)
    assert (done.mixed, shares(done)) == ((), {("v", 3): 1.0})


def test_a_rolling_repair_replaces_all_at_once():
    mixed = (variant(1), variant(3, 2))
    endpoint = updating(rolling(instances(1), bake=5), new=(variant(revision=3),), mixed=mixed)
    assert [(step.new["v"], step.share["v"]) for step in steps(endpoint)] == [(4, 1.0)]
    back = turn_back(at(endpoint, 0, P.BAKING), {})
    assert (back.pending, back.mixed) == (None, mixed)


def test_a_repair_to_the_old_revision_waits_for_the_instances_that_are_missing():
    endpoint = updating(None, new=(variant(4),), mixed=(variant(1), variant(3, 2)))
    assert waits_for(endpoint) == {("v", 1): 4}
    assert counts(endpoint) == {("v", 1): 4, ("v", 2): 3}


def test_what_was_never_in_service_shows_nothing():
    endpoint = EndpointRecord(
        "ep", "arn", EndpointStatus.CREATING, 0.0, 0.0, pending=Deployment("c", (variant(),), 0.0)
    )
    assert (base(endpoint), shown(endpoint, {})) == ((), ())
    assert counts(endpoint) == {("v", 1): 4}


def test_what_serves_with_no_instance_at_all_has_the_whole_share():
    endpoint = replace(updating(None), mixed=(variant(0),), pending=None)
    assert shares(endpoint) == {("v", 1): 1.0}
