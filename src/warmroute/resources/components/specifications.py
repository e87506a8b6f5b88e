"""What a Specification or Specifications of an inference component asks for.

Source: shape InferenceComponentSpecification of the ``sagemaker`` service model.

Choice: an update's Specification replaces the old one whole; nothing is taken over from it.
Choice: MaxMemoryRequiredInMb is checked against what an instance has and is no cap on the process.
Choice: AvailabilityZoneBalance and DataCacheConfig are stored and returned: there is one zone, and what an
instance caches is its own matter.
"""

from typing import Any

from warmroute.core import limits
from warmroute.resources.arns import Kind
from warmroute.resources.errors import invalid, not_found
from warmroute.resources.models import launch_of
from warmroute.resources.records import (
    ComponentSpecification,
    CopyNeeds,
    CopySpecification,
    JsonObject,
    Launch,
)
from warmroute.resources.tables import Context, Tables


def specification_of(
    request: JsonObject, tables: Tables, context: Context, *, revision: int
) -> ComponentSpecification | None:
    """Read what a request's copies, or its adapter, are to be.

    Args:
        request: Of CreateInferenceComponent or UpdateInferenceComponent.
        tables: Knows the models.
        context: Names the models that do not exist.
        revision: Of the specification.

    Returns:
        None when it has neither Specification nor Specifications.

    Raises:
        ApiError: It has both, or the members do not fit together.
    """
    one, several = request.get("Specification"), request.get("Specifications")
    if one is not None and several is not None:
        raise invalid("Specification and Specifications cannot both be given.")
    if one is None and several is None:
        return None
    document: JsonObject = {"Specification": one} if one is not None else {"Specifications": several}
    given: list[JsonObject] = [one] if one is not None else list(several or ())
    if any("BaseInferenceComponentName" in item for item in given):
        return _adapter(given, document, revision, context)
    if len(given) > 1:
        _check_types(given)
    return ComponentSpecification(
        revision=revision,
        document=document,
        started_s=context.now_s,
        copies=tuple(_copy(item, tables, context) for item in given),
    )


def base_of(document: JsonObject) -> str:
    """Return the BaseInferenceComponentName of a stored specification; ``""`` for none."""
    specification = document.get("Specification") or document["Specifications"][0]
    return str(specification.get("BaseInferenceComponentName", ""))


def _check_types(given: list[JsonObject]) -> None:
    types = [item.get("InstanceType") for item in given]
    if None in types:
        raise invalid("Each of several Specifications must have an InstanceType.")
    if len(set(types)) < len(types):
        raise invalid("Specifications name an InstanceType twice. Give one specification per instance type.")


def _adapter(
    given: list[JsonObject], document: JsonObject, revision: int, context: Context
) -> ComponentSpecification:
    if len(given) > 1:
        raise invalid("An adapter has one Specification: it uses the resources of its base component.")
    adapter = given[0]
    for member in ("ComputeResourceRequirements", "ModelName", "SchedulingConfig", "StartupParameters"):
        if member in adapter:
            raise invalid(
                f"{member} is not allowed with BaseInferenceComponentName: an adapter uses the resources of "
                "its base component."
            )
    url = adapter.get("Container", {}).get("ArtifactUrl")
    if url is None:
        raise invalid("An adapter needs Container with ArtifactUrl, the location of the adapter's files.")
    return ComponentSpecification(
        revision=revision, document=document, started_s=context.now_s, artifact_url=url
    )


def _copy(item: JsonObject, tables: Tables, context: Context) -> CopySpecification:
    startup: JsonObject = item.get("StartupParameters", {})
    scheduling: JsonObject = item.get("SchedulingConfig", {})
    return CopySpecification(
        launch=_launch(item, tables, context),
        needs=_needs(item),
        instance_type=item.get("InstanceType", ""),
        startup_s=startup.get("ContainerStartupHealthCheckTimeoutInSeconds"),
        binpack=scheduling.get("PlacementStrategy") == "BINPACK",
    )


def _launch(item: JsonObject, tables: Tables, context: Context) -> Launch:
    """Return what a copy runs; its instance type is found with its host."""
    name, container = item.get("ModelName"), item.get("Container")
    if (name is None) is (container is None):
        what = "neither" if name is None else "both"
        raise invalid(f"A Specification needs ModelName or Container; it has {what}.")
    if name is not None:
        model = tables.model(name)
        if model is None:
            raise not_found("model", context.place.arn(Kind.MODEL, name))
        return launch_of(model, "")
    assert container is not None, "one of the two is there"
    environment: dict[str, str] = container.get("Environment", {})
    size = sum(len(key.encode()) + len(value.encode()) for key, value in environment.items())
    if size > limits.ENVIRONMENT_BYTES_MAX:
        raise invalid(
            f"Environment of the Specification's Container has {size} bytes. "
            f"At most {limits.ENVIRONMENT_BYTES_MAX} are allowed, keys and values together."
        )
    return Launch(
        instance_type="",
        model_name="",
        image=container.get("Image"),
        environment=dict(environment),
        model_data_url=container.get("ArtifactUrl"),
    )


def _needs(item: JsonObject) -> CopyNeeds:
    given: dict[str, Any] | None = item.get("ComputeResourceRequirements")
    if given is None:
        raise invalid(
            "A Specification without BaseInferenceComponentName needs ComputeResourceRequirements with "
            "MinMemoryRequiredInMb."
        )
    devices = float(given.get("NumberOfAcceleratorDevicesRequired", 0))
    if not devices.is_integer():
        raise invalid(f"NumberOfAcceleratorDevicesRequired is {devices:g}. Whole devices are given out.")
    memory_mb, memory_mb_max = given["MinMemoryRequiredInMb"], given.get("MaxMemoryRequiredInMb")
    if memory_mb_max is not None and memory_mb_max < memory_mb:
        raise invalid(
            f"MaxMemoryRequiredInMb is {memory_mb_max}, less than MinMemoryRequiredInMb, {memory_mb}."
        )
    return CopyNeeds(
        memory_mb=memory_mb,
        memory_mb_max=memory_mb_max,
        cpus=float(given.get("NumberOfCpuCoresRequired", 0.0)),
        accelerators=int(devices),
    )
