"""A call of the SageMaker API through the router: control answers it, or its absence is told."""

import json

import pytest

from warmroute.core.events import FailureCause
from warmroute.dataplane.passage import ANSWER_S

CREATE = [(b"x-amz-target", b"SageMaker.CreateModel"), (b"user-agent", b"Boto3/1"), (b"authorization", b"x")]


def call(bench, headers=CREATE, **more):
    return bench.send("/", b"{}", headers=headers, **more)


def test_control_gets_the_call_with_the_principal_and_no_credentials(bench):
    call(bench)
    sent = bench.upstreams.last
    assert sent.target is None
    assert sent.body == b"{}"
    lines = sent.head.split(b"\r\n")
    assert lines[0] == b"POST / HTTP/1.1"
    fields = dict(line.split(b": ", 1) for line in lines[1:] if line)
    request_id = fields.pop(b"x-warmroute-request-id")
    assert len(request_id) == 36
    assert fields == {
        b"host": b"control",
        b"content-type": b"application/json",
        b"x-amz-target": b"SageMaker.CreateModel",
        b"user-agent": b"Boto3/1",
        b"x-warmroute-principal": b"anonymous",
        b"content-length": b"2",
    }
    bench.upstreams.answer()


def test_the_answer_comes_back_whole_with_the_fields_of_the_protocol_only(bench):
    client, _ = call(bench)
    sink = bench.upstreams.last.sink
    sink.head(
        400,
        [
            (b"Content-Type", b"application/x-amz-json-1.1"),
            (b"x-amzn-RequestId", b"r-1"),
            (b"x-amzn-errortype", b"ValidationException"),
            (b"server", b"uvicorn"),
            (b"connection", b"close"),
        ],
        None,
    )
    sink.body(b'{"a":')
    assert not client.sent
    sink.body(b"1}")
    sink.ended()
    assert client.sent == (
        b"HTTP/1.1 400 Bad Request\r\n"
        b"Content-Type: application/x-amz-json-1.1\r\n"
        b"x-amzn-RequestId: r-1\r\n"
        b"x-amzn-errortype: ValidationException\r\n"
        b'content-length: 7\r\n\r\n{"a":1}'
    )
    assert (client.finished, client.closed) == (1, False)


def test_the_record_tells_of_the_call(bench):
    call(bench)
    bench.clock.pass_s(0.5)
    bench.upstreams.answer()
    (record,) = bench.observer.ended
    assert (record.route, record.outcome, record.status) == ("control", "completed", 200)
    assert (record.bytes_in, record.bytes_out, record.principal) == (2, 2, "anonymous")
    assert record.first_byte_ns == record.ended_ns == bench.clock.ns
    assert record.attempts == 0


@pytest.mark.parametrize(
    ("cause", "status", "code"),
    [
        (FailureCause.CONNECT_FAILED, 503, "ServiceUnavailable"),
        (FailureCause.STALE_CONNECTION, 503, "ServiceUnavailable"),
        (FailureCause.CLOSED, 500, "InternalFailure"),
        (FailureCause.BROKEN, 500, "InternalFailure"),
    ],
)
def test_when_control_is_away_the_caller_is_told_in_its_own_protocol(bench, cause, status, code):
    client, _ = call(bench)
    bench.upstreams.last.sink.failed(cause, "refused")
    assert client.status == status
    told = json.loads(client.body)
    assert told["__type"] == code
    assert told["message"] == "The control process did not answer (refused); endpoints go on serving."
    assert int(client.header(b"content-length")) == len(client.body)
    (record,) = bench.observer.ended
    assert (record.outcome, record.cause, record.status) == ("failed", cause.value, status)


def test_an_answer_that_breaks_in_its_middle_is_not_passed_on(bench):
    client, _ = call(bench)
    sink = bench.upstreams.last.sink
    sink.head(200, [], 100)
    sink.body(b"half")
    sink.failed(FailureCause.BROKEN, "reset")
    assert client.status == 500
    assert b"half" not in client.body


def test_a_client_that_goes_stops_the_call(bench):
    client, underway = call(bench)
    underway.client_gone()
    assert bench.upstreams.last.cancelled
    assert (client.sent, client.finished) == (b"", 0)
    assert [record.outcome for record in bench.observer.ended] == ["cancelled"]


def test_control_has_a_minute(bench):
    client, underway = call(bench)
    bench.clock.pass_s(ANSWER_S - 0.001)
    underway.expire(bench.clock.ns)
    assert not client.sent
    bench.clock.pass_s(0.001)
    underway.expire(bench.clock.ns)
    assert client.status == 500
    assert "no answer in 60 s" in json.loads(client.body)["message"]
    assert bench.upstreams.last.cancelled


def test_a_shutdown_ends_the_call(bench):
    client, underway = call(bench)
    underway.shut_down()
    assert client.status == 500
    assert bench.upstreams.last.cancelled
    assert client.finished == 1


@pytest.mark.parametrize("end", ["client_gone", "shut_down", "expire"])
def test_a_call_ends_once(bench, end):
    client, underway = call(bench)
    bench.upstreams.answer()
    bench.clock.pass_s(2 * ANSWER_S)
    getattr(underway, end)(*([bench.clock.ns] if end == "expire" else []))
    assert len(bench.observer.ended) == 1
    assert client.finished == 1
    assert not bench.upstreams.last.cancelled


def test_a_slow_reader_does_not_stop_control(bench):
    _, underway = call(bench)
    underway.pause()
    assert not bench.upstreams.last.paused
    underway.resume()
    bench.upstreams.answer()


@pytest.mark.parametrize("good", [True, False])
def test_a_connection_that_may_not_stay_is_closed_with_the_answer(bench, good):
    client, _ = call(bench, keep_alive=False)
    if good:
        bench.upstreams.answer()
    else:
        bench.upstreams.last.sink.failed(FailureCause.CONNECT_FAILED, "refused")
    assert client.header(b"connection") == b"close"
    assert client.closed
