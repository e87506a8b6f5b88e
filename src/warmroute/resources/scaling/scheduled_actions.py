"""PutScheduledAction, DescribeScheduledActions, DeleteScheduledAction, DescribeScalingActivities.

Source: operations of the same names in the ``application-autoscaling`` service model.
"""

from dataclasses import replace

from warmroute.core import limits
from warmroute.resources.errors import ApiCode, ApiError, invalid
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.records import (
    ScalableTargetRecord,
    ScalingActivityRecord,
    ScheduledActionRecord,
)
from warmroute.resources.scaling.requests import (
    AllTables,
    ScalingContext,
    ScalingOutcome,
    chosen,
    object_not_found,
    page,
    scalable_of,
    target_of,
)
from warmroute.resources.scaling.scalable import NAMESPACE, action_arn
from warmroute.resources.scaling.schedules import Rate, ScheduleError, next_run, parse_schedule, parse_zone
from warmroute.resources.scaling.targets import check_bounds


def put_scheduled_action(request: JsonObject, tables: AllTables, context: ScalingContext) -> ScalingOutcome:
    """Create a scheduled action, or replace it.

    Choice: what a call leaves out of an existing action stays; StartTime and EndTime do not, as the
    service's text has it.
    """
    target = target_of(request, tables)
    name = request["ScheduledActionName"]
    known = tables.scaling_record(ScheduledActionRecord, target.resource_id, name)
    if known is None:
        if "Schedule" not in request or "ScalableTargetAction" not in request:
            raise invalid("Schedule and ScalableTargetAction must be given for a new scheduled action.")
        count = len(tables.scaling_records(ScheduledActionRecord, target.resource_id))
        if count >= limits.SCHEDULED_ACTIONS_MAX:
            raise ApiError(
                ApiCode.TOO_MANY,
                f"The resource has {limits.SCHEDULED_ACTIONS_MAX} scheduled actions, the most allowed.",
            )
        known = ScheduledActionRecord(
            target.resource_id, target.dimension, context.now_s, name, context.new_id(), ""
        )
    bounds = request.get("ScalableTargetAction")
    record = replace(
        known,
        schedule=request.get("Schedule", known.schedule),
        timezone=request.get("Timezone", known.timezone),
        start_s=request.get("StartTime"),
        end_s=request.get("EndTime"),
        min_capacity=bounds.get("MinCapacity") if bounds is not None else known.min_capacity,
        max_capacity=bounds.get("MaxCapacity") if bounds is not None else known.max_capacity,
    )
    _check(record, target)
    return ScalingOutcome(put=(replace(record, next_s=_first(record, context.now_s)),))


def next_of(record: ScheduledActionRecord, after_s: float) -> float | None:
    """Return when an action happens next after a time; None for never again."""
    schedule = parse_schedule(record.schedule)
    first_s = record.start_s if record.start_s is not None else record.created_s
    if isinstance(schedule, Rate) and record.start_s is None:
        first_s += schedule.every_s
    if record.start_s is not None:
        after_s = max(after_s, record.start_s - 1.0)
    at_s = next_run(schedule, parse_zone(record.timezone), after_s=after_s, first_s=first_s)
    return at_s if at_s is not None and (record.end_s is None or at_s <= record.end_s) else None


def describe_scheduled_actions(
    request: JsonObject, tables: AllTables, context: ScalingContext
) -> ScalingOutcome:
    """Return a page of scheduled actions."""
    found = chosen(request, tables.scaling_records(ScheduledActionRecord), names="ScheduledActionNames")
    shown, token = page("DescribeScheduledActions", request, found)
    described = [_described(action, context) for action in shown]
    return ScalingOutcome(output={"ScheduledActions": described} | token)


def delete_scheduled_action(
    request: JsonObject, tables: AllTables, _context: ScalingContext
) -> ScalingOutcome:
    """Delete a scheduled action."""
    scalable_of(request)
    name = request["ScheduledActionName"]
    action = tables.scaling_record(ScheduledActionRecord, request["ResourceId"], name)
    if action is None:
        raise object_not_found(f"scheduled action named {name} found", request)
    return ScalingOutcome(remove=(action,))


def describe_scaling_activities(
    request: JsonObject, tables: AllTables, _context: ScalingContext
) -> ScalingOutcome:
    """Return a page of activities, the newest first."""
    with_not_scaled = request.get("IncludeNotScaledActivities", False)
    found = chosen(request, tables.scaling_records(ScalingActivityRecord))
    kept = [one for one in found if with_not_scaled or not one.not_scaled]
    shown, token = page("DescribeScalingActivities", request, kept, newest_first=True)
    return ScalingOutcome(output={"ScalingActivities": [_told(one) for one in shown]} | token)


def _check(record: ScheduledActionRecord, target: ScalableTargetRecord) -> None:
    if record.min_capacity is None and record.max_capacity is None:
        raise invalid("ScalableTargetAction must have MinCapacity, MaxCapacity or both.")
    least = record.min_capacity if record.min_capacity is not None else 0
    check_bounds(
        least, record.max_capacity if record.max_capacity is not None else max(least, target.max_capacity)
    )
    if record.start_s is not None and record.end_s is not None and record.end_s <= record.start_s:
        raise invalid("EndTime must be later than StartTime.")
    try:
        parse_schedule(record.schedule)
        parse_zone(record.timezone)
    except ScheduleError as error:
        raise invalid(str(error)) from None


def _first(record: ScheduledActionRecord, now_s: float) -> float:
    at_s = next_of(record, now_s)
    if at_s is None:
        raise invalid(f"Schedule '{record.schedule}' has no time after now and before EndTime.")
    return at_s


def _described(action: ScheduledActionRecord, context: ScalingContext) -> JsonObject:
    bounds = {"MinCapacity": action.min_capacity, "MaxCapacity": action.max_capacity}
    document: JsonObject = {
        "ScheduledActionName": action.name,
        "ScheduledActionARN": action_arn(context.place, action),
        "ServiceNamespace": NAMESPACE,
        "Schedule": action.schedule,
        "ResourceId": action.resource_id,
        "ScalableDimension": action.dimension,
        "StartTime": action.start_s,
        "EndTime": action.end_s,
        "Timezone": action.timezone or None,
        "ScalableTargetAction": {name: value for name, value in bounds.items() if value is not None},
        "CreationTime": action.created_s,
    }
    return {name: value for name, value in document.items() if value is not None}


def _told(activity: ScalingActivityRecord) -> JsonObject:
    document: JsonObject = {
        "ActivityId": activity.name,
        "ServiceNamespace": NAMESPACE,
        "ResourceId": activity.resource_id,
        "ScalableDimension": activity.dimension,
        "Description": activity.description,
        "Cause": activity.cause,
        "StartTime": activity.created_s,
        "EndTime": activity.end_s,
        "StatusCode": str(activity.status),
        "StatusMessage": activity.message or None,
        "NotScaledReasons": list(activity.not_scaled) or None,
    }
    return {name: value for name, value in document.items() if value is not None}
