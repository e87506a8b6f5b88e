"""RegisterScalableTarget, DescribeScalableTargets, DeregisterScalableTarget, and the targets' tags.

Source: operations of the same names in the ``application-autoscaling`` service model.
"""

from dataclasses import replace
from typing import Final

from warmroute.core import limits
from warmroute.resources.arns import Place
from warmroute.resources.errors import ApiCode, ApiError, invalid
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.capacity import capacity_of
from warmroute.resources.scaling.records import (
    ScalableTargetRecord,
    ScalingActivityRecord,
    ScalingPolicyRecord,
    ScheduledActionRecord,
)
from warmroute.resources.scaling.requests import (
    AllTables,
    ScalingContext,
    ScalingOutcome,
    chosen,
    page,
    scalable_of,
    target_of,
)
from warmroute.resources.scaling.scalable import NAMESPACE, dimension, target_arn
from warmroute.resources.tagging import refuse_reserved

TAGS_MAX: Final = 50
"""Tags on one target: Application Auto Scaling's own quota."""
_SUSPENDED: Final = {
    "DynamicScalingInSuspended": "in_suspended",
    "DynamicScalingOutSuspended": "out_suspended",
    "ScheduledScalingSuspended": "schedule_suspended",
}


def register_scalable_target(
    request: JsonObject, tables: AllTables, context: ScalingContext
) -> ScalingOutcome:
    """Register a variant or component, or change its bounds; what is left out stays as it is.

    Choice: tags of a target that is registered already are added to.
    """
    scalable = scalable_of(request)
    there = capacity_of(scalable, tables)
    if there is None or there.fixed:
        why = "does not exist" if there is None else there.fixed
        raise invalid(f'The resource "{scalable.resource_id}" {why}. It cannot be registered.')
    known = tables.scaling_record(ScalableTargetRecord, scalable.resource_id)
    if known is None:
        missing = [name for name in ("MinCapacity", "MaxCapacity") if name not in request]
        if missing:
            raise invalid(f"{' and '.join(missing)} must be given for a new scalable target.")
        if len(tables.scaling_records(ScalableTargetRecord)) >= limits.SCALABLE_TARGETS_MAX:
            raise ApiError(
                ApiCode.TOO_MANY,
                f"There are {limits.SCALABLE_TARGETS_MAX} scalable targets, the most allowed.",
            )
        known = ScalableTargetRecord(
            scalable.resource_id, dimension(scalable), context.now_s, context.new_id(), 0, 0
        )
    record = replace(
        known,
        min_capacity=request.get("MinCapacity", known.min_capacity),
        max_capacity=request.get("MaxCapacity", known.max_capacity),
        role_arn=request.get("RoleARN", known.role_arn or _linked_role(context.place)),
        into_range=known.into_range or "MinCapacity" in request or "MaxCapacity" in request,
        tags=_tagged(known, request.get("Tags", {})),
        **{
            attribute: request["SuspendedState"][member]
            for member, attribute in _SUSPENDED.items()
            if member in request.get("SuspendedState", {})
        },
    )
    check_bounds(record.min_capacity, record.max_capacity)
    return ScalingOutcome(output={"ScalableTargetARN": target_arn(context.place, record)}, put=(record,))


def check_bounds(least: int, most: int) -> None:
    """Refuse bounds that no capacity can lie between.

    Raises:
        ApiError: They do not fit together.
    """
    if least < 0 or most > limits.INSTANCES_PER_VARIANT_MAX:
        raise invalid(
            f"MinCapacity is {least} and MaxCapacity {most}. From 0 to {limits.INSTANCES_PER_VARIANT_MAX} "
            "are allowed."
        )
    if least > most:
        raise invalid(
            "Maximum capacity cannot be less than minimum capacity: "
            f"MaxCapacity is {most}, MinCapacity {least}."
        )


def describe_scalable_targets(
    request: JsonObject, tables: AllTables, context: ScalingContext
) -> ScalingOutcome:
    """Return a page of targets."""
    found = chosen(request, tables.scaling_records(ScalableTargetRecord))
    shown, token = page("DescribeScalableTargets", request, found)
    described: list[JsonObject] = [
        {
            "ServiceNamespace": NAMESPACE,
            "ResourceId": target.resource_id,
            "ScalableDimension": target.dimension,
            "MinCapacity": target.min_capacity,
            "MaxCapacity": target.max_capacity,
            "RoleARN": target.role_arn,
            "CreationTime": target.created_s,
            "SuspendedState": {
                member: getattr(target, attribute) for member, attribute in _SUSPENDED.items()
            },
            "ScalableTargetARN": target_arn(context.place, target),
        }
        for target in shown
    ]
    return ScalingOutcome(output={"ScalableTargets": described} | token)


def deregister_scalable_target(
    request: JsonObject, tables: AllTables, _context: ScalingContext
) -> ScalingOutcome:
    """Forget a target with its policies, scheduled actions and activities; capacity stays as it is."""
    target = target_of(request, tables)
    return ScalingOutcome(
        remove=(
            target,
            *tables.scaling_records(ScalingPolicyRecord, target.resource_id),
            *tables.scaling_records(ScheduledActionRecord, target.resource_id),
            *tables.scaling_records(ScalingActivityRecord, target.resource_id),
        )
    )


def tag_resource(request: JsonObject, tables: AllTables, context: ScalingContext) -> ScalingOutcome:
    """Add tags to a target, or give existing keys new values."""
    target = _by_arn(request, tables, context)
    return ScalingOutcome(put=(replace(target, tags=_tagged(target, request["Tags"])),))


def untag_resource(request: JsonObject, tables: AllTables, context: ScalingContext) -> ScalingOutcome:
    """Remove tags; keys that are not there are no error."""
    target = _by_arn(request, tables, context)
    tags = {key: value for key, value in target.tags.items() if key not in request["TagKeys"]}
    return ScalingOutcome(put=(replace(target, tags=tags),))


def list_tags_for_resource(request: JsonObject, tables: AllTables, context: ScalingContext) -> ScalingOutcome:
    """Return a target's tags."""
    return ScalingOutcome(output={"Tags": _by_arn(request, tables, context).tags})


def _by_arn(request: JsonObject, tables: AllTables, context: ScalingContext) -> ScalableTargetRecord:
    arn = request["ResourceARN"]
    for target in tables.scaling_records(ScalableTargetRecord):
        if target_arn(context.place, target) == arn:
            return target
    raise ApiError(ApiCode.RESOURCE_NOT_FOUND, f'No scalable target has the ARN "{arn}".')


def _tagged(target: ScalableTargetRecord, added: dict[str, str]) -> dict[str, str]:
    refuse_reserved(added)
    tags = target.tags | added
    if len(tags) > TAGS_MAX:
        raise ApiError(
            ApiCode.TOO_MANY_TAGS,
            f"The scalable target would have {len(tags)} tags. At most {TAGS_MAX} are allowed.",
        )
    return tags


def _linked_role(place: Place) -> str:
    """Return the role that AWS takes when none is given; nothing is done with it here."""
    return (
        f"arn:aws:iam::{place.account}:role/aws-service-role/sagemaker.application-autoscaling."
        "amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    )
