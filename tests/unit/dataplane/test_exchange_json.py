"""An exchange whose answer is one JSON document of unknown length: told whole, or as an error."""

import pytest

from warmroute.core.events import FailureCause
from warmroute.core.limits import WHOLE_ANSWER_BYTES_MAX

NATIVE = "/endpoints/llm/invocations"
PLAIN = "/v1/chat/completions"
STREAM = "/endpoints/llm/invocations-response-stream"
CHAT = b'{"model": "llm", "messages": []}'
JSON = [(b"content-type", b"application/json")]


@pytest.mark.parametrize("path", [NATIVE, PLAIN])
def test_a_short_document_in_chunks_is_told_whole_with_its_length(two, path):
    client, _ = two.send(path, CHAT)
    sink = two.upstreams.last.sink
    sink.head(200, JSON, None)
    for piece in (b'{"a"', b": ", b"1}"):
        sink.body(piece)
        assert not client.sent
    sink.ended()
    assert (client.status, client.header(b"content-length"), client.body) == (200, b"8", b'{"a": 1}')


@pytest.mark.parametrize("path", [NATIVE, PLAIN])
def test_a_document_in_chunks_that_breaks_is_an_error_no_sdk_sends_again(two, path):
    client, _ = two.send(path, CHAT)
    sink = two.upstreams.last.sink
    sink.head(200, JSON, None)
    sink.body(b'{"a"')
    sink.failed(FailureCause.BROKEN, "reset")
    assert client.status == 424
    assert len(two.upstreams.calls) == 1


def test_a_long_document_in_chunks_goes_through_as_it_comes_from_one_past_the_limit_on(two):
    client, _ = two.send()
    sink = two.upstreams.last.sink
    sink.head(200, JSON, None)
    sink.body(b"x" * WHOLE_ANSWER_BYTES_MAX)
    assert not client.sent
    sink.body(b"y")
    assert client.header(b"transfer-encoding") == b"chunked"
    sink.body(b"z")
    sink.ended()
    assert client.body.endswith(b"\r\n1\r\ny\r\n1\r\nz\r\n0\r\n\r\n")
    assert two.observer.ended[0].bytes_out == WHOLE_ANSWER_BYTES_MAX + 2


def test_a_document_may_come_slowly_as_long_as_it_comes(two):
    client, underway = two.send()
    sink = two.upstreams.last.sink
    sink.head(200, JSON, None)
    for _ in range(5):
        two.clock.pass_s(10)
        underway.expire(two.clock.ns)
        sink.body(b" ")
    sink.ended()
    assert client.status == 200


def test_a_document_that_is_not_whole_in_time_is_an_error(two):
    client, underway = two.send()
    sink = two.upstreams.last.sink
    sink.head(200, JSON, None)
    for _ in range(5):
        two.clock.pass_s(11)
        sink.body(b" ")
    underway.expire(two.clock.ns)
    assert client.status == 424


def test_a_response_stream_is_framed_at_once_whatever_it_carries(two):
    client, _ = two.send(STREAM)
    sink = two.upstreams.last.sink
    sink.head(200, JSON, None)
    assert client.status == 200
    sink.ended()
