"""What crosses the gateway: which headers, both ways, and every byte of an answer as it was sent."""

import json
import threading
import time

import pytest
from botocore.eventstream import EventStreamBuffer

from tests.relay import (
    CHAT_BODY,
    CHAT_PATH,
    ENDPOINT_CHAT_PATH,
    NATIVE_PATH,
    NATIVE_STREAM_PATH,
    RawClient,
    ScriptedServer,
    answering,
    assert_serves,
    call,
    metrics,
    request,
    running,
    streaming,
    wait_until_at_rest,
)

pytestmark = pytest.mark.process

MIB = 1 << 20


@pytest.fixture(scope="module")
def instance():
    with ScriptedServer() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory, instance):
    with running(tmp_path_factory.mktemp("relay"), instance.url) as started:
        yield started
        wait_until_at_rest(started)


@pytest.fixture(autouse=True)
def _still_serves(server, instance):
    yield
    instance.script = answering(b'{"object": "chat.completion"}')
    assert_serves(server)


# --- Headers of requests --------------------------------------------------------------------

SECRETS = (
    "Authorization: AWS4-HMAC-SHA256 Credential=secret/20260101/us-east-1/sagemaker/aws4_request",
    "X-Api-Key: secret",
    "Api-Key: secret",
    "Cookie: session=secret",
    "X-Amz-Security-Token: secret",
    "X-Amz-Date: 20260101T000000Z",
    "X-Amz-Content-Sha256: secret",
    "Proxy-Authorization: Basic secret",
)
HOP_BY_HOP = (
    "Connection: keep-alive, X-Listed",
    "X-Listed: for this hop",
    "Keep-Alive: timeout=5",
    "Proxy-Connection: keep-alive",
    "TE: trailers",
    "Trailer: X-Checksum",
    "Upgrade: h2c",
    "HTTP2-Settings: AAMA",
    "Expect: something",
    "X-Warmroute-Explain: 1",
)
TRACE = (
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate: vendor=1",
    "baggage: key=value",
    "X-Request-Id: request-1",
    "X-Amzn-Trace-Id: Root=1-5759e988-bd862e3fe1be46a994272793",
)
TRACE_FIELDS = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in TRACE)]
END_TO_END = (
    "User-Agent: agent/1",
    "Accept: text/event-stream",
    "Accept-Encoding: gzip",
    "X-Two: a",
    "X-Two: b",
)
API = (
    "Accept: application/json",
    "X-Amzn-SageMaker-Custom-Attributes: c000b4f9-df62, trace=1",
    "X-Amzn-SageMaker-Inference-Id: inference-1",
    "X-Amzn-SageMaker-Prefix-Aware-Id: tenant-1",
    "X-Amzn-SageMaker-Target-Variant: AllTraffic",
    "X-Amzn-SageMaker-Target-Container-Hostname: container-1",
)
API_FIELDS = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in API)]


def framing(instance, path, body):
    host = instance.url.removeprefix("http://")
    return {("host", host), ("content-length", str(len(body)))}


@pytest.mark.parametrize("path", [CHAT_PATH, ENDPOINT_CHAT_PATH])
def test_openai_routes_forward_what_is_end_to_end_and_no_credential(server, instance, path):
    answer = call(
        server,
        request(f"{path}?X-Amz-Signature=secret", CHAT_BODY, *SECRETS, *HOP_BY_HOP, *TRACE, *END_TO_END),
    )
    assert answer.status == 200
    arrived = instance.arrived[-1]
    assert arrived.path == "/v1/chat/completions"
    assert b"secret" not in arrived.head + arrived.body
    expected = [
        ("content-type", "application/json"),
        *TRACE_FIELDS,
        ("user-agent", "agent/1"),
        ("accept", "text/event-stream"),
        ("accept-encoding", "gzip"),
        ("x-two", "a"),
        ("x-two", "b"),
    ]
    own = framing(instance, path, arrived.body)
    assert [field for field in arrived.fields if field not in own] == expected
    assert own < set(arrived.fields)


@pytest.mark.parametrize("path", [NATIVE_PATH, NATIVE_STREAM_PATH])
def test_native_routes_forward_the_apis_own_headers_and_no_other(server, instance, path):
    api = (*API, "X-Amzn-SageMaker-Target-Model: model-1", "X-Amzn-SageMaker-Enable-Explanations: `true`")
    extra = (*SECRETS, *HOP_BY_HOP, "User-Agent: agent/1", "X-Two: a", "X-Amzn-SageMaker-Unknown: a")
    streaming_accept = "X-Amzn-SageMaker-Accept: text/plain"
    assert call(server, request(path, CHAT_BODY, *api, streaming_accept, *extra, *TRACE)).status == 200
    arrived = instance.arrived[-1]
    assert b"secret" not in arrived.head
    expected = {("content-type", "application/json"), *TRACE_FIELDS, *framing(instance, path, CHAT_BODY)}
    expected |= {field for field in API_FIELDS if field[0] != "accept"}
    if path == NATIVE_PATH:
        expected |= {
            ("accept", "application/json"),
            ("x-amzn-sagemaker-target-model", "model-1"),
            ("x-amzn-sagemaker-enable-explanations", "`true`"),
            ("x-amzn-sagemaker-forwarded-api", "InvokeEndpoint"),
        }
    else:
        expected |= {
            ("accept", "text/plain"),
            ("x-amzn-sagemaker-forwarded-api", "InvokeEndpointWithResponseStream"),
        }
    assert set(arrived.fields) == expected
    assert len(arrived.fields) == len(expected)


@pytest.mark.parametrize("path", [CHAT_PATH, ENDPOINT_CHAT_PATH])
def test_a_request_without_an_id_gets_one_that_its_answer_tells(server, instance, path):
    answer = call(server, request(path))
    assert answer.headers["x-request-id"] == instance.arrived[-1].headers["x-request-id"]


def test_the_body_crosses_byte_for_byte(server, instance):
    body = b'{ "model" :\t"m", "stream":false,\r\n "messages": [{"content":"\\u00e9 \xc3\xa9"}] , "x":1e5 }\n'
    for path in (ENDPOINT_CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH):
        assert call(server, request(path, body)).status == 200
        assert instance.arrived[-1].body == body
    spliced = body.replace(b'"m"', b'"llm"')
    assert call(server, request(CHAT_PATH, spliced)).status == 200
    assert instance.arrived[-1].body == body.replace(b'"m"', b'"scripted"')


def test_a_large_body_crosses_byte_for_byte(server, instance):
    body = bytes(range(256)) * (80 * 1024)
    answer = call(server, request(NATIVE_PATH, body))
    assert answer.status == 200
    assert instance.arrived[-1].body == body


# --- Headers of answers ---------------------------------------------------------------------

ANSWER_HOP_BY_HOP = (
    "Connection: keep-alive, X-Listed",
    "X-Listed: for this hop",
    "Keep-Alive: timeout=5, max=100",
    "Proxy-Authenticate: Basic",
    "Trailer: X-Checksum",
)
ANSWER_FIELDS = (
    "Content-Type: text/plain; charset=utf-8",
    "X-Ratelimit-Remaining: 5",
    "X-Two: a",
    "X-Two: b",
    "Cache-Control: no-store",
    "Set-Cookie: route=secret",
    "Server: engine",
    "Date: Thu, 01 Jan 2026 00:00:00 GMT",
    "X-Amzn-SageMaker-Custom-Attributes: from the container",
    "X-Amzn-SageMaker-Session-Id: s-1; Expires=2030-01-01T00:00:00Z",
    "X-Amzn-SageMaker-Closed-Session-Id: s-0",
    "X-Request-Id: engine-1",
)


@pytest.mark.parametrize("path", [CHAT_PATH, ENDPOINT_CHAT_PATH])
def test_openai_answers_keep_their_end_to_end_headers(server, instance, path):
    instance.script = answering(b"hello", *ANSWER_FIELDS, *ANSWER_HOP_BY_HOP)
    answer = call(server, request(path))
    assert answer.fields == [
        ("content-type", "text/plain; charset=utf-8"),
        ("x-ratelimit-remaining", "5"),
        ("x-two", "a"),
        ("x-two", "b"),
        ("cache-control", "no-store"),
        ("x-amzn-sagemaker-custom-attributes", "from the container"),
        ("x-amzn-sagemaker-session-id", "s-1; Expires=2030-01-01T00:00:00Z"),
        ("x-amzn-sagemaker-closed-session-id", "s-0"),
        ("x-request-id", "engine-1"),
        ("content-length", "5"),
    ]


def test_native_answers_have_the_headers_of_the_api(server, instance):
    instance.script = answering(b"hello", *ANSWER_FIELDS, *ANSWER_HOP_BY_HOP)
    headers = call(server, request(NATIVE_PATH)).headers
    assert headers.pop("x-amzn-requestid")
    assert headers == {
        "content-type": "text/plain; charset=utf-8",
        "x-amzn-invoked-production-variant": "AllTraffic",
        "x-amzn-sagemaker-custom-attributes": "from the container",
        "x-amzn-sagemaker-new-session-id": "s-1; Expires=2030-01-01T00:00:00Z",
        "x-amzn-sagemaker-closed-session-id": "s-0",
        "x-request-id": "engine-1",
        "content-length": "5",
    }


def test_native_stream_answers_have_the_headers_of_the_api(server, instance):
    instance.script = answering(b"hello", *ANSWER_FIELDS, *ANSWER_HOP_BY_HOP)
    headers = call(server, request(NATIVE_STREAM_PATH)).headers
    assert headers.pop("x-amzn-requestid")
    assert headers == {
        "content-type": "application/vnd.amazon.eventstream",
        "x-amzn-sagemaker-content-type": "text/plain; charset=utf-8",
        "x-amzn-invoked-production-variant": "AllTraffic",
        "x-amzn-sagemaker-custom-attributes": "from the container",
        "x-request-id": "engine-1",
        "transfer-encoding": "chunked",
    }


@pytest.mark.parametrize(
    "line",
    ["X-Bad: a\nX-Injected: 1", "X-Bad: a\rX-Injected: 1", "X-Bad: a\r\n X-Injected: 1", "X-Bad: a\0b"],
)
@pytest.mark.parametrize("path", [CHAT_PATH, NATIVE_PATH])
def test_line_breaks_in_an_instances_headers_cannot_reach_the_client(server, instance, path, line):
    instance.script = answering(b"hello", line)
    answer = call(server, request(path))
    assert (answer.status, "x-injected" in answer.headers) == (424, False)


@pytest.mark.parametrize("status", [200, 201, 202, 203, 206, 299])
def test_every_kind_of_success_crosses_with_its_status(server, instance, status):
    instance.script = answering(b'{"object": "chat.completion"}', status=f"{status} Fine")
    for path in (CHAT_PATH, ENDPOINT_CHAT_PATH, NATIVE_PATH):
        assert call(server, request(path)).status == status


def test_an_answer_without_content_has_none(server, instance):
    instance.script = lambda arrived, connection: (
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n") or True
    )
    for path in (CHAT_PATH, NATIVE_PATH):
        with RawClient(server.url) as client:
            assert client.send(request(path)).answer().status == 204
            instance.script = answering(b'{"object": "chat.completion"}')
            assert client.send(request(path)).answer().status == 200
        instance.script = lambda arrived, connection: connection.sendall(b"HTTP/1.1 204 None\r\n\r\n") or True


@pytest.mark.parametrize("status", [300, 302, 304, 399])
def test_a_redirect_of_an_instance_is_an_error_of_the_model(server, instance, status):
    instance.script = answering(b"", "Location: http://127.0.0.1:1/", status=f"{status} Elsewhere")
    for path in (CHAT_PATH, ENDPOINT_CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH):
        answer = call(server, request(path))
        assert (answer.status, "location" in answer.headers) == (424, False), path


@pytest.mark.parametrize("status", [408, 409])
def test_an_error_that_sdks_would_send_again_says_that_they_should_not(server, instance, status):
    instance.script = answering(b"{}", status=f"{status} Perhaps")
    for path in (CHAT_PATH, ENDPOINT_CHAT_PATH):
        answer = call(server, request(path))
        assert (answer.status, answer.headers["x-should-retry"]) == (status, "false")


# --- Every byte of a stream -----------------------------------------------------------------


def sse(*contents, end="\n"):
    events = [json.dumps({"choices": [{"delta": {"content": content}}]}) for content in contents]
    return b"".join(f"data: {event}{end}{end}".encode() for event in (*events, "[DONE]"))


def pieces_of(data, *sizes):
    at, found = 0, []
    while at < len(data):
        size = sizes[len(found) % len(sizes)]
        found.append(data[at : at + size])
        at += size
    return found


UTF8 = 'data: {"content": "né 漢字 🙂"}\n\ndata: [DONE]\n\n'.encode()
STREAMS = {
    "one byte at a time": pieces_of(UTF8, 1),
    "split characters": pieces_of(UTF8, 3, 5),
    "an event of 1 MiB": pieces_of(sse("x" * MIB), 16384),
    "an event of 1 MiB in one piece": [sse("x" * MIB)],
    "[DONE] inside content": [sse("data: [DONE]\n\n", "[DONE]", "after")],
    "[DONE] in the middle": [b"data: [DONE]\n\n", sse("after")],
    "CRLF events": pieces_of(sse("a", "b", end="\r\n"), 1, 7),
    "comments and pings": [b": ping\n\n", b"event: ping\ndata: {}\n\n", sse("a")],
    "no event at all": [b"not an event stream", bytes(range(256))],
    "no end of line": [b"data: cut"],
    "nothing": [],
}
SSE_TYPE = "Content-Type: text/event-stream"
TRANSPORTS = {
    "chunked": lambda pieces: streaming(pieces, SSE_TYPE),
    "chunked, packet by packet": lambda pieces: streaming(
        pieces[:50] + [b"".join(pieces[50:])] * (len(pieces) > 50), SSE_TYPE, delay_s=0.002
    ),
    "length": lambda pieces: answering(b"".join(pieces), SSE_TYPE),
    "to the end of the connection": lambda pieces: answering(b"".join(pieces), SSE_TYPE, framing=False),
    "HTTP/1.0": lambda pieces: http_1_0(b"".join(pieces)),
}


def http_1_0(body):
    def script(arrived, connection):
        connection.sendall(f"HTTP/1.0 200 OK\r\n{SSE_TYPE}\r\n\r\n".encode() + body)
        return False

    return script


def payloads(data):
    """Return the payloads of an event stream, all of which carry parts of the answer."""
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    messages = list(buffer)
    assert {message.headers[":event-type"] for message in messages} <= {"PayloadPart"}
    assert sum(message.prelude.total_length for message in messages) == len(data)
    return [message.payload for message in messages]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("stream", STREAMS)
def test_the_bytes_of_a_stream_are_those_the_instance_sent(server, instance, stream, transport):
    sent = b"".join(STREAMS[stream])
    instance.script = TRANSPORTS[transport](STREAMS[stream])
    for path in (CHAT_PATH, ENDPOINT_CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH):
        answer = call(server, request(path))
        assert (answer.status, answer.complete) == (200, True)
        body = b"".join(payloads(answer.body)) if path == NATIVE_STREAM_PATH else answer.body
        assert body == sent, path


@pytest.mark.parametrize("path", [CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH])
def test_every_piece_arrives_before_the_next_is_sent(server, instance, path):
    read = threading.Semaphore(0)
    pieces = [b"data: %d\n\n" % number for number in range(20)]

    def script(arrived, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in pieces:
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            assert read.acquire(timeout=5.0)
        connection.sendall(b"0\r\n\r\n")
        return True

    instance.script = script
    with RawClient(server.url, timeout=5.0) as client:
        client.send(request(path)).answer_head()
        for piece in pieces:
            found = b""
            while piece not in found:
                found += client.some()
            read.release()


def test_a_streams_request_is_not_kept_while_it_runs(server, instance):
    go_on = threading.Event()

    def script(arrived, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
        go_on.wait(10.0)
        connection.sendall(b"0\r\n\r\n")
        return True

    instance.script = script
    with RawClient(server.url) as client:
        client.send(request(NATIVE_STREAM_PATH, b"x" * (4 * MIB))).answer_head()
        client.some()
        time.sleep(2.2)
        assert metrics(server)["warmroute_open_exchanges"] == 1
        assert metrics(server)["warmroute_buffered_body_bytes"] == 0
        go_on.set()
        client.some()
