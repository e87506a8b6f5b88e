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


class Projection:
    """Totals since the router started.

    Label values come from the fleet (endpoints, variants, targets) and from our own enums, never from
    a caller's text, so their number is bounded by the fleet's history.
    """

    __slots__ = ("_histograms", "_values")

    def __init__(self) -> None:
        self._values: dict[tuple[str, tuple[str, ...]], float] = {}
        self._histograms: dict[tuple[str, tuple[str, ...]], Histogram] = {}

    def count(self, metric: Metric, labels: tuple[str, ...], amount: float = 1) -> None:
        """Add to a counter."""
        key = (metric.name, labels)
        self._values[key] = self._values.get(key, 0) + amount

    def invocation_ended(self, record: Invocation) -> None:
        """Fold the record of an invocation in."""
        self.count(
            catalogue.INVOCATIONS,
            (record.route, record.endpoint, record.variant, record.outcome, record.problem),
        )
        if record.attempts:
            self.count(catalogue.DECISIONS, (record.endpoint, record.variant, record.strategy, record.reason))
            self.count(catalogue.TARGET_INVOCATIONS, (record.endpoint, record.variant, record.target))
        labels = (record.endpoint, record.variant, record.route)
        if record.first_byte_ns:
            self._observe(catalogue.FIRST_BYTE, labels, (record.first_byte_ns - record.started_ns) / 1e9)
        if record.outcome == "completed":
            self._observe(catalogue.DURATION, labels, (record.ended_ns - record.started_ns) / 1e9)

    def attempt_failed(self, target: str, cause: FailureCause, *, again: bool) -> None:
        """Fold the failure of an attempt in."""
        self.count(catalogue.ATTEMPT_FAILURES, (target, cause.value))
        if again:
            self.count(catalogue.RETRIES, (target, cause.value))

    def _observe(self, metric: Metric, labels: tuple[str, ...], seconds: float) -> None:
        key = (metric.name, labels)
        histogram = self._histograms.get(key)
        if histogram is None:
            histogram = self._histograms[key] = Histogram()
        histogram.add(seconds)

    def snapshot(self, gauges: dict[tuple[Metric, tuple[str, ...]], float]) -> Counters:
        """Return the totals, with gauges as they stand, for control."""
        values = [(name, _named(name, labels), value) for (name, labels), value in self._values.items()]
        values += [
            (metric.name, _named(metric.name, labels), value) for (metric, labels), value in gauges.items()
        ]
        return Counters(
            values=tuple(values),
            histograms=tuple(
                (name, _named(name, labels), tuple(histogram.counts), histogram.total)
                for (name, labels), histogram in self._histograms.items()
            ),
        )


_BY_NAME = {metric.name: metric for metric in catalogue.METRICS}


def _named(name: str, labels: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(zip(_BY_NAME[name].labels, labels, strict=True))
