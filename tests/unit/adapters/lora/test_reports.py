"""What a router tells control of adapters, and how often."""

from random import Random

from warmroute.adapters.fakes import FakeClock
from warmroute.adapters.lora.reports import AdapterReports
from warmroute.core.decision import RoutingRequest
from warmroute.core.events import Completed
from warmroute.core.fleet import Component, Endpoint, Fleet, Routing, RoutingStrategy, Target, Variant
from warmroute.core.stream import AdapterUse, AdapterWanted
from warmroute.routing.router import Router

AT = ("e", "c", "lora")
AWARE = Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=1)


class Control:
    def __init__(self):
        self.uses = []
        self.wants = []

    def adapter_uses(self, uses):
        self.uses.append(uses)

    def want_adapter(self, wanted):
        self.wants.append(wanted)


class Bench:
    def __init__(self, *loaded, adapters=True):
        self.router = Router(Random(1))
        self.control = Control()
        self.clock = FakeClock()
        self.reports = AdapterReports(router=self.router, control=self.control, clock=self.clock)
        self.version = 0
        self.put(*loaded, adapters=adapters)

    def put(self, *loaded, adapters=True):
        """Apply a fleet of two copies; those named have the adapter."""
        self.version += 1
        targets = tuple(
            Target(name, f"h{name}", 1, "host", 80, component="c", adapters=("lora",) * (name in loaded))
            for name in "12"
        )
        components = (Component("c"), Component("lora", "c")) if adapters else (Component("c"),)
        variant = Variant("v", 1.0, AWARE, targets, components)
        fleet = Fleet(self.version, "r", "0" * 12, (Endpoint("e", True, (variant,)),))
        self.router.apply_fleet(fleet)
        self.reports.fleet_applied(fleet)

    def take(self):
        book = self.router.choose_variant(self.router.endpoints["e"], None)
        return self.router.decide(book, RoutingRequest(key=1, component="c", adapter="lora"), 1).lease

    def want(self):
        return self.reports.want(endpoint="e", component="c", adapter="lora")


def test_a_cold_adapter_is_asked_for_at_once():
    bench = Bench()
    assert bench.want()
    assert bench.control.wants == [AdapterWanted(*AT, 0)]


def test_it_is_asked_for_once_a_second():
    bench = Bench()
    for _ in range(3):
        bench.want()
        bench.reports.look([AT])
        bench.clock.pass_s(0.4)
    assert len(bench.control.wants) == 1
    bench.clock.pass_s(0.4)
    bench.reports.look([AT])
    assert len(bench.control.wants) == 2


def test_what_nobody_waits_for_is_not_asked_for_again():
    bench = Bench()
    bench.want()
    bench.clock.pass_s(2)
    bench.reports.look([])
    assert len(bench.control.wants) == 1


def test_a_place_that_cannot_be_used_counts_as_one():
    bench = Bench("1")
    bench.want()
    assert bench.control.wants == [AdapterWanted(*AT, 1)]


def test_an_adapter_of_an_endpoint_that_is_gone_has_no_place():
    bench = Bench()
    bench.reports.look([("other", "c", "lora")])
    assert bench.control.wants == [AdapterWanted("other", "c", "lora", 0)]


def test_a_busy_set_asks_for_one_more_place():
    bench = Bench("1")
    bench.take()
    bench.reports.look([])
    assert bench.control.wants == [AdapterWanted(*AT, 1)]
    bench.clock.pass_s(2)
    bench.reports.look([])
    assert len(bench.control.wants) == 1, "asked again only by another request"


def test_uses_are_told_with_every_fleet():
    bench = Bench("1")
    bench.take()
    bench.put("1", "2")
    assert bench.control.uses == [[], [AdapterUse("1", 1, "lora", 1, 1)]]


def test_the_end_of_the_last_lease_of_what_leaves_is_told_soon():
    bench = Bench("1")
    lease = bench.take()
    bench.put()
    told = len(bench.control.uses)
    bench.reports.look([])
    assert bench.control.uses[told:] == [[AdapterUse("1", 1, "lora", 1, 1)]]
    bench.router.apply(Completed(lease), 2)
    bench.reports.look([])
    bench.reports.look([])
    assert bench.control.uses[told + 1 :] == [[]]


def test_without_adapters_nothing_is_told():
    bench = Bench(adapters=False)
    bench.reports.report()
    bench.reports.look([])
    assert (bench.control.uses, bench.control.wants) == ([], [])


def test_after_the_last_adapter_is_deleted_its_leases_are_told_to_their_end():
    bench = Bench("1")
    lease = bench.take()
    bench.put(adapters=False)
    assert bench.control.uses[-1] == [AdapterUse("1", 1, "lora", 1, 1)]
    bench.router.apply(Completed(lease), 2)
    bench.reports.report()
    assert bench.control.uses[-1] == []
