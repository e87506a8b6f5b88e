from warmroute.core.declaration import EndpointDeclaration, routing_text
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.core.ids import EndpointName
from warmroute.core.machines import InstanceType, ProviderKind

URLS = ("http://a:8000", "http://b:8000")


def declare(urls=URLS, routing=None):
    instance_type = InstanceType("static.llm", ProviderKind.STATIC, urls=urls)
    return EndpointDeclaration(EndpointName("llm"), instance_type, routing or Routing())


def test_equal_flags_make_equal_declarations():
    assert declare() == declare()


def test_another_url_or_strategy_makes_another_declaration():
    assert declare(URLS[:1]) != declare()
    assert declare(routing=Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)) != declare()


def test_the_strategy_is_random_when_no_flag_names_one():
    assert EndpointDeclaration(EndpointName("llm"), declare().instance_type).routing == Routing()


def test_a_routing_reads_with_the_parameters_it_has():
    assert routing_text(Routing()) == "RANDOM"
    text = routing_text(Routing(RoutingStrategy.PREFIX_AWARE, 4096, 32))
    assert text == "PREFIX_AWARE (prefix length 4096, concurrency threshold 32)"
