"""Only what an instance did wrong counts against it: it is ejected, tried again, and comes back."""

import json
import time

import pytest

from tests.relay import (
    CHAT_PATH,
    NATIVE_PATH,
    NATIVE_STREAM_PATH,
    RawClient,
    call,
    metric,
    request,
    running,
    wait_until_at_rest,
)
from tests.running import wait_until
from tests.stub_server import StubServer

pytestmark = pytest.mark.process

SETTINGS = """
[timeouts]
first_byte_native_s = 0.3
first_byte_openai_s = 0.3
chunk_idle_s = 0.3
[limits]
body_bytes = 1048576
"""
PATHS = (CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH)


@pytest.fixture(scope="module")
def stubs():
    with StubServer("a") as first, StubServer("b") as second:
        yield first, second


@pytest.fixture(scope="module")
def server(tmp_path_factory, stubs):
    flags = ("--strategy", "LEAST_OUTSTANDING_REQUESTS")
    urls = [stub.url for stub in stubs]
    with running(tmp_path_factory.mktemp("blame"), *urls, toml=SETTINGS, flags=flags) as started:
        yield started
        wait_until_at_rest(started)


@pytest.fixture(autouse=True)
def _behave_again(server, stubs):
    yield
    for stub in stubs:
        stub.behaviour = type(stub.behaviour)()
    wait_until(lambda: metric(server, "warmroute_ejected") == 0, seconds=10.0)


def ask(path=CHAT_PATH, **stub):
    body = {"model": "llm", "messages": [{"role": "user", "content": "hi"}], "stub": stub}
    return request(path, json.dumps(body).encode())


def ejections(server):
    time.sleep(2.2)  # two of the router's reports
    return metric(server, "warmroute_ejections_total")


def test_a_callers_mistakes_eject_nobody(server):
    before = ejections(server)
    for path in PATHS:
        for status in (400, 404, 408, 413, 422, 429, 499):
            for _ in range(8):
                assert 400 <= call(server, ask(path, status=status)).status < 500
        for data in (
            request(path, b"x" * 2_000_000),
            request("/endpoints/nobody/invocations"),
            b"GARBAGE\r\n\r\n",
        ):
            for _ in range(8):
                assert 400 <= call(server, data).status < 500
    assert ejections(server) == before


def test_callers_that_leave_eject_nobody(server):
    before = ejections(server)
    for path in PATHS:
        for fault in ("stall_before_answer", "stall_in_answer"):
            for _ in range(12):
                client = RawClient(server.url)
                client.send(ask(path, fault=fault))
                time.sleep(0.02)
                client.reset()
    assert ejections(server) == before


@pytest.mark.parametrize(
    "behaviour",
    [
        {"status": 500},
        {"fault": "close_before_answer"},
        {"fault": "reset_before_answer"},
        {"fault": "stall_before_answer"},
        {"fault": "garbage"},
        {"fault": "close_in_answer"},
        {"fault": "stall_in_answer"},
    ],
    ids=lambda behaviour: next(map(str, behaviour.values())),
)
def test_an_instance_that_keeps_failing_is_ejected_and_comes_back(server, stubs, behaviour):
    bad, good = stubs
    bad.behaviour = bad.behaviour.updated(behaviour)
    answers = []

    def ejected():
        answers.append(call(server, ask()).status)
        return metric(server, "warmroute_ejected") == 1

    wait_until(ejected, seconds=20.0)
    assert set(answers) <= {200, 424}
    assert answers.count(424) >= 5
    before = bad.counters.executions

    bad.behaviour = type(bad.behaviour)()

    def serves_again():
        assert call(server, ask()).status == 200
        return bad.counters.executions > before and good.counters.executions > 0

    wait_until(serves_again, seconds=20.0)


def test_when_all_instances_fail_some_go_on_being_asked(server, stubs):
    for stub in stubs:
        stub.behaviour.status = 500
    statuses = [call(server, ask(path)).status for path in PATHS for _ in range(10)]
    assert set(statuses) == {424}
    assert metric(server, "warmroute_ejected") <= 1
