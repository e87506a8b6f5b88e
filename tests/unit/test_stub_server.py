"""The stub is what many tests believe: it has to do what it says."""

import http.client
import json
import socket
import time

import pytest

from tests.stub_server import StubProcess, StubServer

CHAT = {"model": "m", "messages": [{"role": "user", "content": "x" * 400}]}


def post(stub, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", stub.port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def eventually(condition):
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came true")


def test_answers_chat_and_counts_what_the_prefix_cache_had():
    with StubServer("a") as stub:
        post(stub, "/v1/chat/completions", CHAT)
        status, body = post(stub, "/v1/chat/completions", CHAT)
        answer = json.loads(body)
        assert status == 200
        assert answer["choices"][0]["message"]["content"] == "Hello from a."
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 100
        assert stub.counters.executions == 2
        assert stub.posts()[0].json() == CHAT


def test_streams_events_that_join_to_the_answer():
    with StubServer("a", pieces=3) as stub:
        status, body = post(stub, "/v1/chat/completions", {**CHAT, "stream": True})
        *events, done, rest = body.decode().split("\n\n")
        chunks = [json.loads(event.removeprefix("data: ")) for event in events]
        text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
        assert (status, text, done, rest) == (200, "Hello from a.", "data: [DONE]", "")


def test_a_request_can_bring_its_own_behaviour():
    with StubServer() as stub:
        assert post(stub, "/invocations", {"stub": {"status": 500}})[0] == 500
        assert post(stub, "/invocations", {})[0] == 200


@pytest.mark.parametrize("fault", ["close_before_answer", "reset_before_answer", "garbage"])
def test_a_fault_before_the_answer_ends_the_connection(fault):
    with StubServer(fault=fault) as stub, pytest.raises((ConnectionError, http.client.HTTPException)):
        post(stub, "/invocations", {})


@pytest.mark.parametrize("fault", ["close_in_answer", "reset_in_answer"])
def test_a_fault_in_the_answer_leaves_it_incomplete(fault):
    with StubServer(fault=fault) as stub, pytest.raises((ConnectionError, http.client.IncompleteRead)):
        post(stub, "/v1/chat/completions", {**CHAT, "stream": True})


def test_a_client_that_goes_away_is_an_aborted_execution():
    with StubServer(fault="stall_before_answer") as stub:
        with socket.create_connection(("127.0.0.1", stub.port)) as client:
            client.sendall(b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
            eventually(lambda: stub.counters.running == 1)
        eventually(lambda: stub.counters.aborted == 1)
        assert stub.counters.running == 0


def test_the_process_form_is_controlled_over_http():
    with StubProcess("b") as stub:
        stub.set(status=503)
        assert post(stub, "/invocations", {})[0] == 503
        assert stub.counters().executions == 1
