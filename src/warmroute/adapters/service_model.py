"""SageMaker's service model, as botocore carries it."""

from collections.abc import Iterable

from botocore.loaders import Loader

from warmroute.resources.operations import OPERATIONS
from warmroute.resources.shapes import Schema, build_schema


def load_schema(instance_types: Iterable[str]) -> Schema:
    """Read the shapes of the served operations out of botocore's model.

    Cost: about 0.3 s and, until it returns, 40 MB; what is kept is small.

    Args:
        instance_types: Allowed for InstanceType beside the model's own.
    """
    model = Loader().load_service_model("sagemaker", "service-2")
    return build_schema(model, OPERATIONS, instance_types)
