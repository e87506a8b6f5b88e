"""A rolling update of an inference component: how many old and new copies there are to be at each step.

A batch of new copies starts beside the old ones; when all of it is in service as many old ones leave, the
batch bakes, and the next begins. Where there is no room beside the old copies, a batch of those leaves
first, as long as others go on serving.

Source: shapes InferenceComponentDeploymentConfig and InferenceComponentRollingUpdatePolicy of the
``sagemaker`` service model.

Choice: an update without DeploymentConfig exchanges half of the copies at a time and waits for nothing.
Choice: a batch in COPY_COUNT may be half of the copies, rounded up, at most; one in CAPACITY_PERCENT is
rounded up to a whole copy.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import ceil

from warmroute.resources.deployments.policy import alarm_names, check_alarms
from warmroute.resources.errors import invalid
from warmroute.resources.records import ComponentRollout, JsonObject

_PERCENT_MIN, _PERCENT_MAX = 5, 50
"""MaximumBatchSize, from the service model's text."""
_PERCENT_DEFAULT = 50


def check_policy(policy: JsonObject | None, alarms: Collection[str] = ()) -> None:
    """Refuse a DeploymentConfig that cannot be carried out.

    Args:
        policy: InferenceComponentDeploymentConfig; None for none.
        alarms: Names of the alarms there are.

    Raises:
        ApiError: MaximumBatchSize is not 5 to 50 %, RollbackMaximumBatchSize is more than 100 %, or an alarm
            is unknown.
    """
    if policy is None:
        return
    check_alarms(alarm_names(policy), alarms)
    rolling = policy["RollingUpdatePolicy"]
    size = rolling["MaximumBatchSize"]
    if size["Type"] == "CAPACITY_PERCENT" and not _PERCENT_MIN <= size["Value"] <= _PERCENT_MAX:
        raise invalid(
            f"MaximumBatchSize is {size['Value']} %. It must be {_PERCENT_MIN} to {_PERCENT_MAX} % of the "
            "copies."
        )
    back = rolling.get("RollbackMaximumBatchSize", {"Type": "CAPACITY_PERCENT", "Value": 100})
    if back["Type"] == "CAPACITY_PERCENT" and back["Value"] > 100:
        raise invalid(
            f"RollbackMaximumBatchSize is {back['Value']} %. It must be at most 100 % of the copies."
        )


def rollout_of(policy: JsonObject | None, count: int) -> ComponentRollout:
    """Return the rollout that a checked DeploymentConfig asks for.

    Args:
        policy: InferenceComponentDeploymentConfig; None for none.
        count: Copies of the component.
    """
    if policy is None:
        return ComponentRollout(batch=_share(_PERCENT_DEFAULT, count), back_batch=max(count, 1))
    rolling = policy["RollingUpdatePolicy"]
    size = rolling["MaximumBatchSize"]
    if size["Type"] == "COPY_COUNT" and size["Value"] > max(1, ceil(count / 2)):
        raise invalid(
            f"MaximumBatchSize is {size['Value']} of {count} copies. It may be half of them, rounded up, at "
            "most."
        )
    timeout_s = rolling.get("MaximumExecutionTimeoutInSeconds")
    return ComponentRollout(
        batch=_size(size, count),
        back_batch=_size(rolling.get("RollbackMaximumBatchSize"), count),
        wait_s=float(rolling["WaitIntervalInSeconds"]),
        timeout_s=float(timeout_s) if timeout_s is not None else None,
        alarms=alarm_names(policy),
    )


def _size(size: JsonObject | None, count: int) -> int:
    if size is None:
        return max(count, 1)
    if size["Type"] == "COPY_COUNT":
        return int(size["Value"])
    return _share(size["Value"], count)


def _share(percent: int, count: int) -> int:
    return max(1, ceil(count * percent / 100))


@dataclass(frozen=True, slots=True)
class Shares:
    """How many copies there are to be now.

    Attributes:
        old: Of the specification that serves.
        new: Of the one that is rolled out.
        rollout: Where the rollout stands now.
        done: The new one may take the old one's place.
    """

    old: int
    new: int
    rollout: ComponentRollout
    done: bool = False


def next_shares(
    rollout: ComponentRollout, *, count: int, old_serving: int, new_serving: int, now_s: float
) -> Shares:
    """Work out the next step of a rollout.

    Args:
        rollout: As it was.
        count: Copies wanted of the component.
        old_serving: Copies of the old specification in service.
        new_serving: Copies of the new one in service.
        now_s: Epoch seconds.
    """
    shares = _next_shares(rollout, count=count, old_serving=old_serving, new_serving=new_serving, now_s=now_s)
    if rollout.back or rollout.old_max is None:
        return shares
    return replace(shares, old=min(shares.old, rollout.old_max))


def _next_shares(
    rollout: ComponentRollout, *, count: int, old_serving: int, new_serving: int, now_s: float
) -> Shares:
    if rollout.back:
        old = min(count, old_serving + rollout.back_batch)
        done = old_serving >= count
        stay = count - (old_serving if rollout.beside else old)
        new = 0 if done else min(new_serving, max(0, stay))
        return Shares(old=old, new=new, rollout=rollout, done=done)
    moved = min(rollout.moved or rollout.batch, count)
    rollout = replace(rollout, moved=moved)
    if new_serving < moved:
        gone = min(new_serving, moved) if rollout.beside else moved
        return Shares(old=count - gone, new=moved, rollout=replace(rollout, baked_s=None))
    baked_s = now_s if rollout.baked_s is None else rollout.baked_s
    if now_s < baked_s + rollout.wait_s:
        return Shares(old=count - moved, new=moved, rollout=replace(rollout, baked_s=baked_s))
    if moved >= count:
        return Shares(old=0, new=count, rollout=replace(rollout, baked_s=baked_s), done=True)
    further = min(moved + rollout.batch, count)
    old = count - (moved if rollout.beside else further)
    return Shares(old=old, new=further, rollout=replace(rollout, moved=further, baked_s=None))
