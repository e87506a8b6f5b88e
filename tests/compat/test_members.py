"""Each member of each request is what its row says: honoured, stored, or refused; none is ignored."""

import asyncio
import functools
from pathlib import Path

import pytest

from tests.conformance import scaling_effects
from tests.conformance.cases import base_of, refused_member
from tests.conformance.effects import REQUESTS, VALUES, outcome
from tests.conformance.meanings import repair
from tests.conformance.nodes import KEY, VALUE, at, changed, nodes
from tests.conformance.samples import CHOICES, minimal, text
from tests.conformance.world import World
from warmroute.core import limits
from warmroute.resources.coverage.rows import COVERAGE
from warmroute.resources.coverage.scaling_rows import SCALING_COVERAGE
from warmroute.resources.coverage.tables import Treatment
from warmroute.resources.operations import OPERATIONS
from warmroute.resources.scaling.operations import SCALING_OPERATIONS

SERVED = (*OPERATIONS, *SCALING_OPERATIONS)
ROWS = COVERAGE | SCALING_COVERAGE


@pytest.fixture(scope="module")
def begin(schema, first):
    """Return a function that makes a world like every other one it makes."""
    return functools.partial(World, schema, first.content, instances=first.provider.instances)


def treatment_of(coverage, path):
    """Return what becomes of a node, by its own row or by that of what it is in."""
    row, found = coverage, None
    for step in path:
        if not isinstance(step, str) or step in (KEY, VALUE):
            continue
        member = row.members[step]
        found = member.treatment
        if member.inside is None:
            return found
        row = member.inside
    return found


def leaves(model, operation, treatment):
    """Yield the nodes of an operation that hold a value of their own and are treated so."""
    shape, coverage = model[operation].input_shape, ROWS[operation]
    for node in nodes(shape):
        if refused_member(coverage, node.path) or node.shape.type_name in ("structure", "list", "map"):
            continue
        if treatment_of(coverage, node.path) is treatment:
            yield node


ROOT = Path(__file__).parents[2]
REFUSED_OTHERWISE = "of its two values the other one is refused"
UNIT = "it shows when a deployment fails: tests/unit/resources/"
EXEMPT = {
    ("CreateModel", "Mode"): REFUSED_OTHERWISE,
    ("CreateEndpointConfig", "EnableCapture"): REFUSED_OTHERWISE,
    ("", "DeploymentConfig.BlueGreenUpdatePolicy.MaximumExecutionTimeoutInSeconds"): UNIT
    + "deployments/test_progress.py",
    ("UpdateInferenceComponent", "MaximumExecutionTimeoutInSeconds"): UNIT + "components/test_rollout.py",
    ("", "RollingUpdatePolicy.MaximumExecutionTimeoutInSeconds"): UNIT + "deployments/test_progress.py",
    ("UpdateInferenceComponent", "RollbackMaximumBatchSize.Type"): UNIT + "components/test_rollout.py",
    ("UpdateInferenceComponent", "RollbackMaximumBatchSize.Value"): UNIT + "components/test_rollout.py",
    ("", "RollbackMaximumBatchSize.Type"): UNIT + "deployments/test_rollout.py",
    ("", "RollbackMaximumBatchSize.Value"): UNIT + "deployments/test_rollout.py",
    ("UpdateInferenceComponent", "AlarmName"): UNIT + "components/test_rollout.py",
    ("", "AlarmName"): UNIT + "deployments/test_progress.py",
    ("", "ServiceNamespace"): REFUSED_OTHERWISE,
    ("", "ScalableDimension"): "one value only for a resource",
    ("Put", "ResourceId"): "names what is scaled",
    ("Register", "ResourceId"): "names what is scaled",
    ("", "ResourceARN"): "names what is tagged",
    ("Describe", "NextToken"): "tests/compat/test_conformance.py refuses one that was never given",
    ("DescribeScalingActivities", ""): "there is none as long as nothing is scaled",
    ("PutScalingPolicy", "PolicyType"): "goes with the configuration of its type",
    ("List", "NextToken"): "tests/compat/test_control_rules.py",
    ("Update", "EndpointName"): "names what is updated: tests/compat/test_control_rules.py",
    ("Update", "InferenceComponentName"): "names what is updated: tests/compat/test_control_rules.py",
    ("UpdateInferenceComponent", "BaseInferenceComponentName"): "cannot be changed",
    ("UpdateEndpointWeightsAndCapacities", "VariantName"): "names what is updated",
    ("CreateInferenceComponent", "EndpointName"): "names what it is on",
    ("CreateInferenceComponent", "VariantName"): "names what it is on: tests/compat/test_control_rules.py",
    ("AddTags", "ResourceArn"): "names what is tagged: tests/compat/test_control_rules.py",
}
"""Operation and member, or the beginning and the end of them, and why no second value is tried here."""


def exempt(operation, node):
    """Return whether a difference cannot be shown in one call and a quiet life."""
    if operation == "PutScalingPolicy" and "Configuration." in node.dotted:
        return True  # of these the behaviour is looked at
    return any(operation.startswith(begin) and node.dotted.endswith(end) for begin, end in EXEMPT)


def pair_of(operation, shape, node):
    """Return two requests that differ in a node."""
    base = base_of(operation, shape)
    for (name, end), requests in REQUESTS.items():
        if name == operation and (node.dotted == end or node.dotted.endswith((f".{end}", f"[].{end}"))):
            return requests
    values = VALUES.get(node.name) if node.path[-1] not in (KEY, VALUE) else None
    out = []
    for value in values or two_values(node):
        request = repair(operation, node.path, changed(shape, base, node.path, value))
        if operation == "UpdateEndpoint" and node.name != "EndpointConfigName":
            request["EndpointConfigName"] = "c3"  # another model: instances have to be exchanged
        out.append(request)
    return tuple(out)


def two_values(node):
    shape, bounds = node.shape, node.shape.metadata
    if bounds.get("enum"):
        return tuple(bounds["enum"][:2])
    if shape.name in CHOICES:
        return CHOICES[shape.name][:2]
    match shape.type_name:
        case "boolean":
            return True, False
        case "string":
            return text(shape), text(shape) + "x"
        case _:
            least = minimal(shape)
            return least, least + 1


CHANGING = [
    name
    for name in SERVED
    if not name.startswith(("Delete", "Deregister", "ListTags"))
    and (name in SCALING_OPERATIONS or not name.startswith("Describe"))
]


@pytest.mark.parametrize("operation", CHANGING)
def test_what_is_honoured_makes_a_difference(model, begin, operation, monkeypatch):
    monkeypatch.setattr(limits, "APPLY_S", 0.0)  # time passes with the steps
    shape = model[operation].input_shape

    async def run():
        same = []
        for node in leaves(model, operation, Treatment.HONOURED):
            if exempt(operation, node):
                continue
            first, second = [
                await outcome(begin(alive=True), operation, request)
                for request in pair_of(operation, shape, node)
            ]
            if first == second:
                same.append(node.dotted)
        return same

    same = asyncio.run(run())
    assert not same, "honoured, and nothing changes with it:\n" + "\n".join(same)


def test_what_is_not_tried_here_is_shown_where_it_says(model):
    for (_, end), reason in EXEMPT.items():
        file = reason.partition("tests/")[2]
        member = end.split(".")[-1] if "RollbackMaximumBatchSize" not in end else "RollbackMaximumBatchSize"
        if not file.endswith(".py"):
            continue
        assert member in (ROOT / "tests" / file).read_text(), f"{end}: not in {file}"


# --- What is stored ---------------------------------------------------------------------------------

DESCRIBED = {
    "CreateModel": ("DescribeModel", "ModelName"),
    "CreateEndpointConfig": ("DescribeEndpointConfig", "EndpointConfigName"),
    "CreateInferenceComponent": ("DescribeInferenceComponent", "InferenceComponentName"),
    "RegisterScalableTarget": ("DescribeScalableTargets", "ScalableTargets"),
    "PutScalingPolicy": ("DescribeScalingPolicies", "ScalingPolicies"),
}
"""Operations that store members, and those that return them."""


def test_only_operations_with_a_describe_store_members(model):
    storing = {name for name in SERVED for _ in leaves(model, name, Treatment.STORED)}
    assert storing <= {*DESCRIBED, "UpdateInferenceComponent"}


def identity(request):
    """Return what a scaling target or policy is found by in a list."""
    return {name: request[name] for name in ("ResourceId", "PolicyName") if name in request}


@pytest.mark.parametrize("operation", DESCRIBED)
def test_what_is_stored_comes_back_as_it_was_given(model, begin, operation):
    shape = model[operation].input_shape
    describe, name = DESCRIBED[operation]

    async def run():
        found = []
        for node in leaves(model, operation, Treatment.STORED):
            for request in pair_of(operation, shape, node):
                world = begin()
                await world.do(operation, **request)
                if operation in SCALING_OPERATIONS:
                    listed = (await world.do(describe, ServiceNamespace="sagemaker"))[name]
                    described = next(one for one in listed if one.items() >= identity(request).items())
                else:
                    described = await world.do(describe, **{name: request[name]})
                if at(described, node.path) != at(request, node.path):
                    found.append(
                        f"{node.dotted}: {at(described, node.path)!r}, not {at(request, node.path)!r}"
                    )
        return found

    found = asyncio.run(run())
    assert not found, "\n".join(found)


ALTERNATIVES = (
    {"Tags", "Containers", "ModelDataSource", "InstancePools"},
    {"Tags", "PrimaryContainer", "ModelDataUrl", "InstanceType", "ShadowProductionVariants"},
)
"""Members that are left out, because one request cannot have all."""


FIRST = {"Status": "DISABLED", "ModelName": "m", "ModelNameOverride": "m"}


@pytest.mark.parametrize("operation", ["CreateModel", "CreateEndpointConfig"])
def test_a_request_with_every_member_there_is_comes_back_unchanged(model, begin, operation):
    shape, coverage = model[operation].input_shape, ROWS[operation]
    describe, name = DESCRIBED[operation]
    for left_out in ALTERNATIVES:
        request = base_of(operation, shape)
        for node in nodes(shape):
            if refused_member(coverage, node.path) or left_out & set(node.path):
                continue
            if at(request, node.path) is None:
                value = FIRST.get(node.name) or minimal(node.shape)
                request = repair(operation, node.path, changed(shape, request, node.path, value))

        async def run(request=request):
            world = begin()
            await world.do(operation, **request)
            return await world.do(describe, **{name: request[name]})

        described = asyncio.run(run())
        for member, value in request.items():
            assert described[member] == value, member
        allowed = [node for node in nodes(shape) if not refused_member(coverage, node.path)]
        missing = [node.dotted for node in allowed if at(request, node.path) is None]
        assert not [one for one in missing if not any(name in one for name in left_out)]


def test_what_is_honoured_of_a_scaling_policy_makes_a_difference(model, begin):
    async def behaviour_of(request):
        world = begin()
        await world.do("PutScalingPolicy", **request)
        return scaling_effects.behaviour(world, request)

    async def run():
        same = []
        for node in leaves(model, "PutScalingPolicy", Treatment.HONOURED):
            if "Configuration." not in node.dotted or node.dotted.endswith(scaling_effects.ONE_VALUE):
                continue
            pairs = [one for end, one in scaling_effects.REQUESTS.items() if node.dotted.endswith(f".{end}")]
            first, second = [await behaviour_of(request) for request in pairs[-1]]
            if first == second:
                same.append(node.dotted)
        return same

    same = asyncio.run(run())
    assert not same, "honoured, and nothing changes with it:\n" + "\n".join(same)
