"""What can be scaled, and how Application Auto Scaling names it.

Source: ResourceId and ScalableDimension in the ``application-autoscaling`` service model.
"""

from dataclasses import dataclass
from typing import Final

from warmroute.resources.arns import Place
from warmroute.resources.scaling.records import (
    ScalableTargetRecord,
    ScalingPolicyRecord,
    ScheduledActionRecord,
)

NAMESPACE: Final = "sagemaker"
"""The only ServiceNamespace here."""
VARIANT_DIMENSION: Final = "sagemaker:variant:DesiredInstanceCount"
COMPONENT_DIMENSION: Final = "sagemaker:inference-component:DesiredCopyCount"


@dataclass(frozen=True, slots=True)
class ScalableVariant:
    """A production variant; its capacity is its instances."""

    endpoint: str
    variant: str

    @property
    def resource_id(self) -> str:
        """As callers write it."""
        return f"endpoint/{self.endpoint}/variant/{self.variant}"


@dataclass(frozen=True, slots=True)
class ScalableComponent:
    """An inference component; its capacity is its copies."""

    component: str

    @property
    def resource_id(self) -> str:
        """As callers write it."""
        return f"inference-component/{self.component}"


Scalable = ScalableVariant | ScalableComponent


def parse(resource_id: str) -> Scalable | None:
    """Return what a ResourceId names; None when it has neither form."""
    match resource_id.split("/"):
        case ["endpoint", endpoint, "variant", variant] if endpoint and variant:
            return ScalableVariant(endpoint, variant)
        case ["inference-component", component] if component:
            return ScalableComponent(component)
        case _:
            return None


def dimension(scalable: Scalable) -> str:
    """Return the ScalableDimension of what is scaled."""
    return VARIANT_DIMENSION if isinstance(scalable, ScalableVariant) else COMPONENT_DIMENSION


def target_arn(place: Place, target: ScalableTargetRecord) -> str:
    """Return a ScalableTargetARN."""
    return (
        f"arn:aws:application-autoscaling:{place.region}:{place.account}:scalable-target/{target.target_id}"
    )


def policy_arn(place: Place, policy: ScalingPolicyRecord) -> str:
    """Return a PolicyARN."""
    return (
        f"arn:aws:autoscaling:{place.region}:{place.account}:scalingPolicy:{policy.policy_id}:"
        f"resource/{NAMESPACE}/{policy.resource_id}:policyName/{policy.name}"
    )


def action_arn(place: Place, action: ScheduledActionRecord) -> str:
    """Return a ScheduledActionARN."""
    return (
        f"arn:aws:autoscaling:{place.region}:{place.account}:scheduledAction:{action.action_id}:"
        f"resource/{NAMESPACE}/{action.resource_id}:scheduledActionName/{action.name}"
    )


def alarm_arn(place: Place, name: str) -> str:
    """Return the ARN of an alarm."""
    return f"arn:aws:cloudwatch:{place.region}:{place.account}:alarm:{name}"
