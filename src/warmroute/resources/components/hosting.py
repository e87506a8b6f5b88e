"""What instances a variant of an endpoint configuration asks for: their types, their number, what they carry.

A variant without ModelName carries copies of inference components; its instances are host slots.

Source: shapes ProductionVariant, InstancePool and ProductionVariantManagedInstanceScaling of the
``sagemaker`` service model.

Choice: ManagedInstanceScaling needs MaxInstanceCount when it is ENABLED; MinInstanceCount is 1 when it is
not given; an InitialInstanceCount outside of the two is moved to the nearer one, and may be left out.
Choice: an instance is of the first of the InstancePools, in order of Priority, that has room for one more.
"""

from collections.abc import Mapping
from typing import Any

from warmroute.core import limits
from warmroute.resources.arns import Kind
from warmroute.resources.errors import ApiCode, ApiError, invalid, not_found, unsupported
from warmroute.resources.models import launch_of
from warmroute.resources.records import HostScaling, JsonObject, Launch, ModelRecord
from warmroute.resources.tables import Context, Tables

_STEP_DEFAULT = 1
_COOLDOWN_MIN_DEFAULT = 20
"""Both from the service model's text."""


def check_variants(variants: list[JsonObject]) -> None:
    """Refuse variants whose instances cannot be had as they are asked for.

    Raises:
        ApiError: Of one variant the members do not fit together, or some have ModelName and some not.
    """
    carrying = [variant["VariantName"] for variant in variants if "ModelName" not in variant]
    if carrying and len(carrying) < len(variants):
        raise invalid(
            f'Variant "{carrying[0]}" has no ModelName and others have one. Either every variant names a '
            "model, or none does and the endpoint is for inference components."
        )
    for variant in variants:
        _check_types(variant)
        _check_counts(variant)


def check_count(count: int, variant: str) -> None:
    """Refuse a number of instances above the limit."""
    if count > limits.INSTANCES_PER_VARIANT_MAX:
        raise ApiError(
            ApiCode.LIMIT,
            f'Variant "{variant}" asks for {count} instances. At most {limits.INSTANCES_PER_VARIANT_MAX} '
            "per variant are allowed.",
        )


def _check_types(variant: JsonObject) -> None:
    name, pools = variant["VariantName"], variant.get("InstancePools")
    if pools and "InstanceType" in variant:
        raise invalid(f'Variant "{name}" has both InstanceType and InstancePools. Only one is allowed.')
    if not pools:
        if "InstanceType" not in variant:
            raise invalid(f'Variant "{name}" has no InstanceType. It is required.')
        return
    types = [pool["InstanceType"] for pool in pools]
    if len(set(types)) < len(types):
        raise invalid(f'InstancePools of variant "{name}" name an instance type twice.')
    if "ModelName" not in variant and any("ModelNameOverride" in pool for pool in pools):
        raise invalid(
            f'InstancePools of variant "{name}" have ModelNameOverride, and the variant has no ModelName. '
            "Give the Specifications of its inference components one per instance type."
        )


def _check_counts(variant: JsonObject) -> None:
    name = variant["VariantName"]
    scaling: JsonObject = variant.get("ManagedInstanceScaling", {})
    if scaling.get("Status") != "ENABLED":
        if "InitialInstanceCount" not in variant:
            raise invalid(f'Variant "{name}" has no InitialInstanceCount. It is required.')
        check_count(variant["InitialInstanceCount"], name)
        return
    if "ModelName" in variant:
        raise unsupported(
            f'ManagedInstanceScaling of variant "{name}", which names a model,',
            "Set Status to DISABLED and scale with UpdateEndpointWeightsAndCapacities or Application Auto "
            "Scaling. Instances of variants for inference components are scaled.",
        )
    if "MaxInstanceCount" not in scaling:
        raise invalid(f'ManagedInstanceScaling of variant "{name}" has no MaxInstanceCount. It is required.')
    check_count(scaling["MaxInstanceCount"], name)
    if scaling.get("MinInstanceCount", 1) > scaling["MaxInstanceCount"]:
        raise invalid(
            f'ManagedInstanceScaling of variant "{name}": MinInstanceCount is {scaling["MinInstanceCount"]}, '
            f"more than MaxInstanceCount, {scaling['MaxInstanceCount']}."
        )


def models_of(variant: JsonObject, tables: Tables, context: Context) -> dict[str, ModelRecord]:
    """Return the models that a variant names, by name; none for one that carries component copies.

    Raises:
        ApiError: One does not exist.
    """
    names = [variant["ModelName"]] if "ModelName" in variant else []
    names += [
        pool["ModelNameOverride"]
        for pool in variant.get("InstancePools") or ()
        if "ModelNameOverride" in pool
    ]
    found = {}
    for name in names:
        model = tables.model(name)
        if model is None:
            raise not_found("model", context.place.arn(Kind.MODEL, name))
        found[name] = model
    return found


def launches_of(variant: JsonObject, models: Mapping[str, ModelRecord]) -> tuple[Launch, ...]:
    """Return what instances of a variant run, one launch per pool, the preferred one first; at least one.

    Args:
        variant: A checked ProductionVariant.
        models: From ``models_of``.
    """
    pools: list[dict[str, Any]] = variant.get("InstancePools") or [
        {"InstanceType": variant["InstanceType"], "Priority": 1}
    ]
    launches = []
    for pool in sorted(pools, key=lambda pool: int(pool["Priority"])):
        name = pool.get("ModelNameOverride") or variant.get("ModelName")
        if name is None:
            launches.append(Launch(instance_type=pool["InstanceType"], model_name=""))
        else:
            launches.append(launch_of(models[name], pool["InstanceType"]))
    return tuple(launches)


def scaling_of(variant: JsonObject) -> HostScaling | None:
    """Return a variant's ManagedInstanceScaling when it is ENABLED."""
    scaling: JsonObject = variant.get("ManagedInstanceScaling", {})
    if scaling.get("Status") != "ENABLED":
        return None
    policy: JsonObject | None = scaling.get("ScaleInPolicy")
    minimum, maximum = scaling.get("MinInstanceCount", 1), scaling["MaxInstanceCount"]
    if policy is None:
        return HostScaling(count_min=minimum, count_max=maximum)
    return HostScaling(
        count_min=minimum,
        count_max=maximum,
        consolidate=policy["Strategy"] == "CONSOLIDATION",
        step_max=policy.get("MaximumStepSize", _STEP_DEFAULT),
        cooldown_s=60.0 * policy.get("CooldownInMinutes", _COOLDOWN_MIN_DEFAULT),
    )


def count_of(variant: JsonObject) -> int:
    """Return how many instances a variant begins with."""
    scaling = scaling_of(variant)
    if scaling is None:
        return int(variant["InitialInstanceCount"])
    initial: int = variant.get("InitialInstanceCount", 0)
    return min(max(initial, scaling.count_min), scaling.count_max)
