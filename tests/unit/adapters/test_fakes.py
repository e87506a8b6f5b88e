"""The stand-ins keep the promises of the ports they stand in for."""

import pytest

from tests.unit.dataplane.conftest import target
from warmroute.adapters.fakes import FakeClock, FakeDownstream, FakeObserver, FakeUpstreams
from warmroute.core.events import FailureCause, Invocation
from warmroute.dataplane.ports import Clock, Downstream, Observer, Upstreams
from warmroute.routing.health import HealthChange


class Answer:
    """A sink that remembers."""

    def __init__(self):
        self.told = []

    def head(self, status, fields, length):
        self.told.append((status, fields, length))

    def body(self, data):
        self.told.append(data)

    def ended(self):
        self.told.append("ended")

    def failed(self, cause, detail):
        self.told.append(cause)


def test_time_passes_when_told_on_both_clocks():
    clock = FakeClock()
    port: Clock = clock
    before_ns, before_s = port.now_ns(), port.wall_s()
    assert (port.now_ns(), port.wall_s()) == (before_ns, before_s)
    clock.pass_s(1.5)
    assert port.now_ns() - before_ns == 1_500_000_000
    assert port.wall_s() - before_s == pytest.approx(1.5)


def test_a_client_reads_what_it_was_sent():
    client = FakeDownstream()
    port: Downstream = client
    assert (client.status, client.head, client.body, client.header(b"x")) == (0, b"", b"", None)
    port.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nX-Two: a: b\r\n\r\n")
    port.write(b"hi")
    assert client.status == 404
    assert client.head.startswith(b"HTTP/1.1 404")
    assert client.body == b"hi"
    assert client.header(b"content-length") == b"2"
    assert client.header(b"x-two") == b"a: b"


def test_a_client_hears_of_the_end_and_of_the_body():
    client = FakeDownstream()
    assert client.holds_body
    client.release_body()
    client.release_body()
    assert not client.holds_body
    client.finish(close=True)
    assert (client.finished, client.closed) == (1, True)
    with pytest.raises(AssertionError, match="after the end"):
        client.write(b"more")


def test_an_instance_answers_when_the_test_says_so():
    upstreams = FakeUpstreams()
    port: Upstreams = upstreams
    sink = Answer()
    call = port.call(target("i-1"), b"POST /invocations HTTP/1.1\r\n\r\n", b"body", sink)
    assert sink.told == []
    assert upstreams.last is call
    assert (call.path, call.body, call.target.target_id) == ("/invocations", b"body", "i-1")
    upstreams.answer(201, b"ok", b"text/plain")
    assert sink.told == [(201, [(b"Content-Type", b"text/plain")], 2), b"ok", "ended"]


def test_an_answer_without_a_body_has_no_piece():
    upstreams, sink = FakeUpstreams(), Answer()
    upstreams.call_control(b"POST / HTTP/1.1\r\n\r\n", b"", sink)
    assert upstreams.last.target is None
    upstreams.answer(body=b"")
    assert sink.told == [(200, [(b"Content-Type", b"application/json")], 0), "ended"]


def test_a_call_remembers_what_was_done_to_it():
    call = FakeUpstreams().call(target("i-1"), b"", b"", Answer())
    call.pause()
    assert call.paused
    call.resume()
    assert not call.paused
    call.cancel()
    assert call.cancelled


def test_an_observer_remembers_every_fact():
    observer = FakeObserver()
    port: Observer = observer
    record = Invocation("r", "invocations", 1)
    change = HealthChange("i-1", 1, ejected=True, reason="closed")
    port.invocation_ended(record)
    port.attempt_failed(target("i-1"), FailureCause.CLOSED, again=False)
    port.health_changed(change)
    assert observer.ended == [record]
    assert observer.failures == [("i-1", FailureCause.CLOSED, False)]
    assert observer.changes == [change]
