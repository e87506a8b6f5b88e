"""Connections to instances over sockets, on asyncio's own loop and on the one a router runs on."""

import asyncio
import contextlib
import random
import socket
import struct
import time

import pytest
import uvloop

from tests.unit.adapters.sinks import Answer
from tests.unit.dataplane.conftest import target
from warmroute.adapters.tasks import Tasks
from warmroute.adapters.upstream import Pools
from warmroute.core.events import FailureCause

HEAD = b"POST /invocations HTTP/1.1\r\nhost: i\r\ncontent-length: 4\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nhello"


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    """Return what runs a scenario with pools and a listening socket to its end, and finds nothing left."""

    async def around(scenario, settings):
        tasks = Tasks()
        settings = {"look_again_s": 0.0} | settings
        pools = Pools(tasks=tasks, control_path="/nonexistent/control.sock", **settings)
        with Listening() as listening:
            try:
                async with asyncio.timeout(20):
                    await scenario(pools, listening)
            finally:
                await tasks.cancel_all()
                pools.close()
                listening.hang_up()
            await until(lambda: len(pools) == 0)

    def start(scenario, **settings):
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(around(scenario, settings))

    return start


async def until(condition):
    """Let the loop run until a condition holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  (what is waited for tells nobody)
            await asyncio.sleep(0)


class Listening:
    """An instance made of bare sockets: it does what the test says, when it says it."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.accepted = []
        return self

    def __exit__(self, *exc):
        self.hang_up()
        self.socket.close()

    def hang_up(self):
        for connection in self.accepted:
            connection.close()

    def target(self, **changes):
        return target("i-1", **({"port": self.socket.getsockname()[1]} | changes))

    async def accept(self):
        connection, _ = await asyncio.get_running_loop().sock_accept(self.socket)
        connection.setblocking(False)
        self.accepted.append(connection)
        return connection


async def read_request(connection, size=len(HEAD) + 4):
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < size:
        piece = await loop.sock_recv(connection, size - len(data))
        assert piece, f"the connection ended after {data!r}"
        data += piece
    return data


def reset(connection):
    """Close so that the peer gets RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


async def served(pools, listening):
    """Serve one call over a new connection; return the instance's end of it."""
    answer = Answer()
    pools.call(listening.target(), HEAD, b"body", answer)
    connection = await listening.accept()
    assert await read_request(connection) == HEAD + b"body"
    connection.send(OK)
    await answer.over.wait()
    assert answer.complete
    return connection


def test_a_call_goes_out_and_its_answer_comes_back(run):
    async def scenario(pools, listening):
        await served(pools, listening)
        assert len(pools) == 1

    run(scenario)


def test_nothing_is_reported_from_inside_call(run):
    async def scenario(pools, listening):
        answers = [Answer() for _ in range(3)]
        for answer in answers:
            pools.call(listening.target(), HEAD, b"body", answer)
            assert answer.nothing
        pools.call(target("i-2", port=1), HEAD, b"body", failing := Answer())
        assert failing.nothing
        await failing.over.wait()

    run(scenario)


def test_a_connection_serves_again(run):
    async def scenario(pools, listening):
        connection = await served(pools, listening)
        for _ in range(3):
            answer = Answer()
            pools.call(listening.target(), HEAD, b"again", answer)
            assert await read_request(connection, len(HEAD) + 5) == HEAD + b"again"
            connection.send(CHUNKED)
            await answer.over.wait()
            assert (answer.status, answer.data) == (201, b"hello")
        assert len(listening.accepted) == len(pools) == 1

    run(scenario)


def test_a_large_body_arrives_whole(run):
    async def scenario(pools, listening):
        body = random.Random(1).randbytes(8_000_000)
        answer = Answer()
        pools.call(listening.target(), HEAD, body, answer)
        connection = await listening.accept()
        assert await read_request(connection, len(HEAD) + len(body)) == HEAD + body
        connection.send(OK)
        await answer.over.wait()
        await served_again(pools, listening, connection)

    async def served_again(pools, listening, connection):
        pools.call(listening.target(), HEAD, b"body", Answer())
        assert await read_request(connection) == HEAD + b"body"

    run(scenario)


@pytest.mark.parametrize("end", [socket.socket.close, reset], ids=["FIN", "RST"])
def test_a_connection_that_ended_while_idle_is_replaced(run, end):
    async def scenario(pools, listening):
        end(await served(pools, listening))
        await served(pools, listening)
        assert len(listening.accepted) == 2

    run(scenario)


@pytest.mark.parametrize("end", [socket.socket.close, reset], ids=["FIN", "RST"])
def test_a_connection_that_ends_after_the_request_was_handed_over_may_have_run_it(run, end):
    async def scenario(pools, listening):
        connection = await served(pools, listening)
        answer = Answer()
        pools.call(listening.target(), HEAD, b"body", answer)
        await read_request(connection)
        end(connection)
        await answer.over.wait()
        assert answer.cause is FailureCause.CLOSED

    run(scenario)


def half_close(connection):
    connection.shutdown(socket.SHUT_WR)


ENDS = {"FIN": half_close, "RST": reset, "close with unread data": socket.socket.close}
LARGE = b"x" * 25_000_000
"""More than the kernel takes from one side while the other reads nothing."""


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_reused_connection_that_ends_before_the_body_was_handed_over_has_run_nothing(run, end):
    async def scenario(pools, listening):
        connection = await served(pools, listening)
        answer = Answer()
        pools.call(listening.target(), HEAD, LARGE, answer)
        await read_request(connection)
        end(connection)
        await answer.over.wait()
        assert answer.cause is FailureCause.STALE_CONNECTION
        await until(lambda: len(pools) == 0)

    run(scenario)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_new_connection_that_ends_before_the_body_was_handed_over_is_told_as_closed(run, end):
    async def scenario(pools, listening):
        answer = Answer()
        pools.call(listening.target(), HEAD, LARGE, answer)
        connection = await listening.accept()
        await read_request(connection)
        end(connection)
        await answer.over.wait()
        assert answer.cause is FailureCause.CLOSED
        await until(lambda: len(pools) == 0)

    run(scenario)


def test_an_early_answer_to_a_large_request_is_passed_on_and_ends_the_connection(run):
    async def scenario(pools, listening):
        answer = Answer()
        pools.call(listening.target(), HEAD, LARGE, answer)
        connection = await listening.accept()
        await read_request(connection)
        connection.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
        await answer.over.wait()
        assert (answer.status, answer.data, answer.complete) == (413, b"no", True)
        await until(lambda: len(pools) == 0)

    run(scenario)


def test_an_answer_without_a_length_ends_with_the_connection(run):
    async def scenario(pools, listening):
        answer = Answer()
        pools.call(listening.target(), HEAD, b"body", answer)
        connection = await listening.accept()
        await read_request(connection)
        connection.send(UNTIL_CLOSE)
        await answer.arrived.wait()
        connection.close()
        await answer.over.wait()
        assert (answer.complete, answer.data) == (True, b"hello")

    run(scenario)


def test_a_reset_before_any_answer_is_told_as_closed(run):
    async def scenario(pools, listening):
        answer = Answer()
        pools.call(listening.target(), HEAD, b"body", answer)
        connection = await listening.accept()
        await read_request(connection)
        reset(connection)
        await answer.over.wait()
        assert answer.cause is FailureCause.CLOSED

    run(scenario)


def test_a_cancel_closes_the_connection_at_once(run):
    async def scenario(pools, listening):
        answer = Answer()
        call = pools.call(listening.target(), HEAD, b"body", answer)
        connection = await listening.accept()
        await read_request(connection)
        call.cancel()
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.get_running_loop().sock_recv(connection, 1) == b""
        await until(lambda: len(pools) == 0)
        assert answer.nothing

    run(scenario)


def test_a_paused_call_gets_nothing_until_it_is_resumed(run):
    async def scenario(pools, listening):
        answer = Answer()
        call = pools.call(listening.target(), HEAD, b"body", answer)
        call.pause()  # while it connects
        connection = await listening.accept()
        await read_request(connection)
        connection.send(OK)
        for _ in range(50):
            await asyncio.sleep(0)
        assert answer.nothing
        call.resume()
        await answer.over.wait()
        assert answer.complete

    run(scenario)


def test_a_call_can_be_paused_and_resumed_in_its_answer(run):
    async def scenario(pools, listening):
        answer = Answer()
        call = pools.call(listening.target(), HEAD, b"body", answer)
        connection = await listening.accept()
        await read_request(connection)
        connection.send(OK[:-1])
        await answer.arrived.wait()
        call.pause()
        connection.send(OK[-1:])
        for _ in range(50):
            await asyncio.sleep(0)
        assert not answer.over.is_set()
        call.resume()
        await answer.over.wait()

    run(scenario)


# --- connecting ---------------------------------------------------------------------------------


def test_a_refused_connection_ran_nothing(run):
    async def scenario(pools, listening):
        listening.socket.close()
        answer = Answer()
        call = pools.call(target("i-7", port=1), HEAD, b"body", answer)
        await answer.over.wait()
        assert answer.cause is FailureCause.CONNECT_FAILED
        assert answer.detail.startswith("connecting to i-7 failed (")
        call.cancel()

    run(scenario)


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_host_that_can_be_no_name_ran_nothing(run, host):
    async def scenario(pools, listening):
        answer = Answer()
        pools.call(listening.target(host=host), HEAD, b"body", answer)
        await answer.over.wait()
        assert answer.cause is FailureCause.CONNECT_FAILED

    run(scenario, connect_s=10)


@pytest.fixture
def deaf():
    """Return the port of a socket whose queue is full: a connection to it is neither made nor refused."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        first.connect(listening.getsockname())
        second.setblocking(False)
        second.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


def test_a_connection_that_takes_too_long_ran_nothing(run, deaf):
    async def scenario(pools, listening):
        answer = Answer()
        pools.call(target("i-7", port=deaf), HEAD, b"body", answer)
        await answer.over.wait()
        assert answer.cause is FailureCause.CONNECT_FAILED
        assert answer.detail == "connecting to i-7 took longer than 0.05 s"

    run(scenario, connect_s=0.05)


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 10])
def test_a_cancel_while_connecting_leaves_nothing_behind(run, deaf, rounds):
    async def scenario(pools, listening):
        answer = Answer()
        call = pools.call(target("i-7", port=deaf), HEAD, b"body", answer)
        for _ in range(rounds):
            await asyncio.sleep(0)
        call.cancel()
        call.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert answer.nothing
        assert len(pools) == 0

    run(scenario)


@pytest.mark.parametrize("rounds", range(8))
def test_a_cancel_at_any_moment_of_connecting_leaves_nothing_behind(run, rounds):
    async def scenario(pools, listening):
        answer = Answer()
        call = pools.call(listening.target(), HEAD, b"body", answer)
        for _ in range(rounds):
            await asyncio.sleep(0)
        call.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        assert answer.nothing
        assert len(pools) == 0

    run(scenario)


def test_an_instance_that_closes_at_once_ends_the_call(run):
    async def scenario(pools, listening):
        answer = Answer()
        pools.call(listening.target(), HEAD, b"body", answer)
        reset(await listening.accept())
        await answer.over.wait()
        assert answer.cause in (FailureCause.CLOSED, FailureCause.CONNECT_FAILED)

    run(scenario)


def test_tls_to_a_server_without_it_ran_nothing(run):
    async def scenario(pools, listening):
        answer = Answer()
        pools.call(listening.target(tls=True), HEAD, b"body", answer)
        connection = await listening.accept()
        await read_request(connection, 1)
        connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await answer.over.wait()
        assert answer.cause is FailureCause.CONNECT_FAILED

    run(scenario, connect_s=10)


@pytest.mark.parametrize("size", [4, 2_000_000])
def test_calls_over_tls_use_a_connection_again(run, certificate, size):
    async def scenario(pools, listening):
        bodies = []

        async def serve(reader, writer):
            with contextlib.closing(writer):
                for _ in range(3):
                    await reader.readexactly(len(HEAD))
                    bodies.append(await reader.readexactly(size))
                    writer.write(OK)

        listening.socket.close()
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=certificate) as server:
            port = server.sockets[0].getsockname()[1]
            for number in range(3):
                answer = Answer()
                pools.call(target("i-1", port=port, tls=True), HEAD, b"%d" % number * size, answer)
                await answer.over.wait()
                assert (answer.complete, answer.data) == (True, b"hi"), answer.detail
                assert len(pools) == 1
            assert bodies == [b"0" * size, b"1" * size, b"2" * size]
            await until(lambda: len(pools) == 0)

    run(scenario, connect_s=10)


# --- the control process ------------------------------------------------------------------------


def test_control_that_is_away_ran_nothing(run):
    async def scenario(pools, listening):
        answer = Answer()
        pools.call_control(HEAD, b"body", answer)
        await answer.over.wait()
        assert answer.cause is FailureCause.CONNECT_FAILED
        assert answer.detail.startswith("connecting to the control process failed (")

    run(scenario)


def test_control_is_called_over_its_socket_again_and_again(run, tmp_path):
    async def scenario(pools, listening):
        del pools
        path = str(tmp_path / "c")
        tasks = Tasks()
        pools = Pools(tasks=tasks, control_path=path)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            server.setblocking(False)
            pools.call_control(HEAD, b"body", first := Answer())
            connection, _ = await asyncio.get_running_loop().sock_accept(server)
            connection.setblocking(False)
            with connection:
                for answer in (first, Answer()):
                    if answer is not first:
                        pools.call_control(HEAD, b"body", answer)
                    await read_request(connection)
                    connection.send(OK)
                    await answer.over.wait()
                assert len(pools) == 1
                pools.retire(time.monotonic() + 4)
                await until(lambda: len(pools) == 0)

    run(scenario)


# --- the fleet changes --------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"model_name": "other"}, {"path_prefix": "/x"}, {"api_key": "k"}])
def test_a_target_told_anew_keeps_its_connections(run, changes):
    async def scenario(pools, listening):
        connection = await served(pools, listening)
        pools.call(listening.target(**changes), HEAD, b"body", Answer())
        await read_request(connection)

    run(scenario)


@pytest.mark.parametrize("changes", [{"generation": 2}, {"host": "localhost"}])
def test_a_target_that_started_anew_gets_new_connections(run, changes):
    async def scenario(pools, listening):
        old = await served(pools, listening)
        pools.call(listening.target(**changes), HEAD, b"body", answer := Answer())
        new = await listening.accept()
        assert await asyncio.get_running_loop().sock_recv(old, 1) == b"", "the idle one is closed"
        await read_request(new)
        new.send(OK)
        await answer.over.wait()
        assert answer.complete

    run(scenario, connect_s=10)


def test_a_call_of_an_older_generation_ends_and_its_connection_with_it(run):
    async def scenario(pools, listening):
        pools.call(listening.target(), HEAD, b"body", answer := Answer())
        old = await listening.accept()
        await read_request(old)
        pools.call(listening.target(generation=2), HEAD, b"body", Answer())
        await listening.accept()
        old.send(OK)
        await answer.over.wait()
        assert answer.complete
        assert await asyncio.get_running_loop().sock_recv(old, 1) == b""

    run(scenario)


def test_a_target_that_is_gone_keeps_what_runs_and_nothing_idle(run):
    async def scenario(pools, listening):
        idle = await served(pools, listening)
        pools.call(listening.target(), HEAD, b"body", answer := Answer())
        await read_request(idle)
        busy, idle = idle, await served(pools, listening)
        pools.forget_targets_but({"i-2"})
        assert await asyncio.get_running_loop().sock_recv(idle, 1) == b""
        busy.send(OK)
        await answer.over.wait()
        assert answer.complete
        assert await asyncio.get_running_loop().sock_recv(busy, 1) == b""

    run(scenario)


def test_targets_that_stay_keep_their_connections(run):
    async def scenario(pools, listening):
        connection = await served(pools, listening)
        pools.forget_targets_but({"i-1"})
        pools.call(listening.target(), HEAD, b"body", Answer())
        await read_request(connection)

    run(scenario)


def test_idle_connections_of_every_target_are_retired(run):
    async def scenario(pools, listening):
        connection = await served(pools, listening)
        pools.retire(time.monotonic() + 3)
        assert len(pools) == 1
        pools.retire(time.monotonic() + 4)
        assert await asyncio.get_running_loop().sock_recv(connection, 1) == b""
        await until(lambda: len(pools) == 0)

    run(scenario)
