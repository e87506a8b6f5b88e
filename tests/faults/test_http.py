"""HTTP/1.1 as clients may speak it: pipelines, chunks, Expect, HTTP/1.0, upgrades, half-sent requests."""

import json
import socket
import time

import pytest

from tests.relay import (
    CHAT_BODY,
    CHAT_PATH,
    NATIVE_PATH,
    RawClient,
    assert_serves,
    call,
    request,
    running,
    wait_until_at_rest,
)
from tests.stub_server import StubServer

pytestmark = pytest.mark.process

SETTINGS = """
[timeouts]
head_read_s = 0.5
body_idle_s = 0.5
keep_alive_idle_s = 2
[limits]
body_bytes = 1048576
"""
POST = f"POST {CHAT_PATH} HTTP/1.1\r\nHost: test\r\n".encode()
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BROKEN = b"BREW /v1/chat/completions HTTP/1.1\r\n\r\n"
TOO_LARGE = POST + b"Content-Length: 99999999\r\n\r\n"


@pytest.fixture(scope="module")
def stub():
    with StubServer("a") as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory, stub):
    with running(tmp_path_factory.mktemp("http"), stub.url, toml=SETTINGS) as started:
        yield started
        wait_until_at_rest(started)


@pytest.fixture(autouse=True)
def _still_serves(server):
    yield
    assert_serves(server)


def chat(number, *headers, **stub):
    """Return a request whose answer can be told from others by ``bytes``, and may take its time."""
    body = {"model": "llm", "input": "x" * number, "stub": stub}
    return request("/v1/embeddings", json.dumps(body).encode(), *headers)


def number_of(answer, **stub):
    """Return which request of `chat` an answer belongs to."""
    empty = len(chat(0, **stub).partition(b"\r\n\r\n")[2]) - len("llm") + len("stub-model")
    return json.loads(answer.body)["bytes"] - empty


# --- Keep-alive and pipelines ---------------------------------------------------------------


def test_a_connection_serves_one_request_after_another(server):
    with RawClient(server.url) as client:
        for number in range(20):
            answer = client.send(chat(number)).answer()
            assert (answer.status, number_of(answer)) == (200, number)


def test_pipelined_requests_are_answered_in_order(server):
    delays = [0.2, 0.0, 0.1, 0.0, 0.05]
    with RawClient(server.url) as client:
        client.send(b"".join(chat(number, delay_s=delay) for number, delay in enumerate(delays)))
        answers = [client.answer() for _ in delays]
    assert [number_of(answer, delay_s=delay) for answer, delay in zip(answers, delays, strict=True)] == [
        *range(5)
    ]


def test_pipelined_requests_beyond_what_is_read_ahead_are_answered_too(server):
    with RawClient(server.url) as client:
        client.send(b"".join(chat(2000 + number) for number in range(200)))
        assert [number_of(client.answer()) for _ in range(200)] == [*range(2000, 2200)]


def test_an_error_in_the_middle_of_a_pipeline_comes_in_its_turn(server):
    with RawClient(server.url) as client:
        client.send(chat(1) + request("/nothing") + chat(2) + request(CHAT_PATH, b"{") + chat(3))
        answers = [client.answer() for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 404, 200, 400, 200]
    assert [number_of(answer) for answer in answers[::2]] == [1, 2, 3]


@pytest.mark.parametrize("last", [BROKEN, TOO_LARGE], ids=["unreadable", "too large"])
@pytest.mark.parametrize("apart", [False, True], ids=["one packet", "apart"])
def test_what_ends_a_pipeline_is_told_after_the_answers_before_it(server, last, apart):
    with RawClient(server.url) as client:
        client.send(chat(1, delay_s=0.2) + chat(2))
        if apart:
            time.sleep(0.1)
        client.send(last)
        answers = [client.answer() for _ in range(3)]
        assert client.rest() == b""
    assert [answer.status for answer in answers] == [200, 200, 413 if last is TOO_LARGE else 400]
    assert [number_of(answers[0], delay_s=0.2), number_of(answers[1])] == [1, 2]


def test_close_ends_a_pipeline(server, stub):
    before = stub.counters.executions
    with RawClient(server.url) as client:
        client.send(chat(1) + chat(2, "Connection: close") + chat(3))
        assert [number_of(client.answer()) for _ in range(2)] == [1, 2]
        assert client.rest() == b""
    assert stub.counters.executions == before + 2


def test_an_idle_connection_is_closed_after_its_time(server):
    with RawClient(server.url) as client:
        assert client.send(chat(1)).answer().status == 200
        begin = time.monotonic()
        assert client.rest() == b""
        assert 1.5 < time.monotonic() - begin < 5.0


def test_empty_lines_before_a_request_are_skipped(server):
    assert call(server, b"\r\n\r\n" + chat(1)).status == 200


# --- HTTP/1.0 -------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [(), ("Connection: keep-alive",), ("Connection: close",)])
def test_http_1_0_gets_a_length_or_the_end_of_the_connection_and_no_chunks(server, header):
    for streaming in (False, True):
        body = json.dumps({"model": "llm", "messages": [], "stream": streaming}).encode()
        with RawClient(server.url) as client:
            answer = client.send(request(CHAT_PATH, body, *header, version="1.0")).answer()
            assert client.rest() == b""
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert "transfer-encoding" not in answer.headers
        assert answer.body.endswith(b"data: [DONE]\n\n" if streaming else b"}")


def test_http_1_0_needs_no_host(server):
    assert call(server, request(version="1.0", host="")).status == 200


# --- Chunked uploads ------------------------------------------------------------------------


def test_chunks_with_extensions_and_trailers_are_one_body(server, stub):
    pieces = [CHAT_BODY[:1], CHAT_BODY[1:20], CHAT_BODY[20:]]
    chunks = b"".join(b'%x;name="a;b";other\r\n%b\r\n' % (len(piece), piece) for piece in pieces)
    trailers = b"X-Trailer: 1\r\nAuthorization: Bearer smuggled\r\n"
    with RawClient(server.url) as client:
        client.send(CHUNKED + chunks + b"0;last\r\n" + trailers + b"\r\n")
        assert client.answer().status == 200
        assert client.send(chat(1)).answer().status == 200
    arrived = stub.posts()[-2]
    assert json.loads(arrived.body) == {**json.loads(CHAT_BODY), "model": "stub-model"}
    assert arrived.headers["content-length"] == str(len(arrived.body))
    assert {"x-trailer", "authorization", "transfer-encoding"}.isdisjoint(arrived.headers)


def test_a_body_of_no_chunks_is_empty(server, stub):
    native = CHUNKED.replace(CHAT_PATH.encode(), NATIVE_PATH.encode())
    assert call(server, native + b"0\r\n\r\n").status == 200
    assert stub.posts()[-1].body == b""
    assert call(server, CHUNKED + b"0\r\n\r\n").status == 400


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_request_in_pieces_is_the_same_request(server, stub, size):
    data = request(CHAT_PATH, CHAT_BODY, "X-Kept: yes") if size > 1 else CHUNKED + b"41\r\n" + CHAT_BODY
    if size == 1:
        assert len(CHAT_BODY) == 0x41
        data += b"\r\n0\r\n\r\n"
    with RawClient(server.url) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), size):
            client.send(data[at : at + size])
        assert client.answer().status == 200
    assert json.loads(stub.posts()[-1].body)["messages"] == json.loads(CHAT_BODY)["messages"]


# --- Expect and Upgrade ---------------------------------------------------------------------


def test_expect_100_continue_is_answered_before_the_body_comes(server):
    data = request(CHAT_PATH, CHAT_BODY, "Expect: 100-continue")
    head, _, body = data.partition(b"\r\n\r\n")
    with RawClient(server.url) as client:
        assert client.send(head + b"\r\n\r\n").answer_head() == (100, [])
        assert client.send(body).answer().status == 200


def test_expect_behind_another_request_is_answered_after_it(server):
    head, _, body = request(CHAT_PATH, CHAT_BODY, "Expect: 100-continue").partition(b"\r\n\r\n")
    with RawClient(server.url) as client:
        client.send(chat(1, delay_s=0.2) + head + b"\r\n\r\n")
        assert number_of(client.answer(), delay_s=0.2) == 1
        assert client.answer_head() == (100, [])
        assert client.send(body).answer().status == 200


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
@pytest.mark.parametrize("apart", [False, True], ids=["one packet", "apart"])
def test_a_request_that_offers_an_upgrade_is_served_without_it(server, stub, protocol, apart):
    """Java's HttpClient offers h2c with every request, its body included."""
    headers = (f"Upgrade: {protocol}", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQ")
    head, _, body = request(CHAT_PATH, CHAT_BODY, *headers).partition(b"\r\n\r\n")
    with RawClient(server.url) as client:
        client.send(head + b"\r\n\r\n")
        if apart:
            time.sleep(0.1)
        assert client.send(body).answer().status == 200
    arrived = stub.posts()[-1]
    assert json.loads(arrived.body)["messages"] == json.loads(CHAT_BODY)["messages"]
    assert {"upgrade", "connection", "http2-settings"}.isdisjoint(arrived.headers)


def test_chunks_that_come_with_an_offer_to_upgrade_are_read(server):
    data = POST + b"Upgrade: h2c\r\nConnection: upgrade\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert call(server, data + b"%x\r\n%b\r\n0\r\n\r\n" % (len(CHAT_BODY), CHAT_BODY)).status == 200


def test_an_offer_to_upgrade_does_not_get_past_the_checks_of_framing(server):
    data = POST + b"Upgrade: h2c\r\nConnection: upgrade\r\nTransfer-Encoding: xchunked\r\n\r\n"
    assert call(server, data + b"2\r\n{}\r\n0\r\n\r\n").status == 400
    data = request(CHAT_PATH, CHAT_BODY, "Upgrade: h2c", "Connection: upgrade", "Content-Length: 3")
    assert call(server, data).status == 400


def test_absolute_form_is_served(server):
    assert call(server, request(f"http://test:1{CHAT_PATH}?a=b")).status == 200


# --- Half-sent requests ---------------------------------------------------------------------

HALVES = {
    "request line": f"POST {CHAT_PATH}".encode(),
    "headers": POST + b"X-Half: a",
    "body": request()[:-5],
    "chunked body": CHUNKED + b"40\r\n{",
}


@pytest.mark.parametrize("name", HALVES)
def test_a_request_that_does_not_go_on_is_408_after_its_time(server, stub, name):
    before = stub.counters.executions
    begin = time.monotonic()
    with RawClient(server.url) as client:
        answer = client.send(HALVES[name]).answer()
        assert client.rest() == b""
    assert answer.status == 408
    assert json.loads(answer.body)["error"]["code"] == "request_timeout"
    assert 0.4 < time.monotonic() - begin < 2.0
    assert stub.counters.executions == before


def test_headers_that_trickle_in_are_408_all_the_same(server):
    begin = time.monotonic()
    with RawClient(server.url) as client:
        for byte in POST + b"X-Slow: " + b"a" * 100:
            client.send(bytes([byte]))
            time.sleep(0.02)
            if time.monotonic() - begin > 0.7:
                break
        assert client.answer().status == 408


def test_a_body_that_trickles_in_is_read(server):
    data = request()
    with RawClient(server.url) as client:
        client.send(data[:-4])
        for byte in data[-4:]:
            time.sleep(0.3)
            client.send(bytes([byte]))
        assert client.answer().status == 200


@pytest.mark.parametrize("name", HALVES)
def test_a_half_sent_request_whose_client_stops_sending_ends_quietly(server, stub, name):
    before = stub.counters.executions
    with RawClient(server.url, timeout=1.0) as client:
        client.send(HALVES[name])
        client.half_close()
        assert client.rest() == b""
    assert stub.counters.executions == before


# --- Smuggling and injection ----------------------------------------------------------------


def test_a_request_inside_a_body_is_a_body(server, stub):
    inner = request(CHAT_PATH, CHAT_BODY)
    before = stub.counters.executions
    with RawClient(server.url) as client:
        assert client.send(request(NATIVE_PATH, inner)).answer().status == 200
        assert client.send(chat(1)).answer().status == 200
    assert stub.counters.executions == before + 2
    assert stub.posts()[-2].body == inner


@pytest.mark.parametrize("name", ["X-Amzn-SageMaker-Custom-Attributes", "X-Request-Id", "traceparent"])
@pytest.mark.parametrize("path", [CHAT_PATH, NATIVE_PATH])
def test_line_breaks_in_a_header_cannot_reach_the_instance(server, stub, path, name):
    for value in ("a\nX-Injected: 1", "a\rX-Injected: 1", "a\r\n X-Injected: 1", "a\0X-Injected: 1"):
        assert call(server, request(path, CHAT_BODY, f"{name}: {value}")).status == 400
    encoded = call(server, request(path, CHAT_BODY, f"{name}: a%0d%0aX-Injected: 1"))
    assert encoded.status == 200
    assert "x-injected" not in stub.posts()[-1].headers


def test_line_breaks_in_names_cannot_reach_an_answer(server):
    for path in ("/endpoints/a%0d%0aX-Injected:%201/invocations", "/nothing%0d%0aX-Injected:%201"):
        answer = call(server, request(path))
        assert answer.status in {400, 404}
        assert "x-injected" not in answer.headers
    body = json.dumps({"model": "a\r\nX-Injected: 1", "messages": []}).encode()
    answer = call(server, request(CHAT_PATH, body, "x-warmroute-explain: 1"))
    assert (answer.status, "x-injected" in answer.headers) == (400, False)


def test_headers_the_gateway_speaks_with_control_cannot_be_given_by_a_caller(server):
    headers = ("X-Amz-Target: SageMaker.ListEndpoints", "X-Warmroute-Principal: root\tadmin")
    answer = call(server, request("/", b"{}", *headers))
    assert answer.status == 200
    assert "root\tadmin" not in server.log_text()
