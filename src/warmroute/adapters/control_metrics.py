"""/metrics: what the routers counted, and what control knows itself."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from warmroute.adapters.fleet_stream import FleetServer
from warmroute.adapters.totals import Labels
from warmroute.controlplane.ports import Store, StoreUnavailable
from warmroute.controlplane.reconcile import Reconciler
from warmroute.controlplane.service import ControlService
from warmroute.observe.catalogue import METRICS, SECONDS_BOUNDS, Metric, MetricKind
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.metrics.alarms import AlarmState
from warmroute.resources.records import InstanceState

ENDPOINTS = Metric(
    "warmroute_endpoints", MetricKind.GAUGE, ("status",), "Endpoints by EndpointStatus."
)  # fmt: skip
INSTANCES = Metric(
    "warmroute_instances", MetricKind.GAUGE, ("endpoint", "variant", "state"),
    "Instances by where they stand in their lives; component copies are counted apart.",
)  # fmt: skip
COMPONENTS = Metric(
    "warmroute_components", MetricKind.GAUGE, ("status",),
    "Inference components, adapters included, by InferenceComponentStatus.",
)  # fmt: skip
COPIES = Metric(
    "warmroute_component_copies", MetricKind.GAUGE, ("endpoint", "component", "state"),
    "Copies of inference components by where they stand in their lives.",
)  # fmt: skip
COPIES_WANTED = Metric(
    "warmroute_component_copies_wanted", MetricKind.GAUGE, ("endpoint", "component"),
    "DesiredCopyCount of inference components.",
)  # fmt: skip
ADAPTER_PLACES = Metric(
    "warmroute_adapter_places", MetricKind.GAUGE, ("component", "adapter", "state"),
    "Copies of a base component with a LoRA adapter: serving, loading, or leaving.",
)  # fmt: skip
ADAPTER_CALLS = Metric(
    "warmroute_adapter_calls_total", MetricKind.COUNTER, ("verb", "outcome"),
    "Calls that load or unload an adapter; those that were unclear are made again.",
)  # fmt: skip
ALARM_STATE = Metric(
    "warmroute_alarm_state", MetricKind.GAUGE, ("alarm", "state"),
    "1 at how an alarm stands: OK, ALARM or INSUFFICIENT_DATA.",
)  # fmt: skip
STORE_UP = Metric(
    "warmroute_store_up", MetricKind.GAUGE, (),
    "1, or 0 while the store cannot be used: the two above are missing then.",
)  # fmt: skip
ROUTERS = Metric("warmroute_routers", MetricKind.GAUGE, (), "Routers connected to control.")
API_CALLS = Metric(
    "warmroute_api_calls_total", MetricKind.COUNTER, ("operation", "code"),
    "Calls of the SageMaker API by error code; none for success.",
)  # fmt: skip
RECONCILE_STEPS = Metric(
    "warmroute_reconcile_steps_total", MetricKind.COUNTER, (), "Looks at what runs and what should."
)  # fmt: skip
RECONCILE_ERRORS = Metric(
    "warmroute_reconcile_errors_total", MetricKind.COUNTER, (),
    "Steps, starts and stops that failed by an error of ours or of a provider; each is tried again.",
)  # fmt: skip
INSTANCE_STARTS = Metric(
    "warmroute_instance_starts_total", MetricKind.COUNTER, (), "Starts of instances that were ordered."
)  # fmt: skip
INSTANCE_STOPS = Metric(
    "warmroute_instance_stops_total", MetricKind.COUNTER, (), "Stops of instances that were ordered."
)  # fmt: skip
INSTANCE_REFUSALS = Metric(
    "warmroute_instance_refusals_total", MetricKind.COUNTER, (), "Starts that a provider refused."
)  # fmt: skip

CONTROL_METRICS: Final = (
    ENDPOINTS, INSTANCES, COMPONENTS, COPIES, COPIES_WANTED, ADAPTER_PLACES, ADAPTER_CALLS, ALARM_STATE,
    STORE_UP, ROUTERS, API_CALLS, RECONCILE_STEPS, RECONCILE_ERRORS, INSTANCE_STARTS, INSTANCE_STOPS,
    INSTANCE_REFUSALS,
)  # fmt: skip
"""Those that control adds to the routers' own."""

Samples = Mapping[tuple[str, ...], float]
_GAUGES: Final = frozenset(metric.name for metric in METRICS if metric.kind is MetricKind.GAUGE)
Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the numbers come from."""

    store: Store
    reconciler: Reconciler
    service: ControlService
    fleet_server: FleetServer
    alarms: Callable[[], Mapping[str, AlarmState]]


class ControlCollector(Collector):
    """Collects at every scrape; keeps nothing."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Family]:
        """Yield every metric that has a value."""
        yield from self._of_routers()
        for metric, samples in self._own().items():
            yield _family(metric, samples)

    def _of_routers(self) -> Iterator[Family]:
        totals = self._sources.fleet_server.totals
        values: dict[str, dict[tuple[str, ...], float]] = {}
        for (name, labels), value in totals.values(_GAUGES).items():
            values.setdefault(name, {})[_in_order(labels)] = value
        histograms: dict[str, list[tuple[Labels, tuple[int, ...], float]]] = {}
        for (name, labels), (counts, total) in totals.histograms().items():
            histograms.setdefault(name, []).append((labels, counts, total))
        for metric in METRICS:
            if metric.name in values:
                yield _family(metric, values[metric.name])
            if metric.name in histograms:
                yield _histogram(metric, histograms[metric.name])

    def _own(self) -> dict[Metric, Samples]:
        sources = self._sources
        try:
            kept = _kept(sources.store)
        except StoreUnavailable:
            kept = {STORE_UP: {(): 0}}
        tally = sources.reconciler.tally
        return {
            **kept,
            ADAPTER_CALLS: {(*key,): count for key, count in sources.reconciler.adapter_calls.items()},
            ALARM_STATE: {(name, str(state)): 1 for name, state in sources.alarms().items()},
            ROUTERS: {(): len(sources.fleet_server.routers())},
            API_CALLS: {(*key,): count for key, count in sources.service.calls.by_result.items()},
            RECONCILE_STEPS: {(): tally.steps},
            RECONCILE_ERRORS: {(): tally.errors},
            INSTANCE_STARTS: {(): tally.starts},
            INSTANCE_STOPS: {(): tally.stops},
            INSTANCE_REFUSALS: {(): tally.refusals},
        }


def _kept(store: Store) -> dict[Metric, Samples]:
    """Return the metrics of what the store holds."""
    by_state: dict[tuple[str, ...], float] = {}
    copies: dict[tuple[str, ...], float] = {}
    with store.transaction() as transaction:
        endpoints = Counter(record.status for record in transaction.endpoints())
        components = transaction.inference_components()
        instances = transaction.instances()
    for record in instances:
        counts, name = (copies, record.component) if record.component else (by_state, str(record.variant))
        for state in InstanceState:
            key = (record.endpoint, name, str(state))
            counts[key] = counts.get(key, 0) + (record.state is state)
    places = Counter(
        (record.component, place.adapter, str(place.state))
        for record in instances
        for place in record.adapters
    )
    statuses = Counter(component.status for component in components)
    return {
        ENDPOINTS: {(str(status),): endpoints[status] for status in EndpointStatus},
        INSTANCES: by_state,
        COMPONENTS: {(str(status),): statuses[status] for status in ComponentStatus},
        COPIES: copies,
        ADAPTER_PLACES: {(*key,): count for key, count in places.items()},
        COPIES_WANTED: {(one.endpoint, one.name): one.count for one in components if not one.base},
        STORE_UP: {(): 1},
    }


def render(collector: Collector) -> bytes:
    """Return the metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


def _in_order(labels: Labels) -> tuple[str, ...]:
    return tuple(value for _, value in labels)


def _family(metric: Metric, samples: Samples) -> Family:
    family: CounterMetricFamily | GaugeMetricFamily
    if metric.kind is MetricKind.COUNTER:
        family = CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    else:
        family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for values, number in sorted(samples.items()):
        family.add_metric(values, number)
    return family


def _histogram(metric: Metric, rows: list[tuple[Labels, tuple[int, ...], float]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    bounds = [*(f"{bound:g}" for bound in SECONDS_BOUNDS), "+Inf"]
    for labels, counts, total in sorted(rows):
        running = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip(bounds, counts, strict=True):
            running += count
            buckets.append((bound, running))
        family.add_metric(_in_order(labels), buckets=buckets, sum_value=total)
    return family
