"""Every served operation against botocore's own service model: requests made from it, answers held to it."""

import asyncio
import json
from dataclasses import replace

import pytest

from tests.conformance.answers import flaws
from tests.conformance.cases import base_of, cases_of, difference
from tests.conformance.facts import SPECIFICATION
from tests.conformance.meanings import repair
from tests.conformance.nodes import changed, nodes
from tests.conformance.world import World
from warmroute.core import limits
from warmroute.resources.coverage.rows import COVERAGE
from warmroute.resources.coverage.scaling_rows import SCALING_COVERAGE
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.operations import OPERATIONS
from warmroute.resources.scaling.operations import SCALING_OPERATIONS

SERVED = (*OPERATIONS, *SCALING_OPERATIONS)
ROWS = COVERAGE | SCALING_COVERAGE


@pytest.fixture(scope="module")
def instances(first):
    return first.provider.instances


def found(differences, count):
    """Fail with what differs, one a line."""
    shown = "\n".join(one[:300] for one in differences[:12])
    assert not differences, f"{len(differences)} of {count} cases differ:\n{shown}"


@pytest.mark.parametrize("operation", sorted(SERVED))
def test_requests_made_from_the_model_get_the_right_answer(model, schema, content, operation):
    operation_model = model[operation]

    async def run():
        differences, count = [], 0
        for case in cases_of(operation, operation_model.input_shape, ROWS[operation]):
            count += 1
            answer = await World(schema, content).call(operation, case.request)
            if case.same_as is not None:
                other = await World(schema, content).call(operation, case.same_as)
                if answer != other:
                    differences.append(f"{case.label}: {answer}, and without it {other}")
            elif (wrong := difference(case, answer)) is not None:
                differences.append(wrong)
            if answer.output is not None:
                differences += [f"{case.label}: {flaw}" for flaw in flaws(operation_model, answer.output)]
        return differences, count

    differences, count = asyncio.run(run())
    found(differences, count)


def test_every_other_operation_of_sagemaker_is_named_as_not_supported(model, schema, content):
    others = sorted(set(model) - set(SERVED) - {"GetPredictiveScalingForecast"})

    async def run():
        world = World(schema, content)
        return [(name, await world.call(name, {})) for name in others]

    answers = asyncio.run(run())
    assert len(answers) > 300
    for name, answer in answers:
        assert (answer.code, answer.status) == ("UnknownOperationException", 404)
        assert answer.message.startswith(f"Operation {name} is not supported by warmroute. Supported are: ")


EXTREMES = (0, -1, 2**31 - 1, -(2**31), 2**31, 2**63, 10**40, 10**400, -(10**400), 1.5, 1e-300, 1e308, -1e308)
NUMBERS = ("integer", "long", "float", "double", "timestamp")


@pytest.mark.parametrize("operation", sorted(SERVED))
def test_no_number_breaks_the_server(model, schema, content, operation):
    shape = model[operation].input_shape

    async def run():
        for node in nodes(shape):
            if node.shape.type_name not in NUMBERS:
                continue
            for value in EXTREMES:
                request = changed(shape, base_of(operation, shape), node.path, value)
                answer = await World(schema, content).call(operation, repair(operation, node.path, request))
                assert answer.output is not None or answer.status == 400, f"{node.dotted}: {answer.message}"

    asyncio.run(run())


@pytest.mark.parametrize("operation", sorted(SERVED))
def test_no_text_breaks_the_server(model, schema, content, operation):
    shape = model[operation].input_shape
    texts = ("", "\x00", "💥" * 20, "\ud800", "a\u2028b", "%s{}\\", "x" * 10_000)

    async def run():
        for node in nodes(shape):
            if node.shape.type_name != "string":
                continue
            for value in texts:
                request = changed(shape, base_of(operation, shape), node.path, value)
                body = json.dumps(repair(operation, node.path, request)).encode()
                answer = await World(schema, content).send(operation, body)
                assert answer.output is not None or answer.status == 400, f"{node.dotted}: {answer.message}"

    asyncio.run(run())


# --- Answers while things change ------------------------------------------------------------------------


def routed(kind, **sizes):
    routing = {"Type": kind, "WaitIntervalInSeconds": 3} | sizes
    return {
        "BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": 3},
        "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "a"}]},
    }


ONE = {"Type": "INSTANCE_COUNT", "Value": 1}
POLICIES = {
    "none": None,
    "all at once": routed("ALL_AT_ONCE"),
    "canary": routed("CANARY", CanarySize=ONE),
    "linear": routed("LINEAR", LinearStepSize=ONE),
    "rolling": {"RollingUpdatePolicy": {"MaximumBatchSize": ONE, "WaitIntervalInSeconds": 3}},
}


@pytest.fixture
def look(model):
    """Return a coroutine function that asks for everything there is and returns what is wrong with it."""

    async def ask(world):
        found = []
        for describe, listing, member, name in (
            ("DescribeEndpoint", "ListEndpoints", "Endpoints", "EndpointName"),
            (
                "DescribeInferenceComponent",
                "ListInferenceComponents",
                "InferenceComponents",
                "InferenceComponentName",
            ),
        ):
            listed = await world.do(listing, MaxResults=100)
            found += flaws(model[listing], listed)
            for one in listed[member]:
                output = await world.do(describe, **{name: one[name]})
                found += flaws(model[describe], output)
                missing = set(one) - set(output)
                found += [f"{describe} of {one[name]} lacks {missing}"] if missing else []
        return found

    return ask


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("fails", [False, True], ids=["well", "failing"])
def test_answers_are_right_at_every_step_of_a_deployment(
    schema, content, instances, look, policy, fails, monkeypatch
):
    monkeypatch.setattr(limits, "APPLY_S", 0.0)

    async def run():
        world = World(schema, content, alive=True, instances=instances)
        if fails:
            world.provider.refuse_with = "No room."
        more = {"DeploymentConfig": POLICIES[policy]} if POLICIES[policy] else {}
        await world.do("UpdateEndpoint", EndpointName="ep", EndpointConfigName="c3", **more)
        specification = SPECIFICATION | {"ModelName": "m3"}
        await world.do("UpdateInferenceComponent", InferenceComponentName="comp", Specification=specification)
        await world.do("DeleteInferenceComponent", InferenceComponentName="other")
        found, statuses = set(), []
        while not statuses or (statuses[-1] == "Updating" and len(statuses) < 100):
            found |= set(await look(world))
            await world.step()
            described = await world.do("DescribeEndpoint", EndpointName="ep")
            statuses.append(described["EndpointStatus"])
        assert not found
        assert statuses[-1] == "InService"
        assert "PendingDeploymentSummary" not in described
        assert described["EndpointConfigName"] == ("c" if fails else "c3")

    asyncio.run(run())


@pytest.mark.parametrize("status", list(EndpointStatus))
def test_answers_are_right_in_every_status_of_an_endpoint(schema, content, look, status):
    async def run():
        world = World(schema, content)
        with world.store.transaction() as transaction:
            record = transaction.endpoint("ep")
            changes = {"status": status, "failure_reason": "x" * 1024, "last_policy": POLICIES["canary"]}
            transaction.put(replace(record, pending=record.active, **changes))
        assert (await world.do("DescribeEndpoint", EndpointName="ep"))["EndpointStatus"] == status
        assert await look(world) == []

    asyncio.run(run())


@pytest.mark.parametrize("status", list(ComponentStatus))
def test_answers_are_right_in_every_status_of_a_component(schema, content, look, status):
    async def run():
        world = World(schema, content)
        with world.store.transaction() as transaction:
            for name in ("comp", "adapter"):
                record = transaction.inference_component(name)
                transaction.put(
                    replace(record, status=status, failure_reason="x" * 1024, pending=record.active)
                )
        assert await look(world) == []

    asyncio.run(run())
