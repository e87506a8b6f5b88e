"""Named alarms over metrics: what they watch, and when they are OK, in ALARM or without enough data.

Scaling policies act on them and deployments roll back on them. An alarm looks at the newest
``evaluation_periods`` values of its metric; it is in ALARM when at least ``datapoints_to_alarm`` of them
breach the threshold. Members and words are CloudWatch's (PutMetricAlarm), whose API is not served.

Choice: periods slide. An alarm with a period of 60 s looks at the last 60 s each time a window of 10 s
has ended, and so sees a breach up to 50 s earlier than one whose periods begin with the minute.
Periods before the last one lie end to end behind it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, assert_never

from warmroute.resources.metrics.expressions import Expression


class AlarmState(StrEnum):
    """CloudWatch's StateValue."""

    OK = "OK"
    ALARM = "ALARM"
    INSUFFICIENT_DATA = "INSUFFICIENT_DATA"


class Statistic(StrEnum):
    """How the observations of one period become one number."""

    SUM = "Sum"
    AVERAGE = "Average"
    MINIMUM = "Minimum"
    MAXIMUM = "Maximum"
    SAMPLE_COUNT = "SampleCount"


class Comparison(StrEnum):
    """CloudWatch's ComparisonOperator, those that compare with a threshold."""

    GREATER_OR_EQUAL = "GreaterThanOrEqualToThreshold"
    GREATER = "GreaterThanThreshold"
    LESS = "LessThanThreshold"
    LESS_OR_EQUAL = "LessThanOrEqualToThreshold"

    def breached(self, value: float, threshold: float) -> bool:
        """Return whether a value breaches a threshold."""
        match self:
            case Comparison.GREATER_OR_EQUAL:
                return value >= threshold
            case Comparison.GREATER:
                return value > threshold
            case Comparison.LESS:
                return value < threshold
            case Comparison.LESS_OR_EQUAL:
                return value <= threshold
            case _:
                assert_never(self)


class MissingData(StrEnum):
    """CloudWatch's TreatMissingData: what a period without data counts as."""

    MISSING = "missing"
    """Nothing; without data in every period, the alarm has not enough."""
    IGNORE = "ignore"
    """Nothing; without data in every period, the alarm stays as it is."""
    BREACHING = "breaching"
    NOT_BREACHING = "notBreaching"


@dataclass(frozen=True, slots=True)
class MetricId:
    """A metric of one resource; the names are SageMaker's.

    Attributes:
        name: For example ``Invocations``; the list is in ``resources/metrics/names.py``.
        endpoint: EndpointName; ``""`` for a metric of a component.
        variant: VariantName; likewise.
        component: InferenceComponentName; ``""`` for a metric of a variant.
    """

    name: str
    endpoint: str = ""
    variant: str = ""
    component: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """A metric, and the statistic that is taken of it."""

    metric: MetricId
    statistic: Statistic


class MetricSource(Protocol):
    """Answers what metrics were in the last periods."""

    def points(self, query: Query, *, period_s: int, count: int) -> tuple[float | None, ...]:
        """Return a metric's values, newest period first.

        Args:
            query: Which one.
            period_s: Length of a period in seconds, a multiple of the windows' 10 s.
            count: Periods wanted; they lie end to end.

        Returns:
            ``count`` values; None for a period that has no data.
        """
        ...


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm.

    Attributes:
        name: By which scaling policies and deployments refer to it.
        queries: What it reads, by the name that the expression has for it.
        threshold: What the values are compared with.
        comparison: How.
        expression: Arithmetic over the queries; None when there is one query, which is taken as it is.
        period_s: Seconds of one value, a multiple of 10.
        evaluation_periods: How many of the newest values it looks at.
        datapoints_to_alarm: How many of these must breach.
        missing: What a period without data counts as.
        policies: Names of the scaling policies that act on it; see ``resources/scaling/alarms.py``.
    """

    name: str
    queries: Mapping[str, Query]
    threshold: float
    comparison: Comparison = Comparison.GREATER_OR_EQUAL
    expression: Expression | None = None
    period_s: int = 60
    evaluation_periods: int = 1
    datapoints_to_alarm: int = 1
    missing: MissingData = MissingData.MISSING
    policies: tuple[str, ...] = ()

    def points(self, source: MetricSource) -> tuple[float | None, ...]:
        """Return the values that it looks at, newest first; None where there is no data."""
        read = {
            name: source.points(query, period_s=self.period_s, count=self.evaluation_periods)
            for name, query in self.queries.items()
        }
        if self.expression is None:
            (only,) = read.values()
            return only
        return tuple(
            self.expression.value({name: values[at] for name, values in read.items()})
            for at in range(self.evaluation_periods)
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """What an evaluation found.

    Attributes:
        state: The alarm's state now.
        values: Those that it was found from, newest first, missing ones left out.
        since_s: When it came into this state, epoch seconds.
        reason: For people.
    """

    state: AlarmState = AlarmState.INSUFFICIENT_DATA
    values: tuple[float, ...] = ()
    since_s: float = 0.0
    reason: str = "It was not evaluated yet."


def evaluate(alarm: Alarm, points: tuple[float | None, ...], *, before: AlarmState) -> tuple[AlarmState, str]:
    """Return the state of an alarm, and why.

    Args:
        alarm: Its definition.
        points: As ``Alarm.points`` returns them.
        before: The state so far.
    """
    present = [value for value in points if value is not None and math.isfinite(value)]
    missing = len(points) - len(present)
    breaching = sum(alarm.comparison.breached(value, alarm.threshold) for value in present)
    counted = len(present)
    match alarm.missing:
        case MissingData.BREACHING:
            breaching += missing
            counted += missing
        case MissingData.NOT_BREACHING:
            counted += missing
        case MissingData.MISSING | MissingData.IGNORE:
            pass
        case _:
            assert_never(alarm.missing)
    if counted == 0:
        kept = before if alarm.missing is MissingData.IGNORE else AlarmState.INSUFFICIENT_DATA
        return kept, f"No data in the last {len(points)} periods of {alarm.period_s} s."
    state = AlarmState.ALARM if breaching >= alarm.datapoints_to_alarm else AlarmState.OK
    shown = ", ".join(f"{value:g}" for value in present[:3])
    return state, (
        f"{breaching} of {len(points)} periods of {alarm.period_s} s are {alarm.comparison} "
        f"({alarm.threshold:g}); {alarm.datapoints_to_alarm} must be. Newest values: {shown or 'none'}."
    )


class AlarmStates(Protocol):
    """What a deployment asks of alarms."""

    def state(self, name: str) -> AlarmState | None:
        """Return an alarm's state; None when there is no alarm of that name."""
        ...


@dataclass(slots=True)
class AlarmBook:
    """Every alarm with its state. Implements ``AlarmStates``."""

    _alarms: dict[str, Alarm] = field(default_factory=dict)
    _findings: dict[str, Finding] = field(default_factory=dict)

    def define(self, alarms: Iterable[Alarm]) -> None:
        """Take these as all the alarms; one that is the same as before keeps its state."""
        wanted = {alarm.name: alarm for alarm in alarms}
        self._findings = {
            name: self._findings.get(name, Finding()) if self._alarms.get(name) == alarm else Finding()
            for name, alarm in wanted.items()
        }
        self._alarms = wanted

    def evaluate(self, source: MetricSource, now_s: float) -> tuple[str, ...]:
        """Look at every alarm once.

        Args:
            source: The metrics, up to now.
            now_s: Epoch seconds.

        Returns:
            Names of the alarms whose state has changed.
        """
        changed: list[str] = []
        for name, alarm in self._alarms.items():
            before = self._findings[name]
            points = alarm.points(source)
            state, reason = evaluate(alarm, points, before=before.state)
            if state is not before.state:
                changed.append(name)
            values = tuple(value for value in points if value is not None)
            since_s = before.since_s if state is before.state and before.since_s else now_s
            self._findings[name] = Finding(state, values, since_s, reason)
        return tuple(changed)

    def alarms(self) -> tuple[Alarm, ...]:
        """Return every alarm."""
        return tuple(self._alarms.values())

    def alarm(self, name: str) -> Alarm | None:
        """Return an alarm; None when there is none of that name."""
        return self._alarms.get(name)

    def finding(self, name: str) -> Finding | None:
        """Return what was found last; None when there is no alarm of that name."""
        return self._findings.get(name)

    def states(self) -> dict[str, AlarmState]:
        """Return the state of every alarm, by name."""
        return {name: finding.state for name, finding in self._findings.items()}

    def state(self, name: str) -> AlarmState | None:
        """Return an alarm's state; None when there is no alarm of that name."""
        found = self._findings.get(name)
        return found.state if found is not None else None
