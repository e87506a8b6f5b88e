"""boto3 and the OpenAI SDK, with their own retries, against model servers that fail in every way.

Whatever happens, a call is executed once, and the caller gets the error that says so.
"""

import contextlib
import json

import openai
import pytest
from botocore.exceptions import ClientError, EventStreamError

from tests.clients import boto3_client
from tests.relay import metric, running, wait_until_at_rest
from tests.running import wait_until
from tests.stub_server import StubServer

pytestmark = pytest.mark.process

SETTINGS = """
[timeouts]
first_byte_native_s = 1
first_byte_openai_s = 1
chunk_idle_s = 1
"""
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def stub():
    with StubServer("a") as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory, stub):
    with running(tmp_path_factory.mktemp("sdks"), stub.url, toml=SETTINGS) as started:
        yield started
        wait_until_at_rest(started)


@pytest.fixture(autouse=True)
def _behaves(stub):
    yield
    stub.behaviour = type(stub.behaviour)()


@pytest.fixture(scope="module", params=["/v1", "/endpoints/llm/openai/v1"])
def sdk(request, server):
    with openai.OpenAI(base_url=f"{server.url}{request.param}", api_key="any") as client:
        yield client


def body(**members):
    return json.dumps({"messages": MESSAGES, **members}).encode()


def invoke(runtime, **members):
    answer = runtime.invoke_endpoint(EndpointName="llm", ContentType="application/json", Body=body(**members))
    return answer["Body"].read()


def invoke_stream(runtime):
    answer = runtime.invoke_endpoint_with_response_stream(
        EndpointName="llm", ContentType="application/json", Body=body(stream=True)
    )
    with contextlib.closing(answer["Body"]) as parts:
        return b"".join(part["PayloadPart"]["Bytes"] for part in parts)


# --- What works -----------------------------------------------------------------------------


def test_boto3_gets_its_answers(runtime, stub):
    before = stub.counters.executions
    assert json.loads(invoke(runtime))["choices"][0]["message"]["content"] == "Hello from a."
    assert invoke_stream(runtime).endswith(b"data: [DONE]\n\n")
    assert stub.counters.executions == before + 2


def test_the_openai_sdk_gets_its_answers(sdk, stub):
    before = stub.counters.executions
    answer = sdk.chat.completions.create(model="llm", messages=MESSAGES)
    assert answer.choices[0].message.content == "Hello from a."
    with sdk.chat.completions.create(model="llm", messages=MESSAGES, stream=True) as stream:
        said = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert said == "Hello from a."
    assert stub.counters.executions == before + 2


def test_an_endpoint_is_found_with_the_case_of_its_name_only(runtime):
    with pytest.raises(runtime.exceptions.ValidationError, match="Endpoint LLM of account 0{12} not found"):
        runtime.invoke_endpoint(EndpointName="LLM", ContentType="application/json", Body=body())


# --- Model servers that fail ----------------------------------------------------------------

BEFORE = ("close_before_answer", "reset_before_answer", "stall_before_answer", "garbage")
INSIDE = ("close_in_answer", "reset_in_answer", "stall_in_answer")
TIMED_OUT = "Your invocation timed out while waiting for a response from container primary."
DIED = "An error occurred while handling request as the model process exited."


def words_of(fault):
    return TIMED_OUT if fault.startswith("stall") else DIED


def assert_model_error(error, words, status=0):
    assert (error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]) == (
        "ModelError",
        424,
    )
    assert error.response["OriginalStatusCode"] == status
    assert error.response["LogStreamArn"].endswith(":log-group:/aws/sagemaker/Endpoints/llm")
    assert words in error.response["Error"]["Message"]
    assert words in error.response["OriginalMessage"]
    assert error.response["ResponseMetadata"]["RetryAttempts"] == 0


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
@pytest.mark.parametrize("fault", [*BEFORE, *INSIDE])
def test_invoke_endpoint_executes_once_whatever_fails(runtime, stub, fault, chunked):
    stub.behaviour.fault, stub.behaviour.chunked = fault, chunked
    before = stub.counters.executions
    with pytest.raises(runtime.exceptions.ModelError) as raised:
        invoke(runtime)
    assert_model_error(raised.value, words_of(fault))
    assert stub.counters.executions == before + 1


@pytest.mark.parametrize("fault", BEFORE)
def test_a_response_stream_that_does_not_begin_is_a_model_error(runtime, stub, fault):
    stub.behaviour.fault = fault
    before = stub.counters.executions
    with pytest.raises(runtime.exceptions.ModelError) as raised:
        invoke_stream(runtime)
    assert_model_error(raised.value, words_of(fault))
    assert stub.counters.executions == before + 1


@pytest.mark.parametrize("fault", INSIDE)
def test_a_response_stream_that_breaks_is_a_model_stream_error(runtime, stub, fault):
    stub.behaviour.fault = fault
    before = stub.counters.executions
    with pytest.raises(EventStreamError) as raised:
        invoke_stream(runtime)
    assert raised.value.response["Error"]["Code"] == "ModelStreamError"
    assert words_of(fault) in raised.value.response["Error"]["Message"]
    assert stub.counters.executions == before + 1


@pytest.mark.parametrize("status", [400, 404, 408, 422, 429, 500, 502, 503, 504, 507])
@pytest.mark.parametrize("call", [invoke, invoke_stream])
def test_an_error_answer_of_the_model_is_a_model_error(runtime, stub, status, call):
    stub.behaviour.status, stub.behaviour.error_body = status, '{"error": "no \\"luck\\" é"}'
    stub.behaviour.has_invocations = True
    before = stub.counters.executions
    with pytest.raises(runtime.exceptions.ModelError) as raised:
        call(runtime)
    assert_model_error(raised.value, stub.behaviour.error_body, status)
    side = "client" if status < 500 else "server"
    message = raised.value.response["Error"]["Message"]
    assert message.startswith(f"Received {side} error ({status}) from primary with message")
    # A 404 may mean that the server has no such route, where nothing can have run: it is asked on another.
    assert stub.counters.executions == before + (2 if status == 404 else 1)


def chat(sdk):
    return sdk.chat.completions.create(model="llm", messages=MESSAGES)


def chat_stream(sdk):
    with sdk.chat.completions.create(model="llm", messages=MESSAGES, stream=True) as stream:
        return list(stream)


def assert_not_sent_again(error, words):
    assert error.status_code == 424
    assert (error.type, error.code) == (
        "server_error",
        "model_timeout" if words == TIMED_OUT else "model_error",
    )
    assert words in error.message
    assert error.response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
@pytest.mark.parametrize("fault", [*BEFORE, *INSIDE])
def test_a_chat_executes_once_whatever_fails(sdk, stub, fault, chunked):
    stub.behaviour.fault, stub.behaviour.chunked = fault, chunked
    before = stub.counters.executions
    with pytest.raises(openai.APIStatusError) as raised:
        chat(sdk)
    assert_not_sent_again(raised.value, words_of(fault))
    assert stub.counters.executions == before + 1


@pytest.mark.parametrize("fault", BEFORE)
def test_a_chat_stream_that_does_not_begin_executes_once(sdk, stub, fault):
    stub.behaviour.fault = fault
    before = stub.counters.executions
    with pytest.raises(openai.APIStatusError) as raised:
        chat_stream(sdk)
    assert_not_sent_again(raised.value, words_of(fault))
    assert stub.counters.executions == before + 1


@pytest.mark.parametrize("fault", INSIDE)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_chat_stream_that_breaks_raises_and_executes_once(sdk, stub, fault, after):
    stub.behaviour.fault, stub.behaviour.fault_after = fault, after
    before = stub.counters.executions
    with pytest.raises(openai.APIError) as raised:
        chat_stream(sdk)
    assert not isinstance(raised.value, openai.APIConnectionError)
    assert raised.value.code == ("model_timeout" if fault.startswith("stall") else "model_error")
    assert words_of(fault) in raised.value.message
    assert stub.counters.executions == before + 1


@pytest.mark.parametrize("status", [500, 502, 503, 504, 507])
@pytest.mark.parametrize("call", [chat, chat_stream])
def test_a_5xx_of_the_model_is_not_sent_again(sdk, stub, status, call):
    stub.behaviour.status = status
    before = stub.counters.executions
    with pytest.raises(openai.APIStatusError) as raised:
        call(sdk)
    assert_not_sent_again(raised.value, f"Received server error ({status}) from primary with message")
    assert stub.counters.executions == before + 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (404, openai.NotFoundError),
        (408, openai.APIStatusError),
        (409, openai.ConflictError),
        (422, openai.UnprocessableEntityError),
    ],
)
@pytest.mark.parametrize("call", [chat, chat_stream])
def test_a_4xx_of_the_model_keeps_its_status_and_is_not_sent_again(sdk, stub, status, kind, call):
    stub.behaviour.status = status
    before = stub.counters.executions
    with pytest.raises(kind) as raised:
        call(sdk)
    assert raised.value.status_code == status
    assert "stub error" in raised.value.message
    assert stub.counters.executions == before + 1


@pytest.mark.parametrize("fault", ["reset_before_answer", "stall_in_answer"])
def test_the_other_openai_calls_execute_once_too(server, stub, fault):
    stub.behaviour.fault = fault
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as sdk:
        for call in (
            lambda: sdk.completions.create(model="llm", prompt="hi"),
            lambda: sdk.embeddings.create(model="llm", input="hi", encoding_format="float"),
            lambda: sdk.responses.create(model="llm", input="hi"),
        ):
            before = stub.counters.executions
            with pytest.raises(openai.APIStatusError) as raised:
                call()
            assert_not_sent_again(raised.value, words_of(fault))
            assert stub.counters.executions == before + 1


# --- Nothing ran ----------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path, stub_servers):
    stubs = [stub_servers("a"), stub_servers("b")]
    with running(tmp_path, *(stub.url for stub in stubs), toml=SETTINGS) as server:
        yield server, stubs


def ask_all_ways(server, count):
    """Call a few times by every client; return how many calls were made."""
    runtime = boto3_client("sagemaker-runtime", server.url)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as sdk:
        for _ in range(count):
            assert b"Hello" in invoke(runtime)
            assert invoke_stream(runtime)
            assert chat(sdk).choices
            assert chat_stream(sdk)
    runtime.close()
    return 4 * count


def test_a_refused_connection_is_made_up_for_on_the_other_instance(two):
    server, (first, second) = two
    first.close()
    calls = ask_all_ways(server, 5)
    assert second.counters.executions == calls
    wait_until(lambda: metric(server, "warmroute_retries_total", cause="connect_failed") >= 1)
    assert metric(server, "warmroute_ejections_total", cause="connect_failed") >= 1
    assert metric(server, "warmroute_invocations_total", outcome="failed") == 0


def test_a_server_that_still_loads_is_made_up_for_on_the_other_instance(two):
    server, (first, second) = two
    first.behaviour.ready = False
    calls = ask_all_ways(server, 5)
    assert second.counters.executions == calls
    wait_until(lambda: metric(server, "warmroute_retries_total", cause="loading") >= 1)


def test_when_no_instance_can_be_reached_callers_are_told_when_to_come_back(two):
    server, stubs = two
    for stub in stubs:
        stub.close()
    runtime = boto3_client("sagemaker-runtime", server.url)
    with pytest.raises(runtime.exceptions.ServiceUnavailable) as native:
        invoke(runtime)
    with pytest.raises(runtime.exceptions.ServiceUnavailable):
        invoke_stream(runtime)
    runtime.close()
    metadata = native.value.response["ResponseMetadata"]
    assert (metadata["HTTPStatusCode"], metadata["HTTPHeaders"]["retry-after"]) == (503, "1")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as sdk:
        with pytest.raises(openai.InternalServerError) as plain:
            chat(sdk)
        assert (plain.value.status_code, plain.value.response.headers["retry-after"]) == (503, "1")
        assert "x-should-retry" not in plain.value.response.headers


def test_an_endpoint_that_does_not_exist_is_told_once(runtime, server):
    with pytest.raises(ClientError) as raised:
        runtime.invoke_endpoint(EndpointName="nobody", Body=b"{}")
    assert raised.value.response["Error"] == {
        "Code": "ValidationError",
        "Message": "Endpoint nobody of account 000000000000 not found.",
    }
    assert raised.value.response["ResponseMetadata"]["RetryAttempts"] == 0
