"""Scaling activities: how they begin, end, and how many are kept."""

from collections.abc import Iterable
from dataclasses import replace

from warmroute.core import limits
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.capacity import Capacity
from warmroute.resources.scaling.records import ActivityStatus, ScalableTargetRecord, ScalingActivityRecord
from warmroute.resources.scaling.scalable import VARIANT_DIMENSION


def begun(
    target: ScalableTargetRecord, *, activity_id: str, capacity: int, cause: str, now_s: float
) -> ScalingActivityRecord:
    """Return the activity of a change that is about to be asked for."""
    noun = "instance" if target.dimension == VARIANT_DIMENSION else "copy"
    return ScalingActivityRecord(
        target.resource_id,
        target.dimension,
        now_s,
        activity_id,
        description=f"Setting desired {noun} count to {capacity}.",
        cause=cause,
        status=ActivityStatus.IN_PROGRESS,
        message=f"Successfully set desired {noun} count to {capacity}. Waiting for change to be fulfilled.",
        capacity=capacity,
    )


def ended(
    activity: ScalingActivityRecord, there: Capacity | None, *, now_s: float, reason: str = ""
) -> ScalingActivityRecord | None:
    """Return how a change went; None while that is open.

    Args:
        activity: In progress.
        there: What is there now; None when the resource is gone.
        now_s: Epoch seconds.
        reason: FailureReason of the resource, if any.
    """
    if there is None:
        return failed(activity, "The resource is gone.", now_s=now_s)
    if not there.settled:
        return None
    if there.wanted == activity.capacity:
        return replace(
            activity,
            status=ActivityStatus.SUCCESSFUL,
            end_s=now_s,
            message=activity.message.replace(
                "Waiting for change to be fulfilled.", "Change successfully fulfilled by sagemaker."
            ),
        )
    text = f"The change was not made, or undone: the capacity is {there.wanted}."
    return failed(activity, f"{text} {reason}".strip(), now_s=now_s)


def failed(activity: ScalingActivityRecord, text: str, *, now_s: float) -> ScalingActivityRecord:
    """Return an activity that has failed."""
    return replace(activity, status=ActivityStatus.FAILED, end_s=now_s, message=text)


def happened(
    target: ScalableTargetRecord, *, activity_id: str, description: str, cause: str, now_s: float
) -> ScalingActivityRecord:
    """Return the activity of a change of the bounds, which is made at once."""
    return ScalingActivityRecord(
        target.resource_id,
        target.dimension,
        now_s,
        activity_id,
        description=description,
        cause=cause,
        status=ActivityStatus.SUCCESSFUL,
        end_s=now_s,
    )


def not_scaled(
    target: ScalableTargetRecord, *, activity_id: str, capacity: int, cause: str, code: str, now_s: float
) -> ScalingActivityRecord:
    """Return the activity of a change that was asked for and not made."""
    reason: JsonObject = {
        "Code": code,
        "MaxCapacity": target.max_capacity,
        "MinCapacity": target.min_capacity,
        "CurrentCapacity": capacity,
    }
    return ScalingActivityRecord(
        target.resource_id,
        target.dimension,
        now_s,
        activity_id,
        description="Attempting to scale due to alarm triggered",
        cause=cause,
        status=ActivityStatus.UNFULFILLED,
        end_s=now_s,
        capacity=capacity,
        not_scaled=(reason,),
    )


def surplus(activities: Iterable[ScalingActivityRecord]) -> tuple[ScalingActivityRecord, ...]:
    """Return those of one target that are too many: the oldest."""
    newest_first = sorted(activities, key=lambda one: (one.created_s, one.name), reverse=True)
    return tuple(newest_first[limits.SCALING_ACTIVITIES_MAX :])
