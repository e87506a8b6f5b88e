"""What the router is told of an answer while it goes through: only under KV_AWARE, and nothing is changed."""

import json
from random import Random

import pytest
from botocore.eventstream import EventStreamBuffer

from tests.unit.dataplane.conftest import target
from warmroute.core.events import FailureCause
from warmroute.core.fleet import NativeMapping, Routing, RoutingStrategy
from warmroute.core.limits import ANSWER_END_BYTES, ANSWER_START_BYTES, WHOLE_ANSWER_BYTES_MAX
from warmroute.dataplane.hearing import Hearing, listen
from warmroute.routing.log import AttemptTold
from warmroute.routing.recorder import RecordedRouter

KV_AWARE = Routing(RoutingStrategy.KV_AWARE)
TEXT = "what a long prompt this is, " * 100
CHAT = json.dumps({"model": "llm", "messages": [{"role": "user", "content": TEXT}]}).encode()
NATIVE = "/endpoints/llm/invocations"
STREAM = "/endpoints/llm/invocations-response-stream"
OPENAI = "/endpoints/llm/openai/v1/chat/completions"
PLAIN = "/v1/chat/completions"
SSE = [(b"Content-Type", b"text/event-stream; charset=utf-8")]
JSON = [(b"content-type", b"application/json")]
USAGE = (
    b'"usage":{"prompt_tokens":700,"completion_tokens":9,"total_tokens":709,'
    b'"prompt_tokens_details":{"cached_tokens":512}}'
)
EVENTS = [
    b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"b"}}]}\n\n',
    b'data: {"choices":[],' + USAGE + b"}\n\n",
    b"data: [DONE]\n\n",
]
WHOLE = b'{"choices":[{"message":{"content":"ab"}}],' + USAGE + b"}"


@pytest.fixture
def kv(bench):
    """A gateway of two instances under KV_AWARE, with all that its router is told of attempts."""
    told = []

    def note(line):
        if isinstance(line, AttemptTold):
            tokens = (line.prompt_tokens, line.cached_tokens, line.output_tokens)
            told.append((line.event, *tokens) if line.event == "completed" else line.event)
        return True

    bench.told = told
    bench.router = bench.desk.router = RecordedRouter(Random(1), note)
    return bench.fleet(target("i-1"), target("i-2"), routing=KV_AWARE)


def unchunk(data):
    out = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        out += data[: int(size, 16)]
        data = data[int(size, 16) + 2 :]
    return out


def stream(bench, path, pieces, fields=SSE):
    client, _ = bench.send(path, CHAT)
    sink = bench.upstreams.last.sink
    sink.head(200, fields, None)
    for piece in pieces:
        sink.body(piece)
    sink.ended()
    return client


# --- the first token --------------------------------------------------------------------------


@pytest.mark.parametrize("path", [STREAM, OPENAI, PLAIN])
def test_a_streams_first_piece_is_its_first_token_once(kv, path):
    kv.send(path, CHAT)
    sink = kv.upstreams.last.sink
    sink.head(200, SSE, None)
    assert kv.told == []
    sink.body(EVENTS[0])
    assert kv.told == ["first_token"]
    sink.body(EVENTS[1])
    assert kv.told == ["first_token"]
    sink.ended()
    assert kv.told == ["first_token", ("completed", -1, -1, -1)]


def test_what_keeps_a_stream_open_is_no_first_token(kv):
    kv.send("/v1/responses", b'{"model": "llm", "input": "' + b"x" * 2000 + b'"}')
    sink = kv.upstreams.last.sink
    sink.head(200, SSE, None)
    sink.body(b": wait\n\n")
    sink.body(b"event: response.created\ndata: {}\n\n")
    assert kv.told == []
    sink.body(b"event: response.output_text.delta\ndata: {}\n\n")
    assert kv.told == ["first_token"]
    sink.ended()


@pytest.mark.parametrize("content_type", [b"application/jsonlines", b" Application/X-NDJSON"])
def test_a_stream_of_json_lines_has_a_first_token_too(kv, content_type):
    stream(kv, STREAM, [b'{"token": 1}\n'], [(b"content-type", content_type)])
    assert kv.told[0] == "first_token"


def test_a_plain_answer_says_nothing_before_its_end(kv):
    kv.send(NATIVE, CHAT)
    kv.upstreams.answer(body=WHOLE)
    assert kv.told == [("completed", 700, 512, 9)]


def test_a_plain_answer_that_is_relayed_for_its_length_has_no_first_token(kv):
    body = b'{"data":"' + b"x" * WHOLE_ANSWER_BYTES_MAX + b'",' + USAGE + b"}"
    kv.send(NATIVE, CHAT)
    sink = kv.upstreams.last.sink
    sink.head(200, JSON, None)
    sink.body(body[:-20])
    sink.body(body[-20:])
    sink.ended()
    assert kv.told == [("completed", 700, 512, 9)]


def test_a_first_event_that_is_held_is_told_when_it_is_sent(bench):
    bench.fleet(*(target(name, hold_first_event=True) for name in ("i-1", "i-2")), routing=KV_AWARE)
    bench.send(OPENAI, CHAT)
    (shelf,) = [row.shelf for row in rows(bench) if row.in_flight]
    sink = bench.upstreams.last.sink
    sink.head(200, SSE, None)
    sink.body(EVENTS[0][:10])
    assert shelf.pending > 0
    sink.body(EVENTS[0][10:])
    assert shelf.pending == 0
    sink.ended()


def rows(bench):
    return list(bench.router.endpoints["llm"].variants["AllTraffic", 0].rows.values())


# --- what the engine reports ------------------------------------------------------------------


@pytest.mark.parametrize("path", [STREAM, OPENAI, PLAIN])
def test_what_a_stream_reports_at_its_end_is_told_wherever_it_is_cut(kv, path):
    whole = b"".join(EVENTS)
    for at in range(1, len(whole)):
        client = stream(kv, path, [whole[:at], whole[at:]])
        assert kv.told[-1] == ("completed", 700, 512, 9)
        body = unchunk(client.body)
        if path == STREAM:
            buffer = EventStreamBuffer()
            buffer.add_data(body)
            body = b"".join(event.payload for event in buffer)
        assert body == whole, "the answer goes through as it is"


def test_a_stream_of_messages_has_the_prompts_tokens_far_from_its_end(kv):
    usage = b'{"input_tokens":100,"cache_read_input_tokens":900}'
    start = b'event: message_start\ndata: {"message":{"usage":' + usage + b"}}\n\n"
    deltas = [b'event: content_block_delta\ndata: {"delta":{"text":"abc"}}\n\n'] * 1000
    end = b'event: message_delta\ndata: {"usage":{"output_tokens":1000}}\n\n'
    stream(kv, "/v1/messages", [start, *deltas, end])
    assert kv.told[-1] == ("completed", 1000, 900, 1000)


def test_a_byte_at_a_time_tells_the_same(kv):
    stream(kv, PLAIN, [bytes((byte,)) for byte in b"".join(EVENTS)])
    assert kv.told[-1] == ("completed", 700, 512, 9)


def test_an_engine_that_reports_nothing_is_told_so(kv):
    stream(kv, PLAIN, EVENTS[:2])
    assert kv.told[-1] == ("completed", -1, -1, -1)


def test_the_record_has_what_was_reported(kv):
    stream(kv, PLAIN, EVENTS)
    record = kv.observer.ended[-1]
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens) == (700, 512, 9)
    kv.send(NATIVE, CHAT)
    kv.upstreams.answer(body=b"{}")
    record = kv.observer.ended[-1]
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens) == (-1, -1, -1)


@pytest.mark.parametrize(("path", "status"), [(PLAIN, 400), (NATIVE, 422), (OPENAI, 404)])
def test_a_mistake_of_the_client_has_computed_nothing(kv, path, status):
    kv.send(path, CHAT)
    kv.upstreams.answer(status, b'{"error": {"message": "too long"},' + USAGE + b"}")
    assert kv.told == [("completed", 0, -1, -1)]
    blocks = [settled for row in rows(kv) for settled in row.shelf.blocks.values()]
    assert blocks == [False] * 5, "on their way, and never seen to arrive"


def test_the_answer_of_the_attempt_that_served_counts(bench):
    bench.fleet(
        *(target(name, native=NativeMapping.AUTO, generation=1) for name in ("i-1", "i-2")), routing=KV_AWARE
    )
    client, _ = bench.send(NATIVE, CHAT)
    bench.upstreams.answer(404, b"no such route " + USAGE)
    assert bench.upstreams.last.path == "/v1/chat/completions"
    bench.upstreams.last.sink.failed(FailureCause.STALE_CONNECTION, "closed")
    bench.upstreams.answer(body=WHOLE)
    assert client.status == 200
    assert bench.observer.ended[0].cached_tokens == 512


# --- everything comes back --------------------------------------------------------------------


def waiting(bench):
    return [(row.in_flight, row.shelf.pending, row.shelf.resident) for row in rows(bench)]


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("end", ["client", "broken", "idle", "shutdown", "model"])
def test_nothing_is_left_in_the_book_however_an_attempt_ends(bench, begun, end):
    bench.fleet(target("i-1"), target("i-2"), routing=KV_AWARE)
    _, underway = bench.send(PLAIN, CHAT)
    assert max(waiting(bench)) == (1, len(TEXT), len(TEXT))
    sink = bench.upstreams.last.sink
    if begun:
        sink.head(200, SSE, None)
        sink.body(EVENTS[0])
        assert max(waiting(bench)) == (1, 0, len(TEXT))
    match end:
        case "client":
            underway.client_gone()
        case "broken":
            sink.failed(FailureCause.BROKEN, "reset")
        case "idle":
            bench.clock.pass_s(400)
            underway.expire(bench.clock.ns)
        case "shutdown":
            underway.shut_down()
        case "model" if begun:
            sink.ended()
        case "model":
            bench.upstreams.answer(500, b"no")
    assert waiting(bench) == [(0, 0, 0)] * 2


# --- other strategies -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strategy",
    [RoutingStrategy.RANDOM, RoutingStrategy.LEAST_OUTSTANDING_REQUESTS, RoutingStrategy.PREFIX_AWARE],
)
def test_no_other_strategy_listens(bench, strategy):
    aware = strategy is RoutingStrategy.PREFIX_AWARE
    routing = Routing(strategy, 1024 if aware else None, 4 if aware else None)
    bench.fleet(target("i-1"), target("i-2"), routing=routing)
    _, underway = bench.send(PLAIN, CHAT)
    assert listen(bench.desk, underway._lease, SSE) is None
    assert listen(bench.desk, None, SSE) is None
    sink = bench.upstreams.last.sink
    sink.head(200, SSE, None)
    assert underway._hearing is None
    for piece in EVENTS:
        sink.body(piece)
    sink.ended()
    assert bench.observer.ended[0].cached_tokens == -1


# --- what is kept -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 100, 1000, ANSWER_END_BYTES, 3 * ANSWER_END_BYTES, 65536])
def test_of_a_long_answer_only_the_start_and_the_end_are_kept(kv, size):
    kv.send(PLAIN, CHAT)
    (underway,) = kv.desk.open
    hearing = Hearing(kv.desk, underway._lease, streamed=False)
    data = bytes(range(256)) * 8192
    sent = 0
    for _ in range(max(20, 20_000 // size)):
        hearing.piece(data[sent : sent + size])
        sent += size
        kept = hearing._end_bytes
        assert min(sent, ANSWER_END_BYTES) <= kept <= 2 * ANSWER_END_BYTES
        assert len(hearing._end) <= 64
        if sent % (97 * size) == 0:
            assert b"".join(hearing._end) == data[sent - kept : sent]
    assert b"".join(hearing._end) == data[sent - hearing._end_bytes : sent]
    assert hearing._start == data[:ANSWER_START_BYTES]
    underway.client_gone()
