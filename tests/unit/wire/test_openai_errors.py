import json

import openai
import pytest

from warmroute.core.errors import ERRORS, Failure, Problem
from warmroute.wire import openai_errors

try:
    import httpx2 as httpx  # what openai 3 is built on
except ImportError:
    import httpx


def client(answer: httpx.Response) -> openai.OpenAI:
    transport = httpx.MockTransport(lambda request: answer)
    return openai.OpenAI(
        api_key="k",
        base_url="http://router.test/v1",
        http_client=httpx.Client(transport=transport),
        max_retries=0,
    )


def response(failure: Failure) -> httpx.Response:
    status, fields, body = openai_errors.error(failure, "req-1")
    return httpx.Response(status, headers=fields, content=body)


@pytest.mark.parametrize("problem", Problem)
def test_the_openai_sdk_reads_every_problem(problem):
    row = ERRORS[problem]
    with (
        client(response(Failure(problem, "what is wrong"))) as sdk,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        sdk.chat.completions.create(model="ep", messages=[])
    error = caught.value
    assert (error.status_code, error.code, error.type) == (
        row.openai_status,
        row.openai_code,
        row.openai_type,
    )
    assert error.body["message"] == "what is wrong"
    assert error.request_id == "req-1"


@pytest.mark.parametrize("problem", Problem)
def test_no_sdk_sends_again_what_may_have_run(problem):
    with client(httpx.Response(200)) as sdk:
        answer = response(Failure(problem, "m"))
        if ERRORS[problem].may_have_run:
            assert answer.headers["x-should-retry"] == "false"
            assert "retry-after" not in answer.headers
            assert not sdk._should_retry(answer)
        elif ERRORS[problem].retry_after_s is not None:
            assert answer.headers["retry-after"] == str(ERRORS[problem].retry_after_s)
            assert "x-should-retry" not in answer.headers


def test_the_envelope_has_message_type_and_code():
    status, fields, body = openai_errors.error(Failure(Problem.MODEL_TIMEOUT, 'é "x"'), "r\n")
    assert status == 424
    assert json.loads(body) == {
        "error": {"message": 'é "x"', "type": "server_error", "code": "model_timeout"}
    }
    assert dict(fields)[b"x-request-id"] == b"r?"


def test_the_openai_sdk_raises_what_ends_a_stream():
    part = b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[]}\n\n'
    body = part + openai_errors.sse_error(Failure(Problem.MODEL_DIED, "it died"))
    answer = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    with client(answer) as sdk:
        stream = iter(sdk.chat.completions.create(model="ep", messages=[], stream=True))
        assert next(stream).id == "1"
        with pytest.raises(openai.APIError, match="it died"):
            next(stream)


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (Problem.MODEL_DIED, "api_error"),
        (Problem.SHUTTING_DOWN, "overloaded_error"),
        (Problem.BAD_REQUEST, "invalid_request_error"),
    ],
)
def test_anthropic_streams_end_with_anthropics_error(problem, kind):
    event = openai_errors.sse_error(Failure(problem, "m"), anthropic=True)
    head, data = event.removesuffix(b"\n\n").split(b"data: ")
    assert head == b"\n\nevent: error\n"
    assert json.loads(data) == {"type": "error", "error": {"type": kind, "message": "m"}}


@pytest.mark.parametrize(
    ("original", "status"), [(0, 424), (399, 424), (400, 400), (429, 429), (499, 499), (500, 424)]
)
def test_a_models_4xx_is_mirrored_where_asked_for(original, status):
    failure = Failure(Problem.MODEL_ERROR, "m", original)
    assert openai_errors.error(failure, "r", mirror=True)[0] == status
    assert openai_errors.error(failure, "r")[0] == 424
    assert (b"x-should-retry", b"false") in openai_errors.error(failure, "r", mirror=True)[1]
