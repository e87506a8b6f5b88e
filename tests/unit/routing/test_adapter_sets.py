"""What a router counts of adapters, and when it asks for more."""

from random import Random

import pytest

from warmroute.core.decision import RoutingRequest
from warmroute.core.events import Cancelled, Completed
from warmroute.core.fleet import (
    Component,
    Endpoint,
    Fleet,
    Routing,
    RoutingStrategy,
    Target,
    TargetState,
    Variant,
)
from warmroute.core.limits import ADAPTER_BUSY_IN_FLIGHT
from warmroute.routing.adapter_sets import busy_from
from warmroute.routing.router import Router

ASK = RoutingRequest(key=1, component="c", adapter="lora")
BASE = RoutingRequest(key=1, component="c")
AWARE = Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=2)


def copy(name, *adapters, state=TargetState.IN_SERVICE, generation=1):
    return Target(f"{name}-c", name, generation, "host", 80, state=state, component="c", adapters=adapters)


class Serving:
    def __init__(self, *targets, routing=AWARE, routers=1):
        self.router = Router(Random(1))
        self.version = 0
        self.routing = routing
        self.routers = routers
        self.put(*targets)

    def put(self, *targets):
        self.version += 1
        components = (Component("c"), Component("lora", "c"))
        variant = Variant("v", 1.0, self.routing, targets, components)
        endpoints = (Endpoint("e", True, (variant,)),)
        self.router.apply_fleet(Fleet(self.version, "r", "0" * 12, endpoints, routers=self.routers))
        self.book = self.router.choose_variant(self.router.endpoints["e"], None)

    def take(self, request=ASK):
        return self.router.decide(self.book, request, 1).lease

    def end(self, lease):
        self.router.apply(Completed(lease), 2)

    def counts(self):
        return sorted(
            (target.target_id, adapter, in_flight, taken)
            for target, adapter, in_flight, taken in self.router.adapter_leases()
        )

    @property
    def wanted(self):
        return self.router.adapters_wanted.get(("e", "c", "lora"))


STRATEGIES = [
    Routing(),
    Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS),
    AWARE,
    Routing(RoutingStrategy.KV_AWARE),
]


@pytest.mark.parametrize("routing", STRATEGIES, ids=lambda routing: routing.strategy)
def test_leases_are_counted_by_adapter(routing):
    serving = Serving(copy("1", "lora"), copy("2", "lora"), copy("3"), routing=routing)
    leases = [serving.take() for _ in range(3)]
    assert sum(in_flight for *_, in_flight, _ in serving.counts()) == 3
    for lease in leases:
        serving.end(lease)
    assert sum(in_flight for *_, in_flight, _ in serving.counts()) == 0
    assert sum(taken for *_, taken in serving.counts()) == 3


def test_requests_without_an_adapter_are_not_counted():
    serving = Serving(copy("1", "lora"))
    serving.end(serving.take(BASE))
    assert serving.counts() == []


def test_a_cold_adapters_lease_is_not_one_for_a_loaded_adapter():
    serving = Serving(copy("1"), copy("2"))
    serving.router.apply(Cancelled(serving.take()), 2)
    assert serving.counts() == []


def test_an_adapter_that_leaves_is_counted_until_its_last_lease_ends():
    serving = Serving(copy("1", "lora"))
    lease = serving.take()
    serving.put(copy("1"))
    assert serving.counts() == [("1-c", "lora", 1, 1)]
    serving.end(lease)
    assert serving.counts() == []


def test_an_idle_adapter_that_leaves_is_forgotten():
    serving = Serving(copy("1", "lora"))
    serving.end(serving.take())
    serving.put(copy("1"))
    assert serving.counts() == []


def test_an_idle_adapter_that_stays_keeps_its_count():
    serving = Serving(copy("1", "lora"))
    serving.end(serving.take())
    serving.put(copy("1", "lora"), copy("2"))
    assert serving.counts() == [("1-c", "lora", 0, 1)]


def test_a_server_started_anew_begins_from_nothing():
    serving = Serving(copy("1", "lora"))
    lease = serving.take()
    serving.put(copy("1", "lora", generation=2))
    assert serving.counts() == []
    serving.end(lease)
    assert serving.counts() == []


def test_a_set_grows_when_every_place_is_at_the_threshold():
    serving = Serving(copy("1", "lora"), copy("2", "lora"), copy("3"))
    asked = []
    for _ in range(4):
        serving.take()
        asked.append(serving.wanted)
    assert asked == [None, None, None, 2]


def test_a_place_is_busy_with_the_requests_of_others_too():
    serving = Serving(copy("1", "lora"), copy("2"))
    for _ in range(4):
        serving.take(BASE)
    serving.take()
    assert serving.wanted == 1


def test_a_set_on_every_copy_cannot_grow():
    serving = Serving(copy("1", "lora"), copy("2", "lora"))
    for _ in range(10):
        serving.take()
    assert serving.wanted is None


def test_copies_that_leave_do_not_count():
    serving = Serving(copy("1", "lora"), copy("2", state=TargetState.DRAINING))
    for _ in range(10):
        serving.take()
    assert serving.wanted is None


@pytest.mark.parametrize("routing", [STRATEGIES[1], STRATEGIES[3]], ids=lambda routing: routing.strategy)
def test_without_a_threshold_a_fixed_number_is_busy(routing):
    serving = Serving(copy("1", "lora"), copy("2"), routing=routing)
    for _ in range(ADAPTER_BUSY_IN_FLIGHT - 1):
        serving.take()
    assert serving.wanted is None
    serving.take()
    assert serving.wanted == 1


def test_each_of_several_routers_counts_its_part():
    assert [busy_from(10, routers) for routers in (1, 2, 3, 100)] == [10, 5, 4, 1]
    serving = Serving(copy("1", "lora"), copy("2"), routers=2)
    serving.take()
    assert serving.wanted == 1
