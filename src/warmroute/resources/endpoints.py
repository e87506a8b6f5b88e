"""CreateEndpoint, UpdateEndpoint, UpdateEndpointWeightsAndCapacities, DeleteEndpoint.

Each only writes down what is wanted; the planner makes it so. Source: operations of the same names
in the ``sagemaker`` service model.
"""

from dataclasses import replace

from warmroute.core import limits
from warmroute.core.ids import EndpointName
from warmroute.resources.arns import Kind
from warmroute.resources.components.hosting import check_count, models_of
from warmroute.resources.deployments.policy import check_deployment, check_policy
from warmroute.resources.deployments.rollout import begin, check_time
from warmroute.resources.endpoint_configs import (
    ECHOED_MEMBERS,
    find_endpoint_config,
    variant_of,
)
from warmroute.resources.errors import ApiCode, ApiError, already_exists, in_progress, invalid, not_found
from warmroute.resources.lifecycle import CHANGING, EndpointStatus, move
from warmroute.resources.records import (
    Deployment,
    EndpointConfigRecord,
    EndpointRecord,
    JsonObject,
    VariantRecord,
)
from warmroute.resources.tables import Context, Outcome, Tables
from warmroute.resources.tagging import tags_of


def create_endpoint(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Ask for an endpoint; it is Creating until every instance of every variant is healthy."""
    name = EndpointName(request["EndpointName"])
    arn = context.place.arn(Kind.ENDPOINT, name)
    policy = request.get("DeploymentConfig")
    check_policy(policy, context.alarms)
    existing = tables.endpoint_like(name)
    if existing is not None:
        raise already_exists("endpoint", existing.arn)
    config = find_endpoint_config(request, tables, context)
    if len(tables.endpoints()) >= limits.ENDPOINTS_MAX:
        raise ApiError(
            ApiCode.LIMIT, f"There are {limits.ENDPOINTS_MAX} endpoints, the most allowed. Delete some."
        )
    pending = _deployment(config, tables, context, policy=policy)
    check_deployment(pending, None)
    record = EndpointRecord(
        name=name,
        arn=arn,
        status=EndpointStatus.CREATING,
        created_s=context.now_s,
        modified_s=context.now_s,
        pending=pending,
        last_policy=policy,
        tags=tags_of(request.get("Tags")),
    )
    return Outcome(output={"EndpointArn": arn}, put=(record,))


def update_endpoint(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Ask for another configuration.

    Instances of variants that run the same thing in both stay as they are, whatever else changes;
    the others get new instances beside the old ones, and everything switches at once, or in the steps of
    the DeploymentConfig.
    """
    endpoint = _changeable(request, tables, context)
    config = find_endpoint_config(request, tables, context)
    policy = request.get("DeploymentConfig")
    if request.get("RetainDeploymentConfig"):
        if policy is not None:
            raise invalid("DeploymentConfig cannot be given when RetainDeploymentConfig is true.")
        policy = endpoint.last_policy
    check_policy(policy, context.alarms)
    excluded = {item["VariantPropertyType"] for item in request.get("ExcludeRetainedVariantProperties", ())}
    retain = request.get("RetainAllVariantProperties", False)
    if excluded and not retain:
        raise invalid(
            "ExcludeRetainedVariantProperties is allowed only when RetainAllVariantProperties is true."
        )
    deployment = _deployment(config, tables, context, policy=policy)
    _check_kind(endpoint, deployment)

    def continued(variant: VariantRecord) -> VariantRecord:
        return _continued(variant, endpoint, tables, context, retain=retain, excluded=excluded)

    deployment = replace(
        deployment,
        variants=tuple(continued(variant) for variant in deployment.variants),
        shadow=continued(deployment.shadow) if deployment.shadow is not None else None,
    )
    check_deployment(deployment, endpoint.active)
    return _updating(endpoint, deployment, context)


def update_weights_and_capacities(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Ask for other weights or counts of the variants in service.

    Choice: several variants may get counts in one call; SageMaker's text promises one per call only.
    """
    endpoint = _changeable(request, tables, context)
    if endpoint.status is EndpointStatus.UPDATE_ROLLBACK_FAILED:
        raise invalid(
            f'Cannot update weights and capacities of endpoint "{endpoint.arn}" because its status is '
            "UpdateRollbackFailed. Repair it with UpdateEndpoint."
        )
    active = endpoint.active
    assert active is not None, "an endpoint in service has variants"
    wanted: dict[str, JsonObject] = {}
    for item in request["DesiredWeightsAndCapacities"]:
        name = item["VariantName"]
        if name in wanted:
            raise invalid(f'The variant name "{name}" was non-unique within the request.')
        check_count(item.get("DesiredInstanceCount", 0), name)
        wanted[name] = item
    unknown = [name for name in wanted if active.variant(name) is None]
    if unknown:
        names = ", ".join(f'"{name}"' for name in unknown)
        raise invalid(
            f"The variant name(s) {names} is/are not present within endpoint configuration "
            f'"{active.config_name}".'
        )

    def desired(variant: VariantRecord) -> VariantRecord:
        item = wanted.get(variant.name, {})
        return replace(
            variant,
            weight=float(item.get("DesiredWeight", variant.weight)),
            count=item.get("DesiredInstanceCount", variant.count),
        )

    deployment = replace(
        active,
        variants=tuple(desired(variant) for variant in active.variants),
        shadow=desired(active.shadow) if active.shadow is not None else None,
        started_s=context.now_s,
    )
    return _updating(endpoint, deployment, context)


def delete_endpoint(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Ask for the end of an endpoint; its record goes when its last instance has gone."""
    endpoint = _find(request, tables, context)
    if endpoint.status in CHANGING:
        raise in_progress(endpoint.arn)
    return Outcome(
        put=(
            replace(
                endpoint,
                status=move(endpoint.status, EndpointStatus.DELETING),
                modified_s=context.now_s,
                awaits=None,
                rollout=None,
                mixed=(),
            ),
        )
    )


def _find(request: JsonObject, tables: Tables, context: Context) -> EndpointRecord:
    name = request["EndpointName"]
    endpoint = tables.endpoint(name)
    if endpoint is None:
        raise not_found("endpoint", context.place.arn(Kind.ENDPOINT, name))
    return endpoint


def _changeable(request: JsonObject, tables: Tables, context: Context) -> EndpointRecord:
    endpoint = _find(request, tables, context)
    if endpoint.status in CHANGING:
        raise in_progress(endpoint.arn)
    if endpoint.status is EndpointStatus.FAILED:
        raise invalid(
            f'Cannot update endpoint "{endpoint.arn}" because its status is Failed. '
            "Delete it and create it again."
        )
    return endpoint


def _updating(endpoint: EndpointRecord, deployment: Deployment, context: Context) -> Outcome:
    record = replace(
        endpoint,
        status=move(endpoint.status, EndpointStatus.UPDATING),
        modified_s=context.now_s,
        pending=deployment,
        awaits=None,
        failure_reason=None,
        last_policy=deployment.policy,
        rollout=begin(endpoint, deployment, context.now_s),
    )
    check_time(record)
    return Outcome(output={"EndpointArn": endpoint.arn}, put=(record,))


def _deployment(
    config: EndpointConfigRecord, tables: Tables, context: Context, *, policy: JsonObject | None
) -> Deployment:
    variants = tuple(
        variant_of(variant, models_of(variant, tables, context), revision=1)
        for variant in config.document["ProductionVariants"]
    )
    shadows = config.document.get("ShadowProductionVariants", ())
    return Deployment(
        config_name=config.name,
        variants=variants,
        started_s=context.now_s,
        echo={member: config.document[member] for member in ECHOED_MEMBERS if member in config.document},
        policy=policy,
        shadow=next(
            (variant_of(each, models_of(each, tables, context), revision=1) for each in shadows), None
        ),
    )


def _check_kind(endpoint: EndpointRecord, deployment: Deployment) -> None:
    """Refuse to make an endpoint for components out of one of models, or the other way round."""
    old, new = endpoint.active, deployment.variants[0].carries_copies
    if old is None or old.variants[0].carries_copies is new:
        return
    kinds = ("name models", "are for inference components")
    raise invalid(
        f'Update operation is not supported for endpoint "{endpoint.arn}": its variants {kinds[not new]}, '
        f"and those of the new configuration {kinds[new]}. Create another endpoint."
    )


def _same_instances(old: VariantRecord, new: VariantRecord, context: Context) -> bool:
    if old.carries_copies is not new.carries_copies or len(old.pools) != len(new.pools):
        return False
    pairs = zip((old.launch, *old.pools), (new.launch, *new.pools), strict=True)
    return all(context.same_instances(before, after) for before, after in pairs)


def _continued(
    variant: VariantRecord,
    endpoint: EndpointRecord,
    tables: Tables,
    context: Context,
    *,
    retain: bool,
    excluded: set[str],
) -> VariantRecord:
    """Give a variant of a new deployment its revision, and the counts and weights that it keeps."""
    old = endpoint.active.variant(variant.name) if endpoint.active is not None else None
    if old is not None and retain:
        if "DesiredInstanceCount" not in excluded:
            variant = replace(variant, count=old.count)
        if "DesiredWeight" not in excluded:
            variant = replace(variant, weight=old.weight)
    if old is not None and variant.scaling is not None:
        # As many hosts as copies need now; what the config says is for a beginning without any.
        count = min(max(old.count, variant.scaling.count_min), variant.scaling.count_max)
        variant = replace(variant, count=count)
    known = [*endpoint.mixed, *((old,) if old is not None else ())]
    for one in known:
        if one.name == variant.name and _same_instances(one, variant, context):
            return replace(variant, revision=one.revision)
    # Above every revision that instances of this name still have, those being drained included.
    used = [record.revision for record in tables.instances(endpoint.name) if record.variant == variant.name]
    used += [one.revision for one in known if one.name == variant.name]
    return replace(variant, revision=max(used, default=0) + 1)
