"""Adds up what the routers counted, so that totals never go back when a router is started anew."""

from collections import defaultdict
from collections.abc import Mapping

from warmroute.core.stream import Counters

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Labels]
Router = tuple[str, int]
"""Name and process id."""


class Totals:
    """Counters, gauges and histograms over all routers."""

    def __init__(self) -> None:
        self._last: dict[Router, Counters] = {}
        self._connected: set[Router] = set()
        self._past_values: dict[Key, float] = defaultdict(float)
        self._past_histograms: dict[Key, tuple[tuple[int, ...], float]] = {}

    def came(self, router: Router) -> None:
        """Take note of a router; an earlier process of its name counts no more, its totals stay."""
        self._connected.add(router)
        name, _ = router
        for other in [one for one in self._last if one[0] == name and one != router]:
            self._retire(self._last.pop(other))

    def gone(self, router: Router) -> None:
        """Take note that a router is not connected; it may come back and count on."""
        self._connected.discard(router)

    def take(self, router: Router, counters: Counters) -> None:
        """Take a router's newest totals in place of its last ones."""
        self._last[router] = counters

    def heard(self) -> frozenset[Router]:
        """Return the router processes whose totals are in the sums; one that was replaced is not."""
        return frozenset(self._last)

    def values(self, gauges: frozenset[str]) -> Mapping[Key, float]:
        """Return the sum of every value.

        Args:
            gauges: Names of those that only connected routers count for.
        """
        summed: dict[Key, float] = defaultdict(float)
        for key, value in self._past_values.items():
            if key[0] not in gauges:
                summed[key] += value
        for router, counters in self._last.items():
            for name, labels, value in counters.values:
                if name not in gauges or router in self._connected:
                    summed[name, labels] += value
        return summed

    def histograms(self) -> Mapping[Key, tuple[tuple[int, ...], float]]:
        """Return bucket counts (the last bucket has no bound) and sum of every histogram."""
        summed = dict(self._past_histograms)
        for counters in self._last.values():
            for name, labels, counts, total in counters.histograms:
                _add(summed, (name, labels), counts, total)
        return summed

    def _retire(self, counters: Counters) -> None:
        for name, labels, value in counters.values:
            self._past_values[name, labels] += value
        for name, labels, counts, total in counters.histograms:
            _add(self._past_histograms, (name, labels), counts, total)


def _add(
    book: dict[Key, tuple[tuple[int, ...], float]], key: Key, counts: tuple[int, ...], total: float
) -> None:
    before = book.get(key)
    if before is not None:
        counts = tuple(one + other for one, other in zip(before[0], counts, strict=True))
        total += before[1]
    book[key] = (counts, total)
