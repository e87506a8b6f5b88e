"""Customized metrics of target tracking: what they read, and what is refused.

Source: CustomizedMetricSpecification of the ``application-autoscaling`` service model.
"""

from collections.abc import Mapping
from typing import Final

from warmroute.core import limits
from warmroute.resources.errors import ApiError, invalid
from warmroute.resources.metrics.alarms import MetricId, Query, Statistic
from warmroute.resources.metrics.expressions import Expression, ExpressionError, parse
from warmroute.resources.metrics.names import METRIC_KINDS, NAMESPACE, Scope
from warmroute.resources.records import JsonObject

ONLY: Final = "m"
"""What the only metric of a specification without an expression is called."""


def customized(specification: JsonObject) -> tuple[dict[str, Query], Expression | None]:
    """Return what a customized metric reads, and the arithmetic over it.

    Choice: Metrics may hold metrics and one expression over them, which is the one that is returned, in
    the grammar of ``resources/metrics/expressions.py``; metric math functions of CloudWatch are refused.

    Raises:
        ApiError: It is not one of warmroute's metrics, or its members do not fit together.
    """
    if "Metrics" not in specification:
        return {ONLY: _single(specification)}, None
    alone = [name for name in ("MetricName", "Namespace", "Dimensions", "Statistic") if name in specification]
    if alone:
        raise invalid(
            f"CustomizedMetricSpecification has Metrics and {alone[0]}. Only one of them is allowed."
        )
    return _several(specification["Metrics"])


def metric_id(name: str, dimensions: Mapping[str, str], *, where: str) -> MetricId:
    """Return a metric by its name and dimensions.

    Raises:
        ApiError: There is none such here; the text says which there are.
    """
    kind = METRIC_KINDS.get(name)
    if kind is None:
        raise invalid(
            f'{where}: MetricName "{name}" is not a metric of warmroute. There are: '
            f"{', '.join(METRIC_KINDS)}."
        )
    given = frozenset(dimensions)
    if given == {"EndpointName", "VariantName"} and Scope.VARIANT in kind.scopes:
        return MetricId(name, endpoint=dimensions["EndpointName"], variant=dimensions["VariantName"])
    if given == {"InferenceComponentName"} and Scope.COMPONENT in kind.scopes:
        return MetricId(name, component=dimensions["InferenceComponentName"])
    allowed = [
        text
        for scope, text in (
            (Scope.VARIANT, "EndpointName and VariantName"),
            (Scope.COMPONENT, "InferenceComponentName"),
        )
        if scope in kind.scopes
    ]
    told = ", ".join(sorted(given)) or "none"
    raise invalid(f"{where}: {name} has the dimensions {' or '.join(allowed)}, not {told}.")


def _single(specification: JsonObject) -> Query:
    missing = [name for name in ("MetricName", "Namespace", "Statistic") if name not in specification]
    if missing:
        raise invalid(
            f"CustomizedMetricSpecification lacks {', '.join(missing)}. "
            "It needs MetricName, Namespace, Dimensions and Statistic, or Metrics."
        )
    return _query(
        specification["Namespace"],
        specification["MetricName"],
        specification.get("Dimensions", ()),
        specification["Statistic"],
    )


def _query(
    namespace: str, name: str, dimensions: "list[dict[str, str]] | tuple[()]", statistic: str
) -> Query:
    where = "CustomizedMetricSpecification"
    if namespace != NAMESPACE:
        raise invalid(
            f'{where}: Namespace "{namespace}" is not supported by warmroute, which has metrics in '
            f"{NAMESPACE} only."
        )
    if statistic not in list(Statistic):
        raise invalid(f'{where}: the statistic "{statistic}" is not one of {", ".join(Statistic)}.')
    given = {one["Name"]: one["Value"] for one in dimensions}
    return Query(metric_id(name, given, where=where), Statistic(statistic))


def _several(metrics: list[JsonObject]) -> tuple[dict[str, Query], Expression | None]:
    if not 1 <= len(metrics) <= limits.TRACKING_METRICS_MAX:
        raise invalid(
            f"Metrics has {len(metrics)} members. From 1 to {limits.TRACKING_METRICS_MAX} are allowed."
        )
    queries: dict[str, Query] = {}
    expressions: dict[str, str] = {}
    returned: list[str] = []
    for one in metrics:
        name = one["Id"]
        if name in queries or name in expressions:
            raise invalid(f'Metrics has two members with the Id "{name}".')
        if ("MetricStat" in one) == ("Expression" in one):
            raise invalid(f'Member "{name}" of Metrics must have either MetricStat or Expression.')
        if one.get("ReturnData", True):
            returned.append(name)
        if "Expression" in one:
            expressions[name] = one["Expression"]
            continue
        metric = one["MetricStat"]["Metric"]
        queries[name] = _query(
            metric.get("Namespace", ""),
            metric.get("MetricName", ""),
            metric.get("Dimensions", ()),
            one["MetricStat"]["Stat"],
        )
    if len(returned) != 1:
        raise invalid(
            f"{len(returned)} members of Metrics return data. Exactly one may; ReturnData is false for "
            "the others."
        )
    return _returned(returned[0], queries, expressions)


def _returned(
    name: str, queries: dict[str, Query], expressions: Mapping[str, str]
) -> tuple[dict[str, Query], Expression | None]:
    if name in queries:
        return {name: queries[name]}, None
    try:
        expression = parse(expressions[name], queries)
    except ExpressionError as error:
        raise _refused(name, error) from None
    return {used: queries[used] for used in sorted(expression.names)}, expression


def _refused(name: str, error: ExpressionError) -> ApiError:
    return invalid(f'Member "{name}" of Metrics is not supported by warmroute: {error}.')
