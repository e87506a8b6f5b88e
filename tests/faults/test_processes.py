"""The life of warmroute's processes: what dies is started again, what is stopped stops in order."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.running import alive, clean_environment, get, wait_until
from tests.stub_server import StubProcess

pytestmark = pytest.mark.process

CHAT = {"model": "llm", "messages": [{"role": "user", "content": "Which instance are you?"}]}


def post(url, path, body, *, timeout=30.0, headers=()):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    try:
        sent = {"content-type": "application/json", **dict(headers)}
        connection.request("POST", path, json.dumps(body), sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def serve(warmroute_server, stubs, *flags, **options):
    urls = ",".join(stub.url for stub in stubs)
    return warmroute_server("--instances", urls, "--endpoint", "llm", *flags, ready=True, **options)


def test_serves_running_servers_on_both_kinds_of_route(warmroute_server, stub_servers):
    stubs = [stub_servers("a"), stub_servers("b")]
    server = serve(
        warmroute_server,
        stubs,
        "--strategy",
        "PREFIX_AWARE",
        "--prefix-length",
        "4096",
        "--concurrency-threshold",
        "32",
    )

    status, body = post(server.url, "/v1/chat/completions", CHAT)
    assert (status, json.loads(body)["object"]) == (200, "chat.completion")
    native_status, native_body = post(server.url, "/endpoints/llm/invocations", CHAT)
    assert (native_status, json.loads(native_body)["object"]) == (200, "chat.completion")
    assert sum(stub.counters.executions for stub in stubs) == 2


def test_streams_through(warmroute_server, stub_servers):
    server = serve(warmroute_server, [stub_servers("a")])
    status, body = post(server.url, "/v1/chat/completions", {**CHAT, "stream": True})
    assert status == 200
    assert body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything_with_status_0(warmroute_server, stub_servers, number):
    server = serve(warmroute_server, [stub_servers("a")])
    children = [server.child("control"), server.child("router-0")]
    status, took_s = server.stop(number)
    assert (status, [pid for pid in children if alive(pid)]) == (0, []), server.log_text()
    assert took_s < 5.0


def test_ctrl_c_reaches_the_supervisor_alone(warmroute_server):
    server = warmroute_server()
    assert os.getsid(server.child("router-0")) != os.getsid(server.pid)
    assert os.getsid(server.child("control")) != os.getsid(server.pid)


def test_a_stream_that_never_ends_is_ended_with_an_error_within_10_s(warmroute_server, stub_servers):
    stub = stub_servers("a", fault="stall_in_answer")
    server = serve(warmroute_server, [stub])
    answers = []
    client = threading.Thread(
        target=lambda: answers.append(post(server.url, "/v1/chat/completions", {**CHAT, "stream": True}))
    )
    client.start()
    wait_until(lambda: stub.counters.running == 1)

    status, took_s = server.stop()

    client.join(timeout=5.0)
    assert (status, took_s < 10.0) == (0, True), f"{took_s} s\n{server.log_text()}"
    assert b'"error"' in answers[0][1]
    wait_until(lambda: stub.counters.aborted == 1)


def test_a_request_that_runs_is_finished_before_the_end(warmroute_server, stub_servers):
    stub = stub_servers("a", delay_s=1.5)
    server = serve(warmroute_server, [stub])
    answers = []
    client = threading.Thread(target=lambda: answers.append(post(server.url, "/v1/chat/completions", CHAT)))
    client.start()
    wait_until(lambda: stub.counters.running == 1)

    status, took_s = server.stop()

    client.join(timeout=5.0)
    assert (status, answers[0][0]) == (0, 200), server.log_text()
    assert took_s < 5.0


def test_a_second_signal_hurries(warmroute_server, stub_servers):
    stub = stub_servers("a", fault="stall_before_answer")
    server = serve(warmroute_server, [stub])
    client = threading.Thread(target=lambda: _ignore_errors(post, server.url, "/v1/chat/completions", CHAT))
    client.start()
    wait_until(lambda: stub.counters.running == 1)
    server.process.send_signal(signal.SIGINT)
    time.sleep(0.5)

    status, took_s = server.stop(signal.SIGINT)

    client.join(timeout=5.0)
    assert (status, took_s < 3.0) == (0, True), f"{took_s} s\n{server.log_text()}"


def test_a_killed_router_comes_back_on_the_same_port(warmroute_server, stub_servers):
    server = serve(warmroute_server, [stub_servers("a")])
    killed = server.child("router-0")

    os.kill(killed, signal.SIGKILL)

    server.wait_until(lambda: not alive(killed), "the router would not die")
    status, _ = post(server.url, "/v1/chat/completions", CHAT)
    assert (status, server.child("router-0") != killed) == (200, True), server.log_text()


def test_killed_control_comes_back_and_serving_never_stops(warmroute_server, stub_servers):
    server = serve(warmroute_server, [stub_servers("a")])
    killed, router = server.child("control"), server.child("router-0")
    failures, stop = [], threading.Event()

    def call():
        while not stop.is_set():
            status, body = post(server.url, "/v1/chat/completions", CHAT)
            if status != 200:
                failures.append((status, body))

    clients = [threading.Thread(target=call) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        os.kill(killed, signal.SIGKILL)
        server.wait_until(lambda: not alive(killed), "control would not die")
        server.wait_until(lambda: server.get("/healthz", admin=True)[0] == 200, "control did not come back")
    finally:
        stop.set()
        for client in clients:
            client.join()
    assert failures == []
    assert (server.child("control") != killed, server.child("router-0")) == (True, router)


def test_a_router_restarts_alone_from_the_fleet_on_disk(warmroute_server, stub_servers):
    server = serve(warmroute_server, [stub_servers("a")])
    os.kill(server.child("control"), signal.SIGSTOP)
    control = server.child("control")
    try:
        os.kill(server.child("router-0"), signal.SIGKILL)
        assert post(server.url, "/v1/chat/completions", CHAT)[0] == 200, server.log_text()
    finally:
        os.kill(control, signal.SIGCONT)


def test_the_children_die_with_a_killed_supervisor(warmroute_server, stub_servers):
    server = serve(warmroute_server, [stub_servers("a")])
    children = [server.child("control"), server.child("router-0")]
    server.process.kill()
    server.process.wait()
    server.stopped = True
    wait_until(lambda: not any(map(alive, children)), seconds=12.0, explain=server.log_text)


def test_a_killed_instance_leaves_the_others_serving(warmroute_server):
    with StubProcess("a") as first, StubProcess("b") as second:
        server = serve(warmroute_server, [first, second], "--strategy", "LEAST_OUTSTANDING_REQUESTS")
        first.kill()
        answers = [post(server.url, "/v1/chat/completions", CHAT)[0] for _ in range(20)]
        assert answers == [200] * 20, server.log_text()
        assert second.counters().executions == 20


def test_a_second_server_on_the_same_directory_is_refused(warmroute_server):
    server = warmroute_server()
    refused = run("--port", "0", "--admin-port", "0", "--data-dir", str(server.data_dir))
    assert refused.returncode == 2
    assert f"process {server.pid} uses it already" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("flag", ["--port", "--admin-port"])
def test_a_port_that_is_taken_is_named(tmp_path, flag):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        other = {"--port": "--admin-port", "--admin-port": "--port"}[flag]
        refused = run(flag, port, other, "0", "--data-dir", str(tmp_path / "data"))
    assert refused.returncode == 2
    assert f"{flag} {port}: another process listens on 127.0.0.1:{port}" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_the_store_wins_while_the_flags_stay_the_same(warmroute_server, stub_servers):
    stubs = [stub_servers("a"), stub_servers("b")]
    first = serve(warmroute_server, stubs)
    first.stop()

    second = serve(warmroute_server, stubs)
    assert post(second.url, "/v1/chat/completions", CHAT)[0] == 200
    second.wait_until(lambda: "taken from the store" in second.log_text(), "it never said what it took")
    second.stop()

    third = serve(warmroute_server, stubs[1:], "--strategy", "LEAST_OUTSTANDING_REQUESTS")

    def only_the_second_serves():
        before = stubs[0].counters.executions
        assert [post(third.url, "/v1/chat/completions", CHAT)[0] for _ in range(5)] == [200] * 5
        return stubs[0].counters.executions == before

    third.wait_until(lambda: "updated as the flags say" in third.log_text(), "it never said what it took")
    third.wait_until(only_the_second_serves, "the new flags were not taken")


def test_a_restart_without_the_flags_keeps_the_endpoint(warmroute_server, stub_servers):
    serve(warmroute_server, [stub_servers("a")]).stop()
    again = warmroute_server(ready=True)
    assert post(again.url, "/v1/chat/completions", CHAT)[0] == 200, again.log_text()


def test_a_long_data_directory_still_has_its_sockets(warmroute_server, tmp_path, stub_servers):
    server = serve(warmroute_server, [stub_servers("a")], data_dir=tmp_path / ("d" * 120))
    assert post(server.url, "/v1/chat/completions", CHAT)[0] == 200


def test_files_are_for_this_user_alone(warmroute_server, stub_servers):
    server = serve(warmroute_server, [stub_servers("a")])
    post(server.url, "/v1/chat/completions", CHAT)
    open_to_others = [
        str(path) for path in [server.data_dir, *server.data_dir.rglob("*")] if path.lstat().st_mode & 0o077
    ]
    assert open_to_others == []


def test_healthz_answers_without_an_endpoint_and_readyz_does_not_say_yes(warmroute_server):
    server = warmroute_server()
    assert server.get("/healthz")[0] == 200
    assert get(f"{server.url}/readyz")[0] == 503


def run(*flags):
    return subprocess.run(
        [sys.executable, "-m", "warmroute", "serve", *flags],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def _ignore_errors(function, *arguments):
    with contextlib.suppress(OSError, http.client.HTTPException):
        function(*arguments)


def test_credentials_are_asked_for_and_shown_to_no_child(warmroute_server, stub_servers):
    environment = clean_environment(
        WARMROUTE_ACCESS_KEY_ID="AKIDTEST",
        WARMROUTE_SECRET_ACCESS_KEY="a secret for this test",
        WARMROUTE_API_KEYS="team:a key for this test",
    )
    server = serve(warmroute_server, [stub_servers("a")], environment=environment)

    assert post(server.url, "/v1/chat/completions", CHAT)[0] == 401
    assert post(server.url, "/endpoints/llm/invocations", CHAT)[0] == 403
    key = {"authorization": "Bearer a key for this test"}
    assert post(server.url, "/v1/chat/completions", CHAT, headers=key)[0] == 200
    for name in ("control", "router-0"):
        process = Path(f"/proc/{server.child(name)}")
        shown = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        assert b"for this test" not in shown
    assert "for this test" not in server.log_text()
