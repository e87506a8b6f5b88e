"""The part of the conformance suite that goes over HTTP: stock boto3, and bytes that no SDK sends."""

import asyncio
import http.client
import json

import pytest
from botocore import xform_name

from tests.conformance.cases import base_of, cases_of
from tests.conformance.world import REGION, World
from tests.served import Served
from tests.service_models import load_service_model
from warmroute.adapters.control_http import api_app
from warmroute.resources.coverage.rows import COVERAGE
from warmroute.resources.coverage.scaling_rows import SCALING_COVERAGE
from warmroute.resources.operations import OPERATIONS
from warmroute.resources.scaling.operations import SCALING_OPERATIONS

SERVICES = {
    "sagemaker": ("SageMaker.", OPERATIONS, COVERAGE),
    "application-autoscaling": ("AnyScaleFrontendService.", SCALING_OPERATIONS, SCALING_COVERAGE),
}
SERVED = [(service, name) for service, (_, names, _) in SERVICES.items() for name in names]


class Stage(Served):
    """Serves over TCP whatever world is on it."""

    def __init__(self, schema, content, instances):
        self._make = lambda: World(schema, content, instances=instances)
        self.renew()

    def renew(self):
        """Begin again with the world as it was."""
        self.world = self._make()

    def make_app(self):
        stage = self

        class OfTheWorld:
            def __init__(self, name):
                self._name = name

            async def call(self, operation, body, *, principal, request_id):
                service = getattr(stage.world, self._name)
                return await service.call(operation, body, principal=principal, request_id=request_id)

        return api_app(OfTheWorld("service"), {"AnyScaleFrontendService.": OfTheWorld("scaling")})

    def send(self, target, document):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target}
        connection.request("POST", "/", body=json.dumps(document), headers=headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response, answer


@pytest.fixture(scope="module")
def stage(schema, first):
    with Stage(schema, first.content, first.provider.instances) as running:
        yield running


@pytest.fixture(scope="module")
def models():
    return {name: load_service_model(name) for name in SERVICES}


@pytest.mark.parametrize(("service", "operation"), SERVED)
def test_boto3_makes_the_smallest_request_and_reads_the_answer(stage, models, service, operation):
    model = models[service].operation_model(operation)
    stage.renew()
    client = stage.client(service, REGION)
    answer = getattr(client, xform_name(operation))(**base_of(operation, model.input_shape))
    client.close()
    metadata = answer.pop("ResponseMetadata")
    assert (metadata["HTTPStatusCode"], len(metadata["RequestId"])) == (200, 36)
    required = model.output_shape.required_members if model.output_shape is not None else []
    assert set(required) <= set(answer)


@pytest.mark.parametrize(("service", "operation"), SERVED)
def test_a_refusal_is_the_same_over_http(stage, models, service, operation):
    prefix, _, rows = SERVICES[service]
    shape = models[service].operation_model(operation).input_shape
    refused = [case for case in cases_of(operation, shape, rows[operation]) if case.code not in ("", "same")]
    for case in refused[:: max(1, len(refused) // 6)]:
        stage.renew()
        inside = asyncio.run(stage.world.call(operation, case.request))
        response, answer = stage.send(prefix + operation, case.request)
        assert (response.status, answer["__type"], answer["message"]) == (
            inside.status,
            case.code,
            inside.message,
        ), case.label
        assert response.headers["x-amzn-errortype"] == case.code
        assert response.headers["Content-Type"].startswith("application/x-amz-json-1.1")


@pytest.mark.parametrize(
    "target", ["SageMaker.CreateTrainingJob", "AnyScaleFrontendService.GetPredictiveScalingForecast"]
)
def test_an_operation_that_is_not_served_is_named(stage, target):
    response, answer = stage.send(target, {})
    assert (response.status, answer["__type"]) == (404, "UnknownOperationException")
    assert answer["message"].startswith(
        f"Operation {target.partition('.')[2]} is not supported by warmroute. Supported are: "
    )
