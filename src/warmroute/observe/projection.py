"""Folds facts into totals. Mergeable: totals of several routers add up."""

from bisect import bisect_left

from warmroute.core.events import FailureCause, Invocation
from warmroute.core.stream import Counters
from warmroute.observe import catalogue
from warmroute.observe.catalogue import SECONDS_BOUNDS, Metric


class Histogram:
    """Counts per bucket and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS_BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(SECONDS_BOUNDS, seconds)] += 1
        self.total += seconds


class _Series:
    """Totals of all invocations that are alike in every label."""

    __slots__ = ("cached_tokens", "count", "duration", "first_byte", "prompt_tokens")

    def __init__(self, first_byte: Histogram, duration: Histogram) -> None:
        self.count = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.first_byte = first_byte
        self.duration = duration


class Projection:
    """Totals since the router started.

    Label values come from the fleet (endpoints, variants, targets) and from our own enums, never from
    a caller's text, so their number is bounded by the fleet's history.
    """

    __slots__ = ("_histograms", "_series", "_values")

    def __init__(self) -> None:
        self._values: dict[tuple[str, tuple[str, ...]], float] = {}
        self._histograms: dict[tuple[str, tuple[str, ...]], Histogram] = {}
        self._series: dict[tuple[str, ...], _Series] = {}

    def count(self, metric: Metric, labels: tuple[str, ...], amount: float = 1) -> None:
        """Add to a counter."""
        key = (metric.name, labels)
        self._values[key] = self._values.get(key, 0) + amount

    def invocation_ended(self, record: Invocation) -> None:
        """Fold the record of an invocation in.

        Cost:
            About 1 µs: one look-up by all labels; the metrics are told apart in `snapshot`.
        """
        key = (
            record.route, record.endpoint, record.variant, record.outcome, record.problem,
            record.strategy, record.reason, record.target,
        )  # fmt: skip
        series = self._series.get(key)
        if series is None:
            labels = (record.endpoint, record.variant, record.route)
            series = self._series[key] = _Series(
                self._histogram(catalogue.FIRST_BYTE, labels), self._histogram(catalogue.DURATION, labels)
            )
        series.count += 1
        if record.first_byte_ns:
            series.first_byte.add((record.first_byte_ns - record.started_ns) / 1e9)
        if record.cached_tokens >= 0:
            series.prompt_tokens += record.prompt_tokens
            series.cached_tokens += record.cached_tokens
        if record.outcome == "completed":
            series.duration.add((record.ended_ns - record.started_ns) / 1e9)

    def attempt_failed(self, target: str, cause: FailureCause, *, again: bool) -> None:
        """Fold the failure of an attempt in."""
        self.count(catalogue.ATTEMPT_FAILURES, (target, cause.value))
        if again:
            self.count(catalogue.RETRIES, (target, cause.value))

    def _histogram(self, metric: Metric, labels: tuple[str, ...]) -> Histogram:
        return self._histograms.setdefault((metric.name, labels), Histogram())

    def _totals(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """Return every counter, those of invocations told apart by metric."""
        totals = dict(self._values)
        for key, series in self._series.items():
            route, endpoint, variant, outcome, problem, strategy, reason, target = key
            at, count = (endpoint, variant, target), series.count
            parts: list[tuple[Metric, tuple[str, ...], int]] = [
                (catalogue.INVOCATIONS, (route, endpoint, variant, outcome, problem), count)
            ]
            if target:
                parts.append((catalogue.DECISIONS, (endpoint, variant, strategy, reason), count))
                parts.append((catalogue.TARGET_INVOCATIONS, at, count))
            if series.prompt_tokens:
                parts.append((catalogue.PROMPT_TOKENS, at, series.prompt_tokens))
                parts.append((catalogue.CACHED_TOKENS, at, series.cached_tokens))
            for metric, labels, amount in parts:
                part = (metric.name, labels)
                totals[part] = totals.get(part, 0) + amount
        return totals

    def snapshot(self, gauges: dict[tuple[Metric, tuple[str, ...]], float]) -> Counters:
        """Return the totals, with gauges as they stand, for control."""
        values = [(name, _named(name, labels), value) for (name, labels), value in self._totals().items()]
        values += [
            (metric.name, _named(metric.name, labels), value) for (metric, labels), value in gauges.items()
        ]
        return Counters(
            values=tuple(values),
            histograms=tuple(
                (name, _named(name, labels), tuple(histogram.counts), histogram.total)
                for (name, labels), histogram in self._histograms.items()
                if any(histogram.counts)
            ),
        )


_BY_NAME = {metric.name: metric for metric in catalogue.METRICS}


def _named(name: str, labels: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(zip(_BY_NAME[name].labels, labels, strict=True))
