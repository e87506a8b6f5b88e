"""KV_AWARE over real engines, on the router's own record: who holds what, what is reported, what is left."""

import contextlib
import http.client
import json
import random
import re
import socket
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

from tests.relay import metric, metrics, running, wait_until_at_rest
from tests.running import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

ENGINES, PREFIXES, TURNS = 3, 6, 4
CHAT, MESSAGES, NATIVE = "/v1/chat/completions", "/v1/messages", "/endpoints/llm/invocations"
NATIVE_STREAM = "/endpoints/llm/invocations-response-stream"
WAYS = (
    (CHAT, {}),
    (CHAT, {"stream": True}),  # no usage: llama.cpp's timings alone
    (CHAT, {"stream": True, "stream_options": {"include_usage": True}}),
    (MESSAGES, {"stream": True}),
    (NATIVE, {}),
    (NATIVE_STREAM, {"stream": True}),
)
"""One for each prefix: the chain of a text is another on a route that counts bytes of bodies."""


@dataclass
class Engine:
    """A llama.cpp server that can be killed and started again at its address."""

    port: int
    process: subprocess.Popen | None = field(default=None, repr=False)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        command = [sys.executable, "-m", "warmroute.adapters.images.llama_cpp"]
        options = ["--port", str(self.port), "--slots", "4", "--threads", "1"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([*command, *options], **quiet)

    def healthy(self):
        try:
            urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
        except OSError:
            return False
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def engines():
    started = [Engine(port) for port in free_ports(ENGINES)]
    try:
        for engine in started:
            engine.start()
        wait_until(lambda: all(engine.healthy() for engine in started))
        yield started
    finally:
        for engine in started:
            engine.kill()


def prefix(seed, length=2500):
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz ", k=length))


@dataclass
class Asked:
    """An answer: the router's receipt, and the engine's count of tokens where it is in the answer."""

    receipt: dict
    body: bytes

    @property
    def tokens(self):
        """Prompt and cached tokens, as llama.cpp tells them in its different ways; the last place counts."""
        text = re.sub(rb"[^\x20-\x7e]", b"", self.body).decode()
        counts = {name: int(value) for name, value in re.findall(r'"(\w+)":(\d+)', text)}
        if "cache_n" in counts:
            return counts["cache_n"] + counts["prompt_n"], counts["cache_n"]
        (read,) = re.findall(r'"cache_read_input_tokens":(\d+)', text)
        (rest,) = re.findall(r'"input_tokens":(\d+)', text)
        return int(read) + int(rest), int(read)


def request(server, path, document):
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.request(
        "POST", path, json.dumps(document), {"Content-Type": "application/json", "x-warmroute-explain": "1"}
    )
    return connection, connection.getresponse()


def ask(server, number, turn, **more):
    path, members = WAYS[number % len(WAYS)]
    text = prefix(number) + f" question {turn}"
    document = {"model": "llm", "messages": [{"role": "user", "content": text}], "max_tokens": 2}
    connection, answer = request(server, path, document | members | more)
    with contextlib.closing(connection):
        body = answer.read()
        assert answer.status == 200, body
        return Asked(json.loads(answer.headers["x-warmroute-decision"]), body)


def leave_in_the_middle(server, number):
    path, members = WAYS[1]
    text = prefix(number) + " and a long story"
    document = {"model": "llm", "messages": [{"role": "user", "content": text}], "max_tokens": 1500}
    connection, answer = request(server, path, document | members)
    assert answer.read(10)
    answer.close()  # unread, so the connection goes with it
    connection.close()


def in_service(server):
    return metric(server, "warmroute_instances", state="in_service")


def target_of(server, engine):
    overview = json.loads(server.get("/", admin=True)[1])
    (found,) = [one["id"] for one in overview["instances"] if one.get("url", "").rstrip("/") == engine.url]
    return found


def test_kv_aware_knows_its_engines_caches_and_forgets_those_of_engines_that_began_anew(engines, tmp_path):
    with running(tmp_path, *(engine.url for engine in engines), flags=("--strategy", "KV_AWARE")) as server:
        wait_until(lambda: metric(server, "warmroute_cache_trust", trust="estimated") == ENGINES)
        everything_stays_where_it_is_cached(server)
        nothing_is_left_of_those_who_leave(server)
        an_engine_that_dies_takes_its_record_with_it(server, engines)


def everything_stays_where_it_is_cached(server):
    rounds = [[ask(server, number, turn) for number in range(PREFIXES)] for turn in range(TURNS)]
    homes = [asked.receipt["instance"] for asked in rounds[0]]
    assert {asked.receipt["reason"] for asked in rounds[0]} <= {"home", "load"}
    assert all(asked.receipt["held_blocks"] == 0 for asked in rounds[0])
    for later in rounds[1:]:
        assert [asked.receipt["instance"] for asked in later] == homes
        for asked in later:
            assert asked.receipt["reason"] == "cached"
            assert asked.receipt["held_blocks"] == asked.receipt["blocks"] == 5  # of 2,048 characters
            prompt, cached = asked.tokens
            assert cached > 0.9 * prompt, "the engine has it, too"
    told = [asked.tokens for row in rounds for asked in row]
    wait_until(lambda: metrics(server).get("warmroute_prompt_tokens_total") == sum(t[0] for t in told))
    assert metrics(server)["warmroute_cached_tokens_total"] == sum(t[1] for t in told)
    assert metric(server, "warmroute_cache_trust", trust="estimated") == ENGINES
    assert metric(server, "warmroute_cache_blocks") == 5 * PREFIXES
    assert metric(server, "warmroute_pending_characters") == 0


def nothing_is_left_of_those_who_leave(server):
    for number in range(PREFIXES):
        leave_in_the_middle(server, number)
    messages = [{"role": "user", "content": prefix(1) * 9}]
    connection, answer = request(server, CHAT, {"model": "llm", "messages": messages})
    with contextlib.closing(connection):
        assert answer.status == 400, "longer than the engine's context"
        answer.read()
    wait_until_at_rest(server)
    assert metric(server, "warmroute_pending_characters") == 0
    assert metric(server, "warmroute_cache_trust", trust="estimated") == ENGINES


def an_engine_that_dies_takes_its_record_with_it(server, engines):
    number = (
        PREFIXES  # a prefix of its own: the others may have copies by now, where callers left in the middle
    )
    target = ask(server, number, "before").receipt["instance"]
    (engine,) = [one for one in engines if target_of(server, one) == target]
    assert metric(server, "warmroute_cache_blocks", target=target) >= 5
    engine.kill()
    elsewhere = ask(server, number, "while it is away")
    assert elsewhere.receipt["instance"] != target
    assert elsewhere.receipt["held_blocks"] == 0
    # Control must see that it is gone: only then is the server that comes in its place another generation.
    wait_until(lambda: in_service(server) == ENGINES - 1)
    engine.start()
    wait_until(lambda: in_service(server) == ENGINES)
    wait_until(lambda: metric(server, "warmroute_cache_blocks", target=target) == 0)
    again = ask(server, number, "when it is back")
    assert again.receipt["instance"] == elsewhere.receipt["instance"], "its new server holds nothing"
    assert again.receipt["reason"] == "cached"
    wait_until_at_rest(server)
    assert metric(server, "warmroute_pending_characters") == 0
