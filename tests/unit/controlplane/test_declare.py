import asyncio
import logging
from dataclasses import replace

import pytest

from warmroute.controlplane.declare import (
    Declared,
    config_of,
    declare,
    remember_instance_type,
    remembered_instance_types,
)
from warmroute.core.declaration import EndpointDeclaration
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.core.machines import InstanceType, ProviderKind
from warmroute.resources.lifecycle import EndpointStatus

FIXED = InstanceType("fixed", ProviderKind.STATIC, urls=("http://a", "http://b"))
FLAGS = EndpointDeclaration("ep", FIXED)
PREFIX_AWARE = replace(FLAGS, routing=Routing(RoutingStrategy.PREFIX_AWARE, 4096, 32))


async def take(p, declaration):
    said = await declare(p.service, p.store, declaration)
    await p.settle()
    return said.text


def test_the_first_start_makes_ordinary_resources(plane):
    async def test(p):
        assert await take(p, PREFIX_AWARE) == "Endpoint ep: created as the flags say."
        described = await p.service.invoke("DescribeEndpoint", {"EndpointName": "ep"})
        (variant,) = described["ProductionVariants"]
        assert (described["EndpointStatus"], variant["VariantName"]) == ("InService", "AllTraffic")
        assert variant["CurrentInstanceCount"] == 2
        assert variant["RoutingConfig"]["PrefixAwareRoutingConfig"]["PrefixLength"] == 4096
        assert described["EndpointConfigName"].startswith("ep-")
        await p.service.invoke("DescribeModel", {"ModelName": "ep"})

    plane(test)


def test_a_first_start_refuses_and_asks_nothing(plane, caplog):
    async def test(p):
        with caplog.at_level(logging.INFO):
            await take(p, FLAGS)
        assert not [text for text in caplog.messages if "refused" in text]
        assert p.service.calls.by_result == {
            ("CreateModel", ""): 1,
            ("CreateEndpointConfig", ""): 1,
            ("CreateEndpoint", ""): 1,
        }

    plane(test)


def test_an_endpoint_that_goes_while_it_is_waited_for_is_created(plane):
    async def test(p):
        await take(p, FLAGS)
        await p.service.invoke("DeleteEndpoint", {"EndpointName": "ep"})
        changing = asyncio.ensure_future(declare(p.service, p.store, PREFIX_AWARE))
        while not changing.done():
            await p.step()
            await asyncio.sleep(0)
        assert (await changing).text == "Endpoint ep: created as the flags say."

    plane(test)


def test_the_store_wins_while_the_flags_stay_the_same(plane):
    async def test(p):
        await take(p, FLAGS)
        item = {"VariantName": "AllTraffic", "DesiredWeight": 0.5}
        await p.service.invoke(
            "UpdateEndpointWeightsAndCapacities",
            {"EndpointName": "ep", "DesiredWeightsAndCapacities": [item]},
        )
        await p.settle()
        assert await declare(p.service, p.store, FLAGS) == Declared(
            "taken from the store: endpoint ep runs RANDOM, which the flags say too; "
            "they are those of the last start"
        )
        assert p.endpoint().active.variants[0].weight == 0.5

    plane(test)


def test_when_the_store_wins_against_other_flags_it_is_said_what_is_in_force(plane):
    async def test(p):
        await take(p, PREFIX_AWARE)
        await p.config("c", ModelName="ep", InstanceType="fixed", VariantName="AllTraffic")
        await p.service.invoke("UpdateEndpoint", {"EndpointName": "ep", "EndpointConfigName": "c"})
        await p.settle()
        assert await declare(p.service, p.store, PREFIX_AWARE) == Declared(
            "taken from the store: endpoint ep runs RANDOM; the flags say PREFIX_AWARE (prefix length 4096, "
            "concurrency threshold 32) and are those of the last start",
            differs=True,
        )

    plane(test)


def test_several_variants_in_force_are_named(plane):
    async def test(p):
        await take(p, FLAGS)
        least = {"RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}}
        variant = {"ModelName": "ep", "InstanceType": "fixed", "InitialInstanceCount": 1}
        both = [variant | {"VariantName": "a"}, variant | {"VariantName": "b"} | least]
        request = {"EndpointConfigName": "c", "ProductionVariants": both}
        await p.service.invoke("CreateEndpointConfig", request)
        await p.service.invoke("UpdateEndpoint", {"EndpointName": "ep", "EndpointConfigName": "c"})
        await p.settle()
        said = await declare(p.service, p.store, FLAGS)
        assert (
            "endpoint ep runs RANDOM in a, LEAST_OUTSTANDING_REQUESTS in b; the flags say RANDOM" in said.text
        )
        assert said.differs

    plane(test)


def test_other_flags_update_the_endpoint_in_place(plane):
    async def test(p):
        await take(p, FLAGS)
        before = set(p.provider.instances)
        assert await take(p, PREFIX_AWARE) == "Endpoint ep: updated as the flags say."
        assert p.endpoint().active.variants[0].routing == PREFIX_AWARE.routing
        assert set(p.provider.instances) == before
        assert await take(p, FLAGS) == "Endpoint ep: updated as the flags say."
        assert p.endpoint().active.variants[0].routing is None

    plane(test)


def test_an_endpoint_deleted_since_is_not_made_again_by_the_same_flags(plane):
    async def test(p):
        await take(p, FLAGS)
        await p.service.invoke("DeleteEndpoint", {"EndpointName": "ep"})
        await p.settle()
        assert "deleted since the last start" in await take(p, FLAGS)
        assert p.endpoint() is None
        assert "created" in await take(p, PREFIX_AWARE)

    plane(test)


def test_an_endpoint_that_failed_is_made_again_by_the_same_flags(plane):
    async def test(p):
        p.provider.refuse_with = "no"
        await take(p, FLAGS)
        assert p.endpoint().status is EndpointStatus.FAILED
        p.provider.refuse_with = None
        again = asyncio.ensure_future(declare(p.service, p.store, FLAGS))
        while not again.done():
            await p.step()
            await asyncio.sleep(0)
        assert (await again).text == "Endpoint ep: created as the flags say."
        await p.settle()
        assert p.endpoint().status is EndpointStatus.IN_SERVICE

    plane(test)


def test_an_endpoint_that_is_changing_is_waited_for(plane):
    async def test(p):
        await declare(p.service, p.store, FLAGS)
        changing = asyncio.ensure_future(declare(p.service, p.store, PREFIX_AWARE))
        await asyncio.sleep(0)
        assert not changing.done()
        while not changing.done():
            await p.step()
            await asyncio.sleep(0)
        assert "updated" in (await changing).text

    plane(test)


def test_a_renamed_endpoint_over_urls_that_others_hold_says_who_does(plane):
    async def test(p):
        await take(p, FLAGS)
        renamed = replace(FLAGS, endpoint="new", instance_type=replace(FIXED, urls=("http://b", "http://c")))
        held = '; URLs of the flags are held by endpoint "ep" until it is deleted'
        created = await declare(p.service, p.store, renamed)
        assert created == Declared(f"Endpoint new: created as the flags say{held}", differs=True)
        again = await declare(p.service, p.store, renamed)
        assert again.text.endswith(f"they are those of the last start{held}")
        await p.settle()
        third = await declare(p.service, p.store, replace(FLAGS, endpoint="third"))
        assert third.text.endswith(
            '; URLs of the flags are held by endpoints "ep", "new" until they are deleted'
        )

    plane(test)


def test_a_holder_that_was_deleted_is_not_spoken_of(plane):
    async def test(p):
        await take(p, FLAGS)
        await p.service.invoke("DeleteEndpoint", {"EndpointName": "ep"})
        await p.settle()
        renamed = await declare(p.service, p.store, replace(FLAGS, endpoint="new"))
        assert renamed == Declared("Endpoint new: created as the flags say.")

    plane(test)


def test_endpoints_over_other_urls_are_not_spoken_of(plane):
    async def test(p):
        await take(p, FLAGS)
        apart = replace(FLAGS, endpoint="new", instance_type=replace(FIXED, urls=("http://c",)))
        assert await declare(p.service, p.store, apart) == Declared("Endpoint new: created as the flags say.")

    plane(test)


def test_declared_instance_types_are_remembered(plane):
    async def test(p):
        assert remembered_instance_types(p.store) == {}
        other = replace(FIXED, name="other", api_key="secret")
        remember_instance_type(p.store, FIXED)
        remember_instance_type(p.store, other)
        assert remembered_instance_types(p.store) == {"fixed": FIXED, "other": other}

    plane(test)


@pytest.mark.parametrize("name", ["ep", "e" * 63])
def test_configs_are_named_by_their_content(name):
    one = config_of(replace(PREFIX_AWARE, endpoint=name))["EndpointConfigName"]
    two = config_of(replace(FLAGS, endpoint=name))["EndpointConfigName"]
    assert one == config_of(replace(PREFIX_AWARE, endpoint=name))["EndpointConfigName"]
    assert one != two
    assert len(one) <= 63


def test_an_endpoint_whose_rollback_failed_is_repaired_by_an_update(plane):
    async def test(p):
        await take(p, FLAGS)
        record = p.endpoint()
        broken = replace(record, status=EndpointStatus.UPDATE_ROLLBACK_FAILED, mixed=record.active.variants)
        with p.store.transaction() as tables:
            tables.put(broken)
        changing = asyncio.ensure_future(declare(p.service, p.store, PREFIX_AWARE))
        while not changing.done():
            await p.step()
            await asyncio.sleep(0)
        assert (await changing).text == "Endpoint ep: updated as the flags say."
        await p.settle()
        assert (p.endpoint().status, p.endpoint().mixed) == (EndpointStatus.IN_SERVICE, ())

    plane(test)
