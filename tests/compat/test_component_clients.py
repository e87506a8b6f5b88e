"""boto3 and the OpenAI SDK, with their own retries, on an endpoint of components over real processes."""

import json

import openai
import pytest
from botocore.exceptions import ClientError

from tests.clients import boto3_client
from tests.relay import metric, running, wait_until_at_rest
from tests.running import wait_until
from tests.stub_server import StubServer

pytestmark = pytest.mark.process

NO_CAPACITY = (
    "Inference Component has no capacity to process this request. ApplicationAutoScaling may be in-progress "
    "(if configured) or try to increase the capacity by invoking UpdateInferenceComponentRuntimeConfig API."
)
MESSAGES = [{"role": "user", "content": "hi"}]
BODY = json.dumps({"messages": MESSAGES})


@pytest.fixture(scope="module")
def stubs():
    with StubServer("plain") as plain, StubServer("one") as one, StubServer("two") as two:
        yield plain, one, two


@pytest.fixture(scope="module")
def server(tmp_path_factory, stubs):
    """Endpoint ``llm`` of one model, and one of components: ``chat`` of two copies, ``idle`` of none."""
    plain, *slots = stubs
    urls = ", ".join(f'"{slot.url}"' for slot in slots)
    toml = f'[instance_types."my.slots"]\nprovider = "static"\nurls = [{urls}]\n'
    with running(tmp_path_factory.mktemp("components"), plain.url, toml=toml) as started:
        create(started)
        yield started
        wait_until_at_rest(started)


def create(server):
    sagemaker = boto3_client("sagemaker", server.url)
    variant = {"VariantName": "all", "InstanceType": "my.slots", "InitialInstanceCount": 2}
    sagemaker.create_endpoint_config(
        EndpointConfigName="c",
        ExecutionRoleArn="arn:aws:iam::000000000000:role/any",
        ProductionVariants=[variant],
    )
    sagemaker.create_endpoint(EndpointName="many", EndpointConfigName="c")
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName="many", WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
    for name, copies in (("chat", 2), ("idle", 0)):
        sagemaker.create_inference_component(
            InferenceComponentName=name, EndpointName="many", VariantName="all",
            Specification={
                "Container": {"Image": "any"},
                "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 128},
            },
            RuntimeConfig={"CopyCount": copies},
        )  # fmt: skip

        def settled(name=name):
            told = sagemaker.describe_inference_component(InferenceComponentName=name)
            return told["InferenceComponentStatus"] == "InService"

        wait_until(settled, explain=server.log_text)
    sagemaker.close()


def executions(stubs):
    return sum(stub.counters.executions for stub in stubs)


def refused(runtime, endpoint="many", **more):
    with pytest.raises(ClientError) as caught:
        runtime.invoke_endpoint(EndpointName=endpoint, Body=BODY, **more)
    told = caught.value.response
    assert (told["Error"]["Code"], told["ResponseMetadata"]["HTTPStatusCode"]) == ("ValidationError", 400)
    assert told["ResponseMetadata"]["RetryAttempts"] == 0
    return told["Error"]["Message"]


def test_boto3_names_a_component(runtime):
    answer = runtime.invoke_endpoint(EndpointName="many", InferenceComponentName="chat", Body=BODY)
    assert json.loads(answer["Body"].read())["object"] == "chat.completion"
    assert answer["InvokedProductionVariant"] == "all"
    answer = runtime.invoke_endpoint(
        EndpointName="many", InferenceComponentName="chat", TargetVariant="all", Body=BODY
    )
    assert answer["Body"].read()


def test_boto3_is_told_at_once_and_once_that_there_is_no_capacity(runtime, server, stubs):
    before = executions(stubs)
    assert refused(runtime, InferenceComponentName="idle") == NO_CAPACITY
    with pytest.raises(ClientError, match="has no capacity to process this request"):
        runtime.invoke_endpoint_with_response_stream(
            EndpointName="many", InferenceComponentName="idle", Body=BODY
        )
    assert executions(stubs) == before
    name = "warmroute_no_capacity_invocation_failures_total"
    wait_until(lambda: metric(server, name, endpoint="many", component="idle") >= 2)
    assert metric(server, name, component="chat") == 0


@pytest.mark.parametrize(
    ("endpoint", "more", "said"),
    [
        ("many", {}, "Inference Component Name header is required for endpoints to which you plan to deploy"),
        (
            "llm",
            {"InferenceComponentName": "chat"},
            "Inference Component Name header is not allowed for endpoi",
        ),
        (
            "many",
            {"InferenceComponentName": "other"},
            "Inference Component other of account 000000000000 not",
        ),
        (
            "many",
            {"InferenceComponentName": "chat", "TargetVariant": "b"},
            "Variant b not found on endpoint many",
        ),
    ],
)
def test_boto3_is_told_what_is_wrong_with_a_name(runtime, endpoint, more, said):
    assert refused(runtime, endpoint, **more).startswith(said)


class Sdk:
    """The OpenAI SDK on either route, each with its own way to name a component."""

    def __init__(self, url, way):
        self.url, self.way = url, way
        self.clients = []

    def ask(self, component, **more):
        base, model = f"{self.url}/v1", f"many/{component}"
        if self.way == "path":
            base, model = f"{self.url}/endpoints/many/inference-components/{component}/openai/v1", ""
        client = openai.OpenAI(base_url=base, api_key="any")
        self.clients.append(client)
        return client.chat.completions.create(model=model, messages=MESSAGES, **more)


@pytest.fixture(params=["path", "model"])
def sdk(request, server):
    made = Sdk(server.url, request.param)
    yield made
    for client in made.clients:
        client.close()


def test_the_openai_sdk_names_a_component_in_the_path_or_as_the_model(sdk):
    assert sdk.ask("chat").object == "chat.completion"
    assert list(sdk.ask("chat", stream=True))


def test_the_openai_sdk_is_told_at_once_and_once_that_there_is_no_capacity(sdk, stubs):
    before = executions(stubs)
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.ask("idle")
    error = caught.value
    assert (error.code, error.type, error.body["message"]) == (
        "validation_error", "invalid_request_error", NO_CAPACITY,
    )  # fmt: skip
    assert executions(stubs) == before


def test_the_openai_sdk_is_told_what_is_wrong_with_a_name(sdk):
    with pytest.raises(openai.BadRequestError, match="Inference Component other of account"):
        sdk.ask("other")


def test_components_are_listed_as_models(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as client:
        assert [model.id for model in client.models.list()] == ["llm", "many/chat", "many/idle"]


def test_the_error_of_a_copy_points_to_its_own_logs(runtime, stubs):
    for stub in stubs:
        stub.behaviour.status = 422
    try:
        with pytest.raises(ClientError) as caught:
            runtime.invoke_endpoint(EndpointName="many", InferenceComponentName="chat", Body=BODY)
    finally:
        for stub in stubs:
            stub.behaviour = type(stub.behaviour)()
    told = caught.value.response
    assert told["Error"]["Code"] == "ModelError"
    assert told["OriginalStatusCode"] == 422
    assert told["LogStreamArn"].endswith(":log-group:/aws/sagemaker/InferenceComponents/chat")
