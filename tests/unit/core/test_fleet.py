from dataclasses import FrozenInstanceError

import botocore.session
import msgspec
import pytest

from warmroute.core.fleet import (
    AccessKey,
    ApiKey,
    Component,
    Endpoint,
    Fleet,
    NativeMapping,
    Routing,
    RoutingStrategy,
    Target,
    TargetState,
    Variant,
)
from warmroute.core.ids import ComponentName, EndpointName, InstanceId, TargetId, VariantName

TARGET = Target(
    TargetId("i-1"), InstanceId("i-1"), 3, "10.0.0.1", 8000, state=TargetState.DRAINING, tls=True,
    path_prefix="/v", model_name="m", native=NativeMapping.OPENAI, hold_first_event=True, api_key="s3cret",
    component="base", adapters=("lora",),
)  # fmt: skip
ROUTING = Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=4096, concurrency_threshold=10)
COMPONENTS = (Component(ComponentName("base")), Component(ComponentName("lora"), "base"))
VARIANT = Variant(VariantName("v"), 0.5, ROUTING, (TARGET,), COMPONENTS)
SHADOW = Variant(VariantName("s"), 0.5, ROUTING, (TARGET,), revision=4, share=0.25)
FLEET = Fleet(
    7, "eu-central-1", "000000000000",
    endpoints=(Endpoint(EndpointName("e"), True, (VARIANT,), SHADOW, True),),
    access_keys=(AccessKey("AKIA", "s3cret", "ops"),), api_keys=(ApiKey("app", "s3cret"),),
    session_key="s3cret",
)  # fmt: skip


def test_strategies_are_those_of_the_service_model():
    shape = botocore.session.get_session().get_service_model("sagemaker").shape_for("RoutingStrategy")
    assert {strategy.value for strategy in RoutingStrategy} == set(shape.enum)


def test_a_variant_without_routing_config_is_routed_at_random():
    assert Routing() == Routing(RoutingStrategy.RANDOM, prefix_length=None, concurrency_threshold=None)


def test_a_target_is_in_service_plain_http_and_keyless_unless_said_otherwise():
    target = Target(TargetId("1"), InstanceId("1"), 1, "host", 80)
    assert target.state is TargetState.IN_SERVICE
    assert (target.tls, target.path_prefix, target.api_key) == (False, "", None)
    assert target.native is NativeMapping.AUTO
    assert (target.component, target.adapters) == ("", ())


def test_a_component_is_no_adapter_and_a_variant_has_none_unless_said_otherwise():
    assert Component(ComponentName("c")).base == ""
    assert Variant(VariantName("v"), 1.0, Routing(), ()).components == ()


def test_a_fleet_from_before_there_were_components_is_read_as_one_without():
    old = msgspec.json.decode(msgspec.json.encode(FLEET), type=dict)
    variant = old["endpoints"][0]["variants"][0]
    del variant["components"], variant["targets"][0]["component"], variant["targets"][0]["adapters"]
    read = msgspec.json.decode(msgspec.json.encode(old), type=Fleet).endpoints[0].variants[0]
    assert (read.components, read.targets[0].component, read.targets[0].adapters) == ((), "", ())


def test_a_fleet_from_before_there_were_revisions_is_read_as_one_of_each_and_no_shadow():
    old = msgspec.json.decode(msgspec.json.encode(FLEET), type=dict)
    del old["endpoints"][0]["shadow"]
    variant = old["endpoints"][0]["variants"][0]
    del variant["revision"], variant["share"]
    (read,) = msgspec.json.decode(msgspec.json.encode(old), type=Fleet).endpoints
    assert read.shadow is None
    assert (read.variants[0].revision, read.variants[0].share) == (0, 1.0)


def test_revisions_of_a_variant_share_its_weight():
    assert Variant(VariantName("v"), 0.5, ROUTING, (), revision=2, share=0.25).draw_weight == 0.125


def test_no_secret_is_printed_with_a_fleet():
    assert "s3cret" not in repr(FLEET)


def test_a_snapshot_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        FLEET.version = 8
    with pytest.raises(FrozenInstanceError):
        TARGET.state = TargetState.IN_SERVICE


def test_a_snapshot_survives_the_wire_unchanged():
    assert msgspec.json.decode(msgspec.json.encode(FLEET), type=Fleet) == FLEET
