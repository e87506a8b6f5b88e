from random import Random

import pytest

from warmroute.core.decision import Foreseen, RoutingRequest
from warmroute.core.events import Completed, FirstToken
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, Variant
from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing.explain import ORDER_TOLD_MAX, foreseen, order
from warmroute.routing.key import characters_of
from warmroute.routing.router import Router

CHAIN = tuple(range(1, 9))


def router_of(strategy):
    names = ("i-1", "i-2")
    targets = tuple(Target(TargetId(name), InstanceId(name), 1, "host", 80) for name in names)
    variant = Variant(VariantName("v"), 1.0, Routing(strategy), targets)
    router = Router(Random(1))
    router.apply_fleet(Fleet(1, "us-east-1", "0" * 12, (Endpoint(EndpointName("e"), True, (variant,)),)))
    return router


def ask(router, blocks=8, now_ns=0):
    book = router.endpoints["e"].variants["v", 0]
    request = RoutingRequest(key=1, chain=CHAIN[:blocks], characters=characters_of(blocks) + 100)
    return router.decide(book, request, now_ns).lease


@pytest.mark.parametrize("strategy", [RoutingStrategy.RANDOM, RoutingStrategy.LEAST_OUTSTANDING_REQUESTS])
def test_other_strategies_foresee_nothing(strategy):
    assert foreseen(ask(router_of(strategy))) is None


def test_a_first_request_finds_nothing_and_waits_for_nothing():
    assert foreseen(ask(router_of(RoutingStrategy.KV_AWARE))) == Foreseen(8, 0, 0, "estimated")


def test_what_a_target_holds_is_told_as_it_was_at_the_decision():
    router = router_of(RoutingStrategy.KV_AWARE)
    first = ask(router, 6)
    router.apply(Completed(first), 1)
    second = ask(router, 8)
    assert foreseen(second) == Foreseen(8, 6, 0, "estimated")
    router.apply(FirstToken(second), 2)
    router.apply(Completed(second), 3)
    assert foreseen(second) == Foreseen(8, 6, 0, "estimated")
    assert foreseen(first) == Foreseen(6, 0, 0, "estimated")


def test_prompts_that_were_to_be_computed_before_it_are_told():
    router = router_of(RoutingStrategy.KV_AWARE)
    leases = [ask(router, 8) for _ in range(2)]
    assert leases[0].target is leases[1].target, "the blocks on their way keep them together"
    assert foreseen(leases[1]) == Foreseen(8, 8, characters_of(8) + 100, "estimated")


# --- the order of a key ---------------------------------------------------------------------------
def aware(*targets):
    routing = Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=1)
    variant = Variant(VariantName("v"), 1.0, routing, targets)
    router = Router(Random(1))
    router.apply_fleet(Fleet(1, "us-east-1", "0" * 12, (Endpoint(EndpointName("e"), True, (variant,)),)))
    return router, router.endpoints["e"].variants["v", 0]


def taken(router, book, request, count):
    return [router.decide(book, request, 0).target.target_id for _ in range(count)]


@pytest.mark.parametrize("key", range(20))
def test_a_keys_order_is_that_in_which_requests_overflow(key):
    router, book = aware(*(Target(f"i-{n}", f"i-{n}", 1, "h", 80) for n in range(5)))
    request = RoutingRequest(key=key)
    told = order(book, request)
    assert taken(router, book, request, 5) == told


@pytest.mark.parametrize("key", range(20))
def test_the_order_of_copies_leaves_an_instance_when_all_of_its_copies_are_full(key):
    copies = [
        Target(f"i-{n}/{copy}", f"i-{n}", 1, "h", 80, component="c", adapters=("lora",) * (copy < 2))
        for n in range(3) for copy in range(3)
    ]  # fmt: skip
    router, book = aware(*copies, Target("i-0/d", "i-0", 1, "h", 80, component="d"))
    request = RoutingRequest(key=key, component="c")
    told = order(book, request)
    assert len(told) == ORDER_TOLD_MAX
    assert taken(router, book, request, 9)[:8] == told
    lora = order(book, RoutingRequest(key=key, component="c", adapter="lora"))
    assert len(lora) == 6
    assert not any(each.endswith("/2") for each in lora)


def test_without_a_key_or_with_another_strategy_there_is_no_order():
    _, book = aware(Target("i-1", "i-1", 1, "h", 80))
    assert order(book, RoutingRequest()) == []
    other = router_of(RoutingStrategy.KV_AWARE).endpoints["e"].variants["v", 0]
    assert order(other, RoutingRequest(key=1)) == []
