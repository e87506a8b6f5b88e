"""Connections to instances, in memory: answers at every split point, and when a connection serves again.

How connections begin and end over sockets is in `test_upstream_sockets`.
"""

import time

import pytest

from tests.unit.adapters.memory_transport import MemoryTransport
from tests.unit.adapters.sinks import Answer
from tests.unit.dataplane.conftest import target
from warmroute.adapters.tasks import Tasks
from warmroute.adapters.upstream import Pool, Pools
from warmroute.adapters.upstream_connection import UpstreamConnection
from warmroute.core.events import FailureCause
from warmroute.core.limits import UPSTREAM_HEAD_BYTES_MAX

HEAD = b"POST /invocations HTTP/1.1\r\nhost: i\r\ncontent-length: 4\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Instance:
    """A pool with open connections, and the instance at their other end."""

    def __init__(self, **settings):
        self.pools = Pools(tasks=Tasks(), control_path="", **({"look_again_s": 0.0} | settings))
        self.pool = Pool(self.pools, target("i-1"))
        self.opened = []

    def open(self):
        connection = UpstreamConnection(self.pool)
        transport = MemoryTransport(connection)
        self.pool.opened(connection)
        self.opened.append(transport)
        return connection, transport

    def call(self, body=b"body", sink=None):
        """Send a request over an idle connection, else over a new one."""
        connection = self.pool.take()
        if connection is None:
            connection, _ = self.open()
        answer = sink or Answer()
        connection.send(HEAD, body, answer)
        return answer, self.transport_of(connection), connection

    def transport_of(self, connection):
        return next(transport for transport in self.opened if transport.protocol is connection)

    @property
    def idle(self):
        """Take an idle connection, if there is a good one."""
        return self.pool.take()


@pytest.fixture
def instance():
    made = Instance()
    yield made
    close(made)


def close(made):
    for transport in made.opened:
        transport.lose()
    assert len(made.pool) == 0, "every connection is counted out at its end"


def split_points(data):
    return range(1, len(data))


# --- complete answers ---------------------------------------------------------------------------

WITH_LENGTH = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Two: a\r\nX-TWO: b\r\nContent-Length: 5\r\n\r\nhello"
)
CHUNKED = (
    b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2;name=value\r\nhe\r\n0003\r\nllo\r\n0\r\nX-Trailer: dropped\r\n\r\n"
)
EVENT = b"9\r\ndata: a\n\n\r\n0\r\n\r\n"
ANSWERS = {
    # name: (bytes, status, length told, body, whether the connection serves again)
    "length": (WITH_LENGTH, 200, 5, b"hello", True),
    "chunked": (CHUNKED, 201, None, b"hello", True),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, 0, b"", True),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, 0, b"", True),
    "error": (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno", 503, 2, b"no", True),
    "without a reason": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi", 200, 2, b"hi", True),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\n" + WITH_LENGTH, 200, 5, b"hello", True),
    "two interim": (
        b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + OK,
        200,
        2,
        b"hi",
        True,
    ),  # fmt: skip
    "says close": (
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        200,
        2,
        b"hi",
        False,
    ),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, 2, b"hi", False),
    "events": (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + EVENT,
        200,
        None,
        b"data: a\n\n",
        False,
    ),
}
UNTIL_CLOSE = {
    "until close": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello",
    "until close, HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\nhello",
    "until close, announced": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
}


def check(answer, name):
    _, status, length, body, _ = ANSWERS[name]
    assert answer.complete, answer
    assert (answer.status, answer.length, answer.data) == (status, length, body)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_the_same_wherever_it_is_split(name):
    data, _, _, _, serves_again = ANSWERS[name]
    for at in split_points(data):
        made = Instance()
        answer, transport, connection = made.call()
        transport.feed(data[:at])
        assert not answer.over.is_set(), f"over after {data[:at]!r}"
        transport.feed(data[at:])
        check(answer, name)
        assert transport.is_closing() is not serves_again
        assert (made.idle is connection) is serves_again
        close(made)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_the_same_byte_by_byte(instance, name):
    answer, transport, _ = instance.call()
    transport.feed_each_byte(ANSWERS[name][0])
    check(answer, name)


@pytest.mark.parametrize("first", [name for name, answer in ANSWERS.items() if answer[4]])
def test_a_connection_serves_one_answer_after_another(instance, first):
    for name in (first, *ANSWERS):
        answer, transport, _ = instance.call()
        transport.feed(ANSWERS[name][0])
        check(answer, name)
    assert sum(transport.sent.count(HEAD) for transport in instance.opened) == len(ANSWERS) + 1


@pytest.mark.parametrize("name", UNTIL_CLOSE)
def test_an_answer_without_a_length_ends_with_the_connection(name):
    data = UNTIL_CLOSE[name]
    for at in split_points(data):
        made = Instance()
        answer, transport, _ = made.call()
        transport.feed(data[:at])
        transport.feed(data[at:])
        assert not answer.over.is_set()
        transport.end()
        transport.lose()
        assert answer.complete
        assert (answer.status, answer.length, answer.data) == (200, None, b"hello")
        assert made.idle is None
        close(made)


def test_fields_come_in_order_with_names_in_lower_case(instance):
    answer, transport, _ = instance.call()
    transport.feed(WITH_LENGTH)
    assert answer.fields == [
        (b"content-type", b"text/plain"),
        (b"x-two", b"a"),
        (b"x-two", b"b"),
        (b"content-length", b"5"),
    ]


def test_fields_of_an_interim_answer_and_trailers_are_dropped(instance):
    answer, transport, _ = instance.call()
    transport.feed(b"HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n" + CHUNKED)
    assert [name for name, _ in answer.fields] == [b"transfer-encoding"]


def test_a_piece_is_passed_on_as_it_comes(instance):
    answer, transport, _ = instance.call()
    transport.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for piece in (b"one", b"two", b"three"):
        transport.feed(b"%x\r\n%b\r\n" % (len(piece), piece))
        assert answer.pieces[-1] == piece


# --- answers that do not end well ---------------------------------------------------------------


@pytest.mark.parametrize("lost", [None, ConnectionResetError("reset by peer")])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_cut_off_is_never_complete(name, lost):
    data, status, *_ = ANSWERS[name]
    for at in range(len(data)):
        made = Instance()
        answer, transport, _ = made.call()
        transport.feed(data[:at])
        if lost is None:
            transport.end()
        transport.lose(lost)
        assert not answer.complete
        assert answer.cause is (FailureCause.BROKEN if answer.status else FailureCause.CLOSED), data[:at]
        assert answer.status in (0, status)
        assert "the instance closed the connection" in answer.detail
        close(made)


@pytest.mark.parametrize("name", UNTIL_CLOSE)
def test_an_answer_without_a_length_that_is_reset_is_broken(instance, name):
    answer, transport, _ = instance.call()
    transport.feed(UNTIL_CLOSE[name])
    transport.lose(ConnectionResetError("reset by peer"))
    assert answer.cause is FailureCause.BROKEN
    assert "reset by peer" in answer.detail


MALFORMED = {
    "not HTTP": b"SSH-2.0-OpenSSH_9\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x46",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
    "length that is no number": b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "field without a name": b"HTTP/1.1 200 OK\r\n: x\r\n\r\n",
    "control character": b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
    "switched protocols": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    "a request": b"POST / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("each_byte", [False, True])
@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_answer_is_told_as_malformed_and_ends_the_connection(instance, name, each_byte):
    answer, transport, _ = instance.call()
    (transport.feed_each_byte if each_byte else transport.feed)(MALFORMED[name])
    assert (answer.status, answer.cause) == (0, FailureCause.MALFORMED)
    assert transport.aborted
    transport.lose()
    assert instance.idle is None


@pytest.mark.parametrize("rest", [b"zz\r\n", b"2\r\nhello", b"-1\r\n"])
def test_chunks_that_cannot_be_read_break_the_answer(instance, rest):
    answer, transport, _ = instance.call()
    transport.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
    transport.feed(rest)
    assert (answer.status, answer.cause) == (200, FailureCause.BROKEN)
    assert answer.data.startswith(b"hi")
    assert transport.aborted


def head_of(size):
    start, end = b"HTTP/1.1 200 OK\r\nX-Long: ", b"\r\nContent-Length: 0\r\n\r\n"
    return start + b"x" * (size - len(start) - len(end)) + end


@pytest.mark.parametrize("pieces", [1, 2, 100])
@pytest.mark.parametrize(("over", "complete"), [(0, True), (1, False)])
def test_a_head_may_be_as_long_as_the_limit_and_no_longer(instance, pieces, over, complete):
    data = head_of(UPSTREAM_HEAD_BYTES_MAX + over)
    answer, transport, _ = instance.call()
    step = -(-len(data) // pieces)
    for at in range(0, len(data), step):
        transport.feed(data[at : at + step])
    assert answer.complete is complete
    if not complete:
        assert (answer.status, answer.cause) == (0, FailureCause.MALFORMED)
        assert f"exceeds {UPSTREAM_HEAD_BYTES_MAX} bytes" in answer.detail
        assert transport.aborted


def test_a_long_body_in_the_heads_packet_does_not_count_as_head(instance):
    answer, transport, _ = instance.call()
    body = b"x" * (2 * UPSTREAM_HEAD_BYTES_MAX)
    transport.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.complete
    assert answer.data == body


def test_a_head_that_never_ends_is_not_kept(instance):
    answer, transport, _ = instance.call()
    transport.feed(b"HTTP/1.1 200 OK\r\n")
    for number in range(10_000):
        if answer.over.is_set():
            break
        transport.feed(b"X-%d: y\r\n" % number)
    assert answer.cause is FailureCause.MALFORMED


def test_a_defect_of_the_sink_is_seen_and_not_blamed_on_the_instance(instance):
    def break_down():
        raise KeyError("a defect")

    answer, transport, _ = instance.call(sink=Answer(break_down))
    with pytest.raises(KeyError, match="a defect"):
        transport.feed(WITH_LENGTH)
    assert answer.cause is None
    assert transport.is_closing()
    transport.lose()
    assert answer.cause is None


# --- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 100_000])
def test_head_and_body_are_sent_as_they_are(instance, size):
    body = bytes(range(256)) * (size // 256 + 1)
    _, transport, _ = instance.call(body[:size])
    assert transport.sent == HEAD + body[:size]


def test_after_a_cancel_nothing_is_reported(instance):
    answer, transport, connection = instance.call()
    transport.feed(WITH_LENGTH[:-1])
    pieces = list(answer.pieces)
    connection.cancel()
    assert transport.aborted
    transport.feed(b"o")
    transport.lose()
    assert not answer.over.is_set()
    assert answer.pieces == pieces
    assert instance.idle is None


def test_a_cancel_after_the_end_does_no_harm(instance):
    _, transport, connection = instance.call()
    transport.lose()
    connection.cancel()
    connection.pause()
    connection.resume()
    connection.close()


def test_a_paused_call_is_not_read(instance):
    _, transport, connection = instance.call()
    connection.pause()
    connection.pause()
    assert not transport.is_reading()
    connection.resume()
    connection.resume()
    assert transport.is_reading()


def test_a_pause_at_an_answers_end_does_not_outlive_it(instance):
    """The last piece may fill the caller's buffer: nobody is left then who would say `resume`."""
    connection, transport = instance.open()
    connection.send(HEAD, b"body", Answer(on_body=connection.pause))
    transport.feed(WITH_LENGTH)
    again, reused, _ = instance.call()
    assert reused is transport
    assert transport.is_reading()
    transport.feed(OK)
    assert again.complete


def test_an_instance_that_answers_before_it_has_read_the_request_is_not_used_again(instance):
    connection, transport = instance.open()
    transport.jam()
    answer = Answer()
    connection.send(HEAD, b"x" * 100_000, answer)
    transport.feed(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
    assert answer.complete
    assert (answer.status, answer.data) == (413, b"no")
    assert instance.idle is None
    assert transport.aborted, "nobody waits until the instance reads the rest, which it may never do"


@pytest.mark.parametrize("end", ["FIN", "RST"])
@pytest.mark.parametrize(
    ("reused", "handed_over", "cause"),
    [
        (True, False, FailureCause.STALE_CONNECTION),
        (True, True, FailureCause.CLOSED),
        (False, False, FailureCause.CLOSED),
        (False, True, FailureCause.CLOSED),
    ],
)
def test_nothing_ran_where_a_reused_connection_ended_before_the_body_was_handed_over(
    instance, end, reused, handed_over, cause
):
    connection, transport = instance.open()
    if reused:
        connection.send(HEAD, b"body", Answer())
        transport.feed(OK)
        assert instance.idle is connection
    transport.jam()
    answer = Answer()
    connection.send(HEAD, b"x" * 300_000, answer)
    if handed_over:
        transport.unjam()
    if end == "FIN":
        transport.end()
        assert transport.aborted or handed_over, "a request that nobody reads is not sent to its end"
        transport.lose()
    else:
        transport.lose(ConnectionResetError("reset by peer"))
    assert answer.cause is cause


def test_a_body_that_was_handed_over_late_counts_as_handed_over(instance):
    connection, transport = instance.open()
    connection.send(HEAD, b"body", Answer())
    transport.feed(OK)
    assert instance.idle is connection
    answer = Answer()
    transport.jam()
    connection.send(HEAD, b"x" * 300_000, answer)
    transport.unjam()
    transport.lose(ConnectionResetError("reset by peer"))
    assert answer.cause is FailureCause.CLOSED


# --- idle connections ---------------------------------------------------------------------------


def serve(made, answer=OK):
    """Serve one call, and return the connection, which is idle then."""
    told, transport, connection = made.call()
    transport.feed(answer)
    assert told.complete
    return connection, transport


def test_an_idle_connection_serves_the_next_call(instance):
    connection, _ = serve(instance)
    _, _, again = instance.call()
    assert again is connection
    assert len(instance.pool) == 1


def test_a_busy_connection_does_not(instance):
    _, _, first = instance.call()
    _, _, second = instance.call()
    assert first is not second
    assert len(instance.pool) == 2


def test_the_connection_used_last_serves_first(instance):
    answers = [instance.call() for _ in range(3)]
    for _, transport, _ in answers:
        transport.feed(OK)
    assert [instance.idle for _ in answers] == [connection for *_, connection in reversed(answers)]


def test_an_idle_connection_that_the_instance_closed_is_not_used(instance):
    _, transport = serve(instance)
    transport.wire.close()
    assert instance.idle is None
    assert transport.is_closing()


def test_an_idle_connection_with_something_to_read_is_not_used(instance):
    _, transport = serve(instance)
    transport.wire.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert instance.idle is None


def test_an_idle_connection_whose_end_was_noticed_is_forgotten(instance):
    _, transport = serve(instance)
    transport.end()
    transport.lose()
    assert len(instance.pool) == 0
    assert instance.idle is None


@pytest.mark.parametrize("together", [True, False])
def test_an_answer_nobody_asked_for_ends_the_connection_and_reaches_nobody(instance, together):
    first, transport, _ = instance.call()
    if together:
        transport.feed(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmore")
    else:
        transport.feed(OK)
        transport.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmore")
    assert first.complete
    assert first.data == b"hi"
    assert transport.is_closing()
    assert instance.idle is None


@pytest.mark.parametrize(("count", "kept"), [(2, 2), (3, 2)])
def test_no_more_idle_connections_are_kept_than_the_limit(count, kept):
    made = Instance(idle_connections=2)
    calls = [made.call() for _ in range(count)]
    for _, transport, _ in calls:
        transport.feed(OK)
    assert sum(not transport.is_closing() for _, transport, _ in calls) == kept
    close(made)


def test_a_limit_of_none_keeps_none():
    made = Instance(idle_connections=0)
    _, transport = serve(made)
    assert transport.is_closing()
    close(made)


@pytest.fixture
def clock(monkeypatch):
    """Monotonic seconds that stand until they are set."""
    now = {"s": 1000.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["s"])

    def pass_s(seconds):
        now["s"] += seconds
        return now["s"]

    return pass_s


def with_field(field):
    return b"HTTP/1.1 200 OK\r\n%b\r\nContent-Length: 2\r\n\r\nhi" % field


RETIRED = [
    (b"X: y", 4.0),
    (b"Keep-Alive: timeout=5", 4.0),
    (b"Keep-Alive: timeout=5, max=100", 4.0),
    (b"Keep-Alive: max=100, TIMEOUT=3", 2.0),
    (b"keep-alive: timeout=60", 4.0),
    (b"Keep-Alive: timeout=2", 1.0),
    (b"Keep-Alive: timeout=1", 0.5),
    (b"Keep-Alive: timeout=0", 0.5),
    (b"Keep-Alive: timeout=soon", 4.0),
    (b"Keep-Alive: ", 4.0),
]


@pytest.mark.parametrize(("field", "seconds"), RETIRED)
def test_an_idle_connection_is_not_used_near_the_time_the_instance_announced(instance, clock, field, seconds):
    connection, _ = serve(instance, with_field(field))
    clock(seconds - 0.01)
    assert instance.idle is connection
    connection, transport = serve(instance, with_field(field))
    clock(seconds)
    assert instance.idle is None
    assert transport.is_closing()


@pytest.mark.parametrize(("field", "seconds"), RETIRED)
def test_an_idle_connection_is_closed_near_the_time_the_instance_announced(instance, clock, field, seconds):
    _, transport = serve(instance, with_field(field))
    instance.pool.retire(clock(seconds - 0.01))
    assert not transport.is_closing()
    instance.pool.retire(clock(0.01))
    assert transport.is_closing()


def test_time_counts_from_the_last_answer(instance, clock):
    serve(instance)
    for _ in range(5):
        clock(3.9)
        connection, _ = serve(instance)
    clock(3.9)
    assert instance.idle is connection
    assert len(instance.opened) == 1


def test_no_idle_time_at_all_keeps_no_connection(clock):
    made = Instance(idle_s=0)
    serve(made)
    assert made.idle is None
    close(made)


@pytest.mark.parametrize(("maximum", "served"), [(5, 4), (3, 2), (2, 1), (1, 1), (0, 1)])
def test_a_connection_serves_fewer_requests_than_the_instance_announced(instance, maximum, served):
    answer = with_field(b"Keep-Alive: timeout=5, max=%d" % maximum)
    first, _ = serve(instance, answer)
    for _ in range(served - 1):
        connection, _ = serve(instance, answer)
        assert connection is first
    connection, _ = serve(instance, answer)
    assert connection is not first


def test_a_pool_that_is_closed_closes_what_is_idle_and_keeps_nothing(instance):
    _, idle = serve(instance)
    busy_answer, busy, _ = instance.call()
    other_answer, other, _ = instance.call()
    other.feed(OK)
    assert other_answer.complete
    assert not other.is_closing()
    instance.pool.close()
    assert other.is_closing()
    assert not busy.is_closing()
    busy.feed(OK)
    assert busy_answer.complete
    assert busy.is_closing()
    assert idle is busy
