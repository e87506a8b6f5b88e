import json
from types import SimpleNamespace

import msgspec
import pytest
from botocore.eventstream import EventStream
from botocore.exceptions import EventStreamError
from botocore.parsers import create_parser
from botocore.session import Session
from hypothesis import given
from hypothesis import strategies as st

from warmroute.core.errors import ERRORS, Failure, Problem
from warmroute.wire import eventstream, invocation, texts
from warmroute.wire.invocation import NativeRequest

WHERE = {"region": "eu-west-1", "account": "000000000000", "endpoint": "ep"}
MODEL = Session().get_service_model("sagemaker-runtime")
PREFIX = b"x-amzn-sagemaker-"

# member: (header, on streams, longest, a character that is allowed, values that are not)
MEMBERS = {
    "contentType": (b"content-type", True, 1024, "a", ["é"]),
    "customAttributes": (PREFIX + b"custom-attributes", True, 1024, " ", ["é"]),
    "targetVariant": (PREFIX + b"target-variant", True, 63, "a", ["", "-a", "a-", "a_b", "é"]),
    "targetContainerHostname": (PREFIX + b"target-container-hostname", True, 63, "1", ["", "a.b"]),
    "inferenceId": (PREFIX + b"inference-id", True, 64, "~", [" a", "a\tb", "é", "aé"]),
    "inferenceComponentName": (PREFIX + b"inference-component", True, 63, "Z", ["", "a/b", "-"]),
    "prefixAwareId": (PREFIX + b"prefix-aware-id", True, 64, "x", [" a", "a\x7f", "é"]),
    "accept": (b"accept", False, 1024, "*", ["é"]),
    "targetModel": (PREFIX + b"target-model", False, 1024, "/", [" "]),
    "enableExplanations": (PREFIX + b"enable-explanations", False, 64, "é", ["\n"]),
    "sessionId": (PREFIX + b"session-id", False, 256, "a", ["", "NEW_SESSIONS", "a-", "a b"]),
}
SHORTEST_1 = {"inferenceId", "prefixAwareId", "targetModel", "enableExplanations"}


def wrong(header: bytes, value: str, streaming=False) -> str:
    failure = invocation.read({header: value.encode("latin-1")}, streaming)
    assert isinstance(failure, Failure)
    assert failure.problem is Problem.BAD_REQUEST
    return failure.message


def members(headers, streaming):
    """Read headers and leave out what goes upstream, which has tests of its own."""
    request = invocation.read(headers, streaming)
    assert isinstance(request, NativeRequest)
    return msgspec.structs.replace(request, upstream=[])


# --- Reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [True, False])
def test_without_headers_every_member_is_absent(streaming):
    assert members({b"host": b"x", b"content-length": b"3"}, streaming) == NativeRequest(streaming)


def test_every_member_is_read_from_its_header():
    headers = {
        header: b"NEW_SESSION" if name == "sessionId" else b"v1" for name, (header, *_) in MEMBERS.items()
    }
    assert members(headers, False) == NativeRequest(
        False, "v1", "v1", "v1", "v1", "v1", "v1", "v1", "v1", "v1", "NEW_SESSION", "v1"
    )


def test_a_streams_accept_has_a_header_of_its_own_and_unmodelled_headers_are_ignored():
    headers = {
        b"accept": b"*/*",
        PREFIX + b"accept": b"text/event-stream",
        PREFIX + b"target-model": b"m",
        PREFIX + b"enable-explanations": b"e",
    }
    assert members(headers, True) == NativeRequest(True, accept="text/event-stream")


@pytest.mark.parametrize("member", MEMBERS)
def test_a_value_at_its_limit_passes_and_one_past_it_does_not(member):
    header, _, longest, character, _ = MEMBERS[member]
    value = character * longest
    assert isinstance(invocation.read({header: value.encode("latin-1")}, False), NativeRequest)
    message = wrong(header, value + character)
    shown = "" if member == "customAttributes" else f"'{value}{character}' "
    assert message == (
        f"1 validation error detected: Value {shown}at '{member}' failed to satisfy constraint: "
        f"Member must have length less than or equal to {longest}"
    )


@pytest.mark.parametrize("member", SHORTEST_1)
def test_an_empty_value_is_too_short_where_the_model_says_so(member):
    message = wrong(MEMBERS[member][0], "")
    assert (
        f"Value '' at '{member}' failed to satisfy constraint: "
        "Member must have length greater than or equal to 1" in message
    )


@pytest.mark.parametrize(
    ("member", "value"), [(name, value) for name, row in MEMBERS.items() for value in row[4]]
)
def test_a_value_outside_the_pattern_is_refused_with_the_pattern(member, value):
    message = wrong(MEMBERS[member][0], value)
    assert (
        f"at '{member}' failed to satisfy constraint: Member must satisfy regular expression pattern: "
        in message
    )


@pytest.mark.parametrize("shape", ["InvokeEndpointInput", "InvokeEndpointWithResponseStreamInput"])
def test_headers_and_limits_are_those_of_the_service_model(shape):
    members = MODEL.shape_for(shape).members
    rows = {
        row.member: row
        for row in (invocation._INVOKE if shape == "InvokeEndpointInput" else invocation._STREAM)
    }
    assert len(rows) == len(members) - 2  # EndpointName is in the path, Body is the body
    for name, modelled in members.items():
        if name not in {"EndpointName", "Body"}:
            row = rows[name[0].lower() + name[1:]]
            assert row.header == modelled.serialization["name"].lower().encode()
            assert row.length_max == modelled.metadata["max"]
            assert row.length_min == modelled.metadata.get("min", 0)


def test_every_wrong_member_is_named():
    headers = {PREFIX + b"target-variant": b"a b", PREFIX + b"prefix-aware-id": b""}
    failure = invocation.read(headers, False)
    assert isinstance(failure, Failure)
    assert failure.message.startswith("3 validation errors detected: Value 'a b' at 'targetVariant' failed")
    assert failure.message.count("; Value '' at 'prefixAwareId' failed") == 2


def test_a_stream_cannot_open_a_session():
    assert "at 'sessionId'" in wrong(PREFIX + b"session-id", "NEW_SESSION", streaming=True)
    request = invocation.read({PREFIX + b"session-id": b"abc-1"}, True)
    assert isinstance(request, NativeRequest)
    assert request.session_id == "abc-1"


@given(
    st.dictionaries(
        st.sampled_from([row[0] for row in MEMBERS.values()] + [b"traceparent"]), st.binary(max_size=300)
    ),
    st.booleans(),
)
def test_any_header_bytes_give_a_request_or_the_one_failure(headers, streaming):
    request = invocation.read(headers, streaming)
    if isinstance(request, Failure):
        assert request.problem is Problem.BAD_REQUEST
        status, _, body = invocation.error(request, "id", **WHERE)
        assert status == 400
        assert json.loads(body)["Message"] == request.message
    else:
        assert all(isinstance(value, bytes) for _, value in request.upstream)


# --- Towards the instance ------------------------------------------------------------------------


def test_only_the_apis_own_headers_and_trace_ids_go_upstream():
    headers = {
        b"host": b"router",
        b"authorization": b"AWS4-HMAC-SHA256 secret",
        b"x-amz-security-token": b"secret",
        b"x-amz-date": b"20261130T000000Z",
        b"cookie": b"secret",
        b"x-api-key": b"secret",
        b"content-type": b"application/json",
        b"accept": b"*/*",
        PREFIX + b"custom-attributes": b"a=b",
        PREFIX + b"session-id": b"s1",
        b"traceparent": b"00-1-2-01",
        b"x-request-id": b"r1",
    }
    request = invocation.read(headers, False)
    assert isinstance(request, NativeRequest)
    assert request.upstream == [
        (b"Content-Type", b"application/json"),
        (b"Accept", b"*/*"),
        (b"X-Amzn-SageMaker-Custom-Attributes", b"a=b"),
        (b"X-Amzn-SageMaker-Session-Id", b"s1"),
        (b"traceparent", b"00-1-2-01"),
        (b"x-request-id", b"r1"),
        (b"X-Amzn-SageMaker-Forwarded-Api", b"InvokeEndpoint"),
    ]


def test_a_streams_accept_becomes_accept():
    headers = {b"content-type": b"application/json", PREFIX + b"accept": b"text/event-stream"}
    request = invocation.read(headers, True)
    assert isinstance(request, NativeRequest)
    assert request.upstream == [
        (b"Content-Type", b"application/json"),
        (b"Accept", b"text/event-stream"),
        (b"X-Amzn-SageMaker-Forwarded-Api", b"InvokeEndpointWithResponseStream"),
    ]


# --- Towards the client --------------------------------------------------------------------------

ANSWER = [
    (b"Content-Type", b"application/json"),
    (b"server", b"uvicorn"),
    (b"Transfer-Encoding", b"chunked"),
    (b"set-cookie", b"a=b"),
    (b"x-amzn-sagemaker-custom-attributes", b"c"),
    (b"X-Request-ID", b"r1"),
]


def test_an_answer_carries_the_apis_own_headers_and_the_variant():
    assert invocation.response_headers(ANSWER, "AllTraffic", False) == [
        (b"x-Amzn-Invoked-Production-Variant", b"AllTraffic"),
        (b"Content-Type", b"application/json"),
        (b"X-Amzn-SageMaker-Custom-Attributes", b"c"),
        (b"X-Request-Id", b"r1"),
    ]


def test_a_streams_content_type_moves_to_a_header_of_its_own():
    assert invocation.response_headers(ANSWER, "AllTraffic", True) == [
        (b"x-Amzn-Invoked-Production-Variant", b"AllTraffic"),
        (b"Content-Type", b"application/vnd.amazon.eventstream"),
        (b"X-Amzn-SageMaker-Content-Type", b"application/json"),
        (b"X-Amzn-SageMaker-Custom-Attributes", b"c"),
        (b"X-Request-Id", b"r1"),
    ]


@pytest.mark.parametrize("name", [b"X-Amzn-SageMaker-Session-Id", b"x-amzn-sagemaker-new-session-id"])
def test_both_spellings_of_a_new_session_reach_the_caller_as_one(name):
    value = b"id-1; Expires=2026-11-29T13:41:17Z"
    fields = invocation.response_headers([(name, value)], "v", False)
    assert fields[1:] == [(b"X-Amzn-SageMaker-New-Session-Id", value)]
    assert invocation.response_headers([(name, value)], "v", True)[2:] == []


def test_a_session_id_that_is_only_repeated_opens_no_session():
    assert invocation.response_headers([(b"x-amzn-sagemaker-session-id", b"id-1")], "v", False)[1:] == []


def test_a_closed_session_and_a_content_coding_cross():
    fields = [(b"x-amzn-sagemaker-closed-session-id", b"id-1"), (b"content-encoding", b"gzip")]
    assert invocation.response_headers(fields, "v", False)[1:] == [
        (b"X-Amzn-SageMaker-Closed-Session-Id", b"id-1"),
        (b"Content-Encoding", b"gzip"),
    ]


# --- Errors, as botocore reads them --------------------------------------------------------------


def as_botocore_reads(status, fields, body):
    response = {
        "status_code": status,
        "headers": {name.decode().lower(): value.decode() for name, value in fields},
        "body": body,
    }
    operation = MODEL.operation_model("InvokeEndpoint")
    parser = create_parser("rest-json")
    parsed = parser.parse(response, operation.output_shape)
    shape = MODEL.shape_for_error_code(parsed["Error"]["Code"])
    return parsed if shape is None else parsed | parser.parse(response, shape)


@pytest.mark.parametrize("problem", Problem)
def test_botocore_reads_every_problem_by_its_code(problem):
    failure = Failure(problem, "what is wrong")
    status, fields, body = invocation.error(failure, "req-1", **WHERE)
    parsed = as_botocore_reads(status, fields, body)
    assert status == ERRORS[problem].status
    assert parsed["Error"] == {"Code": ERRORS[problem].native_code, "Message": "what is wrong"}
    assert parsed["ResponseMetadata"]["RequestId"] == "req-1"
    assert dict(fields)[b"Content-Type"] == b"application/json"
    retry = ERRORS[problem].retry_after_s
    assert dict(fields).get(b"Retry-After") == (None if retry is None else str(retry).encode())


def test_a_model_error_has_the_modelled_members():
    failure = texts.model_error(422, '{"detail":"é"}', **WHERE)
    status, fields, body = invocation.error(failure, "r", **WHERE)
    assert status == 424
    assert json.loads(body) == {
        "ErrorCode": "CLIENT_ERROR_FROM_MODEL",
        "LogStreamArn": "arn:aws:logs:eu-west-1:000000000000:log-group:/aws/sagemaker/Endpoints/ep",
        "Message": failure.message,
        "OriginalMessage": '{"detail":"é"}',
        "OriginalStatusCode": 422,
    }
    parsed = as_botocore_reads(status, fields, body)
    assert (parsed["OriginalStatusCode"], parsed["OriginalMessage"]) == (422, '{"detail":"é"}')


@pytest.mark.parametrize("failure", [texts.model_error(500, "x", **WHERE), texts.model_timeout(**WHERE)])
def test_a_fault_of_the_model_itself_is_no_client_error(failure):
    body = json.loads(invocation.error(failure, "r", **WHERE)[2])
    assert body["ErrorCode"] == "INTERNAL_FAILURE_FROM_MODEL"
    assert body["OriginalStatusCode"] == failure.original_status


def test_a_request_id_cannot_break_out_of_its_header():
    fields = dict(invocation.error(Failure(Problem.INTERNAL, "m"), "a\r\nb: c", **WHERE)[1])
    assert fields[b"x-amzn-RequestId"] == b"a??b: c"


@pytest.mark.parametrize(
    ("failure", "kind", "code"),
    [
        (texts.model_timeout(**WHERE), "ModelStreamError", "ModelInvocationTimeExceeded"),
        (texts.model_died(**WHERE), "ModelStreamError", "StreamBroken"),
        (texts.model_error(500, "x", **WHERE), "ModelStreamError", "StreamBroken"),
        (Failure(Problem.SHUTTING_DOWN, "bye"), "InternalStreamFailure", None),
        (Failure(Problem.INTERNAL, "oops"), "InternalStreamFailure", None),
    ],
)
def test_a_failure_in_the_stream_is_an_exception_botocore_raises(failure, kind, code):
    exception_type, body = invocation.stream_exception(failure)
    raw_stream = SimpleNamespace(stream=lambda: [eventstream.exception(exception_type, body)])
    shape = MODEL.operation_model("InvokeEndpointWithResponseStream").get_event_stream_output()
    stream = EventStream(raw_stream, shape, create_parser("rest-json")._event_stream_parser, "Invoke")
    with pytest.raises(EventStreamError) as caught:
        list(stream)
    assert caught.value.response["Error"] == {"Code": kind, "Message": failure.message}
    assert json.loads(body).get("ErrorCode") == code


# --- Engines without /invocations ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"messages":[],"prompt":""}', "/v1/chat/completions"),
        (b'{"input":"","prompt":""}', "/v1/completions"),
        (b'{"input":[]}', "/v1/embeddings"),
        (b'{"messages":null}', "/v1/chat/completions"),
        (b'{"requestType":"NEW_SESSION"}', None),
        (b'{"a":{"messages":[]}}', None),
        (b"[]", None),
        (b"", None),
        (b"\x93NUMPY", None),
        (b"[" * 100_000, None),
    ],
)
def test_the_shape_of_a_body_picks_the_openai_route(body, path):
    assert invocation.openai_path(body) == path


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"stream": true}', True),
        (b'{"stream":false}', False),
        (b'{"stream":1}', False),
        (b'{"a":{"stream":true}}', False),
        (b"{}", False),
        (b"true", False),
    ],
)
def test_a_body_asks_for_a_stream_only_with_true_at_the_top(body, expected):
    assert invocation.is_stream(body) is expected


@given(st.binary(max_size=80))
def test_any_body_has_a_route_or_none(body):
    assert invocation.openai_path(body) in {None, "/v1/chat/completions", "/v1/completions", "/v1/embeddings"}
    assert invocation.is_stream(body) in {True, False}
