"""Whether a member that is called honoured changes anything: a call with it, its life, and what came of it.

What a record keeps as it was given does not count: neither documents nor what Describe repeats of them.
"""

import json
from dataclasses import replace

from tests.conformance.facts import ADAPTER, BASES, COPIES, SCALED, SPECIFICATION, VARIANT
from tests.conformance.world import OTHER_TYPE, TYPE

STEPS_MAX = 40
"""Reconcile steps for what goes on longer."""
CANARY = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {
            "Type": "CANARY",
            "WaitIntervalInSeconds": 5,
            "CanarySize": {"Type": "INSTANCE_COUNT", "Value": 1},
        }
    }
}
GIVEN = {"document", "echo", "policy", "last_policy", "arn", "step", "tracking"}
"""Members of records that hold what callers gave, or are made of their names."""
STEPS = 6
"""Reconcile steps after which a deployment is looked at; each looks different when its policy does."""


async def outcome(world, operation, request):
    """Make a call, let it have its consequences, and return what there is then, as one text."""
    await _before(world, operation, request)
    answer = await world.call(operation, request)
    assert answer.output is not None, answer.message
    seen = [answer.output] if operation.startswith(("List", "Describe")) else []
    match operation:
        case "CreateModel":
            variant = VARIANT | {"ModelName": request["ModelName"]}
            await world.do("CreateEndpointConfig", EndpointConfigName="n", ProductionVariants=[variant])
            await world.do("CreateEndpoint", EndpointName="n", EndpointConfigName="n")
        case "CreateEndpointConfig":
            await _serve(world, request)
        case "CreateEndpoint":
            await world.settle()
            await world.do(
                "UpdateEndpoint",
                EndpointName=request["EndpointName"],
                EndpointConfigName="c3",
                RetainDeploymentConfig=True,
            )
    for _ in range(STEPS):
        await world.step()
        seen.append(_state(world))
    for _ in range(STEPS_MAX):
        if await world.step():
            break
    seen.append(_state(world))
    return json.dumps(seen, sort_keys=True)


async def _before(world, operation, request):
    """Give an endpoint a past that its update can keep or leave."""
    if operation != "UpdateEndpoint" or request["EndpointName"] != "ep":
        return
    counts = [{"VariantName": "v", "DesiredWeight": 3.0, "DesiredInstanceCount": 5}]
    await world.do(
        "UpdateEndpointWeightsAndCapacities", EndpointName="ep", DesiredWeightsAndCapacities=counts
    )
    await world.settle()
    with world.store.transaction() as transaction:
        transaction.put(replace(transaction.endpoint("ep"), last_policy=CANARY))


async def _serve(world, request):
    """Make an endpoint of a new configuration, and a component where it is for those."""
    name = request["EndpointConfigName"]
    await world.do("CreateEndpoint", EndpointName="n", EndpointConfigName=name)
    if "ModelName" not in request["ProductionVariants"][0]:
        await world.do(
            "CreateInferenceComponent",
            InferenceComponentName="n",
            EndpointName="n",
            Specification=SPECIFICATION,
        )


def _state(world):
    """Return records, orders and the fleet."""
    records = {
        f"{kind}/{name}": _stripped(json.loads(text))
        for (kind, name), text in world.content.resources.items()
    }
    scaling = [_stripped(json.loads(text)) for text in world.content.scaling.values()]
    instances = [_stripped(json.loads(text)) for text in world.content.instances.values()]
    orders = [repr(instance.order) for instance in world.provider.instances.values()]
    return json.dumps([records, scaling, instances, orders, repr(world.routers.fleets[-1:])], sort_keys=True)


def _stripped(value):
    if isinstance(value, dict):
        return {name: _stripped(item) for name, item in value.items() if name not in GIVEN}
    return [_stripped(item) for item in value] if isinstance(value, list) else value


# --- Two values that have to make a difference -------------------------------------------------------

IDLE = {"Strategy": "IDLE_RELEASE"}
ENABLED = {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 3}
POOLS = [{"InstanceType": TYPE, "Priority": 1}, {"InstanceType": OTHER_TYPE, "Priority": 2}]
RESOURCES = (SCALED["ResourceId"], COPIES["ResourceId"])
VALUES = {
    "Image": ("img", "other"),
    "ModelName": ("m", "m3"),
    "ModelNameOverride": ("m", "m3"),
    "InstanceType": (TYPE, OTHER_TYPE),
    "ModelDataUrl": ("file:///a", "file:///b"),
    "S3Uri": ("s3://b/a", "s3://b/b"),
    "ArtifactUrl": ("s3://b/a.tar.gz", "s3://b/b.tar.gz"),
    "InitialInstanceCount": (1, 2),
    "DesiredInstanceCount": (1, 2),
    "CopyCount": (1, 2),
    "EndpointConfigName": ("c", "c2"),
    "EndpointName": ("new", "new2"),
    "SortOrder": ("Ascending", "Descending"),
    "MaxResults": (1, 50),
    "PolicyNames": ("steps", "track"),
    "ScheduledActionNames": ("act", "act2"),
    "ResourceId": RESOURCES,
    "ResourceIds": RESOURCES,
    "TagKeys": ("k", "x"),
    "Schedule": ("rate(5 minutes)", "rate(9 minutes)"),
    "StartTime": (1_900_000_000, 1_900_000_060),
    "EndTime": (1_900_000_000, 1_900_000_060),
    "StatusEquals": ("InService", "Failed"),
    "EndpointNameEquals": ("hosts", "ep"),
    "VariantNameEquals": ("v", "w"),
    "CreationTimeBefore": (1, 3_000_000_000),
    "CreationTimeAfter": (1, 3_000_000_000),
    "LastModifiedTimeBefore": (1, 3_000_000_000),
    "LastModifiedTimeAfter": (1, 3_000_000_000),
}
"""By member, where those made from the model would not do."""


def config(**variant):
    """Return a request for a configuration with one variant."""
    return {"EndpointConfigName": "new", "ProductionVariants": [VARIANT | variant]}


def hosts(**variant):
    """Return a request for a configuration of an endpoint for components."""
    request = config(**variant)
    del request["ProductionVariants"][0]["ModelName"]
    if "InstancePools" in variant:
        del request["ProductionVariants"][0]["InstanceType"]
    return request | {"ExecutionRoleArn": "arn:aws:iam::123456789012:role/sm"}


def component(specification=SPECIFICATION, **more):
    """Return a request for a component."""
    return BASES["CreateInferenceComponent"] | {"Specification": specification} | more


def adapter(url):
    """Return a request for an adapter component."""
    return {
        "InferenceComponentName": "new",
        "EndpointName": "hosts",
        "Specification": ADAPTER | {"Container": {"ArtifactUrl": url}},
    }


def _scaling(**changes):
    return hosts(InitialInstanceCount=2, ManagedInstanceScaling=ENABLED | changes)


def _rolling(batch=("COPY_COUNT", 1), wait_s=0, **more):
    size = dict(zip(("Type", "Value"), batch, strict=True))
    return {"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": wait_s} | more}


COMPONENT_POLICIES = {
    "RollingUpdatePolicy.MaximumBatchSize.Type": (
        _rolling(("COPY_COUNT", 2)),
        _rolling(("CAPACITY_PERCENT", 5)),
    ),
    "RollingUpdatePolicy.MaximumBatchSize.Value": (_rolling(), _rolling(("COPY_COUNT", 2))),
    "RollingUpdatePolicy.WaitIntervalInSeconds": (_rolling(), _rolling(wait_s=60)),
}
REQUESTS = {
    ("CreateEndpointConfig", "ManagedInstanceScaling.Status"): (_scaling(), _scaling(Status="DISABLED")),
    ("CreateEndpointConfig", "ManagedInstanceScaling.MinInstanceCount"): (
        _scaling(MinInstanceCount=0), _scaling(MinInstanceCount=2),
    ),
    ("CreateEndpointConfig", "ManagedInstanceScaling.MaxInstanceCount"): (
        _scaling(MaxInstanceCount=2), _scaling(MaxInstanceCount=3),
    ),
    ("CreateEndpointConfig", "ScaleInPolicy.Strategy"): (
        _scaling(ScaleInPolicy=IDLE), _scaling(ScaleInPolicy={"Strategy": "CONSOLIDATION"}),
    ),
    ("CreateEndpointConfig", "ScaleInPolicy.MaximumStepSize"): tuple(
        _scaling(ScaleInPolicy=IDLE | {"MaximumStepSize": size}) for size in (1, 2)
    ),
    ("CreateEndpointConfig", "ScaleInPolicy.CooldownInMinutes"): tuple(
        _scaling(ScaleInPolicy=IDLE | {"CooldownInMinutes": minutes}) for minutes in (5, 9)
    ),
    ("CreateEndpointConfig", "InstancePools[].Priority"): (
        hosts(InstancePools=POOLS),
        hosts(InstancePools=[POOLS[0] | {"Priority": 2}, POOLS[1] | {"Priority": 1}]),
    ),
    ("CreateModel", "ModelName"): (BASES["CreateModel"], BASES["CreateModel"] | {"ModelName": "new2"}),
    ("CreateEndpointConfig", "EndpointConfigName"): (config(), config() | {"EndpointConfigName": "new2"}),
    **{
        (operation, "NameContains"): ({"NameContains": part}, {"NameContains": "zz"})
        for operation, part in (
            ("ListModels", "m"), ("ListEndpointConfigs", "c"), ("ListEndpoints", "ep"),
            ("ListInferenceComponents", "o"),
        )
    },
    **{
        ("UpdateInferenceComponent", f"DeploymentConfig.{end}"): tuple(
            BASES["UpdateInferenceComponent"]
            | {
                "Specification": SPECIFICATION | {"ModelName": "m3"},
                "RuntimeConfig": {"CopyCount": 4},
                "DeploymentConfig": policy,
            }
            for policy in policies
        )
        for end, policies in COMPONENT_POLICIES.items()
    },
    ("PutScheduledAction", "Timezone"): tuple(
        BASES["PutScheduledAction"] | {"Schedule": "cron(0 9 * * ? *)", "Timezone": zone}
        for zone in ("Europe/Berlin", "America/New_York")
    ),
    ("CreateInferenceComponent", "BaseInferenceComponentName"): (component(), adapter("s3://b/a.tar.gz")),
    ("CreateInferenceComponent", "Container.ArtifactUrl"): (adapter("s3://b/a"), adapter("s3://b/b")),
}  # fmt: skip
"""By operation and end of a node: two requests, where one value in the smallest request would not do."""
