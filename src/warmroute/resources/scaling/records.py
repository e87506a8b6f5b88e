"""What the store keeps of autoscaling: scalable targets, policies, scheduled actions and activities.

Source: shapes ScalableTarget, ScalingPolicy, ScheduledAction and ScalingActivity of the
``application-autoscaling`` service model.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

from warmroute.resources.records import JsonObject


class ScalingKind(StrEnum):
    """The kinds of record; a target has many of each other kind."""

    TARGET = "scalable-target"
    POLICY = "scaling-policy"
    ACTION = "scheduled-action"
    ACTIVITY = "scaling-activity"


@dataclass(frozen=True, slots=True)
class ScalableTargetRecord:
    """A variant or component whose capacity is scaled; there is one per resource.

    Attributes:
        resource_id: ``endpoint/NAME/variant/VARIANT`` or ``inference-component/NAME``.
        dimension: ScalableDimension, which goes with the form of the resource id.
        created_s: Epoch seconds.
        target_id: Last part of the ScalableTargetARN.
        min_capacity: Least capacity.
        max_capacity: Greatest.
        role_arn: RoleARN; stored and returned, nothing is done with it.
        in_suspended: DynamicScalingInSuspended.
        out_suspended: DynamicScalingOutSuspended.
        schedule_suspended: ScheduledScalingSuspended.
        into_range: Capacity has still to be brought between the two bounds, because they are new.
        tags: By key.
    """

    resource_id: str
    dimension: str
    created_s: float
    target_id: str
    min_capacity: int
    max_capacity: int
    role_arn: str = ""
    in_suspended: bool = False
    out_suspended: bool = False
    schedule_suspended: bool = False
    into_range: bool = True
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """There is one per resource, so it has no name of its own."""
        return ""


@dataclass(frozen=True, slots=True)
class ScalingPolicyRecord:
    """A scaling policy, and what its cooldowns are counted from.

    Attributes:
        resource_id: Of the target.
        dimension: Likewise.
        created_s: Epoch seconds.
        name: PolicyName.
        policy_id: In its ARN and in the names of its alarms.
        step: StepScalingPolicyConfiguration; None for the other type.
        tracking: TargetTrackingScalingPolicyConfiguration; None for the other type.
        out_s: When its last scale-out was asked for, or complete; None if there was none. Epoch seconds.
        out_from: Capacity before the first of the scale-outs whose cooldown still runs.
        in_s: Likewise of its last scale-in.
    """

    resource_id: str
    dimension: str
    created_s: float
    name: str
    policy_id: str
    step: JsonObject | None = None
    tracking: JsonObject | None = None
    out_s: float | None = None
    out_from: int = 0
    in_s: float | None = None


@dataclass(frozen=True, slots=True)
class ScheduledActionRecord:
    """A scheduled change of a target's bounds.

    Attributes:
        resource_id: Of the target.
        dimension: Likewise.
        created_s: Epoch seconds.
        name: ScheduledActionName.
        action_id: In its ARN.
        schedule: ``at(…)``, ``rate(…)`` or ``cron(…)``.
        timezone: Name of a time zone; ``""`` for UTC.
        start_s: It does not happen before; None for no bound.
        end_s: Nor after.
        min_capacity: New MinCapacity; None to leave it.
        max_capacity: New MaxCapacity; None to leave it.
        next_s: When it happens next; None for never again.
    """

    resource_id: str
    dimension: str
    created_s: float
    name: str
    action_id: str
    schedule: str
    timezone: str = ""
    start_s: float | None = None
    end_s: float | None = None
    min_capacity: int | None = None
    max_capacity: int | None = None
    next_s: float | None = None


class ActivityStatus(StrEnum):
    """ScalingActivityStatusCode."""

    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    SUCCESSFUL = "Successful"
    OVERRIDDEN = "Overridden"
    UNFULFILLED = "Unfulfilled"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class ScalingActivityRecord:
    """A change of capacity, or one that was not made.

    Attributes:
        resource_id: Of the target.
        dimension: Likewise.
        created_s: StartTime, epoch seconds.
        name: ActivityId.
        description: What was asked for.
        cause: By whom, and why.
        status: How it went.
        end_s: When it was over; None while it is not.
        message: StatusMessage.
        capacity: What was asked for.
        not_scaled: NotScaledReasons; empty for a change that was made.
    """

    resource_id: str
    dimension: str
    created_s: float
    name: str
    description: str
    cause: str
    status: ActivityStatus
    end_s: float | None = None
    message: str = ""
    capacity: int = 0
    not_scaled: tuple[JsonObject, ...] = ()


ScalingRecord = ScalableTargetRecord | ScalingPolicyRecord | ScheduledActionRecord | ScalingActivityRecord

SCALING_KIND_OF: dict[type[ScalingRecord], ScalingKind] = {
    ScalableTargetRecord: ScalingKind.TARGET,
    ScalingPolicyRecord: ScalingKind.POLICY,
    ScheduledActionRecord: ScalingKind.ACTION,
    ScalingActivityRecord: ScalingKind.ACTIVITY,
}

Scaling = TypeVar(
    "Scaling", ScalableTargetRecord, ScalingPolicyRecord, ScheduledActionRecord, ScalingActivityRecord
)


class ScalingTables(Protocol):
    """Reads of one transaction; lists are in order of resource id, then of name."""

    def scaling_record(self, kind: type[Scaling], resource_id: str, name: str = "") -> Scaling | None:
        """Return one record; a target's name is empty."""
        ...

    def scaling_records(self, kind: type[Scaling], resource_id: str | None = None) -> tuple[Scaling, ...]:
        """Return the records of a kind, of one resource or of all."""
        ...
