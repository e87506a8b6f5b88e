"""The invariants of docs/invariants.md over random histories of a gateway with many open exchanges.

Instances, clients, time and the fleet do what they like, in the order that the ports allow. After every
step: as many leases as open exchanges, at most one call each, nothing told twice. After every end: one
record, one end of the answer, the model's bytes relayed as they were sent, and at most one execution.
"""

from dataclasses import dataclass, field

import httptools
from botocore.eventstream import EventStreamBuffer
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.dataplane.conftest import PREFIX_AWARE, Bench, target
from warmroute.adapters.fakes import FakeCall, FakeDownstream
from warmroute.core.events import FailureCause
from warmroute.core.fleet import NativeMapping, Routing, RoutingStrategy, TargetState
from warmroute.core.limits import ATTEMPTS_MAX, WHOLE_ANSWER_BYTES_MAX
from warmroute.dataplane.ports import Underway

CHAT = b'{"model": "llm", "messages": [{"role": "user", "content": "%s"}]}' % (b"hello " * 600)
PATHS = {
    "native": "/endpoints/llm/invocations",
    "stream": "/endpoints/llm/invocations-response-stream",
    "endpoint": "/endpoints/llm/openai/v1/chat/completions",
    "plain": "/v1/chat/completions",
    "messages": "/v1/messages",
    "control": "/",
}
TARGETS = ["1", "11", "2", "21", "111"]
PIECES = {
    "event": b"data: a\n\n",
    "done": b"data: [DONE]\n\n",
    "error": b'data: {"error": {"message": "busy", "code": 503}}\n\n',
    "half an event": b'data: {"er',
    "line feed": b"\n",
    "last chunk": b"0\r\n\r\n",
    "half a character": b"\xc3",
    "loading": b"still Loading the model",
    "long": b"x" * 70_000,
    "usage": b'data: {"usage": {"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 800}}}\n\n',
}
CAUSES = [
    FailureCause.CONNECT_FAILED,
    FailureCause.STALE_CONNECTION,
    FailureCause.CLOSED,
    FailureCause.MALFORMED,
    FailureCause.BROKEN,
]

routings = st.sampled_from(
    [
        Routing(),
        Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS),
        PREFIX_AWARE,
        PREFIX_AWARE,
        Routing(RoutingStrategy.KV_AWARE),
        Routing(RoutingStrategy.KV_AWARE),
    ]
)
states = st.sampled_from([TargetState.IN_SERVICE] * 4 + [TargetState.DRAINING, TargetState.STARTING])
natives = st.sampled_from([NativeMapping.AUTO, NativeMapping.AUTO, *NativeMapping])
statuses = st.sampled_from([200, 200, 200, 201, 302, 404, 404, 408, 429, 500, 503])
content_types = st.sampled_from([b"text/event-stream", b"text/plain", b"application/json"])
lengths = st.sampled_from([None, None, 0, 1, 5, 100, WHOLE_ANSWER_BYTES_MAX, WHOLE_ANSWER_BYTES_MAX + 1])
choices = st.integers(0, 10_000)


class Client(FakeDownstream):
    """A client that must hear nothing after it has gone."""

    gone = False

    def write(self, data):
        assert not self.gone, "nothing is written to a client that is gone"
        assert data, "an empty write would be an empty chunk"
        super().write(data)

    def finish(self, *, close):
        assert not self.gone
        super().finish(close=close)


@dataclass
class Try:
    """A call as the instance sees it."""

    call: FakeCall
    status: int = 0
    length: int | None = None
    sent: bytes = b""
    end: str | None = None

    @property
    def live(self):
        return self.end is None and not self.call.cancelled

    @property
    def ran_nothing(self):
        """Whether another call may follow."""
        if self.end == "ended":
            loading = self.status == 503 and b"loading" in self.sent.lower()
            return loading or (self.status == 404 and self.call.path == "/invocations")
        return self.end is not None and FailureCause(self.end).nothing_ran


@dataclass(eq=False)
class Open:
    """An invocation as the test remembers it."""

    kind: str
    client: Client
    underway: Underway
    request_id: str
    tries: list[Try] = field(default_factory=list)

    @property
    def last(self):
        return self.tries[-1]


def dechunk(data):
    """Return the body that an HTTP client reads, and whether the answer is complete."""

    class Read:
        body = b""
        complete = False

        def on_body(self, piece):
            self.body += piece

        def on_message_complete(self):
            self.complete = True

    read = Read()
    httptools.HttpResponseParser(read).feed_data(data)
    return read.body, read.complete


class Exchanges(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.bench = Bench()
        self.open = []
        self.over = []
        self.seen = 0
        self.generations = dict.fromkeys(TARGETS, 1)
        self.started = 0
        self.ended = 0

    # --- the fleet and time -----------------------------------------------------------------

    @initialize(
        routing=routings,
        native=natives,
        holds=st.booleans(),
        kinds=st.lists(st.sampled_from(sorted(PATHS)), min_size=1, max_size=6),
    )
    def begin(self, routing, native, holds, kinds):
        self.publish(TARGETS, [TargetState.IN_SERVICE] * 5, routing, native, holds)
        for kind in kinds:
            self.send(kind, chunks=True, keep_alive=True, explain=False)

    @rule(
        names=st.one_of(st.just(frozenset(TARGETS)), st.frozensets(st.sampled_from(TARGETS))),
        routing=routings,
        fates=st.lists(states, min_size=5, max_size=5),
        renewed=st.sets(st.sampled_from(TARGETS), max_size=1),
        holds=st.booleans(),
        native=natives,
    )
    def change_fleet(self, names, routing, fates, renewed, holds, native):
        for name in renewed:
            self.generations[name] += 1
        self.publish(names, fates, routing, native, holds)

    def publish(self, names, fates, routing, native, holds):
        targets = [
            target(
                name,
                state=state,
                generation=self.generations[name],
                hold_first_event=holds,
                native=native,
                model_name=name,
            )  # fmt: skip
            for name, state in zip(TARGETS, fates, strict=True)
            if name in names
        ]
        self.bench.fleet(*targets, routing=routing)

    @rule(emptied=st.booleans())
    def take_every_target_away(self, emptied):
        self.bench.fleet(endpoint="llm" if emptied else "other")

    @rule(seconds=st.sampled_from([0.01] * 4 + [1, 2, 31, 61, 301, 481]))
    def pass_time(self, seconds):
        self.bench.clock.pass_s(seconds)
        self.bench.router.on_deadline(self.bench.clock.ns)
        for underway in list(self.bench.desk.open):
            underway.expire(self.bench.clock.ns)
        self.settle()

    # --- clients ----------------------------------------------------------------------------

    @rule(
        kind=st.sampled_from(sorted(PATHS)),
        chunks=st.booleans(),
        keep_alive=st.booleans(),
        explain=st.booleans(),
    )
    def send(self, kind, chunks, keep_alive, explain):
        headers = [(b"x-warmroute-explain", b"1")] if explain else []
        before = len(self.bench.observer.ended)
        self.started += 1
        client, underway = self.bench.send(
            PATHS[kind], CHAT, headers=headers, chunks_allowed=chunks, keep_alive=keep_alive and chunks,
            downstream=Client(),
        )  # fmt: skip
        if underway is None:
            self.ended += 1
            assert len(self.bench.observer.ended) == before + 1
            assert client.finished == 1
            assert client.status in (400, 503), "without an attempt the caller may send again"
            return
        new = self.bench.upstreams.calls[self.seen :]
        assert [call.sink for call in new] == [underway]
        self.open.append(Open(kind, client, underway, request_id_of(kind, underway, new[0])))
        self.settle()

    def pick(self, choice):
        return self.open[choice % len(self.open)]

    @property
    def waiting(self):
        """Calls without a byte of an answer."""
        return [one.last for one in self.open if not one.last.status]

    @property
    def answering(self):
        """Calls with the head of an answer and no end."""
        return [one.last for one in self.open if one.last.status]

    @precondition(lambda self: self.open)
    @rule(choice=choices)
    def leave(self, choice):
        one = self.pick(choice)
        one.client.gone = True
        one.underway.client_gone()
        one.underway.client_gone()
        assert one.last.call.cancelled
        self.settle()

    @precondition(lambda self: self.over)
    @rule(choice=choices)
    def disturb_what_is_over(self, choice):
        one = self.over[choice % len(self.over)]
        one.underway.pause()
        one.underway.resume()
        one.underway.expire(self.bench.clock.ns + 10**15)
        one.underway.shut_down()
        one.underway.client_gone()
        self.settle()

    @precondition(lambda self: self.open)
    @rule(choice=choices, slow=st.booleans())
    def read_slowly_or_go_on(self, choice, slow):
        one = self.pick(choice)
        if one.client.sent:  # a client that was sent nothing cannot be slow to read it
            (one.underway.pause if slow else one.underway.resume)()
        self.settle()

    @precondition(lambda self: self.open)
    @rule(choice=choices)
    def shut_down(self, choice):
        one = self.pick(choice)
        one.underway.shut_down()
        assert one.last.call.cancelled
        self.settle()

    # --- instances --------------------------------------------------------------------------

    @precondition(lambda self: self.waiting)
    @rule(choice=choices, status=statuses, kind=content_types, length=lengths)
    def head(self, choice, status, kind, length):
        self.begin_answer(self.waiting[choice % len(self.waiting)], status, kind, length)
        self.settle()

    @precondition(lambda self: self.waiting)
    @rule(
        choice=choices,
        status=statuses,
        kind=content_types,
        length=lengths,
        pieces=st.lists(st.sampled_from(sorted(PIECES)), max_size=4),
    )
    def answer(self, choice, status, kind, length, pieces):
        call = self.waiting[choice % len(self.waiting)]
        self.begin_answer(call, status, kind, length)
        for piece in pieces:
            self.pass_on(call, PIECES[piece])
        self.end_answer(call)
        self.settle()

    @precondition(lambda self: self.answering)
    @rule(choice=choices, piece=st.sampled_from(sorted(PIECES)))
    def body(self, choice, piece):
        self.pass_on(self.answering[choice % len(self.answering)], PIECES[piece])
        self.settle()

    @precondition(lambda self: self.answering)
    @rule(choice=choices)
    def end(self, choice):
        self.end_answer(self.answering[choice % len(self.answering)])
        self.settle()

    @precondition(lambda self: self.waiting)
    @rule(choice=choices, cause=st.sampled_from(CAUSES))
    def fail(self, choice, cause):
        self.fail_call(self.waiting[choice % len(self.waiting)], cause)

    @precondition(lambda self: self.answering)
    @rule(choice=choices, cause=st.sampled_from(CAUSES))
    def break_off(self, choice, cause):
        """Whatever the cause is called, an answer that has begun is not asked for again."""
        self.fail_call(self.answering[choice % len(self.answering)], cause)

    def begin_answer(self, call, status, kind, length):
        call.status, call.length = status, length
        call.call.sink.head(status, [(b"content-type", kind)], length)

    def pass_on(self, call, piece):
        if call.length is not None:
            piece = piece[: call.length - len(call.sent)]
        if piece and not call.call.cancelled:  # a cancelled call reports nothing more
            call.sent += piece
            call.call.sink.body(piece)

    def end_answer(self, call):
        if call.length is not None:
            self.pass_on(call, b"y" * call.length)
        if not call.call.cancelled:
            call.end = "ended"
            call.call.sink.ended()

    def fail_call(self, call, cause):
        call.end = FailureCause.BROKEN.value if call.status else cause.value
        call.call.sink.failed(cause, "it failed")
        self.settle()

    # --- what must hold ---------------------------------------------------------------------

    def settle(self):
        """Take note of new calls and of ends, and check both."""
        for call in self.bench.upstreams.calls[self.seen :]:
            (one,) = [one for one in self.open if one.underway is call.sink]
            assert all(earlier.ran_nothing for earlier in one.tries), "the model may have run already"
            assert not one.client.sent, "no attempt follows a byte of an answer"
            assert len(one.tries) <= ATTEMPTS_MAX, "one more is the same attempt on another path"
            one.tries.append(Try(call))
        self.seen = len(self.bench.upstreams.calls)
        for one in list(self.open):
            if one.underway not in self.bench.desk.open:
                self.open.remove(one)
                self.over.append(one)
                self.ended += 1
                self.check_end(one)

    def check_end(self, one):
        records = [record for record in self.bench.observer.ended if record.request_id == one.request_id]
        assert len(records) == 1, "an invocation ends once"
        (record,) = records
        assert not one.last.live, "nothing goes on for an exchange that is over"
        assert record.outcome in ("completed", "failed", "cancelled")
        assert (record.outcome == "cancelled") is one.client.gone
        assert one.client.finished == (0 if one.client.gone else 1)
        assert record.started_ns <= record.ended_ns
        assert record.first_byte_ns <= record.ended_ns
        if one.kind != "control":
            assert record.started_ns <= record.dispatched_ns <= (record.first_byte_ns or record.ended_ns)
            self.check_bytes(one, record)
        if record.outcome == "failed":
            assert record.problem

    def check_bytes(self, one, record):
        """What was relayed is what the model sent, whole where the answer is complete."""
        client = one.client
        relayed = client.sent and client.status == one.last.status and client.status < 300
        if record.outcome == "completed":
            assert relayed or (client.status == one.last.status and one.kind in ("plain", "messages"))
        elif not relayed:
            return
        data, complete = dechunk(client.sent)
        if record.outcome == "completed":
            assert complete or client.closed
        events = one.kind == "stream"
        told, payload = self.unframe(data) if events else (data, b"")
        assert told.startswith(one.last.sent) if record.outcome == "failed" else told == one.last.sent
        if client.gone or record.outcome == "completed":
            assert not payload
        elif not events:
            rest = told.removeprefix(one.last.sent)
            assert not rest or (one.kind != "native" and b"data: " in rest and b"error" in rest)

    def unframe(self, data):
        """Return the model's bytes in an event stream, and the exception's payload."""
        buffer = EventStreamBuffer()
        buffer.add_data(data)
        told, payload = b"", b""
        for event in buffer:
            assert not payload, "nothing follows an exception"
            if event.headers[":message-type"] == "event":
                told += event.payload
            else:
                payload = event.payload
        return told, payload

    @invariant()
    def as_many_leases_as_open_exchanges(self):
        serving = [one for one in self.open if one.kind != "control"]
        desk, router = self.bench.desk, self.bench.router
        assert router.open_leases() == desk.open_exchanges == len(serving)
        assert [one.underway for one in self.open] == list(desk.open), "in the order they began"
        in_flight = [row[1] for row in router.targets().values()]
        assert all(count >= 0 for count in in_flight)
        assert sum(in_flight) <= len(serving)

    @invariant()
    def what_kv_aware_waits_for_is_of_open_exchanges(self):
        for book in self.bench.router._books():
            for row in book.rows.values():
                assert (row.shelf is not None) == (book.kv is not None and not row.gone)
                if row.shelf is not None:
                    assert row.shelf.pending >= 0
                    assert row.in_flight or row.shelf.pending == row.shelf.resident == 0

    @invariant()
    def every_open_exchange_has_one_call(self):
        for one in self.open:
            assert one.last.live
            assert not any(earlier.live for earlier in one.tries[:-1])
            assert one.client.finished == 0

    @invariant()
    def arrived_is_open_or_ended(self):
        assert self.started == len(self.open) + self.ended
        assert len(self.bench.observer.ended) == self.ended

    def teardown(self):
        for one in list(self.open):
            one.underway.shut_down()
        self.settle()
        assert not self.open
        self.bench.assert_clean()


def request_id_of(kind, underway, call):
    """Return the id of an exchange; of a call to control, as control is told it."""
    if kind != "control":
        return underway.record.request_id
    fields = dict(line.split(b": ", 1) for line in call.head.split(b"\r\n")[1:] if line)
    return fields[b"x-warmroute-request-id"].decode()


TestExchanges = Exchanges.TestCase
TestExchanges.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)


def history(*, routing=None, native=NativeMapping.AUTO):
    """Return the machine with every instance in service, for a history written out."""
    machine = Exchanges()
    machine.begin(routing=routing or Routing(), native=native, holds=False, kinds=["control"])
    machine.answer(0, 200, b"application/json", None, [])
    return machine


def test_found_a_404_of_an_openai_route_is_not_asked_for_again_where_invocations_are_known_missing():
    machine = history()
    machine.publish(TARGETS[:1], [TargetState.IN_SERVICE] * 5, Routing(), NativeMapping.AUTO, holds=False)
    machine.send("native", chunks=True, keep_alive=True, explain=False)
    machine.answer(0, 404, b"text/event-stream", None, ["done"])  # it has no /invocations
    machine.answer(0, 200, b"text/event-stream", None, [])  # and serves on the OpenAI route
    machine.send("native", chunks=True, keep_alive=True, explain=False)
    machine.answer(0, 404, b"text/event-stream", None, [])  # the model's own 404
    assert not machine.open
    machine.teardown()


def test_found_deadlines_end_exchanges_in_the_order_they_began():
    """In a set their order was that of addresses: the same history ejected one instance or another."""
    machine = history(routing=PREFIX_AWARE, native=NativeMapping.INVOCATIONS)
    for _ in range(40):
        machine.send("native", chunks=True, keep_alive=True, explain=False)
    began = [one.last.call.target.target_id for one in machine.open]
    machine.pass_time(61)
    assert [target_id for target_id, _, _ in machine.bench.observer.failures] == began
    machine.teardown()
