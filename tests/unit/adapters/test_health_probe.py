"""Health checks of servers on a real port that answer what a test says."""

import asyncio
import contextlib
import json
import socket
import threading

import pytest

from warmroute.adapters.health_probe import HttpHealthProbe
from warmroute.controlplane.ports import InstanceFact, InstancePhase
from warmroute.core import limits

MODELS = (200, json.dumps({"data": [{"id": "llm"}, {"id": "other"}]}))


class Server:
    """Answers routes from a table; a route it does not have is 404."""

    def __init__(self, **routes):
        self.routes = {f"/{name.replace('__', '/')}": answer for name, answer in routes.items()}
        self.asked = []
        self.heads = []

    async def __aenter__(self):
        self.over = asyncio.Event()
        self.serving = set()
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.over.set()
        await asyncio.gather(*self.serving)
        self.server.close()
        await self.server.wait_closed()

    async def serve(self, reader, writer):
        self.serving.add(asyncio.current_task())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split()[1]
        self.asked.append(path)
        self.heads.append(head)
        answer = self.routes.get(path, (404, ""))
        if callable(answer):
            await answer(writer, self.over)
        else:
            status, body = answer
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def fact_of(port, **changes):
    """Return a running instance of this machine."""
    values = {
        "instance_id": "i-1",
        "instance_type": "t",
        "phase": InstancePhase.RUNNING,
        "generation": 1,
        "host": "127.0.0.1",
        "port": port,
    }
    return InstanceFact(**values | changes)


def ask(server, *, health_path=None, times=1, probe=None, **changes):
    """Return the last of several answers of a probe."""

    async def test():
        async with server:
            fact = fact_of(**{"port": server.port} | changes)
            one = probe or HttpHealthProbe()
            for _ in range(times):
                health = await one.probe(fact, health_path)
            return health

    return asyncio.run(test())


def test_ping_comes_first_and_the_models_name_after():
    server = Server(ping=(200, ""), health=(503, ""), v1__models=MODELS)
    health = ask(server)
    assert (health.ready, health.model_name) == (True, "llm")
    assert server.asked == ["/ping", "/v1/models"]


def test_health_is_asked_where_there_is_no_ping():
    server = Server(health=(200, ""))
    health = ask(server, times=3)
    assert (health.ready, health.model_name) == (True, None)
    assert server.asked == ["/ping", "/health", "/v1/models", "/health", "/health"]


def test_a_server_that_loads_is_not_ready_and_quoted():
    server = Server(health=(503, '{"error": "Loading model"}'))
    health = ask(server, times=2)
    assert not health.ready
    assert health.detail == 'GET /health answered 503: {"error": "Loading model"}'
    assert server.asked == ["/ping", "/health", "/health"]


def test_an_images_own_route_is_the_only_one_asked():
    server = Server(ping=(200, ""))
    assert not ask(server, health_path="/up").ready
    assert server.asked == ["/up"]


@pytest.mark.parametrize(("pid", "ready"), [(None, True), (17, False)])
def test_a_static_server_with_neither_route_is_ready_when_it_answers(pid, ready):
    assert ask(Server(), pid=pid).ready is ready


def test_prefix_and_key_of_the_server_are_used():
    server = Server()
    server.routes = {"/x/ping": (200, "")}
    assert ask(server, path_prefix="/x", api_key="key").ready
    assert "Authorization: Bearer key\r\n" in server.heads[0]


@pytest.mark.parametrize("answer", [(404, ""), (200, "no json"), (200, '{"data": []}'), (200, '{"data": 1}')])
def test_a_model_name_that_is_not_told_is_not_known(answer):
    health = ask(Server(ping=(200, ""), v1__models=answer))
    assert (health.ready, health.model_name) == (True, None)


def test_a_server_that_is_not_there_cannot_be_reached():
    health = ask(Server(), port=1)
    assert not health.ready
    assert health.detail == "It cannot be reached: Connection refused."


def test_a_name_with_several_addresses_of_which_none_answers_gives_each_reason_once(monkeypatch):
    async def open_connection(*_, **__):
        raise OSError(
            "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
            "[Errno 111] Connect call failed ('127.0.0.1', 1)"
        )

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    health = asyncio.run(HttpHealthProbe().probe(fact_of(1, host="localhost"), None))
    assert health.detail == "It cannot be reached: Connection refused."


def test_a_name_that_does_not_exist_is_said_so(monkeypatch):
    async def open_connection(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    health = asyncio.run(HttpHealthProbe().probe(fact_of(1, host="nowhere"), None))
    assert health.detail == "It cannot be reached: Name or service not known."


def test_a_new_generation_is_found_out_anew():
    probe = HttpHealthProbe()
    ask(Server(health=(200, ""), v1__models=MODELS), probe=probe)
    assert ask(Server(ping=(200, "")), probe=probe, generation=2).model_name is None


def test_a_server_that_failed_is_found_out_anew():
    probe = HttpHealthProbe()
    ask(Server(ping=(200, ""), v1__models=MODELS), probe=probe)
    ask(Server(), probe=probe, port=1)
    assert ask(Server(ping=(200, "")), probe=probe).model_name is None


async def hang(writer, over):
    await over.wait()


async def nonsense(writer, over):
    writer.write(b"SSH-2.0-OpenSSH\r\n")


async def nothing(writer, over):
    pass


async def too_much(writer, over):
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (limits.HEALTH_BODY_BYTES_MAX + 1))


async def until_the_end(writer, over):
    writer.write(b"HTTP/1.1 200 OK\r\n\r\nfine")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (hang, "did not answer within"),
        (nonsense, "not HTTP"),
        (nothing, "closed the connection without an answer"),
        (too_much, "longer than 65536 bytes"),
    ],
)
def test_what_is_no_answer_is_a_failed_check(answer, text, monkeypatch):
    monkeypatch.setattr(limits, "HEALTH_PROBE_S", 0.2)
    health = ask(Server(ping=answer))
    assert not health.ready
    assert text in health.detail


def test_a_server_that_does_not_end_tls_costs_no_time(certificate, monkeypatch):
    """It never answers our end of the conversation, for which asyncio waits 30 s by default."""
    opened = []

    def serve(listener):
        with contextlib.suppress(OSError):
            while True:
                connection = certificate.wrap_socket(listener.accept()[0], server_side=True)
                opened.append(connection)
                head = connection.recv(4096)
                answer = MODELS[1] if b"/v1/models" in head else ""
                length = len(answer)
                connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}".encode())

    async def check(port):
        checking = asyncio.ensure_future(HttpHealthProbe().probe(fact_of(port, tls=True), None))
        await asyncio.wait([checking], timeout=10)
        assert checking.done(), "a check takes longer than HEALTH_PROBE_S"
        return checking.result()

    monkeypatch.setattr(limits, "HEALTH_PROBE_S", 5.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        health = asyncio.run(check(listener.getsockname()[1]))
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(20)
    for connection in opened:
        connection.close()
    assert (health.ready, health.model_name) == (True, "llm")


def test_an_answer_that_ends_with_the_connection_is_one():
    assert ask(Server(ping=until_the_end)).ready


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("warmroute.adapters.health_probe.MEMORY_MAX", 1)
    probe = HttpHealthProbe()
    for name in ("i-1", "i-2"):
        ask(Server(ping=(200, "")), probe=probe, instance_id=name)
    assert set(probe._memory) == {"i-2"}
