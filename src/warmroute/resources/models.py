"""CreateModel, DescribeModel, ListModels, DeleteModel.

Source: operations of the same names in the ``sagemaker`` service model. Which members are honoured,
stored or refused: ``coverage_rows``.
"""

from typing import Any

from warmroute.core import limits
from warmroute.resources.arns import Kind
from warmroute.resources.errors import (
    ApiCode,
    ApiError,
    already_exists,
    invalid,
    not_found,
    unsupported,
)
from warmroute.resources.listing import summaries
from warmroute.resources.records import JsonObject, Launch, ModelRecord
from warmroute.resources.tables import Context, Outcome, Tables
from warmroute.resources.tagging import tags_of


def create_model(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Keep a model.

    VpcConfig, ExecutionRoleArn, EnableNetworkIsolation, ImageConfig and the like have no meaning on
    one's own machines; they are stored and returned.

    Raises:
        ApiError: It exists, or asks for something that warmroute does not do.
    """
    name = request["ModelName"]
    arn = context.place.arn(Kind.MODEL, name)
    container = container_of(request)
    if container is None:
        raise invalid(
            f'Model "{name}" has no container. Give PrimaryContainer, or Containers with one member.'
        )
    _check_container(container, name)
    if tables.model(name) is not None:
        raise already_exists("model", arn)
    if len(tables.models()) >= limits.MODELS_MAX:
        raise ApiError(ApiCode.LIMIT, f"There are {limits.MODELS_MAX} models, the most allowed. Delete some.")
    document = {member: value for member, value in request.items() if member != "Tags"}
    record = ModelRecord(
        name=name, arn=arn, created_s=context.now_s, document=document, tags=tags_of(request.get("Tags"))
    )
    return Outcome(output={"ModelArn": arn}, put=(record,))


def container_of(document: JsonObject) -> JsonObject | None:
    """Return the container of a CreateModel request; None when it has none.

    Raises:
        ApiError: It has several.
    """
    primary: JsonObject | None = document.get("PrimaryContainer")
    several: list[JsonObject] = document.get("Containers", [])
    if primary is not None and several:
        raise invalid("PrimaryContainer and Containers cannot both be given.")
    if len(several) > 1:
        raise unsupported(f"A model of {len(several)} containers", "Give one container.")
    return primary if primary is not None else (several[0] if several else None)


def _check_container(container: JsonObject, model: str) -> None:
    if container.get("Mode") == "MultiModel":
        raise unsupported(f'Mode MultiModel of model "{model}"', "Use SingleModel.")
    environment: dict[str, str] = container.get("Environment", {})
    size = sum(len(key.encode()) + len(value.encode()) for key, value in environment.items())
    if size > limits.ENVIRONMENT_BYTES_MAX:
        raise invalid(
            f'Environment of model "{model}" has {size} bytes. '
            f"At most {limits.ENVIRONMENT_BYTES_MAX} are allowed, keys and values together."
        )
    if container.get("ModelDataUrl") and container.get("ModelDataSource"):
        raise invalid("ModelDataUrl and ModelDataSource cannot both be given.")


def launch_of(record: ModelRecord, instance_type: str) -> Launch:
    """Return what instances of a model run on an instance type."""
    container = container_of(record.document) or {}
    source: dict[str, Any] = container.get("ModelDataSource", {}).get("S3DataSource", {})
    return Launch(
        instance_type=instance_type,
        model_name=record.name,
        image=container.get("Image"),
        environment=dict(container.get("Environment", {})),
        model_data_url=container.get("ModelDataUrl") or source.get("S3Uri"),
    )


def describe_model(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Return a model as it was created."""
    record = _find(request, tables, context)
    defaults: JsonObject = {"EnableNetworkIsolation": False}
    own: JsonObject = {"ModelArn": record.arn, "CreationTime": record.created_s}
    return Outcome(output=defaults | record.document | own)


def list_models(request: JsonObject, tables: Tables, _context: Context) -> Outcome:
    """Return a page of models."""
    return Outcome(output=summaries("Model", request, tables.models()))


def delete_model(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Forget a model; endpoints made from it go on, they carry what they need."""
    return Outcome(remove=(_find(request, tables, context),))


def _find(request: JsonObject, tables: Tables, context: Context) -> ModelRecord:
    name = request["ModelName"]
    record = tables.model(name)
    if record is None:
        raise not_found("model", context.place.arn(Kind.MODEL, name))
    return record
