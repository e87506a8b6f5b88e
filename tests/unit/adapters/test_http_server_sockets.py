"""The public listener over sockets, on asyncio's own loop and on the one a router runs on."""

import asyncio
import contextlib
import socket
import struct

import pytest
import uvloop
from botocore.eventstream import EventStreamBuffer

from tests.unit.dataplane.conftest import Bench, target
from warmroute.adapters.http_server import LINGER_S_MAX, Listener, ServerLimits

POST = b"POST /endpoints/llm/invocations HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
STREAM = POST.replace(b"invocations", b"invocations-response-stream")
BOUNDS = ServerLimits(write_high_water_bytes=65536)


class Stage:
    """A listener on a real socket, its gateway on fakes."""

    def __init__(self):
        self.bench = Bench().fleet(target("i-1"))
        self.listener = Listener(self.bench.gateway, BOUNDS)
        self.server = None
        self.sockets = []

    async def connect(self, receive_buffer=None):
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, self.server.sockets[0].getsockname())
        self.sockets.append(client)
        return client

    async def send(self, client, data):
        await asyncio.get_running_loop().sock_sendall(client, data)

    async def receive(self, client, size=65536):
        return await asyncio.get_running_loop().sock_recv(client, size)

    async def receive_to_end(self, client):
        data = b""
        while piece := await self.receive(client):
            data += piece
        return data

    async def call(self, number=1):
        """Wait until so many calls were made; return the last."""
        await self.until(lambda: len(self.bench.upstreams.calls) >= number)
        return self.bench.upstreams.calls[number - 1]

    async def until(self, condition):
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110  (what is waited for tells nobody)
                await asyncio.sleep(0)

    async def play(self, scenario):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(self.listener.connection, "127.0.0.1", 0)
        try:
            async with asyncio.timeout(30):
                await scenario(self)
        finally:
            for client in self.sockets:
                client.close()
            self.server.close()
        await self.until(lambda: not self.listener.connections)
        assert self.listener.buffered_bytes == 0
        self.bench.assert_clean()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def play(request):
    """Return what plays a scenario to its end, and finds nothing left."""

    def start(scenario):
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(Stage().play(scenario))

    return start


def reset(client):
    """Close so that the peer gets RST."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def test_requests_are_answered_one_after_another(play):
    async def scenario(stage):
        client = await stage.connect()
        for number in range(1, 4):
            await stage.send(client, POST)
            await stage.call(number)
            stage.bench.upstreams.answer(body=b"%d" % number)
            assert (await stage.receive(client)).endswith(b"\r\n\r\n%d" % number)

    play(scenario)


@pytest.mark.parametrize("leave", [socket.socket.close, reset], ids=["FIN", "RST"])
@pytest.mark.parametrize("request_bytes", [POST, STREAM, POST[:-1], POST + POST])
def test_a_client_that_leaves_takes_everything_along(play, leave, request_bytes):
    async def scenario(stage):
        client = await stage.connect()
        await stage.send(client, request_bytes)
        if request_bytes.endswith(b"body"):
            await stage.call()
        leave(client)
        await stage.until(lambda: not stage.listener.connections)
        assert all(call.cancelled for call in stage.bench.upstreams.calls)
        assert len(stage.bench.upstreams.calls) == request_bytes.endswith(b"body")

    play(scenario)


def test_a_refused_client_reads_its_answer_to_the_end_whatever_it_still_sends(play):
    async def scenario(stage):
        client = await stage.connect()
        await stage.send(client, POST.replace(b": 4", b": 99999999"))
        for _ in range(100):
            await stage.send(client, bytes(65536))
        data = await stage.receive_to_end(client)
        assert data.startswith(b"HTTP/1.1 413 ")
        assert data.endswith(b"}")
        assert len(stage.listener.connections) == 1, "it may still send"
        stage.listener.check(asyncio.get_running_loop().time() + LINGER_S_MAX + 1)
        await stage.until(lambda: not stage.listener.connections)

    play(scenario)


async def fill(stage, call):
    """Send pieces of a stream until its client's connection is full; return how many bytes it took."""
    size = 0
    while not call.paused:
        call.sink.body(b"x" * 65536)
        size += 65536
        assert size < 100_000_000, "a client that does not read stops the instance"
        await asyncio.sleep(0)
    return size


def streamed_bytes(answer):
    """Return how many bytes of the instance's a client got, frames and chunks taken off."""
    body = answer.partition(b"\r\n\r\n")[2]
    frames = EventStreamBuffer()
    while body:
        size, _, body = body.partition(b"\r\n")
        frames.add_data(body[: int(size, 16)])
        body = body[int(size, 16) + 2 :]
    return sum(len(frame.payload) for frame in frames)


def test_a_client_that_does_not_read_stops_the_instance_until_it_does(play):
    async def scenario(stage):
        client = await stage.connect(receive_buffer=65536)
        await stage.send(client, STREAM.replace(b"Host: h", b"Host: h\r\nConnection: close"))
        call = await stage.call()
        call.sink.head(200, [(b"content-type", b"text/event-stream")], None)
        size = await fill(stage, call)
        answer = bytearray()
        while call.paused:
            answer += await stage.receive(client)
        call.sink.ended()
        answer += await stage.receive_to_end(client)
        assert streamed_bytes(bytes(answer)) == size

    play(scenario)


def test_a_client_that_never_reads_is_cut_off_with_what_waited_for_it(play):
    async def scenario(stage):
        client = await stage.connect(receive_buffer=65536)
        await stage.send(client, STREAM)
        call = await stage.call()
        call.sink.head(200, [(b"content-type", b"text/event-stream")], None)
        await fill(stage, call)
        call.sink.ended()
        now_s = asyncio.get_running_loop().time()
        stage.listener.check(now_s + BOUNDS.keep_alive_idle_s + 1)
        assert stage.listener.connections, "its last bytes may still leave"
        stage.listener.check(now_s + BOUNDS.body_idle_s + 1)
        await stage.until(lambda: not stage.listener.connections)

    play(scenario)


def test_a_client_that_reads_nothing_gets_one_answer_at_a_time(play):
    async def scenario(stage):
        client = await stage.connect(receive_buffer=65536)
        await stage.send(client, POST * 20)
        answered = 0
        while True:
            for _ in range(20):
                await asyncio.sleep(0)
            if len(stage.bench.upstreams.calls) == answered:
                break
            stage.bench.upstreams.answer(body=bytes(1_000_000))
            answered += 1
        assert answered < 20, "answers that nobody reads do not pile up"
        received = 0

        async def read():
            nonlocal received
            while received < 20_000_000:
                received += len(await stage.receive(client))

        reading = asyncio.get_running_loop().create_task(read())
        while answered < 20:
            await stage.call(answered + 1)
            stage.bench.upstreams.answer(body=bytes(1_000_000))
            answered += 1
        await reading

    play(scenario)


def test_a_drain_closes_what_is_idle(play):
    async def scenario(stage):
        client = await stage.connect()
        await stage.until(lambda: stage.listener.connections)
        stage.listener.drain()
        with contextlib.suppress(ConnectionResetError):
            assert await stage.receive(client) == b""

    play(scenario)
