"""Back-pressure: who reads or sends slowly holds no memory, and nobody else waits for them."""

import contextlib
import json
import os
import threading
import time
from pathlib import Path

import pytest

from tests.relay import (
    CHAT_PATH,
    NATIVE_PATH,
    NATIVE_STREAM_PATH,
    RawClient,
    ScriptedServer,
    answering,
    assert_serves,
    call,
    metric,
    request,
    running,
    streaming,
    wait_until_at_rest,
)
from tests.stub_server import StubServer

pytestmark = pytest.mark.process

MIB = 1 << 20
SETTINGS = """
[timeouts]
chunk_idle_s = 0.5
first_byte_native_s = 1
first_byte_openai_s = 1
upstream_idle_s = 0.2
"""


@pytest.fixture(scope="module")
def instance():
    with ScriptedServer() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory, instance):
    with running(tmp_path_factory.mktemp("pressure"), instance.url, toml=SETTINGS) as started:
        yield started
        wait_until_at_rest(started)
        assert metric(started, "warmroute_ejections_total") == 0


@pytest.fixture(autouse=True)
def _still_serves(server, instance):
    instance.script = PLAIN
    assert_serves(server)
    yield
    instance.script = PLAIN
    assert_serves(server)


PLAIN = answering(b'{"object": "chat.completion"}')


def resident_bytes(server):
    pid = server.child("router-0")
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Meanwhile looks at the router's memory and at how quickly it answers others."""

    def __init__(self, server):
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.before = resident_bytes(server)
        self.most = self.before
        self.took_s = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    @property
    def grown(self):
        return self.most - self.before

    def _look(self):
        while not self._stop.wait(0.05):
            begin = time.monotonic()
            assert self._server.get("/healthz")[0] == 200
            self.took_s.append(time.monotonic() - begin)
            self.most = max(self.most, resident_bytes(self._server))

    @property
    def usual_s(self):
        return sorted(self.took_s)[len(self.took_s) // 2]


@pytest.mark.parametrize("path", [CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH])
def test_a_reader_of_1_kb_per_second_holds_no_memory_and_delays_nobody(server, instance, path):
    pieces = [b"data: " + b"x" * 65530] * 800
    sent = []

    def script(arrived, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in pieces:
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            sent.append(len(piece))
        return True

    instance.script = script
    with RawClient(server.url, receive_buffer=4096) as client, Watch(server) as watch:
        client.send(request(path)).answer_head()
        instance.script = PLAIN
        for _ in range(4):
            time.sleep(1.0)
            assert client.some(1024)
    assert watch.grown < 20 * MIB
    assert watch.usual_s < 0.1
    assert sum(sent) < 40 * MIB, "the instance was not held back"


def test_a_caller_that_pauses_longer_than_an_instance_may_gets_its_answer_whole(server, instance):
    pieces = [b"data: " + b"%06d" % number + b"x" * 65536 for number in range(160)]
    instance.script = streaming(pieces)
    with RawClient(server.url, receive_buffer=4096) as client:
        client.send(request(CHAT_PATH))
        time.sleep(2.0)
        answer = client.answer()
    assert (answer.complete, answer.body == b"".join(pieces)) == (True, True)


def test_a_pipeline_whose_answers_nobody_reads_holds_no_memory(server, instance):
    instance.script = answering(b"x" * 900_000)
    before = len(instance.arrived)
    with RawClient(server.url, receive_buffer=4096, timeout=1.0) as client, Watch(server) as watch:
        with contextlib.suppress(TimeoutError):
            for _ in range(300):
                client.send(request(NATIVE_PATH, b"{}") * 100)
        time.sleep(1.0)
        arrived = len(instance.arrived)
        time.sleep(0.5)
        assert len(instance.arrived) == arrived < before + 50, "requests go on although nobody reads"
    assert watch.grown < 20 * MIB


def test_a_pipeline_whose_answers_are_read_late_is_answered_whole(server, instance):
    instance.script = lambda arrived, connection: answering(arrived.body * 1000)(arrived, connection)
    bodies = [f"{number:03}".encode() * 100 for number in range(40)]
    with RawClient(server.url, receive_buffer=4096) as client:
        client.send(b"".join(request(NATIVE_PATH, body) for body in bodies))
        time.sleep(1.0)
        for body in bodies:
            assert client.answer().body == body * 1000


def test_an_instance_that_does_not_read_the_request_is_timed_out(server, instance):
    body = b"x" * (20 * MIB)
    instance.deaf = True
    time.sleep(0.5)  # until the connections that have been heard are retired
    begin = time.monotonic()
    try:
        answer = call(server, request(NATIVE_PATH, body))
    finally:
        instance.deaf = False
    assert (answer.status, json.loads(answer.body)["OriginalStatusCode"]) == (424, 0)
    assert time.monotonic() - begin < 3.0


def test_many_slow_uploads_hold_up_nobody(server, instance):
    clients = [RawClient(server.url) for _ in range(50)]
    try:
        with Watch(server) as watch:
            data = request(NATIVE_PATH, b"x" * 100_000)
            for at in range(0, len(data), 10_000):
                for client in clients:
                    client.send(data[at : at + 10_000])
                time.sleep(0.05)
            assert [client.answer().status for client in clients] == [200] * 50
        assert watch.usual_s < 0.1
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize("uses", [1, 3])
def test_an_instance_that_closes_without_a_word_costs_no_answer_where_its_close_came_first(tmp_path, uses):
    with StubServer("closes", keep_alive_requests=uses) as stub, running(tmp_path, stub.url) as server:
        with RawClient(server.url) as client:
            for _ in range(30):
                assert client.send(request()).answer().status == 200
                time.sleep(0.05)
        assert stub.counters.executions == 30
