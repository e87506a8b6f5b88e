from http import HTTPStatus

import httptools
import pytest

from warmroute.wire import http1
from warmroute.wire.http1 import Request

HOST = {b"host": b"localhost"}
FIELDS = [(b"content-type", b"text/plain"), (b"x-two", b"a: b")]


class Read:
    """What llhttp makes of our bytes."""

    def __init__(self):
        self.fields = []
        self.body = b""
        self.url = b""
        self.complete = False

    def on_url(self, url):
        self.url += url

    def on_header(self, name, value):
        self.fields.append((name, value))

    def on_body(self, data):
        self.body += data

    def on_message_complete(self):
        self.complete = True


def read(parser_type, data):
    found = Read()
    parser = parser_type(found)
    parser.feed_data(data)
    return found, parser


def test_a_request_starts_without_a_body_and_as_an_http_1_1_client_sends_it():
    request = Request("POST", "/v1/chat/completions", "a=b", HOST, [(b"host", b"localhost")])
    assert (request.method, request.path, request.query) == ("POST", "/v1/chat/completions", "a=b")
    assert (request.headers, request.fields) == (HOST, [(b"host", b"localhost")])
    assert (request.body, request.keep_alive, request.chunks_allowed) == (b"", True, True)


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        ("1.1", HOST),
        ("1.1", HOST | {b"transfer-encoding": b"chunked"}),
        ("1.1", HOST | {b"transfer-encoding": b" Chunked "}),
        ("1.0", HOST),
        ("1.0", {}),
    ],
)
def test_framing_that_can_be_read_in_one_way_only_is_no_problem(version, headers):
    assert http1.framing_problem(version, headers) is None


@pytest.mark.parametrize(
    ("version", "headers", "words"),
    [
        ("1.1", {}, "The Host header is missing."),
        ("1.1", {b"host": b"a,b"}, "There is more than one Host header."),
        ("1.0", {b"host": b"a,b"}, "There is more than one Host header."),
        ("2.0", HOST, "HTTP version 2.0 is not supported; use 1.1 or 1.0."),
        ("0.9", HOST, "HTTP version 0.9 is not supported; use 1.1 or 1.0."),
        (
            "1.1",
            HOST | {b"transfer-encoding": b"gzip,chunked"},
            "Transfer-Encoding is 'gzip,chunked'; only 'chunked' is supported.",
        ),
        (
            "1.1",
            HOST | {b"transfer-encoding": b"\xe9"},
            "Transfer-Encoding is 'é'; only 'chunked' is supported.",
        ),
        ("1.1", {b"transfer-encoding": b"chunked"}, "The Host header is missing."),
        (
            "1.0",
            HOST | {b"transfer-encoding": b"chunked"},
            "HTTP/1.0 has no Transfer-Encoding; use Content-Length, or HTTP/1.1.",
        ),
    ],
)
def test_framing_that_others_might_read_differently_is_told(version, headers, words):
    assert http1.framing_problem(version, headers) == words


@pytest.mark.parametrize("status", [200, 204, 403, 404, 413, 424, 503])
def test_a_response_head_has_the_standards_phrase(status):
    line = http1.response_head(status, []).split(b"\r\n")[0]
    assert line == f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (530, b"HTTP/1.1 530 Internal Dependency"),
        (529, b"HTTP/1.1 529 Status"),
        (299, b"HTTP/1.1 299 Status"),
    ],
)
def test_a_status_without_a_standard_phrase_has_one_all_the_same(status, line):
    assert http1.response_head(status, []).split(b"\r\n")[0] == line


def test_a_response_is_read_back_as_it_was_meant():
    head = http1.response_head(200, [*FIELDS, (b"content-length", b"2")])
    found, parser = read(httptools.HttpResponseParser, head + b"hi")
    assert parser.get_status_code() == 200
    assert found.fields == [*FIELDS, (b"content-length", b"2")]
    assert (found.body, found.complete) == (b"hi", True)


def test_a_chunked_response_is_read_back_whole():
    pieces = [b"a", b"x" * 255, b"0\r\n\r\n", bytes(range(256)) * 300]
    head = http1.response_head(200, [(b"transfer-encoding", b"chunked")])
    sent = head + b"".join(http1.chunk(piece) for piece in pieces) + http1.LAST_CHUNK
    found, _ = read(httptools.HttpResponseParser, sent)
    assert (found.body, found.complete) == (b"".join(pieces), True)


def test_a_chunk_has_its_length_in_hex():
    assert http1.chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"


def test_a_request_is_read_back_as_it_was_meant():
    head = http1.request_head("POST", "/a%20b", [(b"host", b"h"), (b"content-length", b"3")])
    found, parser = read(httptools.HttpRequestParser, head + b"abc")
    assert (parser.get_method(), found.url) == (b"POST", b"/a%20b")
    assert found.fields == [(b"host", b"h"), (b"content-length", b"3")]
    assert (found.body, found.complete) == (b"abc", True)


def test_a_head_that_is_begun_already_gets_its_fields_and_length():
    head = http1.fields_after(b"POST /x HTTP/1.1\r\nhost: h\r\n", FIELDS, 4)
    found, _ = read(httptools.HttpRequestParser, head + b"body")
    assert found.fields == [(b"host", b"h"), *FIELDS, (b"content-length", b"4")]
    assert (found.body, found.complete) == (b"body", True)


def test_a_head_that_is_begun_already_can_have_no_more_fields_and_no_body():
    start = b"POST /x HTTP/1.1\r\nhost: h\r\n"
    assert http1.fields_after(start, [], 0) == start + b"content-length: 0\r\n\r\n"


def test_continue_is_an_interim_answer_without_fields():
    found, parser = read(httptools.HttpResponseParser, http1.CONTINUE)
    assert parser.get_status_code() == 100
    assert (found.fields, found.complete) == ([], True)
