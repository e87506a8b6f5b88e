"""Many clients at once: half of them cut off at random, an instance killed among them. Counts end at zero."""

import asyncio
import contextlib
import json
import os
import random
import socket
import struct
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.relay import (
    CHAT_PATH,
    NATIVE_PATH,
    NATIVE_STREAM_PATH,
    metric,
    metrics,
    request,
    running,
    wait_until_at_rest,
)
from tests.running import wait_until
from tests.stub_server import StubProcess

pytestmark = [pytest.mark.process, pytest.mark.slow]

SEED = 20261130
UPSTREAM_IDLE_S = 1.0


@contextlib.contextmanager
def stub_processes(count):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(StubProcess(f"stub-{number}")) for number in range(count)]


def descriptors(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- A client on asyncio --------------------------------------------------------------------


class Client:
    """Sends one request after another, keeping its connection where it can."""

    def __init__(self, url):
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)
        self._streams = None

    async def _connect(self):
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        return self._streams

    async def ask(self, data):
        """Return (status, header lines, body, whether the body is whole)."""
        reader, writer = await self._connect()
        writer.write(data)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        lines = head.split("\r\n")
        body, whole = await self._body(reader, lines)
        if not whole or "connection: close" in lines:
            await self.close()
        return int(lines[0].split(" ")[1]), lines, body, whole

    async def _body(self, reader, lines):
        for line in lines:
            if line.startswith("content-length: "):
                return await reader.readexactly(int(line[16:])), True
        body = b""
        while True:
            try:
                size = int(await reader.readuntil(b"\r\n"), 16)
                body += (await reader.readexactly(size + 2))[:-2]
            except (asyncio.IncompleteReadError, ConnectionError):
                return body, False
            if size == 0:
                return body, True

    async def cut(self, data, *, sent, wait_s, read_bytes, reset):
        """Send part of a request, wait, read part of an answer, and leave."""
        reader, writer = await self._connect()
        writer.write(data[:sent])
        if read_bytes:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(read_bytes), wait_s)
        else:
            await asyncio.sleep(wait_s)
        await self.close(reset=reset)

    async def close(self, *, reset=False):
        if self._streams is None:
            return
        _, writer = self._streams
        self._streams = None
        if reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


PATHS = (CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH)


def generate(rng, *, path=None, stream=None, pieces=5, piece_delay_s=0.0):
    stream = rng.random() < 0.5 if stream is None else stream
    question = "question " * rng.randrange(400)
    body = {"model": "llm", "messages": [{"role": "user", "content": question}], "stream": stream}
    body["stub"] = {"piece_delay_s": piece_delay_s, "pieces": pieces}
    return request(path or rng.choice(PATHS), json.dumps(body).encode(), "x-warmroute-explain: 1")


# --- Half of 10,000 requests cut off ---------------------------------------------------------

CLIENTS, REQUESTS = 64, 10_000


async def half_cut(url, count, seed):
    """Send requests from many clients, half of them cut at random points; return what came of the others."""
    came = Counter()

    async def run(number):
        rng = random.Random(seed * 1000 + number)
        client = Client(url)
        for _ in range(count // CLIENTS):
            data = generate(rng, piece_delay_s=rng.choice([0.0, 0.0, 0.005]))
            if rng.random() < 0.5:
                whole = rng.random() < 0.7
                await client.cut(
                    data,
                    sent=len(data) if whole else rng.randrange(len(data)),
                    wait_s=rng.random() * 0.03,
                    read_bytes=rng.choice([0, 1, 200, 2000]),
                    reset=rng.random() < 0.5,
                )
                came["cut"] += 1
            else:
                status, lines, body, whole = await client.ask(data)
                came["complete" if is_complete(status, body, whole=whole) else f"{status} {body[:200]}"] += 1
        await client.close()

    await asyncio.gather(*(run(number) for number in range(CLIENTS)))
    return came


def is_complete(status, body, *, whole):
    return status == 200 and whole and (b"[DONE]" in body or b'"usage"' in body)


@pytest.mark.timeout(180)
def test_nothing_is_left_of_10000_requests_half_of_them_cut_off(tmp_path):
    settings = f"[timeouts]\nupstream_idle_s = {UPSTREAM_IDLE_S}\n"
    with (
        stub_processes(7) as stubs,
        running(tmp_path, *(stub.url for stub in stubs), toml=settings) as server,
    ):
        router = server.child("router-0")
        asyncio.run(half_cut(server.url, 1000, SEED))
        wait_until_at_rest(server)
        descriptors_before, resident_before = descriptors(router), resident_bytes(router)

        begin = time.monotonic()
        came = asyncio.run(half_cut(server.url, REQUESTS, SEED + 1))
        took_s = time.monotonic() - begin

        sent = REQUESTS // CLIENTS * CLIENTS
        assert came["cut"] + came["complete"] == sent, came
        assert came["complete"] > sent * 0.45
        wait_until_at_rest(server)
        wait_until(
            lambda: descriptors(router) <= descriptors_before,
            seconds=UPSTREAM_IDLE_S + 5.0,
            explain=lambda: f"{descriptors_before} descriptors before, {descriptors(router)} after",
        )
        assert resident_bytes(router) < resident_before + (16 << 20)
        now = metrics(server)
        assert now["warmroute_open_leases"] == now["warmroute_open_exchanges"] == 0
        assert now.get("warmroute_ejections_total", 0) == 0
        assert sum(stub.counters().running for stub in stubs) == 0
        assert took_s < 60.0


# --- An instance killed under load -----------------------------------------------------------


def decision(lines):
    """Return the receipt in an answer's header lines, which `Client.ask` gives in lower case."""
    receipts = [line.partition(": ")[2] for line in lines if line.startswith("x-warmroute-decision: ")]
    return json.loads(receipts[0])


def failed_properly(path, stream, status, lines, body):
    """Return whether an answer tells the death of its instance as its dialect does."""
    if status == 424:
        if path == CHAT_PATH:
            return "x-should-retry: false" in lines and json.loads(body)["error"]["code"] == "model_error"
        told = json.loads(body)
        return "x-amzn-errortype: modelerror" in lines and told["OriginalStatusCode"] == 0
    if status != 200 or not stream:
        return False
    if path == CHAT_PATH:
        return json.loads(body.rpartition(b"data: ")[2])["error"]["code"] == "model_error"
    if path == NATIVE_STREAM_PATH:
        return b"ModelStreamError" in body and b"StreamBroken" in body
    return b"[DONE]" not in body  # a plain answer that broke: it can only end too early


async def load_while(url, change, *, clients, seconds):
    """Ask from many clients for some time, changing something a third into it; return all answers."""
    answers = []
    end = time.monotonic() + seconds

    async def run(number):
        rng = random.Random(SEED + number)
        client = Client(url)
        while time.monotonic() < end:
            path, stream = rng.choice(PATHS), rng.random() < 0.5
            data = generate(rng, path=path, stream=stream, pieces=10, piece_delay_s=0.01)
            began = time.monotonic()
            answers.append((began, path, stream, *await client.ask(data)))
        await client.close()

    async def interfere():
        await asyncio.sleep(seconds / 3)
        change()

    await asyncio.gather(interfere(), *(run(number) for number in range(clients)))
    return answers


@pytest.mark.timeout(120)
def test_a_killed_instance_fails_what_it_worked_on_and_nothing_else_and_comes_back(tmp_path):
    clients = 24
    settings = f"[timeouts]\nupstream_idle_s = {UPSTREAM_IDLE_S}\n"
    with (
        stub_processes(3) as stubs,
        running(tmp_path, *(stub.url for stub in stubs), toml=settings) as server,
    ):
        killed = []

        def kill():
            killed.append(time.monotonic())
            stubs[0].kill()

        answers = asyncio.run(load_while(server.url, kill, clients=clients, seconds=3.0))

        failures = [answer for answer in answers if not is_complete(answer[3], answer[5], whole=answer[6])]
        assert 0 < len(failures) <= clients
        for began, path, stream, status, lines, body, _ in failures:
            assert failed_properly(path, stream, status, lines, body), (path, stream, status, lines, body)
            assert began < killed[0] + 0.5
        targets = {decision(answer[4])["instance"] for answer in failures}
        assert len(targets) == 1
        later = [answer for answer in answers if answer[0] > killed[0] + 0.5]
        assert later
        assert targets.isdisjoint(decision(answer[4])["instance"] for answer in later)
        (target,) = targets
        wait_until(lambda: metric(server, "warmroute_ejections_total", target=target) >= 1, seconds=10.0)

        with StubProcess("stub-0", port=stubs[0].port) as again:

            def serves():
                answers = asyncio.run(load_while(server.url, lambda: None, clients=6, seconds=0.2))
                assert all(is_complete(answer[3], answer[5], whole=answer[6]) for answer in answers)
                return again.counters().executions > 0

            wait_until(serves, seconds=45.0, explain=server.log_text)
            wait_until(lambda: metric(server, "warmroute_ejected", target=target) == 0, seconds=10.0)
            wait_until_at_rest(server)
