"""The part of the conformance suite that goes over HTTP: stock boto3, and bytes that no SDK sends."""

import asyncio
import http.client
import json
import socket
import threading

import boto3
import pytest
import uvicorn
from botocore import xform_name
from botocore.config import Config
from botocore.loaders import Loader
from botocore.model import ServiceModel

from tests.conformance.cases import base_of, cases_of
from tests.conformance.facts import populate
from tests.conformance.world import REGION, World, load_schemas
from warmroute.adapters.control_http import api_app
from warmroute.app.control_process import _Server
from warmroute.resources.coverage.rows import COVERAGE
from warmroute.resources.coverage.scaling_rows import SCALING_COVERAGE
from warmroute.resources.operations import OPERATIONS
from warmroute.resources.scaling.operations import SCALING_OPERATIONS

SERVICES = {
    "sagemaker": ("SageMaker.", OPERATIONS, COVERAGE),
    "application-autoscaling": ("AnyScaleFrontendService.", SCALING_OPERATIONS, SCALING_COVERAGE),
}
SERVED = [(service, name) for service, (_, names, _) in SERVICES.items() for name in names]


class Stage:
    """Serves over TCP whatever world is on it."""

    def __init__(self, schema, content, instances):
        self._make = lambda: World(schema, content, instances=instances)
        self.renew()

    def renew(self):
        """Begin again with the world as it was."""
        self.world = self._make()

    def __enter__(self):
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    async def _run(self, ready):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        stage = self

        class OfTheWorld:
            def __init__(self, name):
                self._name = name

            async def call(self, operation, body, *, principal, request_id):
                service = getattr(stage.world, self._name)
                return await service.call(operation, body, principal=principal, request_id=request_id)

        app = api_app(OfTheWorld("service"), {"AnyScaleFrontendService.": OfTheWorld("scaling")})
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        self.port = listener.getsockname()[1]
        server = _Server(uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1))
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110  (uvicorn tells nobody)
            await asyncio.sleep(0.005)
        ready.set()
        await self._stop.wait()
        server.should_exit = True
        await serving

    def client(self, service):
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id="AKIDEXAMPLE",
            aws_secret_access_key="secret",
            config=Config(retries={"total_max_attempts": 1}),
        )

    def send(self, target, document):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target}
        connection.request("POST", "/", body=json.dumps(document), headers=headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response, answer


@pytest.fixture(scope="module")
def stage():
    schema = load_schemas()
    first = World(schema)
    asyncio.run(populate(first))
    with Stage(schema, first.content, first.provider.instances) as running:
        yield running


@pytest.fixture(scope="module")
def models():
    return {name: ServiceModel(Loader().load_service_model(name, "service-2"), name) for name in SERVICES}


@pytest.mark.parametrize(("service", "operation"), SERVED)
def test_boto3_makes_the_smallest_request_and_reads_the_answer(stage, models, service, operation):
    model = models[service].operation_model(operation)
    stage.renew()
    client = stage.client(service)
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
