"""Scaling decisions under any load: between the bounds, enough, and at rest when the load is."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.resources.metrics.alarms import Finding, evaluate
from warmroute.resources.scaling.alarms import tracking
from warmroute.resources.scaling.decide import Decision, Hold, Reading, Vote, adjust, decide, scaled, vote
from warmroute.resources.scaling.records import ScalableTargetRecord, ScalingPolicyRecord

RESOURCE, DIMENSION = "endpoint/llm/variant/a", "sagemaker:variant:DesiredInstanceCount"
KIND = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
WINDOW_S = 10.0
bounds = st.tuples(st.integers(0, 5), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))
loads = st.lists(st.tuples(st.floats(0, 200), st.integers(1, 60)), min_size=1, max_size=4)


def policy(goal, out_s, in_s, *, name="track"):
    config = {
        "TargetValue": goal,
        "PredefinedMetricSpecification": {"PredefinedMetricType": KIND},
        "ScaleOutCooldown": out_s,
        "ScaleInCooldown": in_s,
    }
    return ScalingPolicyRecord(RESOURCE, DIMENSION, 0.0, name, "id", tracking=config)


class Loop:
    """One policy over a variant whose changes take effect at once."""

    def __init__(self, record, target, capacity):
        self.record, self.target, self.capacity, self.now_s = record, target, capacity, 0.0
        self.history, self.alarms = [], tracking(record)
        self.findings = {alarm.name: Finding() for alarm in self.alarms}

    def step(self, load):
        """Let ten seconds pass with so many requests under way."""
        self.now_s += WINDOW_S
        self.history.insert(0, load / self.capacity if self.capacity else None)
        readings = {}
        for alarm in self.alarms:
            points = tuple((self.history + [None] * 90)[: alarm.evaluation_periods])
            state, reason = evaluate(alarm, points, before=self.findings[alarm.name].state)
            values = tuple(value for value in points if value is not None)
            self.findings[alarm.name] = Finding(state, values, 0.0, reason)
            readings[alarm.name] = Reading(alarm, self.findings[alarm.name])
        votes = vote(self.record, readings, capacity=self.capacity, now_s=self.now_s)
        decided = decide(self.target, votes, capacity=self.capacity)
        if decided is not None and not decided.reason:
            self.record = scaled(self.record, before=self.capacity, after=decided.capacity, now_s=self.now_s)
            self.capacity = decided.capacity


@settings(deadline=None, max_examples=60)
@given(bounds, st.sampled_from([0.5, 1.0, 3.0, 10.0]), st.sampled_from([0, 60, 300]), loads)
def test_tracking_stays_between_its_bounds_and_rests_with_the_load(between, goal, cooldown_s, phases):
    least, most = between
    target = ScalableTargetRecord(RESOURCE, DIMENSION, 0.0, "t", least, most)
    loop = Loop(policy(goal, cooldown_s, cooldown_s), target, least)
    for load, windows in phases:
        for _ in range(windows):
            loop.step(load)
            assert least <= loop.capacity <= most
    load = phases[-1][0]
    for _ in range(400):
        loop.step(load)
    before = loop.capacity
    for _ in range(120):
        loop.step(load)
    assert loop.capacity == before, "an even load has an even capacity"
    if 0 < before < most:
        assert load / before <= goal * (1 + 1e-6), "there is enough"
    if before > max(least, 1):
        enough = max(least, math.ceil(load / goal - 1e-6))
        assert before <= max(enough, math.ceil(load / goal / 0.9)), "and not much more"


def asks(capacity, *, tracks):
    return Vote(policy(1.0, 0, 0), "alarm", capacity, tracks=tracks)


votes = st.lists(
    st.one_of(st.builds(Hold), st.builds(asks, st.integers(0, 50), tracks=st.booleans())), max_size=6
)


@given(bounds, votes, st.integers(0, 30), st.booleans(), st.booleans())
def test_of_any_votes_the_largest_that_may_be_done_is_done(between, cast, capacity, no_in, no_out):
    least, most = between
    target = ScalableTargetRecord(
        RESOURCE, DIMENSION, 0.0, "t", least, most, in_suspended=no_in, out_suspended=no_out
    )
    decided = decide(target, cast, capacity=capacity)
    if decided is None:
        return
    assert isinstance(decided, Decision)
    wanted = [one.capacity for one in cast if isinstance(one, Vote)]
    assert decided.vote.capacity in wanted
    if decided.reason:
        assert decided.capacity == capacity
        return
    assert least <= decided.capacity <= most
    assert decided.capacity != capacity
    if decided.capacity > capacity:
        assert not no_out
        assert decided.vote.capacity == max(wanted)
    else:
        assert not no_in
        assert no_out or max(wanted) <= capacity


@given(st.integers(-300, 300), st.integers(0, 100), st.integers(0, 20))
def test_a_percentage_moves_in_its_own_direction_and_never_below_nothing(percent, capacity, least):
    config = {"AdjustmentType": "PercentChangeInCapacity", "MinAdjustmentMagnitude": least}
    after = adjust(config, percent, capacity)
    assert after >= 0
    if percent > 0:
        assert after >= capacity
    if percent < 0:
        assert after <= capacity
    if percent and capacity and after:
        assert abs(after - capacity) >= max(1, min(least, 10**6))
