"""The capacity of what is scaled, as its endpoint or component has it."""

from dataclasses import dataclass

from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.scalable import Scalable, ScalableComponent, ScalableVariant
from warmroute.resources.tables import Tables

_SCALES_ITSELF = (
    "has ManagedInstanceScaling, by which its instances follow the copies of its inference components; "
    "scale those, or set its Status to DISABLED"
)
"""Two that both set the number of instances would undo each other without end."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a variant or component has.

    Attributes:
        wanted: Instances or copies that are asked for.
        settled: It takes a change now: it is in service and not changing.
        fixed: Why it cannot be scaled at all; empty where it can.
    """

    wanted: int
    settled: bool
    fixed: str = ""


def capacity_of(scalable: Scalable, tables: Tables) -> Capacity | None:
    """Return the capacity of a variant or component; None when there is none of the name."""
    match scalable:
        case ScalableVariant(name, variant_name):
            endpoint = tables.endpoint(name)
            if endpoint is None:
                return None
            deployment = endpoint.active or endpoint.pending
            variant = deployment.variant(variant_name) if deployment is not None else None
            if variant is None:
                return None
            fixed = _SCALES_ITSELF if variant.scaling is not None else ""
            return Capacity(variant.count, endpoint.status is EndpointStatus.IN_SERVICE, fixed)
        case ScalableComponent(name):
            component = tables.inference_component(name)
            if component is None:
                return None
            fixed = "is an adapter, which has no copies of its own" if component.base else ""
            return Capacity(component.count, component.status is ComponentStatus.IN_SERVICE, fixed)


def change(scalable: Scalable, capacity: int) -> tuple[str, JsonObject]:
    """Return the operation that sets a capacity, and its request."""
    match scalable:
        case ScalableVariant(endpoint, variant):
            wanted = {"VariantName": variant, "DesiredInstanceCount": capacity}
            return "UpdateEndpointWeightsAndCapacities", {
                "EndpointName": endpoint,
                "DesiredWeightsAndCapacities": [wanted],
            }
        case ScalableComponent(component):
            return "UpdateInferenceComponentRuntimeConfig", {
                "InferenceComponentName": component,
                "DesiredRuntimeConfig": {"CopyCount": capacity},
            }
