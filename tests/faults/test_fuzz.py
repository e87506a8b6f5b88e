"""Requests and answers damaged at random: callers read well-formed HTTP, and nothing is left of any."""

import contextlib
import itertools
import random
import re
import threading

import pytest

from tests.relay import (
    CHAT_BODY,
    CHAT_PATH,
    ENDPOINT_CHAT_PATH,
    NATIVE_PATH,
    NATIVE_STREAM_PATH,
    RawClient,
    ScriptedServer,
    answering,
    assert_serves,
    request,
    running,
    wait_until_at_rest,
)
from tests.stub_server import StubServer

pytestmark = [pytest.mark.process, pytest.mark.slow]

SEED, CASES, CLIENTS = 20261130, 1500, 32
SETTINGS = """
[timeouts]
head_read_s = 0.3
body_idle_s = 0.3
keep_alive_idle_s = 0.3
"""
CHUNKED = (
    f"POST {CHAT_PATH} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    + b"%x\r\n%b\r\n0\r\n\r\n" % (len(CHAT_BODY), CHAT_BODY)
)
WHOLE = (
    request(CHAT_PATH, CHAT_BODY, "X-Request-Id: a", "Expect: 100-continue"),
    request(ENDPOINT_CHAT_PATH, CHAT_BODY, "Connection: close"),
    request(NATIVE_PATH, CHAT_BODY, "X-Amzn-SageMaker-Prefix-Aware-Id: a", "Accept: */*"),
    request(NATIVE_STREAM_PATH, CHAT_BODY.replace(b"{", b'{"stream": true, ', 1)),
    request("/", b"{}", "X-Amz-Target: SageMaker.ListEndpoints"),
    request("/v1/models", b"", "Upgrade: h2c", "Connection: Upgrade", method="GET"),
    CHUNKED,
)
TOKENS = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b" ",
        b"\t",
        b":",
        b",",
        b'"',
        b"{",
        b"}",
        b"\xff",
        b"\xe2\x82",
        b"%0d%0a",
    ),
    *(
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"HTTP/1.1",
        b"POST ",
    ),
    *(
        b"\r\n\r\n",
        b"0\r\n\r\n",
        b"-1",
        b"ffffffffffffffff",
        b"Host: a\r\n",
        b"Upgrade: h2c\r\n",
        b"a" * 5000,
    ),
)


def damaged(rng):
    """Return one to three requests in a row with a few things wrong."""
    data = bytearray(b"".join(rng.choices(WHOLE, k=rng.choice([1, 1, 1, 2, 3]))))
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data[at:at] = rng.choice(TOKENS)
            case 1:
                del data[at : at + rng.choice([1, 2, 10, 100])]
            case 2:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                del data[at:]
            case 4:
                end = rng.randrange(at, len(data) + 1)
                data[at:at] = data[at:end]
    return bytes(data)


def exchange(url, rng):
    """Send damaged requests in a few pieces and read every answer to the end."""
    data = damaged(rng)
    with RawClient(url, timeout=5.0) as client, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        pieces = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice([0, 0, 1, 3])))
        for start, end in itertools.pairwise([0, *pieces, len(data)]):
            client.send(data[start:end])
        answers = 0
        while first := client.some(1):
            client.unread(first)
            answer = client.answer(head=data.startswith(b"HEAD"))
            assert answer.complete or "content-length" not in answer.headers, (data, answer)
            assert answer.status in {100, *range(200, 600)}, (data, answer)
            answers += 1
        return answers


def test_damaged_requests_are_answered_or_refused(tmp_path):
    with StubServer("a") as stub, running(tmp_path, stub.url, toml=SETTINGS) as server:
        wrong, counts = [], []

        def run(number):
            rng = random.Random(SEED + number)
            for _ in range(CASES // CLIENTS):
                state = rng.getstate()
                try:
                    counts.append(exchange(server.url, rng))
                except Exception as error:
                    rng.setstate(state)
                    wrong.append((error, damaged(rng)))

        threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert sum(count or 0 for count in counts) > CASES / 2
        assert_serves(server)
        wait_until_at_rest(server)


# --- Instances ------------------------------------------------------------------------------

ANSWER_TOKENS = (
    *TOKENS,
    *(
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother",
    ),
    *(
        b"HTTP/1.1 200 OK\r\nX-Poison: ",
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"204",
        b"304",
        b"101",
        b"503",
        b"loading",
    ),
)


def damaged_answer(rng, marker):
    """Return an answer that carries a marker, with a few things wrong, and whether the connection stays."""
    body = b'data: {"choices": [], "marker": "%b"}\n\ndata: [DONE]\n\n' % marker
    kind = rng.choice([b"text/event-stream", b"application/json"])
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nX-Marker: %b\r\n" % (kind, marker)
    data = bytearray(
        rng.choice(
            [
                head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body),
                head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
                head + b"\r\n" + body,
            ]
        )
    )
    for _ in range(rng.choice([0, 1, 1, 2])):
        at = rng.choice([rng.randrange(len(data) + 1), len(data)])
        match rng.randrange(3):
            case 0:
                data[at:at] = rng.choice(ANSWER_TOKENS)
            case 1:
                del data[at : at + rng.choice([1, 10, 1000])]
            case 2:
                data[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(data), rng.random() < 0.7


def marker_of(number, count):
    """Return a marker that no damage turns into another one."""
    return f"<{number}-{count}-{(number * 7919 + count * 104729) % 999983}>"


def markers_in(text):
    found = re.findall(r"<(\d{1,6})-(\d{1,6})-(\d{1,6})>", text)
    return {
        marker_of(int(number), int(count))
        for number, count, check in found
        if marker_of(int(number), int(count)).endswith(f"-{check}>")
    }


def test_damaged_answers_reach_nobody_else_and_end(tmp_path):
    rng = random.Random(SEED)

    def script(arrived, connection):
        data, stays = damaged_answer(rng, arrived.headers["x-request-id"].encode())
        connection.sendall(data)
        return stays

    settings = "[timeouts]\nfirst_byte_native_s = 0.3\nfirst_byte_openai_s = 0.3\nchunk_idle_s = 0.3\n"
    with ScriptedServer(script) as instance, running(tmp_path, instance.url, toml=settings) as server:
        wrong, statuses = [], []

        def run(number):
            choose = random.Random(SEED + number)
            for count in range(CASES // CLIENTS):
                marker = marker_of(number, count)
                path = choose.choice((CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH))
                try:
                    with RawClient(server.url, timeout=5.0) as client:
                        answer = client.send(request(path, CHAT_BODY, f"X-Request-Id: {marker}")).answer()
                except Exception as error:
                    wrong.append((marker, error))
                    continue
                statuses.append(answer.status)
                told = answer.body.decode("latin-1") + str(answer.fields)
                if markers_in(told) - {marker}:
                    wrong.append((marker, answer))

        threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert statuses.count(200) > CASES / 4
        assert statuses.count(424) > CASES / 20
        instance.script = answering(b'{"object": "chat.completion"}')
        wait_until_at_rest(server)
        assert_serves(server)
