"""Credentials end to end: boto3 signs, sagemaker-core mints tokens, the OpenAI SDK sends keys."""

import http.client
import json
import time
from datetime import timedelta
from urllib.parse import urlsplit

import boto3
import openai
import pytest
from botocore import UNSIGNED
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from sagemaker.core.token_generator import generate_token

from tests.relay import (
    CHAT_BODY,
    CHAT_PATH,
    ENDPOINT_CHAT_PATH,
    NATIVE_PATH,
    NATIVE_STREAM_PATH,
    call,
    request,
    running,
    wait_until_at_rest,
)
from tests.stub_server import StubServer

pytestmark = pytest.mark.process

REGION, KEY_ID, SECRET, API_KEY = (
    "eu-central-1",
    "AKIDTEAMA",
    "a secret for this test",
    "an api key for this test",
)
SETTINGS = f"""
[server]
region = "{REGION}"
account = "111122223333"
[[auth.access_keys]]
access_key_id = "{KEY_ID}"
secret_access_key = "{SECRET}"
principal = "team-a"
[[auth.api_keys]]
principal = "app"
key = "{API_KEY}"
"""
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def stub():
    with StubServer("a") as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory, stub):
    with running(tmp_path_factory.mktemp("auth"), stub.url, toml=SETTINGS) as started:
        yield started
        wait_until_at_rest(started)


@pytest.fixture(autouse=True)
def _nothing_ran_that_was_refused(stub, request):
    before = stub.counters.executions
    yield
    if "refused" in request.node.name:
        assert stub.counters.executions == before


class Provider:
    """What sagemaker-core asks for credentials."""

    def __init__(self, key_id=KEY_ID, secret=SECRET, token=None):
        self._credentials = Credentials(key_id, secret, token)

    def load(self):
        return self._credentials


def token(*, region=REGION, expiry=timedelta(hours=1), **credentials):
    return generate_token(region=region, aws_credentials_provider=Provider(**credentials), expiry=expiry)


def client(server, service, *, region=REGION, key_id=KEY_ID, secret=SECRET, **more):
    return boto3.client(
        service,
        region_name=region,
        endpoint_url=server.url,
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        **more,
    )


# --- SigV4 ----------------------------------------------------------------------------------


def test_application_auto_scaling_is_signed_for_its_own_service(server):
    scaling = client(server, "application-autoscaling")
    assert scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"] == []
    scaling.close()

    # The same call, signed as SageMaker's are.
    wrong = client(server, "application-autoscaling")
    wrong.meta.events.register(
        "choose-signer.application-autoscaling.*",
        lambda context, **_: context.update({"signing": {"signing_name": "sagemaker"}}),
    )
    with pytest.raises(ClientError) as refused:
        wrong.describe_scalable_targets(ServiceNamespace="sagemaker")
    error = refused.value.response["Error"]
    assert error["Code"] == "InvalidSignatureException"
    assert "correct service: 'application-autoscaling', not 'sagemaker'" in error["Message"]
    wrong.close()


def test_boto3_is_let_in_everywhere(server):
    runtime, control = client(server, "sagemaker-runtime"), client(server, "sagemaker")
    body = json.dumps({"messages": MESSAGES}).encode()
    assert runtime.invoke_endpoint(EndpointName="llm", Body=body)["Body"].read()
    stream = runtime.invoke_endpoint_with_response_stream(EndpointName="llm", Body=body)["Body"]
    assert b"".join(part["PayloadPart"]["Bytes"] for part in stream)
    described = control.describe_endpoint(EndpointName="llm")
    assert described["EndpointArn"] == f"arn:aws:sagemaker:{REGION}:111122223333:endpoint/llm"
    runtime.close()
    control.close()


def ask(boto, service):
    if service == "sagemaker":
        return boto.list_endpoints()
    return boto.invoke_endpoint(EndpointName="llm", Body=CHAT_BODY)


WRONG = {
    "an unknown key": ({"key_id": "AKIDNOBODY"}, "UnrecognizedClientException"),
    "another secret": ({"secret": "another secret"}, "InvalidSignatureException"),
    "another Region": ({"region": "us-west-2"}, "InvalidSignatureException"),
}


@pytest.mark.parametrize("service", ["sagemaker-runtime", "sagemaker"])
@pytest.mark.parametrize("name", WRONG)
def test_boto3_is_refused_with_the_code_that_says_why(server, service, name):
    changes, code = WRONG[name]
    boto = client(server, service, **changes)
    with pytest.raises(ClientError) as raised:
        ask(boto, service)
    boto.close()
    response = raised.value.response
    assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == (code, 403)
    assert response["ResponseMetadata"]["RetryAttempts"] == 0
    if name == "another Region":
        assert REGION in response["Error"]["Message"]
        assert "us-west-2" in response["Error"]["Message"]
    assert SECRET not in str(response)


def test_a_response_stream_is_refused_with_the_code_too(server):
    runtime = client(server, "sagemaker-runtime", secret="another secret")
    with pytest.raises(ClientError) as raised:
        runtime.invoke_endpoint_with_response_stream(EndpointName="llm", Body=CHAT_BODY)
    runtime.close()
    assert raised.value.response["Error"]["Code"] == "InvalidSignatureException"


@pytest.mark.parametrize("service", ["sagemaker-runtime", "sagemaker"])
def test_unsigned_calls_are_refused(server, service):
    boto = client(server, service, config=Config(signature_version=UNSIGNED))
    with pytest.raises(ClientError) as raised:
        ask(boto, service)
    boto.close()
    assert raised.value.response["Error"]["Code"] == "UnrecognizedClientException"


def signed(server, path, body=CHAT_BODY, *, moment=None, headers=None, auth=SigV4Auth, **more):
    """Sign a request as botocore does; return its URL's path and query, and its headers."""
    unsigned = AWSRequest(method="POST", url=f"{server.url}{path}", data=body, headers=headers or {})
    signer = auth(Credentials(KEY_ID, SECRET), "sagemaker", REGION, **more)
    if moment is not None:
        unsigned.context["timestamp"] = moment
    signer.add_auth(unsigned)
    prepared = unsigned.prepare()
    return prepared.url.removeprefix(server.url), dict(prepared.headers)


def post(server, path, body, headers):
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def test_a_body_that_was_changed_after_signing_is_refused(server):
    path, headers = signed(server, NATIVE_PATH)
    status, answered, _ = post(server, path, CHAT_BODY.replace(b"hi", b"ho"), headers)
    assert (status, answered["x-amzn-errortype"]) == (403, "InvalidSignatureException")


@pytest.mark.parametrize("name", ["X-Amzn-SageMaker-Target-Variant", "X-Amzn-SageMaker-Prefix-Aware-Id"])
def test_a_signed_header_that_was_changed_is_refused(server, name):
    path, headers = signed(server, NATIVE_PATH, headers={name: "AllTraffic"})
    status, answered, _ = post(server, path, CHAT_BODY, headers | {name: "Other"})
    assert (status, answered["x-amzn-errortype"]) == (403, "InvalidSignatureException")


def test_a_signature_for_another_path_is_refused(server):
    path, headers = signed(server, NATIVE_PATH)
    status, answered, _ = post(server, NATIVE_STREAM_PATH, CHAT_BODY, headers)
    assert (status, answered["x-amzn-errortype"]) == (403, "InvalidSignatureException")


def test_a_presigned_request_is_let_in(server):
    path, headers = signed(server, NATIVE_PATH, auth=SigV4QueryAuth, expires=60)
    assert "X-Amz-Signature=" in path
    assert post(server, path, CHAT_BODY, headers)[0] == 200


# --- Bearer tokens --------------------------------------------------------------------------


def endpoint_sdk(server, key):
    return openai.OpenAI(base_url=f"{server.url}/endpoints/llm/openai/v1", api_key=key)


def plain_sdk(server, key):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key)


@pytest.mark.parametrize("sdk", [endpoint_sdk, plain_sdk])
def test_a_token_of_sagemaker_core_lets_the_openai_sdk_in(server, stub, sdk):
    with sdk(server, token()) as client:
        assert client.chat.completions.create(model="llm", messages=MESSAGES).choices
        with client.chat.completions.create(model="llm", messages=MESSAGES, stream=True) as stream:
            assert len(list(stream)) > 2
    arrived = stub.posts()[-1]
    assert {"authorization", "x-api-key"}.isdisjoint(arrived.headers)


def test_an_expired_token_is_refused_as_expired(server):
    expired = token(expiry=timedelta(seconds=1))
    time.sleep(2.1)
    for sdk in (endpoint_sdk, plain_sdk):
        with sdk(server, expired) as client, pytest.raises(openai.AuthenticationError) as raised:
            client.chat.completions.create(model="llm", messages=MESSAGES)
        assert (raised.value.status_code, raised.value.code) == (401, "token_expired")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"region": "us-west-2"}, REGION),
        ({"secret": "another secret"}, "signature"),
        ({"key_id": "AKIDNOBODY"}, "AKIDNOBODY"),
    ],
)
@pytest.mark.parametrize("sdk", [endpoint_sdk, plain_sdk])
def test_a_token_that_is_not_ours_is_refused(server, sdk, wrong, words):
    with sdk(server, token(**wrong)) as client, pytest.raises(openai.AuthenticationError) as raised:
        client.chat.completions.create(model="llm", messages=MESSAGES)
    assert (raised.value.status_code, raised.value.type) == (401, "authentication_error")
    assert words in raised.value.message


def test_sigv4_is_refused_on_the_endpoints_openai_route_with_403(server):
    path, headers = signed(server, ENDPOINT_CHAT_PATH)
    status, answered, body = post(server, path, CHAT_BODY, headers)
    assert status == 403
    assert json.loads(body)["error"]["code"] == "access_denied"
    assert answered["content-type"] == "application/json"


# --- API keys -------------------------------------------------------------------------------


def test_an_api_key_lets_in_on_the_plain_routes(server, stub):
    with plain_sdk(server, API_KEY) as client:
        assert client.chat.completions.create(model="llm", messages=MESSAGES).choices
        assert [model.id for model in client.models.list()] == ["llm"]
    answer = call(server, request("/v1/messages", CHAT_BODY, f"x-api-key: {API_KEY}"))
    assert answer.status == 200
    assert API_KEY not in str(stub.posts()[-1].headers)


@pytest.mark.parametrize("path", [ENDPOINT_CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH, "/"])
def test_an_api_key_is_refused_on_the_other_routes(server, path):
    for header in (f"Authorization: Bearer {API_KEY}", f"x-api-key: {API_KEY}"):
        assert call(server, request(path, CHAT_BODY, header)).status in {401, 403}


NOBODY = {
    CHAT_PATH: (401, "openai"),
    "/v1/completions": (401, "openai"),
    "/v1/embeddings": (401, "openai"),
    "/v1/responses": (401, "openai"),
    "/v1/messages": (401, "openai"),
    "/v1/models": (401, "openai"),
    ENDPOINT_CHAT_PATH: (401, "openai"),
    NATIVE_PATH: (403, "native"),
    NATIVE_STREAM_PATH: (403, "native"),
    "/": (403, "control"),
}
CREDENTIALS = {
    "none": (),
    "an empty key": ("Authorization: Bearer",),
    "a wrong key": ("Authorization: Bearer nothing",),
    "Basic": ("Authorization: Basic YTpi",),
    "a wrong x-api-key": ("x-api-key: nothing",),
    "garbage": ("Authorization: \xff\xfe",),
    "a broken signature": ("Authorization: AWS4-HMAC-SHA256 Credential=, Signature=",),
    "a broken token": ("Authorization: Bearer sagemaker-api-key-%%%",),
}


@pytest.mark.parametrize("credentials", CREDENTIALS)
@pytest.mark.parametrize("path", NOBODY)
def test_a_caller_without_good_credentials_is_refused_in_the_routes_own_form(server, path, credentials):
    status, dialect = NOBODY[path]
    method = "GET" if path == "/v1/models" else "POST"
    answer = call(server, request(path, CHAT_BODY, *CREDENTIALS[credentials], method=method))
    if path == ENDPOINT_CHAT_PATH and credentials == "a broken signature":
        status = 403
    assert answer.status == status
    value = json.loads(answer.body)
    match dialect:
        case "openai":
            assert value["error"]["type"] == ("permission_error" if status == 403 else "authentication_error")
        case "native":
            assert answer.headers["x-amzn-errortype"]
            assert value["Message"]
        case "control":
            assert value["__type"]
            assert value["message"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_asks_for_nothing(server, path):
    assert server.get(path)[0] == 200


def test_no_secret_is_in_any_log(server):
    logs = server.log_text() + (server.data_dir / "access.log").read_text()
    for secret in (SECRET, API_KEY, "sagemaker-api-key-", "Signature="):
        assert secret not in logs
