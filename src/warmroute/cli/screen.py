"""What ``describe`` shows of an endpoint on one screen, from the documents that the server answers."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from warmroute.cli.terminal import Column, age, coloured, moment, plain, table, wrapped

JsonObject = Mapping[str, Any]

LABEL: Final = 11
"""Characters of a label with the space behind it."""
_STRATEGIES: Final = {"LEAST_OUTSTANDING_REQUESTS": "LEAST_OUTSTANDING"}
"""Strategies whose names would take half of a line."""


def endpoint_screen(document: JsonObject, *, width: int | None, now_s: float) -> Iterator[str]:
    """Yield the lines about one endpoint.

    Args:
        document: ``Warmroute.DescribeEndpoint``'s answer, with ``InferenceComponents``, ``ScalableTargets``
            and ``ScalingPolicies`` beside it where there are any.
        width: Of the terminal; None for no bound.
        now_s: Epoch seconds.
    """
    endpoint = document["Endpoint"]
    yield f"Endpoint {endpoint['EndpointName']}"
    yield from _head(document, width, now_s)
    sections = (
        ("Variants", variants_table(document, width=width)),
        ("Components", components_table(document.get("InferenceComponents", ()), width=width, now_s=now_s)),
        ("Instances", instances_table(document["Instances"], width=width, now_s=now_s)),
        ("Scaling", scaling_table(document, width=width)),
    )
    for title, lines in sections:
        shown = list(lines)
        if shown:
            yield ""
            yield title
            yield from shown


def _head(document: JsonObject, width: int | None, now_s: float) -> Iterator[str]:
    endpoint = document["Endpoint"]
    status = endpoint["EndpointStatus"]
    since = age(endpoint["LastModifiedTime"], now_s)
    doing = f", {step}" if (step := rollout_text(document.get("Rollout"), now_s)) else ""
    yield field("Status", f"{coloured(status)} for {since}{doing}")
    if endpoint.get("FailureReason"):
        label = "Why" if status in ("Failed", "RollingBack", "UpdateRollbackFailed") else "Last time"
        yield from field_lines(label, plain(endpoint["FailureReason"]), width=width)
    config = endpoint["EndpointConfigName"]
    pending = endpoint.get("PendingDeploymentSummary", {}).get("EndpointConfigName")
    yield field(
        "Config", f"{config}, being replaced by {pending}" if pending not in (None, config) else config
    )
    yield field("Created", f"{moment(endpoint['CreationTime'])} ({age(endpoint['CreationTime'], now_s)} ago)")
    yield field("ARN", endpoint["EndpointArn"])


def field(label: str, text: str) -> str:
    """Return a line of a label and what it labels."""
    return f"  {label:<{LABEL}}{text}"


def field_lines(label: str, text: str, *, width: int | None) -> list[str]:
    """Return a label and a text that may take several lines."""
    indent = " " * (LABEL + 2)
    first, *rest = wrapped(text, width=width, indent=indent)
    return [field(label, first.removeprefix(indent)), *rest]


def rollout_text(rollout: JsonObject | None, now_s: float) -> str:
    """Return where a deployment in steps stands; ``""`` where there is none."""
    if not rollout:
        return ""
    step = f"step {rollout['Step'] + 1} of {rollout['Steps']}"
    back = "rolling back, " if rollout.get("RollingBack") else ""
    return f"{back}{step}, {rollout['Phase']} for {age(rollout['Since'], now_s)}"


# --- Variants ------------------------------------------------------------------------------------


def variants_table(document: JsonObject, *, width: int | None) -> Iterator[str]:
    """Yield one row per variant and revision."""
    variants = document["Variants"]
    if not variants:
        return
    serving = Counter(
        (one["VariantName"], one["Revision"])
        for one in document["Instances"]
        if one["State"] == "in_service" and not one.get("InferenceComponentName")
    )
    several = len({one["VariantName"] for one in variants}) < len(variants)
    columns = (
        Column("NAME", flexible=True),
        Column("REV", right=True),
        Column("READY", right=True),
        Column("WEIGHT", right=True),
        Column("SHARE", right=True),
        Column("MODEL", flexible=True),
        Column("TYPE", flexible=True, optional=2),
        Column("STRATEGY"),
    )
    rows = [
        (
            f"{one['VariantName']}{' (shadow)' if one.get('Shadow') else ''}",
            str(one["Revision"]) if several else "",
            f"{serving[one['VariantName'], one['Revision']]}/{one['DesiredInstanceCount']}",
            f"{one['Weight']:g}",
            f"{one['Share']:.0%}" if several or one.get("Shadow") else "",
            one.get("ModelName", ""),
            one["InstanceType"],
            strategy_text(one.get("RoutingConfig")),
        )
        for one in variants
    ]
    yield from table(columns, rows, width=width, indent="  ")


def strategy_text(routing: JsonObject | None) -> str:
    """Return a RoutingConfig for a column: ``PREFIX_AWARE 4096/32``, length and threshold."""
    if routing is None:
        return "RANDOM"
    strategy = routing["RoutingStrategy"]
    prefix = routing.get("PrefixAwareRoutingConfig")
    numbers = f" {prefix['PrefixLength']}/{prefix['ConcurrencyThreshold']}" if prefix else ""
    return f"{_STRATEGIES.get(strategy, strategy)}{numbers}"


# --- Instances and copies ------------------------------------------------------------------------


def instances_table(instances: Sequence[JsonObject], *, width: int | None, now_s: float) -> Iterator[str]:
    """Yield one row per instance; copies stand below the instance that carries them."""
    if not instances:
        return
    ordered = list(_hosts_first(instances))
    present = {one["InstanceId"] for one in instances}
    variants = {(one["VariantName"], one["Revision"]) for one in instances}
    columns = (
        Column("ID"),
        Column("COPY OF", flexible=True),
        Column("VARIANT", flexible=True),
        Column("REV", right=True),
        Column("STATE", state=True),
        Column("BUSY", right=True),
        Column("AGE", right=True),
        Column("DEVICES"),
        Column("ADAPTERS", flexible=True),
        Column("URL", optional=3),
        Column("PID", right=True, optional=4),
    )
    rows = [
        (
            f"{'  ' if one.get('HostInstanceId') in present else ''}{one['InstanceId']}",
            one.get("InferenceComponentName", ""),
            one["VariantName"] if len(variants) > 1 and not one.get("InferenceComponentName") else "",
            str(one["Revision"]) if len(variants) > 1 else "",
            one["State"],
            str(one["InFlight"]) if "InFlight" in one else "",
            age(one["CreationTime"], now_s),
            " ".join(str(number) for number in one.get("Devices", ())),
            " ".join(one.get("Adapters", ())),
            one.get("Url", ""),
            str(one.get("ProcessId", "")),
        )
        for one in ordered
    ]
    notes = [health_text(one) for one in ordered]
    yield from table(columns, rows, width=width, indent="  ", notes=notes)


def _hosts_first(instances: Sequence[JsonObject]) -> Iterator[JsonObject]:
    present = {one["InstanceId"] for one in instances}
    for one in instances:
        if one.get("HostInstanceId") not in present:
            yield one
            yield from (copy for copy in instances if copy.get("HostInstanceId") == one["InstanceId"])


def health_text(instance: JsonObject) -> str:
    """Return why an instance is as it is: what it is about to do, else what its health check said last."""
    if instance["State"] == "in_service" and not instance.get("FailedHealthChecks"):
        return ""
    parts = [
        instance.get("Reason", ""),
        f"try {instance['Attempt']}" if instance["Attempt"] > 1 else "",
        f"{failures} checks failed" if (failures := instance.get("FailedHealthChecks", 0)) > 1 else "",
        instance.get("Health", "") if not instance.get("CarriesCopies") else "",
    ]
    return plain(", ".join(part for part in parts if part))


# --- Components ----------------------------------------------------------------------------------


def components_table(
    components: Sequence[JsonObject], *, width: int | None, now_s: float, of_endpoint: bool = True
) -> Iterator[str]:
    """Yield one row per inference component, adapters below their base.

    Args:
        components: ``DescribeInferenceComponent``'s answers.
        width: Of the terminal.
        now_s: Epoch seconds.
        of_endpoint: They are those of one endpoint, which need not be named.
    """
    if not components:
        return
    columns = (
        Column("NAME", flexible=True),
        Column("STATUS", state=True),
        Column("COPIES", right=True),
        Column("MODEL", flexible=True),
        Column("NEEDS", flexible=True, optional=1),
        Column("ENDPOINT", flexible=True, optional=2),
        Column("VARIANT", flexible=True, optional=3),
        Column("AGE", right=True),
    )
    ordered = list(_bases_first(components))
    variants = {one.get("VariantName") for one in components}
    names = {one["InferenceComponentName"] for one in components}
    rows = [
        (
            f"{'  ' if base_of(one) in names else ''}{one['InferenceComponentName']}",
            one.get("InferenceComponentStatus", ""),
            copies_text(one),
            model_text(one),
            needs_text(one),
            "" if of_endpoint else one["EndpointName"],
            one.get("VariantName", "") if len(variants) > 1 else "",
            age(one["CreationTime"], now_s),
        )
        for one in ordered
    ]
    notes = [plain(one.get("FailureReason", "")) for one in ordered]
    yield from table(columns, rows, width=width, indent="  ", notes=notes)


def _bases_first(components: Sequence[JsonObject]) -> Iterator[JsonObject]:
    present = {one["InferenceComponentName"] for one in components}
    for one in components:
        if base_of(one) not in present:
            yield one
            yield from (other for other in components if base_of(other) == one["InferenceComponentName"])


def specification_of(component: JsonObject) -> JsonObject:
    """Return a component's specification, the first where it has one for each of several instance types."""
    found: JsonObject = component.get("Specification") or next(iter(component.get("Specifications", ())), {})
    return found


def base_of(component: JsonObject) -> str:
    """Return the base of an adapter; ``""`` for a component with copies."""
    return str(specification_of(component).get("BaseInferenceComponentName", ""))


def copies_text(component: JsonObject) -> str:
    """Return copies in service and wanted; ``""`` for an adapter, which has none of its own."""
    runtime = component.get("RuntimeConfig", {})
    if base_of(component) or not runtime:
        return ""
    return f"{runtime.get('CurrentCopyCount', 0)}/{runtime.get('DesiredCopyCount', 0)}"


def model_text(component: JsonObject) -> str:
    """Return what a component runs: a model's name, an artifact or an image."""
    specification = specification_of(component)
    container = specification.get("Container", {})
    image = container.get("DeployedImage", {}).get("SpecifiedImage", "")
    return str(specification.get("ModelName") or container.get("ArtifactUrl") or image)


def needs_text(component: JsonObject) -> str:
    """Return what a copy reserves: ``1 acc 4 cpu 8192 MB``."""
    needs = specification_of(component).get("ComputeResourceRequirements", {})
    parts = (
        ("NumberOfAcceleratorDevicesRequired", "acc"),
        ("NumberOfCpuCoresRequired", "cpu"),
        ("MinMemoryRequiredInMb", "MB"),
    )
    return " ".join(f"{needs[name]:g} {unit}" for name, unit in parts if name in needs)


# --- Scaling -------------------------------------------------------------------------------------


def scaling_table(document: JsonObject, *, width: int | None) -> Iterator[str]:
    """Yield one row per scalable target."""
    targets = document.get("ScalableTargets", ())
    if not targets:
        return
    columns = (
        Column("TARGET", flexible=True),
        Column("MIN", right=True),
        Column("MAX", right=True),
    )
    rows = [(one["ResourceId"], str(one["MinCapacity"]), str(one["MaxCapacity"])) for one in targets]
    policies = [
        ", ".join(
            policy_text(policy)
            for policy in document.get("ScalingPolicies", ())
            if policy["ResourceId"] == one["ResourceId"]
        )
        for one in targets
    ]
    yield from table(columns, rows, width=width, indent="  ", notes=policies)


def policy_text(policy: JsonObject) -> str:
    """Return a policy in few words: ``scale (target 5 ConcurrentRequestsPerCopy)``."""
    tracking = policy.get("TargetTrackingScalingPolicyConfiguration")
    if not tracking:
        return f"{policy['PolicyName']} (steps)"
    predefined = tracking.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType", "")
    custom = tracking.get("CustomizedMetricSpecification", {}).get("MetricName", "")
    metric = (predefined or custom).removeprefix("SageMaker").removesuffix("HighResolution")
    return f"{policy['PolicyName']} (target {tracking['TargetValue']:g} {metric})".replace(" )", ")")
