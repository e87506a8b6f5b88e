import json

import pytest
from botocore.eventstream import EventStreamBuffer

from tests.unit.dataplane.conftest import target
from warmroute.core.errors import Failure, Problem
from warmroute.dataplane.dialects import Native, NativeStream, OpenAI, is_event_stream, is_json
from warmroute.dataplane.telling import Place
from warmroute.wire import invocation
from warmroute.wire.chat import BodyKind
from warmroute.wire.headers import collect

PLACE = Place("eu-west-1", "123456789012", "llm")
TIMED_OUT = Failure(Problem.MODEL_TIMEOUT, "too slow")
REQUEST = [
    (b"host", b"gateway"),
    (b"content-type", b"application/json"),
    (b"authorization", b"Bearer secret"),
    (b"x-custom", b"1"),
    (b"traceparent", b"00-1-2-01"),
]


def native(kind=Native, headers=()):
    read = invocation.read(collect([*REQUEST, *headers]), kind is NativeStream)
    return kind(request=read, request_id="r-1", place=PLACE)


def openai(kind=BodyKind.CHAT, fields=REQUEST, *, quotes_errors=False):
    return OpenAI(
        fields=fields,
        headers=collect(fields),
        request_id="r-1",
        kind=kind,
        quotes_errors=quotes_errors,
        place=PLACE,
    )


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        (b"text/event-stream", True),
        (b"Text/Event-Stream; charset=utf-8", True),
        (b" text/event-stream", True),
        (b"application/json", False),
        (b"x-text/event-stream", False),
    ],
)
def test_an_event_stream_is_known_by_its_content_type(value, is_one):
    assert is_event_stream([(b"x", b"y"), (b"Content-Type", value)]) is is_one


def test_an_answer_without_a_content_type_is_no_event_stream():
    assert not is_event_stream([])
    assert not is_event_stream([(b"accept", b"text/event-stream")])


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        (b"application/json", True),
        (b" Application/JSON ; charset=utf-8", True),
        (b"application/jsonlines", False),
        (b"application/json-seq", False),
        (b"text/event-stream", False),
        (b"", False),
    ],
)
def test_one_json_document_is_known_by_its_type(value, is_one):
    assert is_json([(b"x", b"y"), (b"Content-Type", value)]) is is_one
    assert not is_json([(b"accept", value)])


# --- native -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Native, NativeStream])
def test_natively_only_the_apis_own_fields_and_the_trace_go_up(kind):
    fields = dict(native(kind).upstream_fields(target("i-1")))
    assert fields[b"Content-Type"] == b"application/json"
    assert fields[b"traceparent"] == b"00-1-2-01"
    assert b"X-Amzn-SageMaker-Forwarded-Api" in fields
    assert not {b"authorization", b"x-custom", b"host"} & fields.keys()


def test_a_plain_native_answer_is_told_with_variant_and_request_id():
    fields = native().fields([(b"content-type", b"text/plain"), (b"server", b"uvicorn")], "v1")
    assert (b"Content-Type", b"text/plain") in fields
    assert (b"x-Amzn-Invoked-Production-Variant", b"v1") in fields
    assert (b"x-amzn-RequestId", b"r-1") in fields
    assert not any(name.lower() == b"server" for name, _ in fields)


def test_a_plain_native_answer_goes_through_as_it_comes():
    assert native().piece(b"\x00data") == b"\x00data"
    assert not native().streams_frames


def test_a_native_stream_is_framed_and_says_what_it_carries():
    dialect = native(NativeStream)
    fields = dialect.fields([(b"content-type", b"text/event-stream")], "v1")
    assert (b"Content-Type", b"application/vnd.amazon.eventstream") in fields
    assert (b"X-Amzn-SageMaker-Content-Type", b"text/event-stream") in fields
    buffer = EventStreamBuffer()
    buffer.add_data(dialect.piece(b"one"))
    (event,) = buffer
    assert event.payload == b"one"
    assert dialect.streams_frames


@pytest.mark.parametrize("kind", [Native, NativeStream])
@pytest.mark.parametrize("status", [302, 400, 404, 429, 500, 503])
def test_natively_no_error_of_a_model_goes_through_as_it_is(kind, status):
    dialect = native(kind)
    assert not dialect.relays_error(status)
    told, fields, body = dialect.error(dialect.model_failure(status, b"words", target("i-1")), "v")
    assert told == 424
    assert (b"x-amzn-errortype", b"ModelError") in fields
    assert json.loads(body)["OriginalStatusCode"] == status
    assert json.loads(body)["OriginalMessage"] == "words"


def test_a_plain_native_answer_that_breaks_can_say_nothing():
    assert native().broken(TIMED_OUT) == b""


def test_a_native_stream_that_breaks_says_so_in_an_exception():
    buffer = EventStreamBuffer()
    buffer.add_data(native(NativeStream).broken(TIMED_OUT))
    (event,) = buffer
    assert event.headers[":exception-type"] == "ModelStreamError"
    assert json.loads(event.payload) == {"ErrorCode": "ModelInvocationTimeExceeded", "Message": "too slow"}


# --- OpenAI -------------------------------------------------------------------------------------


def test_end_to_end_fields_go_up_but_no_credentials():
    fields = openai().upstream_fields(target("i-1"))
    assert fields == [
        (b"content-type", b"application/json"),
        (b"x-custom", b"1"),
        (b"traceparent", b"00-1-2-01"),
        (b"x-request-id", b"r-1"),
    ]


def test_the_callers_own_request_id_goes_up():
    fields = openai(fields=[*REQUEST, (b"x-request-id", b"own")]).upstream_fields(target("i-1"))
    assert [value for name, value in fields if name == b"x-request-id"] == [b"own"]


def test_two_attempts_go_up_alike():
    dialect = openai()
    assert dialect.upstream_fields(target("i-1")) == dialect.upstream_fields(target("i-2"))


def test_an_answer_keeps_its_request_id_or_gets_one():
    assert openai().fields([(b"X-Request-Id", b"theirs")], "v1") == [(b"x-request-id", b"theirs")]
    assert openai().fields([], "v1") == [(b"x-request-id", b"r-1")]


def test_an_openai_answer_goes_through_as_it_comes():
    assert openai().piece(b"data: a\n\n") == b"data: a\n\n"
    assert not openai().streams_frames


@pytest.mark.parametrize(
    ("status", "quotes_errors", "relays"),
    [
        (400, False, True),
        (429, False, True),
        (499, False, True),
        (302, False, False),
        (408, False, False),
        (409, False, False),
        (500, False, False),
        (400, True, False),
        (500, True, False),
    ],
)
def test_a_4xx_goes_through_on_the_plain_route_only_and_a_5xx_never(status, quotes_errors, relays):
    assert openai(quotes_errors=quotes_errors).relays_error(status) is relays


@pytest.mark.parametrize(("status", "told"), [(422, 422), (500, 424), (503, 424)])
def test_a_quoted_error_has_the_models_4xx_and_no_status_that_sdks_send_again(status, told):
    dialect = openai(quotes_errors=True)
    got, fields, body = dialect.error(dialect.model_failure(status, b"words", target("i-1")), "v")
    assert got == told
    assert (b"x-should-retry", b"false") in fields
    assert '"words"' in json.loads(body)["error"]["message"]


def test_only_a_stream_of_events_can_say_that_it_broke():
    dialect = openai()
    dialect.fields([(b"content-type", b"application/json")], "v1")
    assert dialect.broken(TIMED_OUT) == b""
    dialect.fields([(b"content-type", b"text/event-stream")], "v1")
    assert json.loads(dialect.broken(TIMED_OUT).partition(b"data: ")[2])["error"]["code"] == "model_timeout"


def test_anthropics_streams_break_in_their_own_words():
    dialect = openai(BodyKind.MESSAGES)
    dialect.fields([(b"content-type", b"text/event-stream")], "v1")
    event = dialect.broken(TIMED_OUT)
    assert b"event: error\n" in event
    assert json.loads(event.partition(b"data: ")[2])["type"] == "error"


@pytest.mark.parametrize("size", [1, 15, 16, 4095, 70_000])
def test_a_chunk_is_the_piece_in_a_chunks_framing(size):
    data = b"x" * size
    for dialect in (native(), native(NativeStream), openai()):
        piece = dialect.piece(data)
        assert dialect.chunk(data) == b"%x\r\n%b\r\n" % (len(piece), piece)


@pytest.mark.parametrize("kind", [Native, NativeStream])
def test_a_native_error_names_the_variant_and_an_openai_one_does_not(kind):
    named = (b"x-Amzn-Invoked-Production-Variant", b"v")
    assert named in native(kind).error(TIMED_OUT, "v")[1]
    assert named not in openai().error(TIMED_OUT, "v")[1]


def test_the_logs_of_a_component_are_its_own():
    read = invocation.read(collect(REQUEST), False)
    place = Place("eu-west-1", "123456789012", "llm", "base")
    _, _, body = Native(request=read, request_id="r-1", place=place).error(TIMED_OUT, "v")
    assert json.loads(body)["LogStreamArn"].endswith("log-group:/aws/sagemaker/InferenceComponents/base")
