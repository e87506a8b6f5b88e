"""Windows of ten seconds in which metrics are kept, and the periods that are read from them."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from warmroute.core import limits
from warmroute.resources.metrics.alarms import MetricId, Query, Statistic

WINDOW_S: Final = 10
"""Seconds of a window: the period of SageMaker's high-resolution metrics."""


@dataclass(slots=True)
class Cell:
    """What was observed of a metric.

    Attributes:
        total: Sum of the observations.
        count: How many there were.
        least: Smallest; infinite before the first.
        most: Greatest; minus infinite before the first.
    """

    total: float = 0.0
    count: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")

    def add(self, other: "Cell") -> None:
        """Take another cell's observations in."""
        self.total += other.total
        self.count += other.count
        self.least = min(self.least, other.least)
        self.most = max(self.most, other.most)

    def value(self, statistic: Statistic) -> float | None:
        """Return a statistic; None where it needs an observation and there is none."""
        if statistic is Statistic.SUM:
            return self.total
        if statistic is Statistic.SAMPLE_COUNT:
            return self.count
        if not self.count:
            return None
        if statistic is Statistic.AVERAGE:
            return self.total / self.count
        return self.least if statistic is Statistic.MINIMUM else self.most


class MetricWindows:
    """The newest ``METRIC_WINDOWS_MAX`` windows. Implements ``alarms.MetricSource``."""

    def __init__(self) -> None:
        self._open: dict[MetricId, Cell] = {}
        self._closed: deque[dict[MetricId, Cell]] = deque(maxlen=limits.METRIC_WINDOWS_MAX)

    def observe(self, metric: MetricId, value: float) -> None:
        """Take one observation into the open window."""
        self.add(metric, Cell(value, 1.0, value, value))

    def count(self, metric: MetricId, amount: float, *, of: float | None = None) -> None:
        """Take into the open window how often something happened.

        Args:
            metric: Which.
            amount: How often; 0 says that it did not, which is not the same as not knowing.
            of: Out of how many, where Average is to be a share; None for ``amount``.
        """
        happened = amount > 0
        cell = Cell(amount, amount if of is None else max(of, amount))
        if cell.count:
            cell.most = 1.0 if happened else 0.0
            cell.least = 1.0 if amount >= cell.count else 0.0
        self.add(metric, cell)

    def add(self, metric: MetricId, cell: Cell) -> None:
        """Take several observations into the open window."""
        known = self._open.get(metric)
        if known is None:
            known = self._open[metric] = Cell()
        known.add(cell)

    def roll(self) -> None:
        """Close the open window and open the next."""
        self._closed.appendleft(self._open)
        self._open = {}

    def points(self, query: Query, *, period_s: int, count: int) -> tuple[float | None, ...]:
        """Return a metric's values of the last closed windows, newest period first."""
        wide = max(1, period_s // WINDOW_S)
        return tuple(_value(islice(self._closed, at * wide, (at + 1) * wide), query) for at in range(count))


def _value(windows: Iterable[dict[MetricId, Cell]], query: Query) -> float | None:
    merged: Cell | None = None
    for window in windows:
        cell = window.get(query.metric)
        if cell is not None:
            merged = merged or Cell()
            merged.add(cell)
    return merged.value(query.statistic) if merged is not None else None
