"""From what routers count to the windows of metrics that alarms read.

A router tells its totals about once a second. Gauges are looked at once a second; totals when a window of
ten seconds ends, for how much they have grown in it. A window in which a router process was heard for the
first time is without counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from warmroute.core.fleet import Fleet, TargetState, Variant
from warmroute.observe import catalogue
from warmroute.observe.catalogue import METRICS, SECONDS_BOUNDS, MetricKind
from warmroute.resources.metrics import names as metrics
from warmroute.resources.metrics.alarms import MetricId
from warmroute.resources.metrics.windows import Cell, MetricWindows

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Labels]
Histogram = tuple[tuple[int, ...], float]
_GAUGES: Final = frozenset(metric.name for metric in METRICS if metric.kind is MetricKind.GAUGE)
_MICROSECONDS: Final = 1e6
_COUNTS: Final = {
    catalogue.MODEL_INVOCATIONS.name: metrics.INVOCATIONS,
    catalogue.MODEL_CLIENT_ERRORS.name: metrics.ERRORS_4XX,
    catalogue.MODEL_SERVER_ERRORS.name: metrics.ERRORS_5XX,
    catalogue.MODEL_ERRORS.name: metrics.MODEL_ERRORS,
    catalogue.NO_CAPACITY_FAILURES.name: metrics.NO_CAPACITY,
}
_LATENCIES: Final = {
    catalogue.MODEL_LATENCY.name: metrics.MODEL_LATENCY,
    catalogue.MODEL_FIRST_BYTE.name: metrics.FIRST_BYTE_LATENCY,
}


class Counted(Protocol):
    """What the routers counted, over all of them and all that were before them."""

    def heard(self) -> frozenset[tuple[str, int]]:
        """Return name and process id of the routers that are in the sums."""
        ...

    def values(self, gauges: frozenset[str]) -> Mapping[Key, float]:
        """Return the sum of every value; of gauges, over the connected routers only."""
        ...

    def histograms(self) -> Mapping[Key, Histogram]:
        """Return bucket counts and sum of every histogram."""
        ...


@dataclass(slots=True)
class _Group:
    """A variant or component, and what was found of it since the last look.

    Attributes:
        endpoint: Of a variant; ``""`` for a component.
        variant: Likewise.
        component: ``""`` for a variant.
        places: Instances of a variant, copies of a component, in service.
        under_way: Invocations.
        counts: By our metrics' names, of this window.
    """

    endpoint: str = ""
    variant: str = ""
    component: str = ""
    places: set[str] = field(default_factory=set)
    under_way: float = 0.0
    counts: dict[str, float] = field(default_factory=dict)

    def metric(self, name: str) -> MetricId:
        return MetricId(name, self.endpoint, self.variant, self.component)


class Meter:
    """Fills the windows."""

    def __init__(self, windows: MetricWindows, counted: Counted) -> None:
        self._windows = windows
        self._counted = counted
        self._variants: dict[tuple[str, str], _Group] = {}
        self._components: dict[str, _Group] = {}
        self._values: Mapping[Key, float] | None = None
        self._histograms: Mapping[Key, Histogram] = {}
        self._heard: frozenset[tuple[str, int]] = frozenset()

    def look(self, fleet: Fleet | None) -> None:
        """Look at what is in service, and how much is under way on it."""
        if fleet is None:
            return
        self._arrange(fleet)
        for (name, labels), value in self._counted.values(_GAUGES).items():
            if name == catalogue.CONCURRENT_REQUESTS.name:
                for group in self._groups_of(labels):
                    group.under_way += value
        for group in self._groups():
            self._windows.observe(group.metric(metrics.CONCURRENT), group.under_way)
            if group.places:
                per = metrics.CONCURRENT_PER_COPY if group.component else metrics.CONCURRENT_PER_MODEL
                self._windows.observe(group.metric(per), group.under_way / len(group.places))

    def close_window(self) -> None:
        """Take in how much the totals have grown, and begin the next window."""
        values, histograms = dict(self._counted.values(_GAUGES)), dict(self._counted.histograms())
        heard = self._counted.heard()
        # The totals of a router that this process had not heard before may be those of a day.
        if self._values is not None and heard <= self._heard:
            self._count(values, self._values)
            self._time(histograms, self._histograms)
        self._values, self._histograms, self._heard = values, histograms, heard
        self._windows.roll()

    # --- Who is where ----------------------------------------------------------------------------

    def _arrange(self, fleet: Fleet) -> None:
        """Note which variants and components there are, and which targets serve them."""
        self._variants, self._components = {}, {}
        for endpoint in fleet.endpoints:
            for variant in endpoint.variants:
                key = (endpoint.name, variant.name)
                group = self._variants.setdefault(key, _Group(endpoint=key[0], variant=key[1]))
                self._arrange_variant(variant, group)

    def _arrange_variant(self, variant: Variant, group: _Group) -> None:
        for component in variant.components:
            if not component.base:
                self._components.setdefault(component.name, _Group(component=component.name))
        for target in variant.targets:
            if target.state is not TargetState.IN_SERVICE:
                continue
            group.places.add(target.instance_id)
            if target.component:
                own = self._components.setdefault(target.component, _Group(component=target.component))
                own.places.add(target.target_id)

    def _groups(self) -> Iterator[_Group]:
        yield from self._variants.values()
        yield from self._components.values()

    def _groups_of(self, labels: Labels) -> Iterator[_Group]:
        named = dict(labels)
        variant = self._variants.get((named.get("endpoint", ""), named.get("variant", "")))
        component = self._components.get(named.get("component", ""))
        if variant is not None:
            yield variant
        if component is not None:
            yield component

    # --- What has grown --------------------------------------------------------------------------

    def _count(self, values: Mapping[Key, float], before: Mapping[Key, float]) -> None:
        for group in self._groups():
            group.counts = {}
        for key, value in values.items():
            name = _COUNTS.get(key[0])
            grown = value - before.get(key, 0.0)
            if name is not None and grown > 0:
                for group in self._groups_of(key[1]):
                    group.counts[name] = group.counts.get(name, 0.0) + grown
        for group in self._groups():
            self._write(group)

    def _write(self, group: _Group) -> None:
        windows, counts = self._windows, group.counts
        calls = counts.get(metrics.INVOCATIONS, 0.0)
        windows.count(group.metric(metrics.INVOCATIONS), calls)
        for name in (metrics.ERRORS_4XX, metrics.ERRORS_5XX, metrics.MODEL_ERRORS):
            windows.count(group.metric(name), counts.get(name, 0.0), of=calls)
        if group.places:
            per = metrics.PER_COPY if group.component else metrics.PER_INSTANCE
            windows.count(group.metric(per), calls / len(group.places))
        if group.component:
            windows.count(group.metric(metrics.NO_CAPACITY), counts.get(metrics.NO_CAPACITY, 0.0))

    def _time(self, histograms: Mapping[Key, Histogram], before: Mapping[Key, Histogram]) -> None:
        for key, (counts, total) in histograms.items():
            name = _LATENCIES.get(key[0])
            if name is None:
                continue
            then, total_then = before.get(key, ((0,) * len(counts), 0.0))
            grown = tuple(max(0, one - other) for one, other in zip(counts, then, strict=True))
            if any(grown):
                cell = _cell(grown, max(0.0, total - total_then))
                for group in self._groups_of(key[1]):
                    self._windows.add(group.metric(name), cell)


def _cell(counts: tuple[int, ...], total_s: float) -> Cell:
    """Return a histogram's growth as observations in microseconds; the extremes are its buckets' bounds."""
    filled = [at for at, count in enumerate(counts) if count]
    first, last = filled[0], filled[-1]
    return Cell(
        total=total_s * _MICROSECONDS,
        count=float(sum(counts)),
        least=(SECONDS_BOUNDS[first - 1] if first else 0.0) * _MICROSECONDS,
        most=SECONDS_BOUNDS[min(last, len(SECONDS_BOUNDS) - 1)] * _MICROSECONDS,
    )
