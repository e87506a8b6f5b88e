from dataclasses import replace

import pytest

from warmroute.resources.components.rollout import check_policy, next_shares, rollout_of
from warmroute.resources.errors import ApiError
from warmroute.resources.records import ComponentRollout


def policy(kind, value, **changes):
    rolling = {"MaximumBatchSize": {"Type": kind, "Value": value}, "WaitIntervalInSeconds": 30} | changes
    return {"RollingUpdatePolicy": rolling}


@pytest.mark.parametrize("value", [5, 50])
def test_batches_of_5_to_50_percent_are_allowed(value):
    check_policy(policy("CAPACITY_PERCENT", value))
    check_policy(None)


@pytest.mark.parametrize("value", [4, 51])
def test_other_percentages_are_refused(value):
    with pytest.raises(ApiError, match=f"MaximumBatchSize is {value} %"):
        check_policy(policy("CAPACITY_PERCENT", value))


def test_more_than_everything_cannot_be_rolled_back_at_once():
    with pytest.raises(ApiError, match="RollbackMaximumBatchSize is 101 %"):
        check_policy(
            policy("COPY_COUNT", 1, RollbackMaximumBatchSize={"Type": "CAPACITY_PERCENT", "Value": 101})
        )


@pytest.mark.parametrize(
    ("kind", "value", "count", "batch"),
    [
        ("CAPACITY_PERCENT", 5, 4, 1),
        ("CAPACITY_PERCENT", 50, 5, 3),
        ("COPY_COUNT", 2, 4, 2),
        ("COPY_COUNT", 1, 1, 1),
    ],
)
def test_a_batch_is_a_whole_number_of_copies(kind, value, count, batch):
    assert rollout_of(policy(kind, value), count).batch == batch


def test_no_more_than_half_of_the_copies_in_one_batch():
    with pytest.raises(ApiError, match="MaximumBatchSize is 3 of 4 copies"):
        rollout_of(policy("COPY_COUNT", 3), 4)


def test_what_a_policy_says_is_kept():
    given = policy(
        "COPY_COUNT",
        1,
        MaximumExecutionTimeoutInSeconds=600,
        RollbackMaximumBatchSize={"Type": "COPY_COUNT", "Value": 2},
    ) | {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "a"}]}}
    assert rollout_of(given, 4) == ComponentRollout(
        batch=1, back_batch=2, wait_s=30.0, timeout_s=600.0, alarms=("a",)
    )
    assert rollout_of(policy("COPY_COUNT", 1), 4).back_batch == 4


def test_alarms_must_exist():
    given = policy("COPY_COUNT", 1) | {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "a"}]}}
    check_policy(given, ("a",))
    with pytest.raises(ApiError, match='alarms that do not exist: "a"'):
        check_policy(given, ("b",))


def test_without_a_policy_half_of_the_copies_at_a_time():
    assert rollout_of(None, 3) == ComponentRollout(batch=2, back_batch=3)
    assert rollout_of(None, 0).batch == 1


def step(rollout, old, new, now_s=0.0, count=4):
    return next_shares(rollout, count=count, old_serving=old, new_serving=new, now_s=now_s)


def test_new_copies_come_before_old_ones_go():
    first = step(ComponentRollout(batch=2), old=4, new=0)
    assert (first.old, first.new, first.done) == (4, 2, False)
    half = step(first.rollout, old=4, new=1)
    assert (half.old, half.new) == (3, 2)


def test_a_batch_bakes_before_the_next_begins():
    rollout = ComponentRollout(batch=2, moved=2, wait_s=30.0)
    baking = step(rollout, old=4, new=2, now_s=100.0)
    assert (baking.old, baking.new, baking.rollout.baked_s) == (2, 2, 100.0)
    again = step(baking.rollout, old=2, new=1, now_s=110.0)
    assert again.rollout.baked_s is None, "a copy that is lost in the bake starts it again"
    further = step(baking.rollout, old=2, new=2, now_s=130.0)
    assert (further.old, further.new, further.rollout.moved, further.rollout.baked_s) == (2, 4, 4, None)


def test_the_last_batch_bakes_too_and_then_it_is_done():
    rollout = ComponentRollout(batch=2, moved=4, wait_s=30.0)
    baking = step(rollout, old=0, new=4, now_s=100.0)
    assert (baking.old, baking.done) == (0, False)
    assert step(baking.rollout, old=0, new=4, now_s=130.0).done


def test_with_no_copies_there_is_nothing_to_roll():
    assert step(ComponentRollout(batch=1), old=0, new=0, count=0).done


def test_an_update_to_more_copies_starts_no_more_old_ones():
    rollout = ComponentRollout(batch=2, old_max=2)
    first = step(rollout, old=2, new=0)
    assert (first.old, first.new) == (2, 2)
    further = step(first.rollout, old=2, new=2)
    assert (further.old, further.new) == (2, 4)
    back = step(replace(rollout, back=True, back_batch=4), old=2, new=1)
    assert back.old == 4


def test_a_rollback_brings_the_old_ones_back_in_batches():
    rollout = ComponentRollout(batch=1, back_batch=1, moved=3, back=True)
    first = step(rollout, old=1, new=3)
    assert (first.old, first.new, first.done) == (2, 3, False)
    last = step(rollout, old=4, new=1)
    assert (last.old, last.new, last.done) == (4, 0, True)
