"""A router process, run inside the test: what control hears of it, how it drains, and what it imports."""

import asyncio
import contextlib
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import replace

import pytest
import uvloop
from botocore.eventstream import EventStreamBuffer

from tests.unit.dataplane.conftest import target
from warmroute.adapters.fleet_client import save_fleet
from warmroute.adapters.http_server import Listener
from warmroute.adapters.stream_frames import encode, read
from warmroute.app.listeners import listen
from warmroute.app.options import EXIT_CONFIGURATION, RouterOptions
from warmroute.app.options import encode as encode_options
from warmroute.app.router_process import RouterProcess
from warmroute.core.fleet import AccessKey, Endpoint, Fleet, Routing, RoutingStrategy, TargetState, Variant
from warmroute.core.stream import Applied, Counters, Hello, Publish, TargetReport
from warmroute.dataplane.exchange import Exchange
from warmroute.routing.router import Router
from warmroute.sim.replay import replay

NOT_IMPORTED = ("botocore", "sqlalchemy", "starlette", "pydantic", "uvicorn", "alembic", "prometheus_client")
POST = b"POST /endpoints/llm/invocations HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
STREAM = POST.replace(b"invocations", b"invocations-response-stream")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


# --- what it imports ----------------------------------------------------------------------------


def test_a_router_process_imports_little():
    code = "import sys, json, warmroute.app.router_process; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    imported = set(json.loads(run.stdout))
    assert "warmroute.adapters.http_server" in imported
    assert not imported & set(NOT_IMPORTED)
    assert not [
        name for name in imported if name.startswith(("warmroute.controlplane", "warmroute.resources"))
    ]


@pytest.mark.process
def test_an_access_log_that_cannot_be_opened_is_said_in_one_line(tmp_path):
    missing = tmp_path / "missing" / "access.log"
    with listen(host="127.0.0.1", port=0, host_key="host", port_flag="--port") as listener:
        options = RouterOptions(
            name="router-0",
            listen_fd=listener.fileno(),
            stream_path=str(tmp_path / "stream"),
            control_path=str(tmp_path / "control"),
            fleet_path=str(tmp_path / "fleet.json"),
            drain_s=1,
            access_log=str(missing),
        )
        run = subprocess.run(
            [sys.executable, "-m", "warmroute.app.router_process"],
            input=encode_options(options),
            capture_output=True,
            pass_fds=(listener.fileno(),),
            timeout=60,
            check=False,
        )
    (line,) = run.stderr.decode().splitlines()
    assert line.startswith(f"ERROR The access log {missing} cannot be opened: No such file or directory.")
    assert run.returncode == EXIT_CONFIGURATION


# --- the stage ----------------------------------------------------------------------------------


class Control:
    """Control's end of the stream: publishes what the test says, and keeps what it hears."""

    def __init__(self, path):
        self.path = path
        self.heard = []
        self.news = asyncio.Event()
        self.version = 0
        self.server = None
        self.writer = None

    async def start(self):
        self.server = await asyncio.start_unix_server(self.serve, self.path)

    async def serve(self, reader, writer):
        self.writer = writer
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.heard.append(await read(reader, bytes_max=1 << 20))
                self.news.set()
        writer.close()

    async def hear(self, condition):
        """Return the first message heard for which a condition holds; wait for it."""
        while True:
            for message in self.heard:
                if condition(message):
                    return message
            self.news.clear()
            await self.news.wait()

    async def publish(self, *targets):
        """Publish a fleet and wait until it is in force."""
        await self.hear(lambda message: isinstance(message, Hello))
        fleet = fleet_of(*targets, version=self.version + 1)
        self.version = fleet.version
        self.writer.write(encode(Publish(fleet)))
        await self.hear(lambda message: message == Applied(fleet.version))

    async def report(self, **wanted):
        """Wait for a report like this about a target."""
        return await self.hear(
            lambda message: (
                isinstance(message, TargetReport)
                and all(getattr(message, name) == value for name, value in wanted.items())
            )
        )

    async def total(self, metric, at_least):
        """Wait until the counters tell a total; return the labels and values of the metric then."""

        def found(message):
            if not isinstance(message, Counters):
                return False
            return sum(value for name, _, value in message.values if name == metric) >= at_least

        message = await self.hear(found)
        return {tuple(labels): value for name, labels, value in message.values if name == metric}


def fleet_of(*targets, version=1):
    routing = Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)
    endpoint = Endpoint("llm", True, (Variant("AllTraffic", 1.0, routing, targets),))
    return Fleet(version, "eu-west-1", "123456789012", (endpoint,))


class Stage:
    """A router, its control, and an instance made of a bare socket."""

    def __init__(self, directory, drain_s):
        self.listener = listen(host="127.0.0.1", port=0, host_key="host", port_flag="--port")
        self.url = self.listener.getsockname()
        self.instance = socket.create_server(("127.0.0.1", 0))
        self.instance.setblocking(False)
        self.control = Control(str(directory / "stream"))
        self.log = directory / "access.log"
        self.decisions = directory / "decisions.jsonl"
        self.options = RouterOptions(
            name="router-0",
            listen_fd=self.listener.fileno(),
            stream_path=self.control.path,
            control_path=str(directory / "control"),
            fleet_path=str(directory / "fleet.json"),
            drain_s=drain_s,
            access_log=str(self.log),
            decision_log=str(self.decisions),
        )
        self.sockets = [self.instance]
        self.writers = []
        self.task = None
        self.router = None

    def target(self, name="i-1", **changes):
        return target(name, **({"port": self.instance.getsockname()[1]} | changes))

    async def accept(self):
        """Take the next request that reaches the instance, without answering it."""
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(self.instance)
        connection.setblocking(False)
        self.sockets.append(connection)
        data = b""
        while not data.endswith(b"body"):
            piece = await loop.sock_recv(connection, 65536)
            assert piece, "the connection ended before the request"
            data += piece
        return connection

    async def send(self, request=POST):
        """Send a request as a client; return the reader of its answer."""
        reader, writer = await asyncio.open_connection(*self.url)
        writer.write(request)
        self.writers.append(writer)
        return reader

    def terminate(self):
        os.kill(os.getpid(), signal.SIGTERM)

    async def play(self, scenario):
        await self.control.start()
        self.router = router = RouterProcess(self.options)
        self.listener.detach()  # it is the router's now
        self.task = asyncio.get_running_loop().create_task(router.run())
        try:
            async with asyncio.timeout(30):
                await scenario(self)
                if not self.task.done():
                    self.terminate()
                await self.task
        finally:
            for writer in self.writers:
                writer.close()
            for one in self.sockets:
                one.close()
            if self.control.writer is not None:
                self.control.writer.close()
            self.control.server.close()
            await asyncio.sleep(0)


@pytest.fixture
def play(tmp_path):
    """Return what plays a scenario on a stage until the router has ended."""
    thresholds = gc.get_threshold()

    def start(scenario, drain_s=5.0, before=None):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            stage = runner.run(setting(drain_s))
            if before is not None:
                before(stage)
            runner.run(stage.play(scenario))
        return stage

    async def setting(drain_s):
        return Stage(tmp_path, drain_s)

    yield start
    gc.unfreeze()
    gc.set_threshold(*thresholds)


async def whole(reader):
    """Read an answer with a length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head.lower()).group(1))
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)


# --- what control hears -------------------------------------------------------------------------


def test_a_router_says_hello_and_applies_what_control_publishes(play):
    async def scenario(stage):
        hello = await stage.control.hear(lambda message: isinstance(message, Hello))
        assert hello == Hello("router-0", os.getpid(), 0)
        await stage.control.publish(stage.target())
        answer = await stage.send()
        (await stage.accept()).send(OK)
        assert await whole(answer) == (200, b"hi")

    play(scenario)


def test_control_hears_when_a_draining_target_is_idle(play):
    async def scenario(stage):
        await stage.control.publish(stage.target())
        answer = await stage.send()
        connection = await stage.accept()
        await stage.control.publish(stage.target(state=TargetState.DRAINING))
        await stage.control.report(target_id="i-1", generation=1, in_flight=1, ejected=False)
        connection.send(OK)
        assert await whole(answer) == (200, b"hi")
        await stage.control.report(target_id="i-1", in_flight=0)
        reports = [message for message in stage.control.heard if isinstance(message, TargetReport)]
        assert [report.in_flight for report in reports] == [1, 0], "each change is told once"

    play(scenario)


def test_a_target_that_drains_idle_is_told_at_once(play):
    async def scenario(stage):
        await stage.control.publish(stage.target(state=TargetState.DRAINING))
        await stage.control.report(target_id="i-1", in_flight=0)

    play(scenario)


def test_targets_in_service_are_not_told(play):
    async def scenario(stage):
        await stage.control.publish(stage.target())
        answer = await stage.send()
        (await stage.accept()).send(OK)
        await whole(answer)
        await stage.control.total("warmroute_invocations_total", 1)
        assert not [message for message in stage.control.heard if isinstance(message, TargetReport)]

    play(scenario)


def test_control_hears_of_an_ejection_and_of_its_end(play, caplog):
    async def scenario(stage):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        await stage.control.publish(stage.target(port=port), stage.target("i-2", port=port))
        status, _ = await whole(await stage.send())
        assert status == 503
        await stage.control.report(target_id="i-1", ejected=True)
        await stage.control.report(target_id="i-2", ejected=True)
        await stage.control.report(target_id="i-1", ejected=False)

    play(scenario)
    assert "target i-1 is ejected: connect_failed" in caplog.text


def test_control_hears_the_totals_and_the_gauges(play):
    async def scenario(stage):
        control = stage.control
        await control.publish(stage.target())
        answer = await stage.send()
        connection = await stage.accept()
        labels = (("endpoint", "llm"), ("variant", "AllTraffic"), ("target", "i-1"))
        assert await control.total("warmroute_in_flight", 1) == {labels: 1}
        for metric in ("open_exchanges", "open_leases", "connections"):
            assert await control.total(f"warmroute_{metric}", 1) == {(): 1}
        concurrent = (("endpoint", "llm"), ("variant", "AllTraffic"), ("component", ""))
        assert await control.total("warmroute_concurrent_requests", 1) == {concurrent: 1}
        assert await control.total("warmroute_buffered_body_bytes", 1) == {(): 4}
        assert await control.total("warmroute_fleet_version", 1) == {(): 1}
        connection.send(OK)
        await whole(answer)
        ((labels, count),) = (await control.total("warmroute_invocations_total", 1)).items()
        assert dict(labels)["outcome"] == "completed"
        assert count == 1
        last = [message for message in control.heard if isinstance(message, Counters)][-1]
        told = {name: value for name, _, value in last.values}
        assert told["warmroute_in_flight"] == told["warmroute_open_leases"] == 0
        assert told["warmroute_buffered_body_bytes"] == told["warmroute_ejected"] == 0
        assert {name for name, *_ in last.histograms} == {
            "warmroute_first_byte_seconds",
            "warmroute_duration_seconds",
            "warmroute_model_first_byte_seconds",
            "warmroute_model_latency_seconds",
        }
        assert told["warmroute_concurrent_requests"] == 0

    play(scenario)


def test_the_last_totals_are_told_and_the_log_is_written_at_the_end(play):
    async def scenario(stage):
        await stage.control.publish(stage.target())
        answer = await stage.send()
        (await stage.accept()).send(OK)
        await whole(answer)
        stage.terminate()
        await stage.control.total("warmroute_invocations_total", 1)

    stage = play(scenario)
    (line,) = stage.log.read_bytes().splitlines()
    assert json.loads(line)["outcome"] == "completed"


# --- without control ----------------------------------------------------------------------------


def test_a_router_serves_from_the_fleet_it_remembers(play):
    async def scenario(stage):
        stage.control.server.close()
        answer = await stage.send()
        (await stage.accept()).send(OK)
        assert await whole(answer) == (200, b"hi")

    play(scenario, before=lambda stage: save_fleet(stage.options.fleet_path, fleet_of(stage.target())))


def test_a_remembered_fleet_is_said_in_hello_and_kept_until_a_newer_one_comes(play):
    async def scenario(stage):
        hello = await stage.control.hear(lambda message: isinstance(message, Hello))
        assert hello.fleet_version == 7
        stage.control.version = 7
        await stage.control.publish(stage.target())

    play(
        scenario,
        before=lambda stage: save_fleet(stage.options.fleet_path, fleet_of(stage.target(), version=7)),
    )


@pytest.mark.parametrize("remembered", [False, True])
@pytest.mark.parametrize("path", [b"/", b"/endpoints/llm/invocations", b"/v1/chat/completions"])
def test_declared_credentials_count_before_control_has_said_anything(play, path, remembered):
    """Also beside a fleet of an earlier start, which had none."""

    def before(stage):
        keys = (AccessKey("AKID", "secret"),)
        stage.options = replace(stage.options, access_keys=keys)
        if remembered:
            save_fleet(stage.options.fleet_path, fleet_of(stage.target()))

    async def scenario(stage):
        stage.control.server.close()
        request = POST.replace(b"/endpoints/llm/invocations", path)
        status, _ = await whole(await stage.send(request))
        assert status in (401, 403)

    play(scenario, before=before)


def test_without_any_fleet_it_is_alive_but_not_ready(play):
    async def scenario(stage):
        alive = await whole(await stage.send(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"))
        ready = await whole(await stage.send(b"GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n"))
        assert (alive[0], ready[0]) == (200, 503)

    play(scenario)


# --- time ---------------------------------------------------------------------------------------


def test_deadlines_are_watched(play):
    def hasten(stage):
        quick = replace(stage.options.timeouts, first_byte_native_s=0.1, head_read_s=0.1)
        stage.options = replace(stage.options, timeouts=quick)

    async def scenario(stage):
        await stage.control.publish(stage.target())
        answer = await stage.send()
        half = await stage.send(b"POST /endpoints/llm")
        await stage.accept()
        assert (await whole(answer))[0] == 424
        assert (await whole(half))[0] == 408

    play(scenario, before=hasten)


# --- defects ------------------------------------------------------------------------------------


def test_a_router_whose_watch_ends_by_a_defect_ends_too_and_says_so(play, monkeypatch, caplog):
    def broken(_listener, _now_s):
        raise RuntimeError("a defect")

    monkeypatch.setattr(Listener, "check", broken)
    results = []

    async def scenario(stage):
        results.append(await stage.task)

    play(scenario)
    assert results == [False]
    assert "watch ended by a defect" in caplog.text


def test_an_exchange_that_cannot_be_ended_keeps_no_other_waiting(play, monkeypatch, caplog):
    def hasten(stage):
        quick = replace(stage.options.timeouts, first_byte_native_s=0.3)
        stage.options = replace(stage.options, timeouts=quick)

    real = Exchange.expire
    first = []

    def broken(exchange, now_ns):
        first[:] = first or [exchange]
        if exchange is first[0]:
            raise RuntimeError("a defect")
        real(exchange, now_ns)

    monkeypatch.setattr(Exchange, "expire", broken)

    async def scenario(stage):
        await stage.control.publish(stage.target())
        await stage.send()
        await stage.accept()
        while not first:  # noqa: ASYNC110  (the watch sets it)
            await asyncio.sleep(0)
        answer = await stage.send()
        await stage.accept()
        assert (await whole(answer))[0] == 424

    play(scenario, before=hasten)
    assert "could not be ended" in caplog.text


# --- draining -----------------------------------------------------------------------------------


def test_what_runs_is_finished_after_sigterm(play, caplog):
    caplog.set_level("INFO")

    async def scenario(stage):
        await stage.control.publish(stage.target())
        answer = await stage.send()
        connection = await stage.accept()
        stage.terminate()
        while "draining: 1 invocations under way" not in caplog.text:  # noqa: ASYNC110  (a log tells nobody)
            await asyncio.sleep(0)
        with pytest.raises(OSError):
            await asyncio.open_connection(*stage.url)
        connection.send(OK)
        assert await whole(answer) == (200, b"hi")
        assert await answer.read() == b""

    play(scenario)


def test_a_stream_that_does_not_end_is_ended_with_an_error_after_the_drain(play):
    async def scenario(stage):
        await stage.control.publish(stage.target())
        answer = await stage.send(STREAM)
        connection = await stage.accept()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\n")
        await answer.readuntil(b"data: a\n\n")
        stage.terminate()
        buffer = EventStreamBuffer()
        rest = (await answer.read()).partition(b"\r\n")[2]  # of the chunk begun
        size, _, chunk = rest.partition(b"\r\n")
        buffer.add_data(chunk[: int(size, 16)])
        (event,) = buffer
        assert event.headers[":message-type"] == "exception"
        assert b"shutting down" in event.payload

    play(scenario, drain_s=0.1)


def test_an_answer_that_does_not_come_is_an_error_that_no_sdk_sends_again(play):
    async def scenario(stage):
        await stage.control.publish(stage.target())
        answer = await stage.send()
        await stage.accept()
        stage.terminate()
        status, body = await whole(answer)
        assert status == 424
        assert b"shutting down" in body

    play(scenario, drain_s=0.1)


def test_an_idle_client_does_not_hold_the_process(play):
    async def scenario(stage):
        await stage.control.publish(stage.target())
        idle = await stage.send(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        await whole(idle)
        stage.terminate()
        assert await idle.read() == b""

    play(scenario, drain_s=20)


def test_ctrl_c_is_the_supervisors_to_hear(play):
    async def scenario(stage):
        await stage.control.publish(stage.target())
        os.kill(os.getpid(), signal.SIGINT)
        await stage.control.publish(stage.target())
        assert not stage.task.done()

    play(scenario)


# --- the decision log ---------------------------------------------------------------------------


def test_a_run_with_a_decision_log_replays_to_identical_decisions(play):
    async def scenario(stage):
        await stage.control.publish(stage.target(api_key="hidden"), stage.target("i-2", api_key="hidden"))
        for _ in range(5):
            answer = await stage.send()
            (await stage.accept()).send(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert await whole(answer) == (200, b"hi")
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        await stage.control.publish(stage.target(port=port))
        assert (await whole(await stage.send()))[0] == 503
        await stage.control.report(target_id="i-1", ejected=False)

    stage = play(scenario)
    data = stage.decisions.read_bytes()
    found = replay(data.splitlines(keepends=True))
    assert found.difference is None
    assert (found.began.router, found.ended) == ("router-0", "stopped")
    assert found.decisions == 7  # an attempt that is refused, and the one that finds nothing after it
    assert b"hidden" not in data
    assert b'"what":"deadline"' in data


def test_without_a_decision_log_the_router_is_the_plain_one(play):
    def off(stage):
        stage.options = replace(stage.options, decision_log="")

    async def scenario(stage):
        await stage.control.publish(stage.target())
        assert type(stage.router._router) is Router

    assert not play(scenario, before=off).decisions.exists()


def test_a_decision_log_that_cannot_be_opened_any_more_does_not_keep_a_router_from_serving(play, caplog):
    def gone(stage):
        stage.options = replace(stage.options, decision_log=str(stage.decisions / "missing"))

    async def scenario(stage):
        await stage.control.publish(stage.target())
        answer = await stage.send()
        (await stage.accept()).send(OK)
        assert await whole(answer) == (200, b"hi")

    play(scenario, before=gone)
    assert "cannot be opened: No such file or directory" in caplog.text
    assert "Serving goes on without it." in caplog.text


def test_control_hears_that_a_decision_log_has_stopped(play):
    def short(stage):
        stage.options = replace(stage.options, decision_log_bytes_max=10)

    async def scenario(stage):
        await stage.control.publish(stage.target())
        stopped = await stage.control.total("warmroute_decision_log_stopped", 1)
        assert stopped == {(("reason", "full"),): 1}
        answer = await stage.send()
        (await stage.accept()).send(OK)
        assert await whole(answer) == (200, b"hi")

    stage = play(scenario, before=short)
    assert stage.decisions.read_bytes() == b'{"what":"end","why":"full"}\n'
