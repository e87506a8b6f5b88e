"""SageMaker's service model, as botocore carries it."""

from collections.abc import Iterable, Mapping
from typing import Any

from botocore.loaders import Loader

from warmroute.resources.operations import OPERATIONS
from warmroute.resources.scaling.operations import SCALING_OPERATIONS
from warmroute.resources.shapes import Schema, build_schema


def read_model(service: str) -> Mapping[str, Any]:
    """Return a service model of botocore's, parsed.

    Args:
        service: As botocore names it: ``sagemaker`` or ``application-autoscaling``.
    """
    model: Mapping[str, Any] = Loader().load_service_model(service, "service-2")
    return model


def load_schema(instance_types: Iterable[str]) -> Schema:
    """Read the shapes of the served operations out of botocore's model.

    Cost: about 0.3 s and, until it returns, 40 MB; what is kept is small.

    Args:
        instance_types: Allowed for InstanceType beside the model's own.
    """
    return build_schema(read_model("sagemaker"), OPERATIONS, instance_types)


def load_scaling_schema() -> Schema:
    """Read the shapes of Application Auto Scaling's served operations likewise; its model is small."""
    return build_schema(read_model("application-autoscaling"), SCALING_OPERATIONS, ())
