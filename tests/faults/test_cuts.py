"""Clients that leave, at every point and all at once; instances that are killed. Nothing is left of any."""

import json
import time

import pytest

from tests.relay import (
    CHAT_PATH,
    ENDPOINT_CHAT_PATH,
    NATIVE_PATH,
    NATIVE_STREAM_PATH,
    RawClient,
    assert_serves,
    metric,
    request,
    running,
    wait_until_at_rest,
)
from tests.running import wait_until
from tests.stub_server import StubServer

pytestmark = pytest.mark.process

ABORTED_WITHIN_S = 1.0
SETTINGS = "[timeouts]\nupstream_idle_s = 1\n"


@pytest.fixture(scope="module")
def stub():
    with StubServer("a") as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory, stub):
    with running(tmp_path_factory.mktemp("cuts"), stub.url, toml=SETTINGS) as started:
        yield started
        wait_until_at_rest(started)


@pytest.fixture(autouse=True)
def _still_serves(server):
    yield
    assert_serves(server)


def generate(path, *, stream, **stub):
    body = {"model": "llm", "messages": [{"role": "user", "content": "hi"}], "stream": stream, "stub": stub}
    return request(path, json.dumps(body).encode())


LEAVE = {"FIN": RawClient.close, "RST": RawClient.reset}
PATHS = (CHAT_PATH, ENDPOINT_CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH)
STREAMS = (CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH)


@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE)
@pytest.mark.parametrize("sent", [1, 60, -30, -1], ids=["method", "headers", "body", "last byte"])
def test_a_client_that_leaves_before_its_request_is_whole_reaches_no_instance(server, stub, leave, sent):
    before = stub.counters.executions
    client = RawClient(server.url)
    client.send(request()[:sent])
    time.sleep(0.05)
    leave(client)
    assert_serves(server)
    assert stub.counters.executions == before + 1


@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_client_that_leaves_before_the_answer_stops_the_instance(server, stub, leave, path, stream):
    executions, aborted = stub.counters.executions, stub.counters.aborted
    client = RawClient(server.url)
    client.send(generate(path, stream=stream, fault="stall_before_answer"))
    wait_until(lambda: stub.counters.executions == executions + 1, seconds=5.0)
    leave(client)
    wait_until(lambda: stub.counters.aborted == aborted + 1, seconds=ABORTED_WITHIN_S)


@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE)
@pytest.mark.parametrize("path", STREAMS)
def test_a_client_that_leaves_in_mid_stream_stops_the_instance(server, stub, leave, path):
    aborted = stub.counters.aborted
    client = RawClient(server.url)
    client.send(generate(path, stream=True, answer="word " * 500, pieces=500, piece_delay_s=0.02))
    assert client.answer_head()[0] == 200
    client.some()
    leave(client)
    wait_until(lambda: stub.counters.aborted == aborted + 1, seconds=ABORTED_WITHIN_S)


@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE)
def test_a_client_that_leaves_while_a_plain_answer_comes_in_stops_the_instance(server, stub, leave):
    executions, aborted = stub.counters.executions, stub.counters.aborted
    client = RawClient(server.url)
    client.send(generate(CHAT_PATH, stream=False, fault="stall_in_answer"))
    wait_until(lambda: stub.counters.executions == executions + 1, seconds=5.0)
    leave(client)
    wait_until(lambda: stub.counters.aborted == aborted + 1, seconds=ABORTED_WITHIN_S)


@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_client_that_leaves_after_the_last_byte_had_its_answer(server, stub, leave, path, stream):
    completed, aborted = stub.counters.completed, stub.counters.aborted
    client = RawClient(server.url)
    assert client.send(generate(path, stream=stream)).answer().complete
    leave(client)
    wait_until(lambda: stub.counters.completed > completed, seconds=5.0)
    assert stub.counters.aborted == aborted


@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE)
def test_a_client_that_leaves_with_requests_waiting_in_its_pipeline_takes_them_along(server, stub, leave):
    executions, aborted = stub.counters.executions, stub.counters.aborted
    client = RawClient(server.url)
    client.send(generate(CHAT_PATH, stream=False, fault="stall_before_answer") + request() * 5)
    wait_until(lambda: stub.counters.executions == executions + 1, seconds=5.0)
    leave(client)
    wait_until(lambda: stub.counters.aborted == aborted + 1, seconds=ABORTED_WITHIN_S)
    assert_serves(server)
    assert stub.counters.executions == executions + 2


def test_clients_that_leave_are_nobodys_failures(server, stub):
    for _ in range(8):
        client = RawClient(server.url)
        client.send(generate(CHAT_PATH, stream=True, fault="stall_in_answer"))
        client.answer_head()
        client.reset()
    assert_serves(server)
    wait_until_at_rest(server)
    assert metric(server, "warmroute_ejected") == 0
    assert metric(server, "warmroute_ejections_total") == 0
    assert metric(server, "warmroute_invocations_total", outcome="cancelled") >= 8
