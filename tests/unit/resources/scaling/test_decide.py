"""From alarms to a capacity."""

import pytest

from warmroute.resources.metrics.alarms import Alarm, AlarmState, Comparison, Finding
from warmroute.resources.scaling.decide import Decision, Hold, Reading, Vote, adjust, decide, scaled, vote
from warmroute.resources.scaling.records import ScalableTargetRecord, ScalingPolicyRecord

DIMENSION = "sagemaker:variant:DesiredInstanceCount"
RESOURCE = "endpoint/llm/variant/a"
TARGET = ScalableTargetRecord(RESOURCE, DIMENSION, 0.0, "t", 1, 10)
PREDEFINED = {
    "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
}
NOW = 10_000.0


def tracking(**config):
    state = {key: config.pop(key) for key in ("out_s", "out_from", "in_s") if key in config}
    return ScalingPolicyRecord(
        RESOURCE, DIMENSION, 0.0, "track", "p", tracking={"TargetValue": 10.0} | PREDEFINED | config, **state
    )


def stepping(*steps, **config):
    state = {key: config.pop(key) for key in ("out_s", "out_from", "in_s", "name") if key in config}
    document = {
        "AdjustmentType": "ChangeInCapacity",
        "StepAdjustments": [
            {
                key: value
                for key, value in zip(
                    ("MetricIntervalLowerBound", "MetricIntervalUpperBound", "ScalingAdjustment"),
                    step,
                    strict=True,
                )
                if value is not None
            }
            for step in steps
        ],
    }
    return ScalingPolicyRecord(
        RESOURCE, DIMENSION, 0.0, state.pop("name", "step"), "p", step=document | config, **state
    )


def reading(name, state, *values, threshold=10.0):
    return Reading(
        Alarm(name, {}, threshold, Comparison.GREATER_OR_EQUAL),
        Finding(AlarmState.ALARM if state else AlarmState.OK, values),
    )


def both(high=(), low=()):
    return {
        "high": reading("high", bool(high), *high),
        "low": reading("low", bool(low), *low, threshold=9.0),
    }


def asked(policy, readings, *, capacity):
    return [
        one.capacity for one in vote(policy, readings, capacity=capacity, now_s=NOW) if isinstance(one, Vote)
    ]


# --- Target tracking -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "high", "expected"),
    [
        (1, (35.0, 30.0, 11.0), [4]),
        (3, (10.1, 12.0, 12.0), [4]),
        (2, (15.0, 12.0, 12.0), [3]),
        (0, (35.0, 35.0, 35.0), []),
        (2, (), []),
    ],
)
def test_it_scales_out_to_what_the_newest_value_needs(capacity, high, expected):
    assert asked(tracking(), both(high=high), capacity=capacity) == expected


@pytest.mark.parametrize(
    ("capacity", "low", "expected"),
    [(4, (0.0, 5.0, 2.0), [2]), (4, (0.0, 0.0), [0]), (4, (8.9, 8.9), []), (1, (8.0,), [])],
)
def test_it_scales_in_to_what_the_greatest_value_needs(capacity, low, expected):
    assert asked(tracking(), both(low=low), capacity=capacity) == expected


def test_exactly_on_target_nothing_is_added():
    assert asked(tracking(TargetValue=0.1), both(high=(0.1,)), capacity=3) == []


def test_without_scale_in_it_neither_asks_nor_holds_others_back():
    policy = tracking(DisableScaleIn=True)
    assert vote(policy, both(low=(0.0,)), capacity=4, now_s=NOW) == ()
    assert asked(policy, both(high=(20.0,)), capacity=4) == [8]


def test_while_it_asks_for_nothing_it_holds():
    assert vote(tracking(), both(), capacity=4, now_s=NOW) == (Hold(),)


def test_a_scale_out_counts_as_part_of_the_next_while_its_cooldown_runs():
    policy = tracking(out_s=NOW - 299, out_from=2, ScaleOutCooldown=300)
    assert asked(policy, both(high=(20.0,)), capacity=4) == []
    assert asked(policy, both(high=(30.0,)), capacity=4) == [6]


def test_after_the_cooldown_it_is_computed_from_what_there_is():
    policy = tracking(out_s=NOW - 300, out_from=2, ScaleOutCooldown=300)
    assert asked(policy, both(high=(20.0,)), capacity=4) == [8]


@pytest.mark.parametrize("since", ["out_s", "in_s"])
def test_no_scale_in_while_a_cooldown_runs(since):
    assert asked(tracking(**{since: NOW - 299}), both(low=(0.0,)), capacity=4) == []
    assert asked(tracking(**{since: NOW - 300}), both(low=(0.0,)), capacity=4) == [0]


def test_a_scale_out_does_not_wait_for_the_cooldown_of_a_scale_in():
    assert asked(tracking(in_s=NOW - 1), both(high=(20.0,)), capacity=1) == [2]


def test_before_its_alarms_exist_it_holds():
    assert vote(tracking(), {}, capacity=4, now_s=NOW) == (Hold(),)


# --- Steps -----------------------------------------------------------------------------------

STEPS = ((None, -5, -2), (-5, 0, -1), (0, 5, 1), (5, None, 3))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(10.0, 5), (14.9, 5), (15.0, 7), (99.0, 7), (9.9, 3), (5.0, 2), (4.9, 2), (-90.0, 2)],
)
def test_the_step_that_the_breach_falls_into_is_taken(value, expected):
    assert asked(stepping(*STEPS), {"a": reading("a", True, value)}, capacity=4) == [expected]


def test_a_breach_between_two_steps_changes_nothing():
    assert asked(stepping((5, None, 3)), {"a": reading("a", True, 12.0)}, capacity=4) == []


def test_no_alarm_no_step():
    assert asked(stepping((0, None, 1)), {"a": reading("a", False, 99.0)}, capacity=4) == []
    assert asked(stepping((0, None, 1)), {"a": reading("a", True)}, capacity=4) == []


@pytest.mark.parametrize(
    ("kind", "expected"), [("Minimum", [5]), ("Average", [5]), ("Maximum", [7]), (None, [5])]
)
def test_values_of_several_periods_are_aggregated(kind, expected):
    policy = stepping(*STEPS, **({"MetricAggregationType": kind} if kind else {}))
    assert asked(policy, {"a": reading("a", True, 10.0, 16.0, 10.0)}, capacity=4) == expected


def test_each_alarm_of_a_policy_asks_for_itself():
    readings = {"a": reading("a", True, 10.0), "b": reading("b", True, 20.0), "c": reading("c", False, 20.0)}
    assert asked(stepping(*STEPS), readings, capacity=4) == [5, 7]


def test_from_zero_a_step_adds_the_first():
    assert asked(stepping((0, None, 1)), {"a": reading("a", True, 10.0)}, capacity=0) == [1]


def test_a_step_out_waits_for_its_cooldown_unless_it_asks_for_more():
    policy = stepping((0, 5, 1), (5, None, 3), out_s=NOW - 59, out_from=4, Cooldown=60)
    assert asked(policy, {"a": reading("a", True, 10.0)}, capacity=5) == []
    assert asked(policy, {"a": reading("a", True, 15.0)}, capacity=5) == [7]


def test_a_step_in_waits_for_its_cooldown():
    assert asked(stepping((0, None, -1), in_s=NOW - 299), {"a": reading("a", True, 10.0)}, capacity=5) == []
    assert asked(stepping((0, None, -1), in_s=NOW - 300), {"a": reading("a", True, 10.0)}, capacity=5) == [4]


@pytest.mark.parametrize(
    ("kind", "adjustment", "capacity", "magnitude", "expected"),
    [
        ("ExactCapacity", 3, 7, 0, 3),
        ("ExactCapacity", -3, 7, 0, 0),
        ("ChangeInCapacity", -9, 7, 0, 0),
        ("ChangeInCapacity", 2, 7, 0, 9),
        ("PercentChangeInCapacity", 50, 4, 0, 6),
        ("PercentChangeInCapacity", 10, 4, 0, 5),
        ("PercentChangeInCapacity", -10, 4, 0, 3),
        ("PercentChangeInCapacity", 40, 7, 0, 9),
        ("PercentChangeInCapacity", -40, 7, 0, 5),
        ("PercentChangeInCapacity", 10, 4, 2, 6),
        ("PercentChangeInCapacity", -10, 4, 2, 2),
        ("PercentChangeInCapacity", 50, 0, 0, 0),
        ("PercentChangeInCapacity", 50, 0, 2, 2),
        ("PercentChangeInCapacity", 0, 4, 2, 4),
    ],
)
def test_adjustment_types(kind, adjustment, capacity, magnitude, expected):
    config = {"AdjustmentType": kind, "MinAdjustmentMagnitude": magnitude}
    assert adjust(config, adjustment, capacity) == expected


# --- Several policies ------------------------------------------------------------------------


def ask(capacity, *, tracks=False, name="p"):
    return Vote(stepping((0, None, 1), name=name), f"alarm-of-{name}", capacity, tracks=tracks)


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([ask(5), ask(7), ask(2)], 7),
        ([ask(2), ask(3)], 3),
        ([ask(2, tracks=True), ask(3, tracks=True)], 3),
        ([ask(2, tracks=True), Hold()], None),
        ([ask(2), Hold()], 2),
        ([ask(5, tracks=True), Hold()], 5),
        ([Hold()], None),
        ([], None),
    ],
)
def test_the_largest_capacity_wins_and_tracking_policies_scale_in_together(votes, expected):
    decided = decide(TARGET, votes, capacity=4)
    assert (decided.capacity if decided else None) == expected


@pytest.mark.parametrize(
    ("capacity", "wanted", "expected", "reason"),
    [
        (4, 99, 10, ""),
        (10, 99, 10, "AlreadyAtMaxCapacity"),
        (12, 99, 12, "AlreadyAtMaxCapacity"),
        (4, 0, 1, ""),
        (1, 0, 1, "AlreadyAtMinCapacity"),
        (0, 3, 3, ""),
    ],
)
def test_the_bounds_are_kept(capacity, wanted, expected, reason):
    decided = decide(TARGET, [ask(wanted)], capacity=capacity)
    assert (decided.capacity, decided.reason) == (expected, reason)


def test_the_cause_names_alarm_and_policy():
    decided = decide(TARGET, [ask(5, name="other"), ask(6, name="busy")], capacity=4)
    assert isinstance(decided, Decision)
    assert decided.vote.cause == "monitor alarm alarm-of-busy in state ALARM triggered policy busy"


@pytest.mark.parametrize(
    ("suspended", "expected"), [({"out_suspended": True}, 2), ({"in_suspended": True}, 6), ({}, 6)]
)
def test_what_is_suspended_is_not_done(suspended, expected):
    target = ScalableTargetRecord(RESOURCE, DIMENSION, 0.0, "t", 1, 10, **suspended)
    assert decide(target, [ask(6), ask(2)], capacity=4).capacity == expected


# --- Cooldowns begin -------------------------------------------------------------------------


def test_a_scale_out_remembers_where_it_began():
    first = scaled(tracking(), before=2, after=4, now_s=NOW)
    assert (first.out_s, first.out_from) == (NOW, 2)
    second = scaled(first, before=4, after=6, now_s=NOW + 100)
    assert (second.out_s, second.out_from) == (NOW + 100, 2)
    third = scaled(second, before=6, after=7, now_s=NOW + 400)
    assert (third.out_s, third.out_from) == (NOW + 400, 6)


def test_a_scale_in_begins_a_cooldown_of_its_own():
    policy = scaled(tracking(out_s=1.0), before=4, after=2, now_s=NOW)
    assert (policy.in_s, policy.out_s) == (NOW, 1.0)
