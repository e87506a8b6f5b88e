"""Capacity as endpoints and components have it."""

from dataclasses import replace

import pytest

from tests.unit.resources.scaling_api import ScalingApi, component, endpoint
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.records import HostScaling
from warmroute.resources.scaling.capacity import Capacity, capacity_of, change
from warmroute.resources.scaling.scalable import ScalableComponent, ScalableVariant

VARIANT, COMPONENT = ScalableVariant("llm", "a"), ScalableComponent("chat")


def found(scalable, *records):
    api = ScalingApi()
    api.put(*records)
    with api.store.transaction() as tables:
        return capacity_of(scalable, tables)


@pytest.mark.parametrize("status", list(EndpointStatus))
def test_a_variant_takes_a_change_in_service_only(status):
    settled = status is EndpointStatus.IN_SERVICE
    assert found(VARIANT, endpoint(3, status)) == Capacity(3, settled=settled)


@pytest.mark.parametrize("status", list(ComponentStatus))
def test_a_component_takes_a_change_in_service_only(status):
    settled = status is ComponentStatus.IN_SERVICE
    assert found(COMPONENT, component(3, status)) == Capacity(3, settled=settled)


def test_a_variant_that_is_being_created_is_there():
    made = endpoint(2)
    creating = endpoint(status=EndpointStatus.CREATING, active=None, pending=made.active)
    assert found(VARIANT, creating) == Capacity(2, settled=False)


def test_an_adapter_does_not_scale():
    there = found(COMPONENT, component(base="other"))
    assert there == Capacity(0, settled=True, fixed="is an adapter, which has no copies of its own")


def test_a_variant_whose_instances_follow_its_copies_does_not_scale():
    made = endpoint(2)
    (variant,) = made.active.variants
    managed = replace(variant, carries_copies=True, scaling=HostScaling(0, 4))
    there = found(VARIANT, replace(made, active=replace(made.active, variants=(managed,))))
    assert there is not None
    assert "has ManagedInstanceScaling" in there.fixed


@pytest.mark.parametrize(
    ("scalable", "records"),
    [
        (ScalableVariant("no", "a"), ()),
        (ScalableVariant("llm", "no"), ()),
        (VARIANT, (endpoint(active=None),)),
        (ScalableComponent("no"), ()),
    ],
)
def test_what_is_not_there_has_no_capacity(scalable, records):
    assert found(scalable, *records) is None


def test_a_change_is_the_call_that_any_caller_makes():
    assert change(VARIANT, 3) == (
        "UpdateEndpointWeightsAndCapacities",
        {
            "EndpointName": "llm",
            "DesiredWeightsAndCapacities": [{"VariantName": "a", "DesiredInstanceCount": 3}],
        },
    )
    assert change(COMPONENT, 0) == (
        "UpdateInferenceComponentRuntimeConfig",
        {"InferenceComponentName": "chat", "DesiredRuntimeConfig": {"CopyCount": 0}},
    )
