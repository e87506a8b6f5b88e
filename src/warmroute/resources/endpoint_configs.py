"""CreateEndpointConfig, DescribeEndpointConfig, ListEndpointConfigs, DeleteEndpointConfig.

Source: operations of the same names in the ``sagemaker`` service model. Rules that the model states
only in words are enforced here: both members of PrefixAwareRoutingConfig with PREFIX_AWARE and with
no other strategy. Which members are honoured, stored or refused at all: ``coverage_rows``.

Choice: a model that does not exist is refused here and not at CreateEndpoint, where nobody looks for
a typing error any more.
"""

from collections.abc import Mapping
from typing import Any

from warmroute.core import limits
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.core.ids import VariantName
from warmroute.resources.arns import Kind
from warmroute.resources.components.hosting import (
    check_variants,
    count_of,
    launches_of,
    models_of,
    scaling_of,
)
from warmroute.resources.errors import (
    ApiCode,
    ApiError,
    already_exists,
    invalid,
    not_found,
    unsupported,
)
from warmroute.resources.listing import summaries
from warmroute.resources.records import EndpointConfigRecord, JsonObject, ModelRecord, VariantRecord
from warmroute.resources.tables import Context, Outcome, Tables
from warmroute.resources.tagging import tags_of

STRATEGIES = tuple(RoutingStrategy)
"""Those that are built; a later service model may have others."""
ECHOED_MEMBERS = ("MetricsConfig",)
"""Members of a config that DescribeEndpoint repeats."""
ECHOED_VARIANT_MEMBERS = ("ManagedInstanceScaling",)
"""Members of a variant that DescribeEndpoint repeats."""


def create_endpoint_config(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Keep an endpoint configuration.

    KmsKeyId, VpcConfig, EnableNetworkIsolation, ExecutionRoleArn, VolumeSizeInGB and the like have no
    meaning on one's own machines; they are stored and returned.

    Raises:
        ApiError: It exists, names a model that does not, or asks for something warmroute does not do.
    """
    name = request["EndpointConfigName"]
    arn = context.place.arn(Kind.ENDPOINT_CONFIG, name)
    _check_config(request)
    seen: set[str] = set()
    variants = [*request["ProductionVariants"], *request.get("ShadowProductionVariants", ())]
    check_variants(variants)
    for variant in variants:
        _check_variant(variant, seen)
        variant.setdefault("InitialVariantWeight", 1.0)
        models_of(variant, tables, context)
    if tables.endpoint_config(name) is not None:
        raise already_exists("endpoint configuration", arn)
    if len(tables.endpoint_configs()) >= limits.ENDPOINT_CONFIGS_MAX:
        raise ApiError(
            ApiCode.LIMIT,
            f"There are {limits.ENDPOINT_CONFIGS_MAX} endpoint configurations, the most allowed. "
            "Delete some.",
        )
    document = {member: value for member, value in request.items() if member != "Tags"}
    record = EndpointConfigRecord(
        name=name, arn=arn, created_s=context.now_s, document=document, tags=tags_of(request.get("Tags"))
    )
    return Outcome(output={"EndpointConfigArn": arn}, put=(record,))


def _check_config(request: JsonObject) -> None:
    capture = request.get("DataCaptureConfig")
    if capture is not None and capture.get("EnableCapture", True):
        raise unsupported("DataCaptureConfig", "Leave it out or set EnableCapture to false.")
    shadows = request.get("ShadowProductionVariants")
    if not shadows:
        return
    variants = request["ProductionVariants"]
    if (len(variants), len(shadows)) != (1, 1):
        raise invalid(
            "With ShadowProductionVariants there must be one production variant and one shadow variant, got "
            f"{len(variants)} and {len(shadows)}."
        )
    if "ModelName" not in shadows[0]:
        raise unsupported(
            f'A shadow variant without ModelName ("{shadows[0]["VariantName"]}"), for inference components,',
            "Give ModelName to both variants.",
        )


def _check_variant(variant: JsonObject, seen: set[str]) -> None:
    name = variant["VariantName"]
    if name in seen:
        raise invalid(f'The variant name "{name}" was non-unique within the request.')
    seen.add(name)
    if "RoutingConfig" in variant:
        routing_of(variant["RoutingConfig"], name)


def routing_of(config: JsonObject, variant: str) -> Routing:
    """Read a RoutingConfig.

    Args:
        config: Already checked against the model's types and bounds.
        variant: Name of its variant, for messages.

    Raises:
        ApiError: The members do not fit together, or this version does not serve the strategy.
    """
    where = f'RoutingConfig of variant "{variant}"'
    if config["RoutingStrategy"] not in STRATEGIES:
        allowed = ", ".join(STRATEGIES)
        raise unsupported(
            f"RoutingStrategy {config['RoutingStrategy']} in {where}", f"This version serves {allowed}."
        )
    strategy = RoutingStrategy(config["RoutingStrategy"])
    prefix: dict[str, Any] | None = config.get("PrefixAwareRoutingConfig")
    if strategy is not RoutingStrategy.PREFIX_AWARE:
        if prefix is not None:
            raise invalid(
                f"{where}: PrefixAwareRoutingConfig is allowed only with RoutingStrategy PREFIX_AWARE, "
                f"and the strategy is {strategy}."
            )
        return Routing(strategy=strategy)
    missing = [
        name
        for name in ("PrefixLength", "ConcurrencyThreshold")
        if prefix is None or prefix.get(name) is None
    ]
    if missing or prefix is None:
        raise invalid(
            f"{where}: RoutingStrategy PREFIX_AWARE requires PrefixAwareRoutingConfig with PrefixLength "
            f"({limits.PREFIX_LENGTH_MIN} to {limits.PREFIX_LENGTH_MAX}) and ConcurrencyThreshold "
            f"({limits.CONCURRENCY_THRESHOLD_MIN} to {limits.CONCURRENCY_THRESHOLD_MAX}). "
            f"Missing: {', '.join(missing)}."
        )
    return Routing(strategy, prefix["PrefixLength"], prefix["ConcurrencyThreshold"])


def routing_document(routing: Routing) -> JsonObject:
    """Write a RoutingConfig as it was given."""
    document: JsonObject = {"RoutingStrategy": str(routing.strategy)}
    if routing.prefix_length is not None:
        document["PrefixAwareRoutingConfig"] = {
            "PrefixLength": routing.prefix_length,
            "ConcurrencyThreshold": routing.concurrency_threshold,
        }
    return document


def variant_of(variant: JsonObject, models: Mapping[str, ModelRecord], *, revision: int) -> VariantRecord:
    """Return the variant that a ProductionVariant of a stored config and its models describe.

    Args:
        variant: The ProductionVariant.
        models: From ``models_of``.
        revision: Of the variant.
    """
    name = VariantName(variant["VariantName"])
    routing = variant.get("RoutingConfig")
    launches = launches_of(variant, models)
    return VariantRecord(
        name=name,
        revision=revision,
        launch=launches[0],
        count=count_of(variant),
        weight=float(variant["InitialVariantWeight"]),
        routing=routing_of(routing, name) if routing is not None else None,
        startup_s=variant.get("ContainerStartupHealthCheckTimeoutInSeconds"),
        echo={member: variant[member] for member in ECHOED_VARIANT_MEMBERS if member in variant},
        carries_copies="ModelName" not in variant,
        scaling=scaling_of(variant),
        pools=launches if "InstancePools" in variant else (),
    )


def describe_endpoint_config(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Return a configuration as it was created."""
    record = find_endpoint_config(request, tables, context)
    defaults: JsonObject = {"EnableNetworkIsolation": False}
    own: JsonObject = {"EndpointConfigArn": record.arn, "CreationTime": record.created_s}
    return Outcome(output=defaults | record.document | own)


def list_endpoint_configs(request: JsonObject, tables: Tables, _context: Context) -> Outcome:
    """Return a page of configurations."""
    return Outcome(output=summaries("EndpointConfig", request, tables.endpoint_configs()))


def delete_endpoint_config(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Forget a configuration; endpoints made from it go on, they carry what they need."""
    return Outcome(remove=(find_endpoint_config(request, tables, context),))


def find_endpoint_config(request: JsonObject, tables: Tables, context: Context) -> EndpointConfigRecord:
    """Return the configuration that a request names.

    Raises:
        ApiError: It does not exist.
    """
    name = request["EndpointConfigName"]
    record = tables.endpoint_config(name)
    if record is None:
        raise not_found("endpoint configuration", context.place.arn(Kind.ENDPOINT_CONFIG, name))
    return record
