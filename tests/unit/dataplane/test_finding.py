import pytest

from tests.unit.dataplane.conftest import Bench, target
from warmroute.core.errors import Failure, Problem
from warmroute.core.fleet import Component, Endpoint, Fleet, Routing, Variant
from warmroute.dataplane.finding import find, invocable, why_gone

COMPONENTS = (Component("base"), Component("idle"), Component("lora", "base"))


def copy(name, component="base", **changes):
    return target(name, component=component, **changes)


def variant(name, *targets, components=COMPONENTS, weight=1.0):
    return Variant(name, weight, Routing(), targets, components)


def router_of(*endpoints):
    bench = Bench()
    assert bench.gateway.apply_fleet(Fleet(1, "eu-west-1", "123456789012", endpoints))
    return bench.router


@pytest.fixture
def router():
    """An endpoint of one model, one of components on two variants, and an empty one of components."""
    return router_of(
        Endpoint("empty", True, (Variant("v", 1.0, Routing(), ()),), carries_components=True),
        Endpoint("llm", True, (Variant("AllTraffic", 1.0, Routing(), (target("i-1"),)),)),
        Endpoint(
            "many", True,
            (variant("a", copy("i-2")), variant("b", copy("i-3", "other"), components=(Component("other"),))),
        ),
    )  # fmt: skip


def found(router, name, component=None, target_variant=None, session=""):
    return find(
        router, "123456789012", name, component=component, target_variant=target_variant, session=session
    )


def test_an_endpoint_of_one_model_is_found_without_a_component(router):
    answer = found(router, "llm")
    assert (answer.book, answer.component, answer.adapter) == (
        router.endpoints["llm"].named("AllTraffic")[0],
        "",
        "",
    )


@pytest.mark.parametrize(
    ("component", "addressed"), [("base", ("base", "")), ("idle", ("idle", "")), ("lora", ("base", "lora"))]
)
def test_a_component_is_found_on_its_variant_and_an_adapter_on_its_base(router, component, addressed):
    answer = found(router, "many", component)
    assert (answer.book.name, answer.component, answer.adapter) == ("a", *addressed)


@pytest.mark.parametrize("target_variant", [None, "b"])
def test_only_a_variant_that_has_the_component_is_drawn(router, target_variant):
    names = {found(router, "many", "other", target_variant).book.name for _ in range(20)}
    assert names == {"b"}


@pytest.mark.parametrize(
    ("name", "component", "variant", "said"),
    [
        ("LLM", None, None, "Endpoint LLM of account 123456789012 not found."),
        ("llm", "base", None, "Inference Component Name header is not allowed"),
        ("many", None, None, "Inference Component Name header is required"),
        ("empty", None, None, "Inference Component Name header is required"),
        ("empty", "x", None, "Inference Component x of account 123456789012 not found."),
        ("empty", "base", None, "Inference Component base of account 123456789012 is not on endpoint empty"),
        ("many", "base", "b", "Inference Component base is not on variant b; it is on: a."),
        ("many", "base", "c", "Variant c not found on endpoint many of account 123456789012; it has: a, b."),
        ("llm", None, "c", "Variant c not found on endpoint llm"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_the_callers_mistake(router, name, component, variant, said):
    failure = found(router, name, component, variant)
    assert isinstance(failure, Failure)
    assert failure.problem is Problem.BAD_REQUEST
    assert failure.message.startswith(said)


@pytest.mark.parametrize(("component", "carries"), [(None, False), ("base", True)])
def test_an_endpoint_of_which_no_variant_has_a_share_has_no_capacity(component, carries):
    router = router_of(
        Endpoint("e", True, (variant("v", components=COMPONENTS if carries else (), weight=0),))
    )
    failure = found(router, "e", component)
    assert failure.problem is Problem.NO_CAPACITY


def test_that_every_variant_has_weight_0_is_not_told_as_if_no_instance_were_there():
    idle = variant("idle", components=(), weight=0)
    router = router_of(Endpoint("e", True, (idle, variant("v", target("i-1"), components=(), weight=0))))
    failure = found(router, "e")
    assert failure.problem is Problem.NO_CAPACITY
    assert failure.message == "Every variant of endpoint e has weight 0; name one in TargetVariant."


def test_what_can_be_named_as_a_model_is_every_endpoint_of_one_model_component_and_adapter(router):
    assert invocable(router) == [
        ("llm", ""), ("many/base", ""), ("many/idle", ""), ("many/lora", "many/base"), ("many/other", ""),
    ]  # fmt: skip


def test_an_endpoint_that_is_not_in_service_cannot_be_named():
    assert invocable(router_of(Endpoint("e", False, (variant("v", copy("i-1")),)))) == []


@pytest.mark.parametrize(
    ("name", "component", "said"),
    [
        ("many", "lora", None),
        ("many", "none", "Inference Component none of account 123456789012 not found."),
        ("gone", "lora", "Endpoint gone of account 123456789012 not found."),
    ],
)
def test_what_was_found_once_is_there_or_is_told_as_one_that_was_never_there(router, name, component, said):
    why = why_gone(router, "123456789012", name, component)
    assert said == (None if why is None else why.message)
