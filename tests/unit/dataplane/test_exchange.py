"""An invocation from its first attempt to its last byte, on fakes. Every test ends without lease or call."""

import json

import pytest
from botocore.eventstream import EventStreamBuffer

from tests.unit.dataplane.conftest import PREFIX_AWARE, target
from warmroute.core.events import FailureCause
from warmroute.core.fleet import NativeMapping, Variant
from warmroute.core.limits import CALLER_UNREAD_S, ERROR_BODY_BYTES_MAX, WHOLE_ANSWER_BYTES_MAX

CHAT = b'{"model": "llm", "messages": [{"role": "user", "content": "hello"}]}'
STREAM = "/endpoints/llm/invocations-response-stream"
OPENAI = "/endpoints/llm/openai/v1/chat/completions"
PLAIN = "/v1/chat/completions"
SSE = b"text/event-stream; charset=utf-8"
MAY_HAVE_RUN = [FailureCause.CLOSED, FailureCause.MALFORMED]


def unchunk(data):
    out = []
    while True:
        size, _, data = data.partition(b"\r\n")
        if int(size, 16) == 0:
            assert data == b"\r\n"
            return out
        out.append(data[: int(size, 16)])
        data = data[int(size, 16) + 2 :]


def events(data):
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return list(buffer)


# --- good answers -------------------------------------------------------------------------------


def test_a_native_answer_carries_the_models_bytes_and_the_variant(two):
    client, _ = two.send()
    two.upstreams.answer(body=b'{"generated": "hi"}')
    assert client.status == 200
    assert client.body == b'{"generated": "hi"}'
    assert client.header(b"x-amzn-invoked-production-variant") == b"AllTraffic"
    assert client.header(b"content-length") == b"19"
    assert client.finished == 1
    assert not client.closed


def test_the_body_reaches_the_instance_byte_for_byte(two):
    body = b'{ "b":1,\n\t"a" : [1,2 ] }'
    two.send(body=body)
    assert two.upstreams.last.path == "/invocations"
    assert two.upstreams.last.body == body
    two.upstreams.answer()


def test_a_response_stream_comes_in_event_stream_frames(two):
    client, _ = two.send(STREAM)
    sink = two.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    sink.body(b"data: a\n\n")
    sink.body(b"data: b\n\n")
    sink.ended()
    assert client.header(b"content-type") == b"application/vnd.amazon.eventstream"
    assert client.header(b"x-amzn-sagemaker-content-type") == SSE
    assert [e.payload for e in events(b"".join(unchunk(client.body)))] == [b"data: a\n\n", b"data: b\n\n"]


def test_an_openai_stream_goes_through_piece_by_piece_as_it_comes(two):
    client, _ = two.send(OPENAI, CHAT)
    sink = two.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    pieces = [b'data: {"a', b'": "[DONE]"}\n\n', "é".encode()[:1], "é".encode()[1:]]
    for piece in pieces:
        before = len(client.sent)
        sink.body(piece)
        assert piece in client.sent[before:]
    assert client.finished == 0
    sink.ended()
    assert unchunk(client.body) == pieces


def test_a_client_without_chunks_gets_a_stream_that_ends_with_the_connection(two):
    client, _ = two.send(OPENAI, CHAT, chunks_allowed=False, keep_alive=False)
    sink = two.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    sink.body(b"data: a\n\n")
    sink.ended()
    assert client.body == b"data: a\n\n"
    assert client.header(b"connection") == b"close"
    assert client.header(b"transfer-encoding") is None
    assert client.closed


def test_the_plain_route_gives_the_instance_its_own_model_name(bench):
    bench.fleet(target("i-1", model_name="meta/llama"))
    bench.send(PLAIN, CHAT)
    assert bench.upstreams.last.body == CHAT.replace(b'"llm"', b'"meta/llama"')
    bench.upstreams.answer()


def test_the_endpoints_own_openai_route_leaves_the_model_alone(two):
    two.send(OPENAI, CHAT)
    assert two.upstreams.last.body == CHAT
    two.upstreams.answer()


def test_a_long_plain_answer_is_relayed_as_it_comes(two):
    client, _ = two.send()
    sink = two.upstreams.last.sink
    sink.head(200, [], WHOLE_ANSWER_BYTES_MAX + 1)
    sink.body(b"x" * 10)
    assert client.body == b"x" * 10
    sink.body(b"x" * (WHOLE_ANSWER_BYTES_MAX - 9))
    sink.ended()
    assert client.finished == 1


def test_the_kept_body_goes_at_the_first_byte_of_a_stream(two):
    client, _ = two.send(STREAM)
    sink = two.upstreams.last.sink
    assert client.holds_body
    sink.head(200, [(b"content-type", SSE)], None)
    assert not client.holds_body
    sink.ended()


def test_the_receipt_says_why_and_never_what(bench):
    bench.fleet(target("i-1"), target("i-2"), routing=PREFIX_AWARE)
    client, _ = bench.send(body=b"SECRET" * 300, headers=[(b"x-warmroute-explain", b"1")])
    bench.upstreams.answer()
    told = json.loads(client.header(b"x-warmroute-decision"))
    assert told["reason"] == "affinity"
    assert told["rank"] == 0
    assert told["instance"] == bench.upstreams.last.target.target_id
    assert told["candidates"] == 2
    assert b"SECRET" not in client.sent


# --- errors of the model ------------------------------------------------------------------------


def test_a_models_error_is_a_model_error_natively(two):
    client, _ = two.send()
    two.upstreams.answer(422, b'{"detail": "no"}')
    assert client.status == 424
    assert client.header(b"x-amzn-errortype") == b"ModelError"
    told = json.loads(client.body)
    assert told["OriginalStatusCode"] == 422
    assert told["OriginalMessage"] == '{"detail": "no"}'
    assert two.observer.failures == []


def test_a_5xx_counts_against_the_instance_and_is_not_sent_twice(two):
    client, _ = two.send()
    two.upstreams.answer(500, b"boom")
    assert client.status == 424
    assert len(two.upstreams.calls) == 1
    assert [cause for _, cause, _ in two.observer.failures] == [FailureCause.SERVER_ERROR]


def test_on_the_plain_route_a_4xx_goes_through_and_a_5xx_does_not(two):
    client, _ = two.send(PLAIN, CHAT)
    two.upstreams.answer(400, b'{"error": {"message": "too long"}}')
    assert client.status == 400
    assert client.body == b'{"error": {"message": "too long"}}'
    client, _ = two.send(PLAIN, CHAT)
    two.upstreams.answer(500, b"boom")
    assert client.status == 424
    assert client.header(b"x-should-retry") == b"false"


def test_on_the_endpoints_openai_route_a_4xx_is_quoted_in_the_envelope(two):
    client, _ = two.send(OPENAI, CHAT)
    two.upstreams.answer(400, b"too long")
    assert client.status == 400
    told = json.loads(client.body)["error"]
    assert told["code"] == "model_error"
    assert '"too long"' in told["message"]


def test_an_error_body_is_quoted_up_to_the_limit(two):
    client, _ = two.send()
    sink = two.upstreams.last.sink
    sink.head(500, [], None)
    sink.body(b"a" * ERROR_BODY_BYTES_MAX)
    sink.body(b"b" * 10)
    sink.ended()
    assert json.loads(client.body)["OriginalMessage"] == "a" * ERROR_BODY_BYTES_MAX


# --- attempts -----------------------------------------------------------------------------------


def test_where_nothing_ran_the_next_target_serves(two):
    client, _ = two.send()
    first = two.upstreams.last
    first.sink.failed(FailureCause.CONNECT_FAILED, "gone")
    second = two.upstreams.last
    assert second is not first
    assert second.target.target_id != first.target.target_id
    assert second.body == first.body
    two.upstreams.answer()
    assert client.status == 200
    assert two.observer.ended[0].attempts == 2
    assert two.observer.failures == [(first.target.target_id, FailureCause.CONNECT_FAILED, True)]


def test_a_connection_that_idled_too_long_is_not_its_targets_fault(bench):
    bench.fleet(target("i-1"))
    client, _ = bench.send()
    bench.upstreams.last.sink.failed(FailureCause.STALE_CONNECTION, "gone")
    bench.upstreams.answer()
    assert client.status == 200
    assert [call.target.target_id for call in bench.upstreams.calls] == ["i-1", "i-1"]
    assert bench.observer.changes == []


@pytest.mark.parametrize("cause", MAY_HAVE_RUN)
@pytest.mark.parametrize("path", ["/endpoints/llm/invocations", OPENAI, PLAIN])
def test_where_the_model_may_have_run_nothing_is_sent_again(two, cause, path):
    client, _ = two.send(path, CHAT)
    two.upstreams.last.sink.failed(cause, "gone")
    assert len(two.upstreams.calls) == 1
    assert client.status == 424


def test_when_every_target_refuses_the_answer_is_503_and_may_be_sent_again(two):
    client, _ = two.send()
    two.upstreams.last.sink.failed(FailureCause.CONNECT_FAILED, "refused")
    two.upstreams.last.sink.failed(FailureCause.CONNECT_FAILED, "refused")
    assert len(two.upstreams.calls) == 2
    assert client.status == 503
    assert client.header(b"retry-after") == b"1"
    client, _ = two.send()
    assert len(two.upstreams.calls) == 2
    assert client.status == 503


def test_a_loading_server_is_passed_over(two):
    client, _ = two.send()
    two.upstreams.answer(503, b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}')
    two.upstreams.answer()
    assert client.status == 200
    assert len(two.upstreams.calls) == 2


def test_without_any_instance_the_answer_is_503(bench):
    bench.fleet()
    client, underway = bench.send()
    assert underway is None
    assert client.status == 503
    assert client.header(b"x-amzn-errortype") == b"ServiceUnavailable"


# --- servers without /invocations ---------------------------------------------------------------


def test_a_server_without_invocations_is_asked_on_the_openai_route_and_remembered(bench):
    bench.fleet(target("i-1", native=NativeMapping.AUTO))
    client, _ = bench.send(body=CHAT)
    assert bench.upstreams.last.path == "/invocations"
    bench.upstreams.answer(404, b"File Not Found")
    assert bench.upstreams.last.path == "/v1/chat/completions"
    bench.upstreams.answer(body=b'{"choices": []}')
    assert (client.status, client.body) == (200, b'{"choices": []}')
    bench.send(body=CHAT)
    assert len(bench.upstreams.calls) == 3
    assert bench.upstreams.last.path == "/v1/chat/completions"
    bench.upstreams.answer()


def test_a_404_on_both_routes_is_the_models_own(bench):
    bench.fleet(target("i-1", native=NativeMapping.AUTO))
    client, _ = bench.send(body=CHAT)
    bench.upstreams.answer(404, b"no such model")
    bench.upstreams.answer(404, b"no such model")
    assert client.status == 424
    assert json.loads(client.body)["OriginalStatusCode"] == 404
    bench.send(body=CHAT)
    assert bench.upstreams.last.path == "/invocations"
    bench.upstreams.answer()


def test_a_404_of_the_openai_route_is_the_models_own_where_invocations_are_known_missing(bench):
    bench.fleet(target("i-1", native=NativeMapping.AUTO))
    bench.desk.note_lacks_invocations(target("i-1"))
    client, _ = bench.send(body=CHAT)
    bench.upstreams.answer(404, b"no such model")
    assert [call.path for call in bench.upstreams.calls] == ["/v1/chat/completions"]
    assert json.loads(client.body)["OriginalStatusCode"] == 404


def test_a_missing_route_is_noted_of_the_server_that_lacks_it_not_of_the_next_one(bench):
    both = [target("i-1", native=NativeMapping.AUTO), target("i-2", native=NativeMapping.AUTO)]
    bench.fleet(*both)
    bench.send(body=CHAT)
    first = bench.upstreams.last.target
    bench.upstreams.answer(404, b"File Not Found")
    bench.upstreams.last.sink.failed(FailureCause.CONNECT_FAILED, "refused")
    bench.upstreams.answer()
    assert bench.upstreams.last.target != first
    assert not any(bench.desk.lacks_invocations(one) for one in both)


@pytest.mark.parametrize(
    ("body", "path"),
    [(CHAT, "/v1/chat/completions"), (b'{"prompt": "a"}', "/v1/completions")],
)
def test_an_openai_server_gets_native_calls_by_the_shape_of_the_body(bench, body, path):
    bench.fleet(target("i-1", native=NativeMapping.OPENAI))
    bench.send(body=body)
    assert bench.upstreams.last.path == path
    bench.upstreams.answer()


@pytest.mark.parametrize("body", [b"", b"\x00", b"[1]", b'{"inputs": "a"}'])
def test_an_openai_server_gets_no_native_call_that_is_none_of_its_own(bench, body):
    bench.fleet(target("i-1", native=NativeMapping.OPENAI))
    client, underway = bench.send(body=body)
    assert underway is None
    assert client.status == 400
    assert "'messages'" in json.loads(client.body)["Message"]
    assert bench.upstreams.calls == []
    assert bench.observer.changes == []


# --- broken answers -----------------------------------------------------------------------------


def test_a_native_stream_that_breaks_ends_with_an_exception_event(two):
    client, _ = two.send(STREAM)
    sink = two.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    sink.body(b"data: a\n\n")
    sink.failed(FailureCause.BROKEN, "reset")
    part, exception = events(b"".join(unchunk(client.body)))
    assert part.payload == b"data: a\n\n"
    assert exception.headers[":exception-type"] == "ModelStreamError"
    assert not client.closed


@pytest.mark.parametrize("more", [{"keep_alive": False}, {"chunks_allowed": False}])
def test_a_broken_stream_closes_where_nothing_else_tells_its_end(two, more):
    client, _ = two.send(STREAM, **more)
    sink = two.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    sink.failed(FailureCause.BROKEN, "reset")
    assert b"ModelStreamError" in client.body
    assert client.closed


def test_an_openai_stream_that_breaks_ends_with_an_error_event(two):
    client, _ = two.send(OPENAI, CHAT)
    sink = two.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    sink.body(b'data: {"cut')
    sink.failed(FailureCause.BROKEN, "reset")
    assert json.loads(unchunk(client.body)[-1].split(b"data: ")[-1])["error"]["code"]
    assert not client.closed


def test_a_short_answer_that_breaks_is_an_error_no_sdk_sends_again(two):
    client, _ = two.send()
    sink = two.upstreams.last.sink
    sink.head(200, [], 100)
    sink.body(b"x" * 50)
    sink.failed(FailureCause.BROKEN, "reset")
    assert client.status == 424
    assert len(two.upstreams.calls) == 1


def test_a_long_plain_answer_that_breaks_closes_the_connection(two):
    client, _ = two.send()
    sink = two.upstreams.last.sink
    sink.head(200, [], WHOLE_ANSWER_BYTES_MAX + 1)
    sink.body(b"x")
    sink.failed(FailureCause.BROKEN, "reset")
    assert client.body == b"x"
    assert client.closed


def test_an_overload_told_inside_a_stream_becomes_an_error(bench):
    bench.fleet(target("i-1", hold_first_event=True))
    client, _ = bench.send(OPENAI, CHAT)
    sink = bench.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    sink.body(b'data: {"error": {"message": "busy", "code": 503}}\n\n')
    assert client.status == 424
    assert b"busy" in client.body
    assert bench.upstreams.last.cancelled  # whether it ever ends does not matter


def test_an_overload_told_in_an_event_that_is_cut_off_becomes_an_error_too(bench):
    bench.fleet(target("i-1", hold_first_event=True))
    client, _ = bench.send(OPENAI, CHAT)
    sink = bench.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    sink.body(b'data: {"error": {"message": "busy", "code": 503}}')
    sink.ended()
    assert client.status == 424
    assert b"busy" in client.body
    assert bench.observer.ended[0].first_byte_ns == 0


def test_a_404_told_inside_a_stream_is_no_missing_route(bench):
    bench.fleet(target("i-1", hold_first_event=True, native=NativeMapping.AUTO))
    client, _ = bench.send(body=CHAT)
    sink = bench.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    sink.body(b'data: {"error": {"message": "no such model", "code": 404}}\n\n')
    assert client.status == 424
    assert len(bench.upstreams.calls) == 1


@pytest.mark.parametrize("sent", [b"", b": ping\n", b"data: a"])
def test_a_held_stream_without_a_whole_event_is_passed_on_as_it_is(bench, sent):
    bench.fleet(target("i-1", hold_first_event=True))
    client, _ = bench.send(OPENAI, CHAT)
    sink = bench.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    if sent:
        sink.body(sent)
    sink.ended()
    assert client.status == 200
    assert b"".join(unchunk(client.body)) == sent


def test_a_stream_that_says_loading_in_an_error_event_is_not_sent_again(bench):
    bench.fleet(target("i-1", hold_first_event=True), target("i-2", hold_first_event=True))
    client, _ = bench.send(OPENAI, CHAT)
    sink = bench.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    sink.body(b'data: {"error": {"message": "Loading model", "code": 503}}\n\n')
    assert len(bench.upstreams.calls) == 1
    assert client.status == 424


def test_a_held_stream_that_is_good_loses_nothing(bench):
    bench.fleet(target("i-1", hold_first_event=True))
    client, _ = bench.send(OPENAI, CHAT)
    sink = bench.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    sink.body(b'data: {"choi')
    assert not client.sent
    sink.body(b'ces": []}\n\n')
    sink.body(b"data: [DONE]\n\n")
    sink.ended()
    assert b"".join(unchunk(client.body)) == b'data: {"choices": []}\n\ndata: [DONE]\n\n'


# --- endings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["waiting", "streaming"])
def test_a_client_that_goes_stops_the_instance_and_blames_nobody(two, stage):
    client, underway = two.send(STREAM)
    call = two.upstreams.last
    if stage == "streaming":
        call.sink.head(200, [(b"content-type", SSE)], None)
        call.sink.body(b"data: a\n\n")
    underway.client_gone()
    assert call.cancelled
    assert two.observer.ended[0].outcome == "cancelled"
    assert two.observer.failures == []
    underway.client_gone()
    assert len(two.observer.ended) == 1


def test_a_native_call_without_answer_is_a_model_error_before_boto3_gives_up(two):
    client, underway = two.send()
    two.clock.pass_s(54.9)
    underway.expire(two.clock.ns)
    assert client.status == 0
    two.clock.pass_s(0.2)
    underway.expire(two.clock.ns)
    assert client.status == 424
    assert json.loads(client.body)["OriginalStatusCode"] == 0
    assert two.upstreams.last.cancelled
    assert len(two.upstreams.calls) == 1


def test_a_stream_may_pause_as_long_as_pieces_keep_coming(two):
    client, underway = two.send(OPENAI, CHAT)
    sink = two.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    for _ in range(20):
        two.clock.pass_s(59)
        underway.expire(two.clock.ns)
        sink.body(b": ping\n\n")
    two.clock.pass_s(61)
    underway.expire(two.clock.ns)
    assert two.observer.ended[0].cause == "idle_timeout"


def test_a_native_stream_ends_after_eight_minutes_in_all(two):
    client, underway = two.send(STREAM)
    sink = two.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    for _ in range(9):
        two.clock.pass_s(50)
        underway.expire(two.clock.ns)
        sink.body(b": ping\n\n")
    two.clock.pass_s(31)
    underway.expire(two.clock.ns)
    exception = events(b"".join(unchunk(client.body)))[-1]
    assert json.loads(exception.payload)["ErrorCode"] == "ModelInvocationTimeExceeded"


@pytest.mark.parametrize("started", [False, True])
def test_a_shutdown_ends_what_runs_with_an_error_no_sdk_sends_again(two, started):
    client, underway = two.send(STREAM)
    call = two.upstreams.last
    if started:
        call.sink.head(200, [(b"content-type", SSE)], None)
    underway.shut_down()
    assert call.cancelled
    if started:
        assert events(b"".join(unchunk(client.body)))[-1].headers[":message-type"] == "exception"
    else:
        assert client.status == 424
    assert client.finished == 1


def test_a_slow_reader_pauses_the_instance(two):
    _, underway = two.send(STREAM)
    underway.pause()
    assert two.upstreams.last.paused
    underway.resume()
    assert not two.upstreams.last.paused
    two.upstreams.answer()


def test_an_instance_is_not_blamed_for_a_caller_that_reads_slowly(two):
    client, underway = two.send(OPENAI, CHAT)
    sink = two.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    underway.pause()
    sink.body(b"data: read before the pause took hold\n\n")
    two.clock.pass_s(CALLER_UNREAD_S - 1)
    underway.expire(two.clock.ns)
    underway.resume()
    two.clock.pass_s(59)
    underway.expire(two.clock.ns)
    sink.ended()
    assert two.observer.ended[0].outcome == "completed"


def test_an_answer_that_nobody_reads_ends_and_says_nothing_about_the_instance(two):
    client, underway = two.send(OPENAI, CHAT)
    sink = two.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    underway.pause()
    two.clock.pass_s(CALLER_UNREAD_S)
    underway.expire(two.clock.ns)
    assert two.upstreams.last.cancelled
    assert (two.observer.ended[0].problem, two.observer.ended[0].cause) == ("request_timeout", "")
    assert b"The response was not read in time." in client.body


def test_every_lease_comes_back_when_its_target_left_the_fleet_meanwhile(two):
    two.send()
    two.fleet(target("i-9"))
    assert two.router.open_leases() == 1
    two.upstreams.answer()


def test_the_receipt_tells_the_order_over_the_revision_that_served(bench):
    green = Variant("v", 1.0, PREFIX_AWARE, (), revision=2)
    blue = Variant("v", 1.0, PREFIX_AWARE, (target("i-1"), target("i-2")), revision=1, share=0.0)
    bench.fleet(variants=(green, blue))
    client, _ = bench.send(headers=[(b"x-warmroute-explain", b"1")])
    bench.upstreams.answer()
    assert set(json.loads(client.header(b"x-warmroute-decision"))["order"]) == {"i-1", "i-2"}


def test_the_record_has_the_times_in_order(two):
    two.send()
    two.clock.pass_s(0.1)
    two.upstreams.answer()
    record = two.observer.ended[0]
    assert 0 < record.started_ns <= record.dispatched_ns <= record.first_byte_ns <= record.ended_ns


# --- nothing is kept from a caller for longer than it waits ---------------------------------------


@pytest.mark.parametrize("status", [200, 500])
def test_a_native_caller_hears_something_before_boto3_sends_again(two, status):
    client, underway = two.send()
    two.clock.pass_s(54)
    two.upstreams.last.sink.head(status, [], 100)
    two.upstreams.last.sink.body(b"x")
    two.clock.pass_s(1.1)
    underway.expire(two.clock.ns)
    assert client.status == 424
    assert two.upstreams.last.cancelled


def test_attempts_share_the_time_that_the_caller_waits(two):
    client, underway = two.send()
    two.clock.pass_s(50)
    two.upstreams.answer(503, b"Loading model")
    assert len(two.upstreams.calls) == 2
    two.clock.pass_s(5.1)
    underway.expire(two.clock.ns)
    assert client.status == 424


def test_no_attempt_begins_when_the_caller_is_about_to_give_up(two):
    client, _ = two.send()
    two.clock.pass_s(54.5)
    two.upstreams.last.sink.failed(FailureCause.CONNECT_FAILED, "refused")
    assert len(two.upstreams.calls) == 1
    assert client.status == 503


def test_a_native_streams_total_holds_for_a_caller_that_reads_slowly_too(two):
    client, underway = two.send(STREAM)
    sink = two.upstreams.last.sink
    sink.head(200, [(b"content-type", SSE)], None)
    sink.body(b"data: a\n\n")
    underway.pause()
    two.clock.pass_s(480)
    underway.expire(two.clock.ns)
    assert two.observer.ended[0].cause == "total_timeout"


def test_an_answer_without_content_has_no_length(two):
    client, _ = two.send(PLAIN, CHAT)
    two.upstreams.last.sink.head(204, [], 0)
    two.upstreams.last.sink.ended()
    assert client.status == 204
    assert client.header(b"content-length") is None
