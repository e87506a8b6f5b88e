"""From alarms to a capacity: target tracking, steps, cooldowns, and which of several policies wins.

Source: the texts of TargetTrackingScalingPolicyConfiguration, StepScalingPolicyConfiguration and
RegisterScalableTarget in the ``application-autoscaling`` service model.

Choices where they say nothing:

* Target tracking scales out to what the newest value asks for, and in to what the greatest value of the
  last 15 minutes asks for.
* A scale-out whose cooldown runs counts as part of the next: what is asked for is computed from the capacity
  before it, and only more than there is by now is done.
* A policy scales in only when neither of its cooldowns runs.
* Scaling in by target tracking needs every tracking policy that may scale in to ask for it; a step policy
  needs nobody. Of all that ask, the largest capacity wins.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from warmroute.resources.metrics.alarms import Alarm, AlarmState, Finding
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.records import ScalableTargetRecord, ScalingPolicyRecord

COOLDOWN_S: Final = 300
"""Of every kind, where none is given."""
_ROUNDING: Final = 1e-9
"""So that 3 instances at exactly their target do not become 4."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An alarm and what was found of it."""

    alarm: Alarm
    finding: Finding


@dataclass(frozen=True, slots=True)
class Vote:
    """What a policy asks for.

    Attributes:
        policy: Who asks.
        alarm: Because of which alarm.
        capacity: What is asked for, before any bound.
        tracks: It is of target tracking.
    """

    policy: ScalingPolicyRecord
    alarm: str
    capacity: int
    tracks: bool

    @property
    def cause(self) -> str:
        """The activity's Cause."""
        return f"monitor alarm {self.alarm} in state ALARM triggered policy {self.policy.name}"


@dataclass(frozen=True, slots=True)
class Hold:
    """A tracking policy that may scale in and does not ask for it now: others of its kind must wait."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from the votes.

    Attributes:
        vote: The one that won.
        capacity: What to set, between the bounds.
        reason: NotScaledReasons' Code when nothing is to be set; ``""`` otherwise.
    """

    vote: Vote
    capacity: int
    reason: str = ""


def vote(
    policy: ScalingPolicyRecord, readings: Mapping[str, Reading], *, capacity: int, now_s: float
) -> tuple[Vote | Hold, ...]:
    """Return what a policy asks for; a step policy may ask once for each of its alarms.

    Args:
        policy: Which.
        readings: Those of its alarms that exist, by name; for target tracking first the one for
            scaling out, then the one for scaling in.
        capacity: Instances or copies wanted now.
        now_s: Epoch seconds.
    """
    if policy.tracking is not None:
        if len(readings) < 2:  # the policy is newer than the alarms
            return (Hold(),)
        high, low = readings.values()
        asked = _track(policy, policy.tracking, high=high, low=low, capacity=capacity, now_s=now_s)
        if asked is None:
            return () if policy.tracking.get("DisableScaleIn", False) else (Hold(),)
        alarm = high.alarm.name if asked > capacity else low.alarm.name
        return (Vote(policy, alarm, asked, tracks=True),)
    config = policy.step
    assert config is not None, f"policy {policy.name} has no configuration"
    asks = (
        (reading.alarm.name, _step(policy, config, reading, capacity=capacity, now_s=now_s))
        for reading in readings.values()
    )
    return tuple(Vote(policy, name, asked, tracks=False) for name, asked in asks if asked is not None)


def decide(target: ScalableTargetRecord, votes: Iterable[Vote | Hold], *, capacity: int) -> Decision | None:
    """Return what follows from the votes; None when nobody asks for anything.

    Args:
        target: Its bounds and what is suspended.
        votes: Of all its policies.
        capacity: Instances or copies wanted now.
    """
    cast = list(votes)
    asked = [one for one in cast if isinstance(one, Vote)]
    outs = [one for one in asked if one.capacity > capacity and not target.out_suspended]
    ins = [one for one in asked if one.capacity < capacity and not target.in_suspended]
    if any(isinstance(one, Hold) for one in cast):
        ins = [one for one in ins if not one.tracks]
    standing = outs or ins
    if not standing:
        return None
    winner = max(standing, key=lambda one: one.capacity)
    bounded = max(target.min_capacity, min(target.max_capacity, winner.capacity))
    if winner.capacity > capacity:
        reason = "AlreadyAtMaxCapacity" if bounded <= capacity else ""
    else:
        reason = "AlreadyAtMinCapacity" if bounded >= capacity else ""
    return Decision(winner, capacity if reason else bounded, reason)


def scaled(policy: ScalingPolicyRecord, *, before: int, after: int, now_s: float) -> ScalingPolicyRecord:
    """Return a policy with its cooldowns begun, after it has changed a capacity."""
    if after < before:
        return replace(policy, in_s=now_s)
    since = policy.out_from if _runs(policy.out_s, _out_cooldown_s(policy), now_s) else before
    return replace(policy, out_s=now_s, out_from=since)


def adjust(config: JsonObject, adjustment: int, capacity: int) -> int:
    """Return the capacity that a step comes to, at least 0.

    Percentages are rounded towards zero, but never to no change: 0.4 is 1, and -0.4 is -1.
    """
    match config["AdjustmentType"]:
        case "ExactCapacity":
            return max(0, adjustment)
        case "ChangeInCapacity":
            return max(0, capacity + adjustment)
        case _:
            change = capacity * adjustment / 100
            whole = int(change) or (0 if change == 0 else int(math.copysign(1, change)))
            least = config.get("MinAdjustmentMagnitude", 0)
            if adjustment and abs(whole) < least:
                whole = int(math.copysign(least, adjustment))
            return max(0, capacity + whole)


def _track(
    policy: ScalingPolicyRecord,
    config: JsonObject,
    *,
    high: Reading,
    low: Reading,
    capacity: int,
    now_s: float,
) -> int | None:
    goal = float(config["TargetValue"])
    if high.finding.state is AlarmState.ALARM and high.finding.values:
        wanted = _needed(_base(policy, capacity, now_s), high.finding.values[0], goal)
        return wanted if wanted > capacity else None
    if low.finding.state is not AlarmState.ALARM or not low.finding.values:
        return None
    if config.get("DisableScaleIn", False) or _cools_in(policy, now_s):
        return None
    wanted = _needed(capacity, max(low.finding.values), goal)
    return wanted if wanted < capacity else None


def _needed(capacity: int, value: float, goal: float) -> int:
    """Return the capacity at which a metric that falls as capacity grows comes to its goal."""
    return math.ceil(capacity * max(0.0, value) / goal - _ROUNDING)


def _step(
    policy: ScalingPolicyRecord, config: JsonObject, reading: Reading, *, capacity: int, now_s: float
) -> int | None:
    finding = reading.finding
    if finding.state is not AlarmState.ALARM or not finding.values:
        return None
    over = _aggregate(config, finding.values) - reading.alarm.threshold
    adjustment = _adjustment(config, over)
    if adjustment is None:
        return None
    wanted = adjust(config, adjustment, capacity)
    if wanted > capacity:
        again = adjust(config, adjustment, _base(policy, capacity, now_s))
        return again if again > capacity else None
    if wanted == capacity or _cools_in(policy, now_s):
        return None
    return wanted


def _aggregate(config: JsonObject, values: tuple[float, ...]) -> float:
    match config.get("MetricAggregationType", "Average"):
        case "Minimum":
            return min(values)
        case "Maximum":
            return max(values)
        case _:
            return sum(values) / len(values)


def _adjustment(config: JsonObject, over: float) -> int | None:
    """Return the adjustment of the step that a breach falls into; None where it falls into none.

    A step above the threshold has its lower bound in it, a step below it its upper one.
    """
    for step in config["StepAdjustments"]:
        lower = float(step.get("MetricIntervalLowerBound", -math.inf))
        upper = float(step.get("MetricIntervalUpperBound", math.inf))
        inside = lower <= over < upper if over >= 0 else lower < over <= upper
        if inside:
            adjustment: int = step["ScalingAdjustment"]
            return adjustment
    return None


def _base(policy: ScalingPolicyRecord, capacity: int, now_s: float) -> int:
    """Return the capacity that a scale-out is computed from."""
    if _runs(policy.out_s, _out_cooldown_s(policy), now_s):
        return min(capacity, policy.out_from)
    return capacity


def _cools_in(policy: ScalingPolicyRecord, now_s: float) -> bool:
    """Whether a policy must not scale in yet."""
    return _runs(policy.in_s, _in_cooldown_s(policy), now_s) or _runs(
        policy.out_s, _out_cooldown_s(policy), now_s
    )


def _runs(since_s: float | None, cooldown_s: float, now_s: float) -> bool:
    return since_s is not None and now_s < since_s + cooldown_s


def _out_cooldown_s(policy: ScalingPolicyRecord) -> float:
    return _cooldown_s(policy, "ScaleOutCooldown")


def _in_cooldown_s(policy: ScalingPolicyRecord) -> float:
    return _cooldown_s(policy, "ScaleInCooldown")


def _cooldown_s(policy: ScalingPolicyRecord, member: str) -> float:
    config: JsonObject = policy.tracking or policy.step or {}
    given: float = config.get("Cooldown" if policy.tracking is None else member, COOLDOWN_S)
    return given
