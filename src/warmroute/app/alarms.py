"""Turn declared alarms into those that the autoscaler evaluates."""

from collections.abc import Mapping

from warmroute.app.settings import AlarmMetricSettings, AlarmSettings, Settings
from warmroute.core import limits
from warmroute.core.errors import ConfigurationError
from warmroute.resources.metrics.alarms import Alarm, MetricId, Query
from warmroute.resources.metrics.expressions import Expression, ExpressionError, parse
from warmroute.resources.metrics.names import METRIC_KINDS, Scope
from warmroute.resources.metrics.windows import WINDOW_S
from warmroute.resources.scaling.customized_metrics import ONLY

ALARM_NAME_CHARACTERS_MAX = 255
"""From SageMaker's service model (AlarmName)."""


def alarms_of(settings: Settings) -> tuple[Alarm, ...]:
    """Return every declared alarm.

    Raises:
        ConfigurationError: A declaration does not fit; the text names its key.
    """
    if len(settings.alarms) > limits.ALARMS_DECLARED_MAX:
        raise ConfigurationError(
            f"alarms: {len(settings.alarms)} are declared, at most {limits.ALARMS_DECLARED_MAX} are allowed"
        )
    return tuple(_alarm(name, declared) for name, declared in settings.alarms.items())


def _alarm(name: str, declared: AlarmSettings) -> Alarm:
    where = f'alarms."{name}"'
    if not name.strip() or len(name) > ALARM_NAME_CHARACTERS_MAX:
        raise ConfigurationError(f"{where}: the name must have 1 to {ALARM_NAME_CHARACTERS_MAX} characters")
    queries, expression = _read(declared, where)
    if declared.period_s % WINDOW_S:
        raise ConfigurationError(f"{where}.period_s = {declared.period_s}: must be a multiple of {WINDOW_S}")
    wanted = declared.datapoints_to_alarm or declared.evaluation_periods
    if wanted > declared.evaluation_periods:
        raise ConfigurationError(
            f"{where}.datapoints_to_alarm = {wanted}: must not be more than evaluation_periods, "
            f"{declared.evaluation_periods}"
        )
    looked_at_s = declared.period_s * declared.evaluation_periods
    kept_s = limits.METRIC_WINDOWS_MAX * WINDOW_S
    if looked_at_s > kept_s:
        raise ConfigurationError(
            f"{where}: period_s times evaluation_periods is {looked_at_s} s; metrics are kept for {kept_s} s"
        )
    return Alarm(
        name=name,
        queries=queries,
        expression=expression,
        threshold=declared.threshold,
        comparison=declared.comparison,
        period_s=declared.period_s,
        evaluation_periods=declared.evaluation_periods,
        datapoints_to_alarm=wanted,
        missing=declared.missing,
        policies=declared.policies,
    )


def _read(declared: AlarmSettings, where: str) -> tuple[Mapping[str, Query], Expression | None]:
    """Return what an alarm reads: one metric, or an expression over several."""
    if (declared.metric is None) == (not declared.metrics):
        raise ConfigurationError(f"{where}: give either metric, or metrics with an expression")
    if declared.metric is not None:
        if declared.expression:
            raise ConfigurationError(f"{where}.expression: needs metrics in place of metric")
        one = AlarmMetricSettings(
            id=ONLY,
            metric=declared.metric,
            statistic=declared.statistic,
            endpoint=declared.endpoint,
            variant=declared.variant,
            component=declared.component,
        )
        return {ONLY: _query(one, where)}, None
    if len(declared.metrics) > limits.TRACKING_METRICS_MAX:
        raise ConfigurationError(f"{where}.metrics: at most {limits.TRACKING_METRICS_MAX} are allowed")
    queries = {one.id: _query(one, f"{where}.metrics.{at}") for at, one in enumerate(declared.metrics)}
    if len(queries) < len(declared.metrics):
        raise ConfigurationError(f"{where}.metrics: each id may be given once")
    try:
        return queries, parse(declared.expression, queries)
    except ExpressionError as error:
        raise ConfigurationError(f"{where}.expression: {error}") from None


def _query(one: AlarmMetricSettings, where: str) -> Query:
    kind = METRIC_KINDS.get(one.metric)
    if kind is None:
        raise ConfigurationError(
            f"{where}.metric = {one.metric}: no such metric; there are {', '.join(METRIC_KINDS)}"
        )
    of_variant = bool(one.endpoint and one.variant and not one.component)
    of_component = bool(one.component and not one.endpoint and not one.variant)
    scope = Scope.VARIANT if of_variant else Scope.COMPONENT if of_component else None
    if scope not in kind.scopes:
        forms = {Scope.VARIANT: "endpoint and variant", Scope.COMPONENT: "component"}
        allowed = " or ".join(text for known, text in forms.items() if known in kind.scopes)
        raise ConfigurationError(f"{where}: {one.metric} is a metric of {allowed}; give these and no other")
    return Query(MetricId(one.metric, one.endpoint, one.variant, one.component), one.statistic)
