"""Bad input on raw sockets: the documented error at once, and the next connection is served."""

import json
import time

import pytest

from tests.relay import (
    CHAT_BODY,
    CHAT_PATH,
    ENDPOINT_CHAT_PATH,
    NATIVE_PATH,
    NATIVE_STREAM_PATH,
    RawClient,
    assert_serves,
    call,
    request,
    running,
    wait_until_at_rest,
)
from tests.stub_server import StubServer

pytestmark = pytest.mark.process

QUICKLY_S = 1.0
BODY_BYTES_MAX = 1 << 20
SETTINGS = f"""
[limits]
body_bytes = {BODY_BYTES_MAX}
[timeouts]
head_read_s = 0.5
body_idle_s = 0.5
keep_alive_idle_s = 30
"""
OPENAI_PATHS = (
    CHAT_PATH,
    ENDPOINT_CHAT_PATH,
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
)
NATIVE_PATHS = (NATIVE_PATH, NATIVE_STREAM_PATH)


@pytest.fixture(scope="module")
def stub():
    with StubServer("a") as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory, stub):
    with running(tmp_path_factory.mktemp("bad-input"), stub.url, toml=SETTINGS) as started:
        yield started
        wait_until_at_rest(started)


@pytest.fixture(autouse=True)
def _still_serves(server):
    """After every test a new connection is served; after all of them nothing is left of any."""
    yield
    assert_serves(server)


def error_of(answer):
    """Return (code, message) of an error in either dialect."""
    value = json.loads(answer.body)
    assert answer.headers["content-type"] == "application/json"
    if "error" in value:
        assert set(value["error"]) == {"message", "type", "code"}
        assert "x-amzn-errortype" not in answer.headers
        return value["error"]["code"], value["error"]["message"]
    assert set(value) == {"Message"}, value
    return answer.headers["x-amzn-errortype"], value["Message"]


def refused(server, data):
    """Send bytes; return status, code and message of the refusal, which came at once and ended it all."""
    begin = time.monotonic()
    with RawClient(server.url) as client:
        answer = client.send(data).answer()
        took_s = time.monotonic() - begin
        assert answer.headers["connection"] == "close"
        assert client.rest() == b""
    assert took_s < QUICKLY_S
    return answer.status, *error_of(answer)


# --- Heads that cannot be read --------------------------------------------------------------

POST = f"POST {CHAT_PATH} HTTP/1.1\r\nHost: test\r\n".encode()
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
ONE_CHUNK = b"%x\r\n%b\r\n0\r\n\r\n" % (len(CHAT_BODY), CHAT_BODY)
MALFORMED = {
    "no Host": request(host=""),
    "two Hosts": request(CHAT_PATH, CHAT_BODY, "Host: other"),
    "two equal Content-Lengths": request(CHAT_PATH, CHAT_BODY, f"Content-Length: {len(CHAT_BODY)}"),
    "two Content-Lengths": request(CHAT_PATH, CHAT_BODY, "Content-Length: 3"),
    "a list of Content-Lengths": POST + b"Content-Length: 5, 5\r\n\r\nabcde",
    "a Content-Length with a sign": POST + b"Content-Length: +5\r\n\r\nabcde",
    "a negative Content-Length": POST + b"Content-Length: -5\r\n\r\nabcde",
    "a Content-Length beyond 64 bits": POST + b"Content-Length: 99999999999999999999\r\n\r\n",
    "Content-Length and chunks": request(CHAT_PATH, CHAT_BODY, "Transfer-Encoding: chunked"),
    "chunks and Content-Length": POST
    + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
    + ONE_CHUNK,
    "chunks in HTTP/1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + ONE_CHUNK,
    "an unknown transfer coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n" + ONE_CHUNK,
    "two transfer codings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + ONE_CHUNK,
    "chunked twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + ONE_CHUNK,
    "two Transfer-Encodings": POST
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"
    + ONE_CHUNK,
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n" + ONE_CHUNK,
    "a vertical tab in a coding": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + ONE_CHUNK,
    "a folded header": POST + b"X-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}",
    "bare line feeds": request().replace(b"\r\n", b"\n"),
    "a bare carriage return in a value": POST + b"X-A: b\rX-B: c\r\nContent-Length: 2\r\n\r\n{}",
    "NUL in a value": POST + b"X-A: b\0c\r\nContent-Length: 2\r\n\r\n{}",
    "a space in a name": POST + b"X A: b\r\nContent-Length: 2\r\n\r\n{}",
    "an empty name": POST + b": b\r\nContent-Length: 2\r\n\r\n{}",
    "a line without a colon": POST + b"Smuggled\r\nContent-Length: 2\r\n\r\n{}",
    "a negative chunk": CHUNKED + b"-1\r\n\r\n",
    "a chunk beyond 64 bits": CHUNKED + b"ffffffffffffffffffff\r\n\r\n",
    "a chunk that is no number": CHUNKED + b"0x10\r\n\r\n",
    "chunks with bare line feeds": CHUNKED + ONE_CHUNK.replace(b"\r\n", b"\n"),
    "a chunk longer than it says": CHUNKED + b"2\r\n{}{}\r\n0\r\n\r\n",
    "a length in a trailer": CHUNKED + b"2\r\n{}\r\n0\r\nContent-Length: 2\r\n\r\n",
    "HTTP/1.2": request(version="1.2"),
}
NOT_HTTP = {
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(400),
    "an HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "HTTP/0.9": b"GET /nothing\r\n\r\n",
    "HTTP/9.9": b"GET /nothing HTTP/9.9\r\nHost: test\r\n\r\n",
    "an unknown method": b"BREW / HTTP/1.1\r\nHost: test\r\n\r\n",
    "an SSH hello": b"SSH-2.0-OpenSSH_9.6\r\n",
    "zeros": bytes(64),
    "text": b"hello?\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_ambiguous_or_broken_framing_is_refused(server, stub, name):
    before = stub.counters.executions
    status, code, _ = refused(server, MALFORMED[name])
    assert (status, code) == (400, "malformed_request")
    assert stub.counters.executions == before


@pytest.mark.parametrize("name", NOT_HTTP)
def test_what_is_not_http_1_is_refused(server, name):
    status, code, message = refused(server, NOT_HTTP[name])
    assert (status, code) == (400, "ValidationError")
    assert "HTTP" in message


@pytest.mark.parametrize(
    "head",
    [f"X-Long: {'a' * 65536}", "\r\n".join(f"X-{number}: a" for number in range(200))],
    ids=["64 KB", "200 fields"],
)
@pytest.mark.parametrize(
    ("path", "code"), [(CHAT_PATH, "headers_too_large"), (NATIVE_PATH, "ValidationError")]
)
def test_too_large_a_head_is_431(server, path, code, head):
    status, got, message = refused(server, request(path, CHAT_BODY, head))
    assert (status, got) == (431, code)
    assert "32768 bytes or 100 fields" in message


def test_too_long_a_request_line_is_431(server):
    assert refused(server, request(f"{CHAT_PATH}?{'a' * 65536}"))[:2] == (431, "headers_too_large")


def test_a_head_that_never_ends_is_refused_at_the_limit(server):
    with RawClient(server.url) as client:
        client.send(POST)
        for number in range(64):
            try:
                client.send(b"X-%d: %b\r\n" % (number, b"a" * 1000))
            except OSError:  # refused by now, and reset since the rest was not read
                break
        assert client.answer().status == 431


# --- Bodies ---------------------------------------------------------------------------------

NOT_JSON = {
    "nothing": b"",
    "text": b"hello",
    "half an object": CHAT_BODY[:-1],
    "two objects": CHAT_BODY + b"{}",
    "NaN": b'{"model": "llm", "temperature": NaN}',
    "a trailing comma": b'{"model": "llm",}',
    "single quotes": b"{'model': 'llm'}",
    "NUL": b"\0",
    "deep nesting": b'{"messages": ' + b"[" * 100_000,
    "a lone surrogate half": b'{"model": "llm", "messages": "\\ud800"',
}
NOT_AN_OBJECT = {"a list": b"[]", "a string": b'"llm"', "a number": b"1", "null": b"null", "true": b"true"}
NOT_UTF8 = {
    "Latin-1": '{"model": "llm", "messages": [{"role": "user", "content": "é"}]}'.encode("latin-1"),
    "UTF-16": '{"model": "llm"}'.encode("utf-16"),
    "half a character": b'{"model": "llm", "messages": [{"role": "user", "content": "\xe2\x82"}]}',
    "an overlong form": b'{"model": "llm", "messages": [{"role": "user", "content": "\xc0\xaf"}]}',
    "a surrogate": b'{"model": "llm", "messages": [{"role": "user", "content": "\xed\xa0\x80"}]}',
}


@pytest.mark.parametrize("path", OPENAI_PATHS)
@pytest.mark.parametrize("name", [*NOT_JSON, *NOT_AN_OBJECT, *NOT_UTF8])
def test_a_body_that_cannot_be_read_is_400_on_openai_routes(server, stub, path, name):
    body = (NOT_JSON | NOT_AN_OBJECT | NOT_UTF8)[name]
    before = stub.counters.executions
    answer = call(server, request(path, body))
    code, message = error_of(answer)
    assert (answer.status, code) == (400, "validation_error")
    assert {
        **dict.fromkeys(NOT_JSON, "The request body"),
        **dict.fromkeys(NOT_AN_OBJECT, "must be a JSON object"),
        **dict.fromkeys(NOT_UTF8, "not UTF-8" if name != "UTF-16" else "The request body"),
    }[name] in message
    assert stub.counters.executions == before


@pytest.mark.parametrize("body", [{}, {"model": ""}, {"model": 1}, {"model": None}, {"model": ["llm"]}])
def test_plain_routes_need_a_model_that_is_an_endpoint(server, body):
    answer = call(server, request(CHAT_PATH, json.dumps(body).encode()))
    code, message = error_of(answer)
    assert (answer.status, code) == (400, "validation_error")
    assert "'model' is missing or empty" in message
    assert "llm" in message


WRONG_TYPES = [
    {"messages": "hi"},
    {"messages": {"role": "user"}},
    {"messages": [1, None, []]},
    {"messages": [{"content": 7}]},
    {"messages": [{"content": [{"type": 5, "text": []}, 1]}]},
    {"stream": "yes"},
    {"stream": 1.5},
    {"prompt_cache_key": 7},
    {"prompt": {"a": 1}},
    {"input": 3},
    {"temperature": "hot"},
]


@pytest.mark.parametrize("path", OPENAI_PATHS)
@pytest.mark.parametrize("wrong", WRONG_TYPES, ids=json.dumps)
def test_members_of_the_wrong_type_are_the_models_to_judge(server, stub, path, wrong):
    stub.behaviour.status = 422
    stub.behaviour.error_body = '{"error": {"message": "wrong type"}}'
    try:
        answer = call(server, request(path, json.dumps({"model": "llm", **wrong}).encode()))
    finally:
        stub.behaviour.status = 200
    assert answer.status == 422
    assert b"wrong type" in answer.body


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe\0", b"not json", b"[" * 100_000, bytes(range(256)) * 64], ids=range(5)
)
@pytest.mark.parametrize("path", NATIVE_PATHS)
def test_a_native_body_is_bytes_and_reaches_the_instance_as_it_is(server, stub, path, body):
    answer = call(server, request(path, body))
    assert answer.status == 200
    assert stub.posts()[-1].body == body


# --- Bodies over the limit ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "code"),
    [(CHAT_PATH, "request_too_large"), (NATIVE_PATH, "RequestEntityTooLargeException")],
)
def test_the_limit_of_bodies_is_exact(server, path, code):
    head, tail = b'{"model": "llm", "prompt": "', b'"}'
    body = head + b"a" * (BODY_BYTES_MAX - len(head) - len(tail)) + tail
    assert call(server, request(path, body)).status == 200
    answer = call(server, request(path, body + b" "))
    assert (answer.status, error_of(answer)[0]) == (413, code)


def test_a_length_over_the_limit_is_refused_before_the_body_comes(server):
    data = POST + f"Content-Length: {BODY_BYTES_MAX + 1}\r\n\r\n".encode()
    status, code, message = refused(server, data)
    assert (status, code) == (413, "request_too_large")
    assert f"{BODY_BYTES_MAX + 1} bytes" in message
    assert f"at most {BODY_BYTES_MAX}" in message


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
def test_a_client_still_sending_too_large_a_body_reads_the_413(server, chunked):
    piece = b"a" * 65536
    rounds = 16 * BODY_BYTES_MAX // len(piece)
    with RawClient(server.url) as client:
        if chunked:
            client.send(CHUNKED)
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        else:
            client.send(POST + f"Content-Length: {rounds * len(piece)}\r\n\r\n".encode())
        for _ in range(rounds):
            client.send(piece)
        answer = client.answer()
    assert (answer.status, error_of(answer)[0]) == (413, "request_too_large")


def test_no_100_continue_for_a_body_over_the_limit(server):
    data = POST + f"Expect: 100-continue\r\nContent-Length: {BODY_BYTES_MAX + 1}\r\n\r\n".encode()
    assert refused(server, data)[0] == 413


# --- What is not there ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/endpoints/nobody/invocations", "ValidationError"),
        ("/endpoints/nobody/invocations-response-stream", "ValidationError"),
        ("/endpoints/nobody/openai/v1/chat/completions", "validation_error"),
        ("/v1/chat/completions", "validation_error"),
        ("/v1/completions", "validation_error"),
        ("/v1/embeddings", "validation_error"),
        ("/v1/responses", "validation_error"),
        ("/v1/messages", "validation_error"),
    ],
)
def test_an_unknown_endpoint_is_400_in_sagemakers_words(server, path, code):
    answer = call(server, request(path, b'{"model": "nobody"}'))
    got, message = error_of(answer)
    assert (answer.status, got) == (400, code)
    assert message == "Endpoint nobody of account 000000000000 not found."


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/nothing", "UnknownOperationException"),
        ("/endpoints/llm", "UnknownOperationException"),
        ("/endpoints/llm/invocations/", "UnknownOperationException"),
        ("/endpoints//invocations", "UnknownOperationException"),
        ("/endpoints/llm/async-invocations", "UnknownOperationException"),
        ("/v1/nothing", "unknown_url"),
        ("/endpoints/llm/openai/v1/completions", "unknown_url"),
        ("//v1/chat/completions", "UnknownOperationException"),
        ("/v1/../v1/chat/completions", "unknown_url"),
    ],
)
def test_an_unknown_path_is_404_and_tells_the_routes(server, path, code):
    answer = call(server, request(path))
    got, message = error_of(answer)
    assert (answer.status, got) == (404, code)
    assert f"There is no POST {path}." in message
    assert "/endpoints/NAME/invocations" in message


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
@pytest.mark.parametrize("path", [CHAT_PATH, NATIVE_PATH])
def test_another_method_is_405_and_names_the_right_one(server, method, path):
    answer = call(server, request(path, b"", method=method))
    code, message = error_of(answer)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert code == {CHAT_PATH: "method_not_allowed", NATIVE_PATH: "UnknownOperationException"}[path]
    assert message == f"{path} takes POST, not {method}."


def test_posting_to_a_route_for_get_is_405(server):
    answer = call(server, request("/v1/models", b""))
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (request("/", b"", method="GET"), 405, "UnknownOperationException"),
        (request("/", b"{}"), 404, "UnknownOperationException"),
        (request("/", b"{}", "X-Amz-Target: Nobody.Knows"), 404, "UnknownOperationException"),
        (request("/", b"{", "X-Amz-Target: SageMaker.ListEndpoints"), 400, "SerializationException"),
        (
            request("/", b"{}", f"Content-Length: {BODY_BYTES_MAX + 1}", length=False),
            413,
            "RequestEntityTooLargeException",
        ),
        (request("/", b"", "X: a", host=""), 400, "ValidationException"),
    ],
)
def test_the_sagemaker_api_is_refused_in_its_own_form(server, data, status, code):
    answer = call(server, data)
    value = json.loads(answer.body)
    assert (answer.status, value["__type"], answer.headers["x-amzn-errortype"]) == (status, code, code)
    assert answer.headers["content-type"] == "application/x-amz-json-1.1"
    assert value["message"]


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/nothing", CHAT_PATH, NATIVE_PATH])
def test_an_answer_to_head_has_no_body(server, path):
    with RawClient(server.url) as client:
        head = client.send(request(path, b"", method="HEAD")).answer(head=True)
        assert head.status == {"/healthz": 200, "/v1/models": 200, "/nothing": 404}.get(path, 405)
        assert int(head.headers["content-length"]) > 0
        assert client.send(request()).answer().status == 200


@pytest.mark.parametrize("target", ["example.com:443", "*", "ftp://x", "http://", "/\x7f", "/%00", "/é"])
@pytest.mark.parametrize("method", ["CONNECT", "OPTIONS", "GET"])
def test_strange_targets_are_answered_with_a_client_error(server, method, target):
    assert 400 <= call(server, request(target, b"", method=method)).status < 500
