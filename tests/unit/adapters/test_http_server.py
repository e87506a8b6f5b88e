"""The public listener in memory: requests at every split point, limits, deadlines, order, back-pressure.

Every test ends with all bodies off the books, no lease and no connection.
"""

import asyncio
import json

import httptools
import pytest

from tests.unit.adapters.memory_transport import MemoryTransport
from tests.unit.dataplane.conftest import Bench, target
from warmroute.adapters.http_server import LINGER_BYTES_MAX, LINGER_S_MAX, Listener, ServerLimits
from warmroute.core.limits import PIPELINED_BYTES_MAX

BOUNDS = ServerLimits(
    body_bytes=1000,
    buffered_bodies_bytes=2500,
    head_bytes=2000,
    header_count=10,
    write_high_water_bytes=1000,
    head_read_s=10,
    body_idle_s=30,
    keep_alive_idle_s=75,
)
NATIVE = b"/endpoints/llm/invocations"
STREAM = b"/endpoints/llm/invocations-response-stream"
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"


def post(body=b"body", path=NATIVE, *headers, version=b"1.1"):
    head = [b"POST %b HTTP/%b" % (path, version), b"Host: h", *headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


CHUNKED = (
    b"POST /endpoints/llm/invocations HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2;a=b\r\nbo\r\n02\r\ndy\r\n0\r\nX-Trailer: 1\r\n\r\n"
)


class Answers:
    """Reads answers off the bytes that a client was sent."""

    def __init__(self, data, methods=()):
        self.data, self.methods = data, list(methods)
        self.found, self.interim, self.rest = [], 0, b""
        while self.data:
            if not self.read():
                self.rest = self.data
                break

    def read(self):
        head, gap, rest = self.data.partition(b"\r\n\r\n")
        if not gap:
            return False
        status = int(head.split(b" ", 2)[1])
        if status == 100:
            self.interim += 1
            self.data = rest
            return True
        lines = (line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        fields = {name.lower(): value for name, value in lines}
        size = int(fields[b"content-length"])
        if len(rest) < size:
            return False
        self.found.append((status, fields, rest[:size]))
        self.data = rest[size:]
        return True


class Server:
    """A listener, its gateway on fakes, and time that passes when told."""

    def __init__(self, runner, **bounds):
        self.runner = runner
        self.now_s = 1000.0
        self.loop = runner.get_loop()
        self.loop.time = lambda: self.now_s
        self.bench = Bench().fleet(target("i-1"), target("i-2"))
        values = {name: getattr(BOUNDS, name) for name in BOUNDS.__slots__}
        self.listener = Listener(self.bench.gateway, ServerLimits(**(values | bounds)))
        self.clients = []

    def connect(self):
        async def accept():
            return MemoryTransport(self.listener.connection())

        client = self.runner.run(accept())
        self.clients.append(client)
        return client

    def turn(self):
        """Let the loop do what was put off to its next round."""
        for _ in range(3):
            self.runner.run(asyncio.sleep(0))

    def pass_s(self, seconds):
        """Let time pass, and the listener look at its connections."""
        self.now_s += seconds
        self.listener.check(self.now_s)
        self.turn()

    @property
    def upstreams(self):
        return self.bench.upstreams

    @property
    def calls(self):
        return self.bench.upstreams.calls

    @property
    def held(self):
        return self.listener.buffered_bytes

    def answer(self, body=b"{}", status=200):
        self.upstreams.answer(status, body)
        self.turn()

    def close(self):
        for client in self.clients:
            client.lose()
        assert self.held == 0, "every body is off the books"
        assert not self.listener.connections
        self.bench.assert_clean()


@pytest.fixture
def runner():
    with asyncio.Runner() as made:
        yield made


@pytest.fixture
def start(runner):
    """Return what starts a server with other bounds."""
    servers = []

    def starting(**bounds):
        servers.append(Server(runner, **bounds))
        return servers[-1]

    yield starting
    for server in servers:
        server.close()


@pytest.fixture
def server(start):
    return start()


@pytest.fixture
def client(server):
    return server.connect()


def answers(client):
    """Return (status, body) of every answer a client got; nothing else may be among them."""
    read = Answers(client.sent)
    assert not read.rest, client.sent
    return [(status, body) for status, _, body in read.found]


def statuses(client):
    return [status for status, _ in answers(client)]


def message(client):
    told = json.loads(answers(client)[-1][1])
    return told["Message"] if "Message" in told else told["error"]["message"]


def fields(client):
    return Answers(client.sent).found[-1][1]


# --- whole requests -----------------------------------------------------------------------------

REQUESTS = {
    "length": post(),
    "chunked": CHUNKED,
    "absolute form": post(path=b"http://other:80/endpoints/llm/invocations?a=b"),
    "empty lines before": b"\r\n\r\n" + post(),
    "folded case": post(b"body", NATIVE, b"CONTENT-TYPE:text/plain", b"x-a:  b \t"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_the_same_wherever_it_is_split(server, name):
    data = REQUESTS[name]
    for at in range(1, len(data)):
        client = server.connect()
        client.feed(data[:at])
        assert not client.sent
        client.feed(data[at:])
        assert server.calls[-1].body == b"body"
        server.answer(b"%d" % at)
        assert answers(client) == [(200, b"%d" % at)]
        assert server.held == 0
    assert len(server.calls) == len(data) - 1


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_the_same_byte_by_byte(server, client, name):
    client.feed_each_byte(REQUESTS[name])
    assert server.calls[-1].body == b"body"
    assert server.held == 4
    server.answer()
    assert statuses(client) == [200]


def test_two_requests_are_two_wherever_they_are_split(server):
    data = post(b"one") + CHUNKED
    for at in range(1, len(data)):
        client = server.connect()
        client.feed(data[:at])
        client.feed(data[at:])
        server.answer(b"first")
        server.answer(b"second")
        assert answers(client) == [(200, b"first"), (200, b"second")]
        assert [call.body for call in server.calls[-2:]] == [b"one", b"body"]


def test_a_connection_serves_one_request_after_another(server, client):
    for number in range(5):
        client.feed(post(b"%d" % number))
        assert server.calls[-1].body == b"%d" % number
        server.answer(b"%d" % number)
    assert [body for _, body in answers(client)] == [b"0", b"1", b"2", b"3", b"4"]
    assert not client.is_closing()


def test_a_request_without_a_body_is_whole_with_its_head(server, client):
    client.feed(HEALTHZ)
    assert answers(client) == [(200, b"ok\n")]
    client.feed(post(b""))
    assert server.calls[-1].body == b""
    server.answer()


def test_path_and_query_go_to_the_gateway_apart(server, client):
    client.feed(b"GET /healthz?a=b HTTP/1.1\r\nHost: h\r\n\r\n")
    assert statuses(client) == [200]


@pytest.mark.parametrize("url", [b"*", b"http://[::1", b"http:///healthz", b"http://h:99999999/healthz"])
def test_a_target_that_is_no_path_is_not_found(server, client, url):
    client.feed(b"OPTIONS %b HTTP/1.1\r\nHost: h\r\n\r\n" % url)
    server.turn()
    assert statuses(client) in ([404], [400])


def test_an_absolute_target_without_a_path_is_the_root(server, client):
    client.feed(b"GET http://h HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b"/ takes POST, not GET." in client.sent


def test_repeated_fields_reach_the_instance(server, client):
    body = b'{"model": "llm"}'
    client.feed(post(body, b"/v1/chat/completions", b"X-A: 1", b"X-A: 2", b"X-B: 3"))
    head = server.calls[-1].head
    assert head.count(b"x-a: ") == 2
    assert head.index(b"x-a: 1") < head.index(b"x-a: 2") < head.index(b"x-b: 3")
    server.answer()


@pytest.mark.parametrize(
    ("request_bytes", "closes"),
    [
        (post(), False),
        (post(b"body", NATIVE, b"Connection: keep-alive"), False),
        (post(b"body", NATIVE, b"Connection: close"), True),
        (post(version=b"1.0"), True),
        (post(b"body", NATIVE, b"Connection: keep-alive", version=b"1.0"), True),
    ],
)
def test_a_connection_stays_where_both_sides_want_it(server, client, request_bytes, closes):
    client.feed(request_bytes)
    server.answer()
    assert client.is_closing() is closes
    assert (fields(client).get(b"connection") == b"close") is closes


def test_an_http_1_0_client_gets_no_chunks(server, client):
    client.feed(post(b"body", STREAM, version=b"1.0"))
    sink = server.calls[-1].sink
    sink.head(200, [(b"content-type", b"text/event-stream")], None)
    sink.body(b"data: a\n\n")
    sink.ended()
    assert b"transfer-encoding" not in client.sent.lower()
    assert client.is_closing()


# --- what cannot be read ------------------------------------------------------------------------

HEAD = b"POST /endpoints/llm/invocations HTTP/1.1\r\nHost: h\r\n"
UNREADABLE = {
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no version": b"GET /healthz\r\n\r\n",
    "other version": b"GET /healthz HTTP/2.0\r\nHost: h\r\n\r\n",
    "unknown method": b"BREW /pot HTTP/1.1\r\nHost: h\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
    "equal lengths": HEAD + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody",
    "length and chunks": HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "another coding": HEAD + b"Transfer-Encoding: gzip\r\n\r\nbody",
    "two codings": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding repeated": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "folded header": HEAD + b"X-A: b\r\n c\r\n\r\n",
    "bare line feed": HEAD[:-2] + b"\nContent-Length: 0\n\n",
    "space before the colon": HEAD + b"Content-Length : 4\r\n\r\nbody",
    "length with a sign": HEAD + b"Content-Length: +4\r\n\r\nbody",
    "length in hex": HEAD + b"Content-Length: 0x4\r\n\r\nbody",
    "no name": HEAD + b": a\r\n\r\n",
    "zero byte": HEAD + b"X-A: a\x00b\r\n\r\n",
    "chunk without a size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n\r\nbody\r\n",
    "chunk too short": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nbody\r\n0\r\n\r\n",
    "negative chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-4\r\nbody\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("each_byte", [False, True])
@pytest.mark.parametrize("name", UNREADABLE)
def test_what_can_be_read_in_two_ways_or_none_is_refused_and_reaches_nobody(server, client, name, each_byte):
    (client.feed_each_byte if each_byte else client.feed)(UNREADABLE[name])
    server.turn()
    assert statuses(client) == [400]
    assert fields(client)[b"connection"] == b"close"
    assert client.ended, "the client reads to the end of the answer"
    assert not client.is_closing(), "what it still sends does not cut the answer off"
    assert not server.calls
    assert server.held == 0
    assert [record.outcome for record in server.bench.observer.ended] == ["rejected"]


def test_a_refusal_speaks_the_form_its_path_promises(server):
    plain, native = server.connect(), server.connect()
    plain.feed(b"POST /v1/chat/completions HTTP/1.1\r\n\r\n")
    native.feed(b"POST /endpoints/llm/invocations HTTP/1.1\r\n\r\n")
    assert "error" in json.loads(answers(plain)[0][1])
    assert "Message" in json.loads(answers(native)[0][1])


def test_what_follows_a_refusal_is_dropped(server, client):
    client.feed(UNREADABLE["two hosts"])
    client.feed(post())
    client.feed(b"\x00" * 10_000)
    server.turn()
    assert statuses(client) == [400]
    assert not server.calls


@pytest.mark.parametrize("name", ["two hosts", "another coding"])
def test_what_follows_a_refused_head_in_its_packet_is_dropped(server, client, name):
    chunks = HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
    client.feed(UNREADABLE[name] + post() + chunks)
    server.turn()
    assert statuses(client) == [400]
    assert not server.calls
    assert server.held == 0


def test_the_rest_of_a_body_that_is_too_long_is_dropped_in_its_packet(server, client):
    client.feed(HEAD + b"Content-Length: 1001\r\n\r\n" + b"x" * 1001 + post())
    server.turn()
    assert statuses(client) == [413]
    assert not server.calls


def test_the_rest_of_chunks_that_are_too_long_is_dropped_in_its_packet(server, client):
    chunk = b"1f4\r\n" + b"x" * 500 + b"\r\n"
    client.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 5 + b"0\r\n\r\n" + post())
    server.turn()
    assert statuses(client) == [413]
    assert not server.calls
    assert server.held == 0


def test_a_refused_client_may_linger_for_a_while(server, client):
    client.feed(UNREADABLE["two hosts"])
    server.pass_s(LINGER_S_MAX)
    client.feed(b"more")
    assert not client.is_closing()
    server.pass_s(0.001)
    assert client.is_closing()


def test_a_refused_client_may_send_so_much_and_no_more(server, client):
    client.feed(UNREADABLE["two hosts"])
    piece = bytes(1024 * 1024)
    for _ in range(LINGER_BYTES_MAX // len(piece)):
        client.feed(piece)
    assert not client.is_closing()
    client.feed(b"x")
    assert client.is_closing()


def test_a_refused_client_that_goes_is_gone(server, client):
    client.feed(UNREADABLE["two hosts"])
    client.end()
    assert client.is_closing()


# --- limits -------------------------------------------------------------------------------------


def head_of(size):
    start, end = b"GET /healthz HTTP/1.1\r\nHost: h\r\nX-Long: ", b"\r\n\r\n"
    return start + b"x" * (size - len(start) - len(end)) + end


@pytest.mark.parametrize("pieces", [1, 2, 50])
@pytest.mark.parametrize(("over", "status"), [(0, 200), (25, 431)])
def test_a_head_may_be_as_long_as_the_limit_and_no_longer(server, client, pieces, over, status):
    """Up to the method and version, which are not counted when the whole head comes at once."""
    data = head_of(BOUNDS.head_bytes + over)
    step = -(-len(data) // pieces)
    for at in range(0, len(data), step):
        client.feed(data[at : at + step])
    assert statuses(client) == [status]
    if status == 431:
        assert message(client) == "The request line and headers exceed 2000 bytes or 10 fields."


def test_a_head_that_never_ends_is_refused_when_it_is_too_long(server, client):
    client.feed(b"GET /healthz HTTP/1.1\r\n")
    for _ in range(1000):
        client.feed(b"X: y\r\n")
    assert statuses(client) == [431]


def test_a_path_that_never_ends_is_refused_when_it_is_too_long(server, client):
    client.feed(b"GET /")
    for _ in range(100):
        client.feed(b"x" * 100)
    assert statuses(client) == [431]


def test_a_body_in_the_heads_packet_does_not_count_as_head(start):
    server = start(body_bytes=10_000, buffered_bodies_bytes=10_000)
    client = server.connect()
    client.feed(post(b"x" * 10_000))
    assert server.calls[-1].body == b"x" * 10_000
    server.answer()


@pytest.mark.parametrize(("count", "status"), [(10, 200), (11, 431)])
def test_a_head_has_at_most_so_many_fields(server, client, count, status):
    extra = b"".join(b"X-%d: y\r\n" % number for number in range(count - 1))
    client.feed(b"GET /healthz HTTP/1.1\r\nHost: h\r\n" + extra + b"\r\n")
    assert statuses(client) == [status]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_may_be_as_long_as_the_limit(server, client, chunked):
    body = b"x" * BOUNDS.body_bytes
    if chunked:
        client.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 100):
            client.feed(b"64\r\n%b\r\n" % body[at : at + 100])
        client.feed(b"0\r\n\r\n")
    else:
        client.feed(post(body))
    assert server.calls[-1].body == body
    server.answer()
    assert statuses(client) == [200]


def test_a_body_that_says_to_be_longer_is_refused_before_it_comes(server, client):
    client.feed(HEAD + b"Content-Length: %d\r\n\r\n" % (BOUNDS.body_bytes + 1))
    assert statuses(client) == [413]
    assert message(client) == "The request body has 1001 bytes or more; at most 1000 are allowed."
    client.feed(b"x" * 1001)
    assert statuses(client) == [413]
    assert server.held == 0


def test_a_body_that_turns_out_longer_is_refused_then(server, client):
    client.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    client.feed(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
    assert not client.sent
    assert server.held == 1000
    client.feed(b"1\r\nx\r\n")
    assert statuses(client) == [413]
    assert server.held == 0


def test_all_bodies_together_have_a_limit(server):
    clients = [server.connect() for _ in range(3)]
    for client in clients[:2]:
        client.feed(post(b"x" * 1000))
    clients[2].feed(HEAD + b"Content-Length: 501\r\n\r\n" + b"x" * 500)
    assert server.held == BOUNDS.buffered_bodies_bytes
    assert not clients[2].sent
    clients[2].feed(b"x")
    assert statuses(clients[2]) == [503]
    assert "Request bodies of 2500 bytes in all are being held" in message(clients[2])
    assert fields(clients[2])[b"retry-after"] == b"1"
    assert server.held == 2000
    for call in server.calls:
        call.sink.head(200, [], 0)
        call.sink.ended()
    assert server.held == 0


# --- bodies are held no longer than needed ------------------------------------------------------


def test_a_body_is_held_until_a_short_answer_is_there(server, client):
    client.feed(post(b"x" * 10))
    assert server.held == 10
    server.answer()
    assert server.held == 0


def test_a_body_is_held_until_a_streams_first_byte(server, client):
    client.feed(post(b"x" * 10, STREAM))
    sink = server.calls[-1].sink
    assert server.held == 10
    sink.head(200, [(b"content-type", b"text/event-stream")], None)
    assert server.held == 0
    sink.ended()
    assert server.held == 0


def test_a_pipelined_body_is_held_while_it_waits(server, client):
    client.feed(post(b"x" * 10) + post(b"y" * 7) + post(b"z" * 5)[:-2])
    assert server.held == 20
    server.answer()
    assert server.held == 10
    server.answer()
    assert server.held == 3
    client.lose()
    assert server.held == 0


GONE = {
    "idle": b"",
    "head": post()[:20],
    "body": post(b"x" * 10)[:-3],
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
    "waiting": post(b"x" * 10),
    "pipelined": post(b"x" * 10) + post(b"y" * 10) + post(b"z" * 10)[:-1],
    "refused": UNREADABLE["two hosts"],
    "refused in its turn": post(b"x" * 10) + UNREADABLE["two hosts"],
}


@pytest.mark.parametrize("how", ["FIN", "RST"])
@pytest.mark.parametrize("name", GONE)
def test_nothing_is_left_of_a_client_that_goes(server, client, name, how):
    client.feed(GONE[name])
    if how == "FIN":
        client.end()
        client.lose()
    else:
        client.lose(ConnectionResetError())
    assert server.held == 0
    assert not server.listener.connections
    assert not server.bench.desk.open
    assert all(call.cancelled for call in server.calls)
    server.turn()
    assert len(server.calls) <= 1, "a request that waited is not sent for a client that is gone"


def test_a_client_that_goes_stops_the_instance(server, client):
    client.feed(post())
    client.lose()
    assert server.calls[-1].cancelled
    assert [record.outcome for record in server.bench.observer.ended] == ["cancelled"]


def test_a_refused_route_holds_nothing(server, client):
    client.feed(post(b"x" * 10, b"/nothing"))
    assert statuses(client) == [404]
    assert server.held == 0


# --- deadlines ----------------------------------------------------------------------------------


def test_a_client_may_be_idle_for_so_long(server, client):
    server.pass_s(BOUNDS.keep_alive_idle_s)
    assert not client.is_closing()
    server.pass_s(0.001)
    assert client.is_closing()
    assert not client.sent


def test_idle_time_counts_from_the_last_answer(server, client):
    client.feed(post())
    server.pass_s(70)
    server.answer()
    server.pass_s(BOUNDS.keep_alive_idle_s)
    assert not client.is_closing()
    server.pass_s(0.001)
    assert client.is_closing()


def test_a_client_whose_request_runs_is_not_idle(server, client):
    client.feed(post())
    server.pass_s(10_000)
    assert not client.is_closing()
    server.answer()
    assert statuses(client) == [200]


def test_a_head_may_take_so_long_however_it_trickles_in(server, client):
    client.feed(b"POST /endpo")
    server.pass_s(BOUNDS.head_read_s - 1)
    client.feed(b"ints/llm")
    server.pass_s(1)
    assert not client.sent
    server.pass_s(0.001)
    assert statuses(client) == [408]
    assert message(client) == "The headers took longer than 10 s."


def test_a_heads_time_counts_from_its_first_byte(server, client):
    server.pass_s(60)
    client.feed(b"POST ")
    server.pass_s(BOUNDS.head_read_s)
    assert not client.sent
    client.feed(post()[5:])
    server.answer()
    assert statuses(client) == [200]


def test_a_body_may_trickle_in_but_not_stop(server, client):
    data = post(b"x" * 10)
    client.feed(data[:-10])
    for at in range(-10, -1):
        server.pass_s(BOUNDS.body_idle_s)
        client.feed(data[at : at + 1])
    assert not client.sent
    server.pass_s(BOUNDS.body_idle_s + 0.001)
    assert statuses(client) == [408]
    assert message(client) == "Nothing of the request body came for 30 s."
    assert server.held == 0


def test_a_request_that_was_too_slow_may_linger_like_any_refused_one(server, client):
    client.feed(b"POST ")
    server.pass_s(BOUNDS.head_read_s + 1)
    server.pass_s(LINGER_S_MAX)
    assert not client.is_closing()
    server.pass_s(0.001)
    assert client.is_closing()


def test_a_client_that_does_not_take_the_end_of_its_answer_is_cut_off(server, client):
    """Else a connection that has to close would wait for ever to send what nobody reads."""
    client.jam()
    client.feed(post(b"body", NATIVE, b"Connection: close"))
    server.answer(b"x" * 5000)
    assert client.is_closing()
    server.pass_s(BOUNDS.body_idle_s)
    assert not client.aborted
    server.pass_s(0.001)
    assert client.aborted


def test_a_client_that_takes_no_answer_and_is_idle_is_cut_off(server, client):
    client.jam()
    client.feed(post())
    server.answer()
    server.pass_s(BOUNDS.keep_alive_idle_s + 1)
    assert client.is_closing()
    server.pass_s(BOUNDS.body_idle_s + 1)
    assert client.aborted


# --- the turn of requests -----------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order_and_one_at_a_time(server, client):
    client.feed(b"".join(post(b"%d" % number) for number in range(4)))
    for number in range(4):
        assert len(server.calls) == number + 1
        assert server.calls[-1].body == b"%d" % number
        server.answer(b"%d" % number)
    assert [body for _, body in answers(client)] == [b"0", b"1", b"2", b"3"]


def test_requests_that_come_while_one_runs_wait_for_it(server, client):
    client.feed(post(b"1"))
    client.feed(HEALTHZ)
    client.feed(post(b"2"))
    assert not client.sent
    server.answer(b"one")
    server.answer(b"two")
    assert answers(client) == [(200, b"one"), (200, b"ok\n"), (200, b"two")]


@pytest.mark.parametrize("name", ["two hosts", "not HTTP", "chunk without a size"])
@pytest.mark.parametrize("together", [True, False])
def test_an_unreadable_request_is_refused_after_those_before_it_are_answered(server, client, name, together):
    bad = UNREADABLE[name]
    if together:
        client.feed(post(b"1") + post(b"2") + bad)
    else:
        for data in (post(b"1"), post(b"2"), bad):
            client.feed(data)
    assert not client.sent
    server.answer(b"one")
    server.answer(b"two")
    assert statuses(client) == [200, 200, 400]
    assert client.ended
    assert len(server.calls) == 2


def test_a_head_that_is_too_long_is_refused_in_its_turn(server, client):
    client.feed(post(b"1"))
    client.feed(b"GET /" + b"x" * 3000)
    assert not client.sent
    server.answer()
    assert statuses(client) == [200, 431]


def test_a_request_after_close_is_not_answered(server, client):
    client.feed(post(b"1", NATIVE, b"Connection: close") + post(b"2"))
    server.answer()
    assert statuses(client) == [200]
    assert client.is_closing()
    assert len(server.calls) == 1
    client.lose()
    assert server.held == 0


def test_a_client_that_sends_far_ahead_is_not_read_until_its_turn(start):
    server = start(body_bytes=1 << 20, buffered_bodies_bytes=1 << 24)
    client = server.connect()
    client.feed(post(b"first"))
    data = post(b"x" * 1000)
    sent = 0
    while client.is_reading():
        client.feed(data)
        sent += 1
    assert PIPELINED_BYTES_MAX < sent * len(data) <= PIPELINED_BYTES_MAX + len(data)
    for number in range(sent + 1):
        assert client.is_reading() is (number == sent), "what was read ahead is begun first"
        server.answer()
    assert client.is_reading()
    assert statuses(client) == [200] * (sent + 1)
    assert server.held == 0


def test_what_was_sent_ahead_and_answered_does_not_count_for_ever(start):
    server = start(buffered_bodies_bytes=1 << 20)
    client = server.connect()
    data = post(b"x" * 900)
    for _ in range(2 * PIPELINED_BYTES_MAX // len(data)):
        client.feed(data)
        client.feed(data)
        assert client.is_reading()
        server.answer()
        server.answer()


def test_expect_is_answered_before_the_body_comes(server, client):
    client.feed(HEAD + b"Expect: 100-Continue\r\nContent-Length: 4\r\n\r\n")
    assert client.sent == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.feed(b"body")
    server.answer()
    read = Answers(client.sent)
    assert (read.interim, [status for status, *_ in read.found]) == (1, [200])


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\nbody",
        HEAD.replace(b"1.1", b"1.0") + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n",
        HEAD + b"Expect: 200-ok\r\nContent-Length: 4\r\n\r\n",
        HEAD + b"Expect: 100-continue\r\nContent-Length: 4000\r\n\r\n",
    ],
    ids=["body there already", "HTTP/1.0", "something else", "body too large"],
)
def test_expect_is_not_answered_where_nobody_waits_or_the_body_is_not_wanted(server, client, data):
    client.feed(data)
    assert b"100 Continue" not in client.sent


def test_expect_behind_another_request_is_answered_in_its_turn(server, client):
    client.feed(post(b"1") + HEAD + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
    assert not client.sent
    server.answer()
    assert client.sent.endswith(b"HTTP/1.1 100 Continue\r\n\r\n")
    client.feed(b"body")
    server.answer()
    assert [status for status, *_ in Answers(client.sent).found] == [200, 200]


# --- upgrades -----------------------------------------------------------------------------------

OFFER = (b"Upgrade: h2c", b"Connection: Upgrade, HTTP2-Settings", b"HTTP2-Settings: AAMAAABkAAQ")


def test_a_request_that_offers_an_upgrade_is_served_without_it_wherever_it_is_split(server):
    data = post(b"body", NATIVE, *OFFER)
    for at in range(1, len(data)):
        client = server.connect()
        client.feed(data[:at])
        client.feed(data[at:])
        assert server.calls[-1].body == b"body"
        server.answer()
        client.feed(HEALTHZ)
        assert statuses(client) == [200, 200]


def test_a_tunnel_is_not_offered(server, client):
    client.feed(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n")
    server.turn()
    assert statuses(client) == [404]
    assert client.is_closing()


# --- back-pressure ------------------------------------------------------------------------------


def test_a_client_that_reads_too_slowly_stops_the_instance_and_goes_on_with_it(server, client):
    client.feed(post(b"body", STREAM))
    call = server.calls[-1]
    call.sink.head(200, [(b"content-type", b"text/event-stream")], None)
    client.jam()
    call.sink.body(b"x" * 500)
    assert not call.paused
    call.sink.body(b"x" * 1000)
    assert call.paused
    client.unjam()
    assert not call.paused
    call.sink.ended()


def test_a_client_that_does_not_read_gets_no_further_request_started(server, client):
    """Else its answers would pile up, each to its whole length, while it only asks."""
    client.jam()
    client.feed(post(b"1") + post(b"2"))
    server.answer(b"x" * 5000)
    client.feed(post(b"3"))
    server.turn()
    assert len(server.calls) == 1
    client.unjam()
    server.turn()
    assert server.calls[-1].body == b"2"
    server.answer()
    server.answer()
    assert statuses(client) == [200, 200, 200]


def test_a_request_that_comes_before_the_last_answer_was_read_waits(server, client):
    client.jam()
    client.feed(post(b"1"))
    server.answer(b"x" * 5000)
    client.feed(post(b"2"))
    assert len(server.calls) == 1
    client.unjam()
    server.turn()
    server.answer()
    assert statuses(client) == [200, 200]


def test_a_client_that_reads_nothing_between_requests_is_cut_off(server, client):
    client.jam()
    client.feed(post(b"1") + post(b"2"))
    server.answer(b"x" * 5000)
    server.pass_s(BOUNDS.keep_alive_idle_s + 1)
    server.pass_s(BOUNDS.body_idle_s + 1)
    assert client.aborted
    client.lose()
    assert server.held == 0


def test_a_turn_that_was_put_off_does_no_harm_to_one_that_came_first(server, client):
    client.feed(post(b"1") + post(b"2"))
    call = server.calls[-1]
    call.sink.head(200, [], 0)
    call.sink.ended()
    client.feed(post(b"3"))  # before the loop's next round
    server.turn()
    assert [call.body for call in server.calls] == [b"1", b"2"]
    server.answer()
    server.answer()
    assert statuses(client) == [200, 200, 200]


def test_reading_and_pausing_without_a_request_does_no_harm(server, client):
    client.protocol.pause_writing()
    client.protocol.resume_writing()


# --- draining -----------------------------------------------------------------------------------


def test_a_drain_closes_what_is_idle_and_lets_the_rest_end(server):
    idle, busy, half = server.connect(), server.connect(), server.connect()
    busy.feed(post())
    half.feed(post()[:-1])
    server.listener.drain()
    assert idle.is_closing()
    assert not busy.is_closing()
    server.answer()
    assert statuses(busy) == [200]
    assert busy.is_closing()
    half.feed(post()[-1:])
    server.answer()
    assert statuses(half) == [200]
    assert half.is_closing()


def test_a_request_whose_head_comes_in_a_drain_is_told_that_the_connection_ends(server, client):
    client.feed(post()[:10])
    server.listener.drain()
    client.feed(post()[10:])
    server.answer()
    assert fields(client)[b"connection"] == b"close"
    assert client.is_closing()


def test_what_waits_for_its_turn_is_not_begun_in_a_drain(server, client):
    client.feed(post(b"1") + post(b"2"))
    server.listener.drain()
    server.answer()
    assert statuses(client) == [200]
    assert client.is_closing()
    assert len(server.calls) == 1


# --- the world's parser -------------------------------------------------------------------------


def test_streams_can_be_read_by_another_parser(server, client):
    class Read:
        data = b""
        complete = False

        def on_body(self, data):
            self.data += data

        def on_message_complete(self):
            self.complete = True

    client.feed(post(b'{"model": "llm"}', b"/v1/chat/completions"))
    sink = server.calls[-1].sink
    sink.head(200, [(b"content-type", b"text/event-stream")], None)
    pieces = [b"data: a\n\n", b"x" * 5000, b"\r\n0\r\n\r\n"]
    for piece in pieces:
        sink.body(piece)
    sink.ended()
    read = Read()
    httptools.HttpResponseParser(read).feed_data(client.sent)
    assert (read.data, read.complete) == (b"".join(pieces), True)


# --- What hides in the framing of a body -----------------------------------------------------------

CHUNKED_HEAD = b"POST /endpoints/llm/invocations HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("hiding", [b"0\r\nX-Endless: ", b"1;extension="], ids=["trailer", "extension"])
def test_a_trailer_or_extension_without_end_is_refused_at_the_limit_of_a_head(server, client, hiding):
    client.feed(CHUNKED_HEAD)
    client.feed(hiding)
    for _ in range(5):
        client.feed(b"x" * 1000)
    assert answers(client)[0][0] == 431
    assert server.calls == []


def test_a_body_in_tiny_chunks_is_no_trick(server, client):
    client.feed(CHUNKED_HEAD)
    for _ in range(900):
        client.feed(b"1\r\na\r\n")
    client.feed(b"0\r\n\r\n")
    assert server.calls[-1].body == b"a" * 900
    server.answer()


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 2000, 1, 1, 2000), (2000, 1, 1), (1500, 1500), (1,)])
def test_pieces_of_any_size_make_the_same_body(start, sizes):
    server = start(body_bytes=10_000, buffered_bodies_bytes=20_000)
    client = server.connect()
    client.feed(CHUNKED_HEAD)
    sent = b""
    for number, size in enumerate(sizes):
        piece = bytes([97 + number]) * size
        sent += piece
        client.feed(b"%x\r\n%b\r\n" % (size, piece))
    client.feed(b"0\r\n\r\n")
    assert server.calls[-1].body == sent
    assert isinstance(server.calls[-1].body, bytes)
    server.answer()
