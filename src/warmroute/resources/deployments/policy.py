"""DeploymentConfig: what it may say, and what it comes to for a given number of instances.

Rules that the service model states only in words are enforced here. Source: shapes DeploymentConfig,
BlueGreenUpdatePolicy, TrafficRoutingConfig, RollingUpdatePolicy, CapacitySize and AutoRollbackConfig.

Choice: a share of CAPACITY_PERCENT is that share of the traffic, to the percent; one of INSTANCE_COUNT is
that number over the variant's instances. Bounds on sizes hold for the number of instances the update asks
for.
"""

import math
from collections.abc import Collection
from enum import StrEnum

from warmroute.resources.errors import invalid
from warmroute.resources.records import Deployment, JsonObject, VariantRecord

CANARY_PERCENT_MAX = 50
LINEAR_PERCENT_MIN, LINEAR_PERCENT_MAX = 10, 50
BATCH_PERCENT_MIN, BATCH_PERCENT_MAX = 5, 50
_NAMES_TOLD = 20


class TrafficRouting(StrEnum):
    """SageMaker's TrafficRoutingConfigType enum."""

    ALL_AT_ONCE = "ALL_AT_ONCE"
    CANARY = "CANARY"
    LINEAR = "LINEAR"


_SIZE_OF = {TrafficRouting.CANARY: "CanarySize", TrafficRouting.LINEAR: "LinearStepSize"}


def routing_type(policy: JsonObject) -> TrafficRouting:
    """Return the type of a policy's traffic routing; ALL_AT_ONCE when it has none."""
    routing = (policy.get("BlueGreenUpdatePolicy") or {}).get("TrafficRoutingConfiguration", {})
    return TrafficRouting(routing.get("Type", TrafficRouting.ALL_AT_ONCE))


def rolling(policy: JsonObject | None) -> JsonObject | None:
    """Return the RollingUpdatePolicy; None for another one."""
    return (policy or {}).get("RollingUpdatePolicy")


def bake_s(policy: JsonObject) -> float:
    """Return WaitIntervalInSeconds of whichever policy it is; 0 for none."""
    blue_green = policy.get("BlueGreenUpdatePolicy") or {}
    waits = rolling(policy) or blue_green.get("TrafficRoutingConfiguration", {})
    return float(waits.get("WaitIntervalInSeconds", 0))


def termination_wait_s(policy: JsonObject) -> float:
    """Return TerminationWaitInSeconds; 0 for none."""
    return float((policy.get("BlueGreenUpdatePolicy") or {}).get("TerminationWaitInSeconds", 0))


def execution_s_max(policy: JsonObject | None) -> float | None:
    """Return MaximumExecutionTimeoutInSeconds of whichever policy it is; None for no bound."""
    policy = policy or {}
    either = rolling(policy) or policy.get("BlueGreenUpdatePolicy") or {}
    bound = either.get("MaximumExecutionTimeoutInSeconds")
    return float(bound) if bound is not None else None


def alarm_names(policy: JsonObject | None) -> tuple[str, ...]:
    """Return the alarms of AutoRollbackConfiguration."""
    alarms = ((policy or {}).get("AutoRollbackConfiguration") or {}).get("Alarms") or ()
    return tuple(alarm["AlarmName"] for alarm in alarms if alarm.get("AlarmName"))


def share_of(size: JsonObject, count: int) -> float:
    """Return the part of the traffic that a CapacitySize stands for, 0 to 1.

    Args:
        size: Checked already.
        count: Instances of the variant.
    """
    if size["Type"] == "CAPACITY_PERCENT":
        return min(float(size["Value"]) / 100, 1.0)
    return min(size["Value"] / count, 1.0) if count > 0 else 1.0


def instances_of(size: JsonObject, count: int) -> int:
    """Return the number of instances that a CapacitySize stands for, rounded down and at least 1."""
    return max(math.floor(share_of(size, count) * count + 1e-9), 1)


def check_policy(policy: JsonObject | None, alarms: Collection[str] = ()) -> None:
    """Refuse a DeploymentConfig whose members do not fit together.

    Args:
        policy: Already checked against the model's types and bounds; None for none.
        alarms: Names of the alarms there are.

    Raises:
        ApiError: Two policies at once, a size that is missing or has no meaning, an unknown alarm.
    """
    if policy is None:
        return
    blue_green = policy.get("BlueGreenUpdatePolicy")
    if blue_green is not None and rolling(policy) is not None:
        raise invalid(
            "DeploymentConfig has both BlueGreenUpdatePolicy and RollingUpdatePolicy. Only one is allowed."
        )
    if blue_green is not None:
        _check_sizes_given(blue_green["TrafficRoutingConfiguration"])
    check_alarms(alarm_names(policy), alarms)


def _check_sizes_given(routing: JsonObject) -> None:
    kind = TrafficRouting(routing["Type"])
    needed = _SIZE_OF.get(kind)
    if needed is not None and routing.get(needed) is None:
        raise invalid(f"TrafficRoutingConfiguration of type {kind} requires {needed}. It is missing.")
    for member in _SIZE_OF.values():
        if member != needed and routing.get(member) is not None:
            raise invalid(f"{member} is not allowed with traffic routing of type {kind}.")


def check_alarms(names: tuple[str, ...], known: Collection[str]) -> None:
    """Refuse alarms that do not exist.

    Args:
        names: Of AutoRollbackConfiguration.
        known: Names of the alarms there are.

    Raises:
        ApiError: One is unknown.
    """
    unknown = [name for name in dict.fromkeys(names) if name not in known]
    if not unknown:
        return
    listed = sorted(known)[:_NAMES_TOLD]
    told = ", ".join(f'"{name}"' for name in listed) + (", …" if len(known) > _NAMES_TOLD else "")
    has = f"There are: {told}" if listed else "There are none"
    named = ", ".join(f'"{name}"' for name in unknown)
    raise invalid(
        f"AutoRollbackConfiguration names alarms that do not exist: {named}. {has}. "
        "Alarms are declared in warmroute.toml."
    )


def check_deployment(deployment: Deployment, old: Deployment | None) -> None:
    """Refuse a DeploymentConfig that does not fit the variants it is to deploy.

    Args:
        deployment: What is asked for, with the policy of the call.
        old: What serves; None at a creation.

    Raises:
        ApiError: A size out of bounds for the instances there will be; a deployment in steps of other
            variants than those in service; a rolling one of several variants; waits longer than the
            execution may take.
    """
    policy = deployment.policy
    if policy is None:
        return
    for variant in deployment.variants:
        _check_bounds(policy, variant)
    if rolling(policy) is not None and len(deployment.variants) != 1:
        raise invalid(
            f"RollingUpdatePolicy is available for endpoints with one production variant, and endpoint "
            f'configuration "{deployment.config_name}" has {len(deployment.variants)}. '
            "Use BlueGreenUpdatePolicy."
        )
    in_steps = rolling(policy) is not None or routing_type(policy) is not TrafficRouting.ALL_AT_ONCE
    if old is not None and (in_steps or bake_s(policy) > 0):
        _check_names(deployment, old)


def _check_names(deployment: Deployment, old: Deployment) -> None:
    names = {variant.name for variant in deployment.variants}
    before = {variant.name for variant in old.variants}
    if names != before:
        raise invalid(
            "A deployment with a DeploymentConfig in steps must keep the names of the production variants. "
            f'Endpoint configuration "{deployment.config_name}" has {", ".join(sorted(names))}; '
            f"in service are {', '.join(sorted(before))}. Leave DeploymentConfig out to change them."
        )


def _check_bounds(policy: JsonObject, variant: VariantRecord) -> None:
    routing = (policy.get("BlueGreenUpdatePolicy") or {}).get("TrafficRoutingConfiguration", {})
    if "CanarySize" in routing:
        _check_size("CanarySize", routing["CanarySize"], variant, low=0, high=CANARY_PERCENT_MAX)
    if "LinearStepSize" in routing:
        low, high = LINEAR_PERCENT_MIN, LINEAR_PERCENT_MAX
        _check_size("LinearStepSize", routing["LinearStepSize"], variant, low=low, high=high)
    batches = rolling(policy)
    if batches is not None:
        low, high = BATCH_PERCENT_MIN, BATCH_PERCENT_MAX
        _check_size("MaximumBatchSize", batches["MaximumBatchSize"], variant, low=low, high=high)
        if "RollbackMaximumBatchSize" in batches:
            size = batches["RollbackMaximumBatchSize"]
            _check_size("RollbackMaximumBatchSize", size, variant, low=0, high=100)


def _check_size(member: str, size: JsonObject, variant: VariantRecord, *, low: int, high: int) -> None:
    value, count = size["Value"], variant.count
    bounds = f"at most {high} %" if low == 0 else f"{low} to {high} %"
    if size["Type"] == "CAPACITY_PERCENT":
        if not low <= value <= high:
            raise invalid(f"{member} is {value} percent of the capacity. It must be {bounds} of it.")
        return
    if not low * count <= 100 * value <= high * count:
        raise invalid(
            f'{member} is {value} of the {count} instances of variant "{variant.name}". It must be {bounds} '
            "of them; CAPACITY_PERCENT serves where no whole number of instances is."
        )
