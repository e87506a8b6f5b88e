"""From the routers' totals to windows."""

import pytest

from warmroute.adapters.totals import Totals
from warmroute.controlplane.scaling.metering import Meter
from warmroute.core.fleet import Component, Endpoint, Fleet, Routing, Target, TargetState, Variant
from warmroute.core.stream import Counters
from warmroute.observe import catalogue
from warmroute.observe.catalogue import SECONDS_BOUNDS
from warmroute.resources.metrics.alarms import MetricId, Query, Statistic
from warmroute.resources.metrics.windows import MetricWindows

ROUTER = ("router-0", 1)


def served(component=""):
    return (("endpoint", "llm"), ("variant", "a"), ("component", component), ("adapter", ""))


def under_way(count, component=""):
    labels = (("endpoint", "llm"), ("variant", "a"), ("component", component))
    return (catalogue.CONCURRENT_REQUESTS.name, labels, count)


def target(name, component="", state=TargetState.IN_SERVICE, host=None):
    return Target(name, host or name, 1, "127.0.0.1", 1, state, component=component)


def fleet(*targets, components=()):
    variant = Variant("a", 1.0, Routing(), targets, tuple(components))
    return Fleet(1, "eu-west-1", "1", (Endpoint("llm", True, (variant,)),))


class Bench:
    def __init__(self):
        self.totals = Totals()
        self.totals.came(ROUTER)
        self.windows = MetricWindows()
        self.meter = Meter(self.windows, self.totals)

    def tell(self, *values, histograms=()):
        self.totals.take(ROUTER, Counters(values, histograms))

    def read(self, name, statistic=Statistic.SUM, component=None, count=1):
        of = MetricId(name, "llm", "a") if component is None else MetricId(name, component=component)
        return self.windows.points(Query(of, statistic), period_s=10, count=count)


@pytest.fixture
def bench():
    return Bench()


def test_what_is_under_way_is_divided_by_what_is_in_service(bench):
    now = fleet(target("i-1"), target("i-2"), target("i-3", state=TargetState.DRAINING))
    for count in (2.0, 6.0):
        bench.tell(under_way(count))
        bench.meter.look(now)
    bench.meter.close_window()
    assert bench.read("ConcurrentRequests", Statistic.AVERAGE) == (4.0,)
    assert bench.read("ConcurrentRequestsPerModel", Statistic.AVERAGE) == (2.0,)
    assert bench.read("ConcurrentRequestsPerModel", Statistic.MAXIMUM) == (3.0,)


def test_copies_divide_a_components_and_hosts_a_variants(bench):
    now = fleet(
        target("c-1", "chat", host="i-1"),
        target("c-2", "chat", host="i-1"),
        target("c-3", "other", host="i-1"),
        components=[Component("chat"), Component("other"), Component("lora", base="chat")],
    )
    bench.tell(under_way(6.0, "chat"), under_way(1.0, "other"))
    bench.meter.look(now)
    bench.meter.close_window()
    assert bench.read("ConcurrentRequestsPerCopy", Statistic.AVERAGE, "chat") == (3.0,)
    assert bench.read("ConcurrentRequestsPerCopy", Statistic.AVERAGE, "other") == (1.0,)
    assert bench.read("ConcurrentRequestsPerModel", Statistic.AVERAGE) == (7.0,)
    assert bench.read("ConcurrentRequests", Statistic.AVERAGE, "lora") == (None,)


def test_without_a_copy_there_is_nothing_to_divide_by(bench):
    bench.meter.look(fleet(components=[Component("chat")]))
    bench.meter.close_window()
    assert bench.read("ConcurrentRequestsPerCopy", Statistic.AVERAGE, "chat") == (None,)
    assert bench.read("ConcurrentRequests", Statistic.AVERAGE, "chat") == (0.0,)


def test_before_there_is_a_fleet_nothing_is_known(bench):
    bench.meter.look(None)
    bench.meter.close_window()
    assert bench.read("ConcurrentRequests") == (None,)


def test_totals_count_by_how_much_they_grow(bench):
    name = catalogue.MODEL_INVOCATIONS.name
    now = fleet(target("i-1"), target("i-2"))
    for total in (100.0, 106.0, 106.0, 110.0):
        bench.tell((name, served(), total))
        bench.meter.look(now)
        bench.meter.close_window()
    assert bench.read("Invocations", count=4) == (4.0, 0.0, 6.0, None)
    assert bench.read("InvocationsPerInstance", count=3) == (2.0, 0.0, 3.0)


def test_a_component_counts_as_its_variant_does(bench):
    now = fleet(target("c-1", "chat"), components=[Component("chat")])
    for total in (0.0, 8.0):
        bench.tell((catalogue.MODEL_INVOCATIONS.name, served("chat"), total))
        bench.meter.look(now)
        bench.meter.close_window()
    assert bench.read("Invocations", component="chat") == (8.0,)
    assert bench.read("InvocationsPerCopy", component="chat") == (8.0,)
    assert bench.read("Invocations") == (8.0,)


def test_errors_have_their_share_of_all_as_average(bench):
    now = fleet(target("i-1"))
    for scale in (0.0, 1.0):
        bench.tell(
            (catalogue.MODEL_INVOCATIONS.name, served(), 10.0 * scale),
            (catalogue.MODEL_CLIENT_ERRORS.name, served(), 1.0 * scale),
            (catalogue.MODEL_SERVER_ERRORS.name, served(), 2.0 * scale),
            (catalogue.MODEL_ERRORS.name, served(), 5.0 * scale),
        )
        bench.meter.look(now)
        bench.meter.close_window()
    assert bench.read("Invocation4XXErrors") == (1.0,)
    assert bench.read("Invocation5XXErrors", Statistic.AVERAGE) == (0.2,)
    assert bench.read("InvocationModelErrors", Statistic.AVERAGE) == (0.5,)


def test_refusals_for_want_of_a_copy(bench):
    now = fleet(components=[Component("chat")])
    for total in (0.0, 3.0):
        bench.tell((catalogue.NO_CAPACITY_FAILURES.name, served("chat"), total))
        bench.meter.look(now)
        bench.meter.close_window()
    assert bench.read("NoCapacityInvocationFailures", component="chat") == (3.0,)


def histogram(metric, *filled, total):
    counts = [0] * (len(SECONDS_BOUNDS) + 1)
    for at, count in filled:
        counts[at] = count
    return (metric.name, served(), tuple(counts), total)


def test_latencies_are_in_microseconds(bench):
    now = fleet(target("i-1"))
    last = len(SECONDS_BOUNDS)
    for histograms in (
        [histogram(catalogue.MODEL_LATENCY, (5, 2), total=0.2)],
        [
            histogram(catalogue.MODEL_LATENCY, (5, 4), (last, 1), total=1000.4),
            histogram(catalogue.MODEL_FIRST_BYTE, (0, 1), total=0.0005),
        ],
    ):
        bench.tell(histograms=tuple(histograms))
        bench.meter.look(now)
        bench.meter.close_window()
    assert bench.read("ModelLatency", Statistic.SAMPLE_COUNT) == (3.0,)
    assert bench.read("ModelLatency", Statistic.AVERAGE)[0] == pytest.approx(1000.2e6 / 3)
    assert bench.read("ModelLatency", Statistic.MINIMUM)[0] == SECONDS_BOUNDS[4] * 1e6
    assert bench.read("ModelLatency", Statistic.MAXIMUM)[0] == SECONDS_BOUNDS[-1] * 1e6
    assert bench.read("FirstByteLatency", Statistic.MINIMUM) == (0.0,)
    assert bench.read("FirstByteLatency", Statistic.AVERAGE)[0] == pytest.approx(500.0)


def test_a_router_that_comes_late_does_not_bring_its_history_as_a_burst(bench):
    now, name = fleet(target("i-1")), catalogue.MODEL_INVOCATIONS.name
    bench.tell((name, served(), 10.0))
    bench.meter.look(now)
    bench.meter.close_window()
    late = ("router-1", 2)
    for total in (1_000_000.0, 1_000_003.0):
        bench.totals.came(late)
        bench.totals.take(late, Counters(((name, served(), total),)))
        bench.meter.look(now)
        bench.meter.close_window()
    assert bench.read("Invocations", count=2) == (3.0, None)


def test_a_router_started_anew_takes_nothing_back(bench):
    now, name = fleet(target("i-1")), catalogue.MODEL_INVOCATIONS.name
    bench.tell((name, served(), 10.0))
    bench.meter.look(now)
    bench.meter.close_window()
    again = ("router-0", 2)
    bench.totals.came(again)
    for total in (3.0, 5.0):
        bench.totals.take(again, Counters(((name, served(), total),)))
        bench.meter.look(now)
        bench.meter.close_window()
    assert bench.read("Invocations", count=2) == (2.0, None)
