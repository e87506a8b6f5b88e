"""Control's and a router's ends of the stream, over a real Unix socket."""

import asyncio
import contextlib
import os
import stat
from pathlib import Path

import pytest

from warmroute.adapters.fleet_client import FleetClient, load_fleet, save_fleet
from warmroute.adapters.fleet_stream import FleetServer
from warmroute.adapters.stream_frames import FrameError, encode, read
from warmroute.adapters.tasks import Tasks
from warmroute.core import limits
from warmroute.core.fleet import (
    AccessKey,
    Endpoint,
    Fleet,
    Routing,
    RoutingStrategy,
    Target,
    TargetState,
    Variant,
)
from warmroute.core.stream import Applied, Counters, Hello, Publish, TargetReport


def fleet(version, *targets):
    routing = Routing(RoutingStrategy.PREFIX_AWARE, 4096, 10)
    return Fleet(
        version=version,
        region="eu-west-1",
        account="123456789012",
        endpoints=(Endpoint("ep", True, (Variant("v", 1.0, routing, targets),)),),
        access_keys=(AccessKey("AK", "secret"),),
    )


def target(name="i-1", **changes):
    values = {"target_id": name, "instance_id": name, "generation": 1, "host": "127.0.0.1", "port": 9000}
    return Target(**values | changes)


class Stream:
    """A server and the routers that connect to it."""

    def __init__(self, tmp_path):
        self.tmp_path = tmp_path
        self.path = str(tmp_path / "fleet.sock")
        self.tasks = Tasks()
        self.news = 0
        self.clients = []
        self.applied = {}

    async def __aenter__(self):
        self.server = await self.serve()
        return self

    async def __aexit__(self, *_):
        for client in list(self.clients):
            await self.kill(client)
        await self.server.close()
        await self.tasks.cancel_all()

    async def serve(self):
        server = FleetServer(tasks=self.tasks, on_news=self._count)
        await server.start(self.path)
        return server

    def _count(self):
        self.news += 1

    async def connect(self, name="router-0", on_fleet=None, wait=True):
        """Return a client that runs and is known to the server."""
        applied = self.applied.setdefault(name, [])
        client = FleetClient(
            path=self.path,
            router=name,
            fleet_path=str(self.tmp_path / f"{name}.fleet.json"),
            on_fleet=on_fleet or applied.append,
        )
        client.task = asyncio.ensure_future(client.run())
        self.clients.append(client)
        if wait:
            await until(lambda: any(name == known for known, _, _ in self.server.routers()))
        return client

    async def kill(self, client):
        self.clients.remove(client)
        client.task.cancel()
        await asyncio.gather(client.task, return_exceptions=True)


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  (the condition is anything)
            await asyncio.sleep(0.001)


def run(test):
    """Run a coroutine test against a fresh stream."""

    def wrapped(tmp_path):
        async def body():
            async with Stream(tmp_path) as stream:
                await test(stream)

        asyncio.run(body())

    wrapped.__name__ = test.__name__
    return wrapped


@run
async def test_without_routers_everything_is_acknowledged(stream):
    assert await stream.server.publish(fleet(1), 0.0)
    assert stream.server.open_leases("i-1", 1) == 0


@run
async def test_a_fleet_arrives_whole_and_is_acknowledged_after_it_is_applied(stream):
    await stream.connect()
    sent = fleet(
        1, target(tls=True, path_prefix="/x", model_name="llm", api_key="k", state=TargetState.DRAINING)
    )
    assert await stream.server.publish(sent, 2.0)
    assert stream.applied["router-0"] == [sent]
    assert stream.server.routers() == [("router-0", os.getpid(), 1)]


@run
async def test_every_router_must_acknowledge(stream):
    await stream.connect("router-0")
    await stream.connect("router-1")
    assert await stream.server.publish(fleet(1), 2.0)
    assert stream.applied["router-0"] == stream.applied["router-1"] == [fleet(1)]


@run
async def test_routers_are_counted_by_their_names(stream):
    assert stream.server.router_count() == 1, "nobody is here, and somebody will come"
    first = await stream.connect("router-0")
    assert stream.server.router_count() == 1
    await stream.connect("router-1")
    again = await stream.connect("router-1")
    await until(lambda: len(stream.server.routers()) == 3)
    assert stream.server.router_count() == 2
    await stream.kill(first)
    await stream.kill(again)
    await until(lambda: len(stream.server.routers()) == 1)
    assert stream.server.router_count() == 1


@run
async def test_a_router_that_comes_later_gets_the_newest_fleet(stream):
    await stream.server.publish(fleet(1), 0.0)
    await stream.server.publish(fleet(2), 0.0)
    await stream.connect()
    assert await stream.server.publish(fleet(2), 2.0)
    assert stream.applied["router-0"] == [fleet(2)]


@run
async def test_a_router_that_does_not_answer_is_not_waited_for_longer_than_said(stream):
    reader, writer = await asyncio.open_unix_connection(stream.path)
    writer.write(encode(Hello("deaf", 1, 0)))
    await until(stream.server.routers)
    assert not await stream.server.publish(fleet(1), 0.01)
    writer.write(encode(Applied(version=1)))
    assert await stream.server.publish(fleet(1), 2.0)
    writer.close()


@run
async def test_a_router_that_dies_need_not_acknowledge(stream):
    _, writer = await asyncio.open_unix_connection(stream.path)
    writer.write(encode(Hello("dying", 1, 0)))
    await until(stream.server.routers)
    waiting = asyncio.ensure_future(stream.server.publish(fleet(1), 5.0))
    await asyncio.sleep(0)
    writer.close()
    assert await waiting


@run
async def test_a_router_that_stays_silent_is_let_go(stream):
    reader, writer = await asyncio.open_unix_connection(stream.path)
    writer.write(encode(Hello("deaf", 1, 0)))
    await until(stream.server.routers)
    assert not await stream.server.publish(fleet(1), 0.0)
    (link,) = stream.server._links
    link.owes_since_s -= limits.ROUTER_ACK_S_MAX + 1
    assert await stream.server.publish(fleet(1), 0.0)
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.close()


@run
async def test_the_file_holds_the_last_fleet_for_this_user_alone(stream):
    await stream.connect()
    path = stream.tmp_path / "router-0.fleet.json"
    await stream.server.publish(fleet(1, target()), 2.0)
    await stream.server.publish(fleet(2, target()), 2.0)
    await until(lambda: load_fleet(path) == fleet(2, target()))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in stream.tmp_path.glob("*.new")] == []


@run
async def test_a_router_goes_on_after_control_was_away(stream):
    client = await stream.connect()
    await stream.server.publish(fleet(1), 2.0)
    await stream.server.close()
    await until(lambda: not client.connected)
    client.counters(Counters())
    client.report(TargetReport("i-9", 1, 0, ejected=False))
    stream.server = await stream.serve()
    await until(lambda: client.connected and stream.server.routers())
    assert await stream.server.publish(fleet(2), 2.0)
    assert stream.applied["router-0"] == [fleet(1), fleet(2)]


@run
async def test_a_router_may_be_there_before_control(stream):
    await stream.server.close()
    client = await stream.connect(wait=False)
    await asyncio.sleep(0.01)
    assert not client.connected
    stream.server = await stream.serve()
    await until(stream.server.routers)


@run
async def test_leases_add_up_and_are_unknown_until_every_router_has_said(stream):
    first, second = await stream.connect("router-0"), await stream.connect("router-1")
    await stream.server.publish(fleet(1, target()), 2.0)
    before = stream.news
    first.report(TargetReport("i-1", 1, 2, ejected=False))
    await until(lambda: stream.news > before)
    assert stream.server.open_leases("i-1", 1) is None
    second.report(TargetReport("i-1", 1, 1, ejected=False, sessions=2))
    await until(lambda: stream.server.open_leases("i-1", 1) == 5)
    assert stream.server.open_leases("i-1", 2) is None
    await stream.server.publish(fleet(2), 2.0)
    assert stream.server.open_leases("i-1", 1) is None


@run
async def test_reports_are_repeated_to_a_new_control_while_the_fleet_has_their_target(stream):
    client = await stream.connect()
    await stream.server.publish(fleet(1, target("i-1"), target("i-2")), 2.0)
    for name in ("i-1", "i-2"):
        client.report(TargetReport(name, 1, 1, ejected=False))
    await stream.server.publish(fleet(2, target("i-1")), 2.0)
    await stream.server.close()
    stream.server = await stream.serve()
    await until(lambda: stream.server.open_leases("i-1", 1) == 1 and stream.server.routers())
    assert stream.server.open_leases("i-2", 1) is None


@run
async def test_counters_add_up_over_routers_and_their_restarts(stream):
    first, second = await stream.connect("router-0"), await stream.connect("router-1")
    counters = Counters(values=(("x_total", (("a", "b"),), 2.0),))
    first.counters(counters)
    second.counters(counters)
    key = ("x_total", (("a", "b"),))
    await until(lambda: stream.server.totals.values(frozenset()).get(key) == 4.0)


@run
async def test_a_fleet_that_cannot_be_applied_is_not_acknowledged_and_the_router_serves_on(stream):
    seen = []

    def apply(fleet):
        seen.append(fleet.version)
        if len(seen) == 1:
            raise ValueError("no")

    await stream.connect(on_fleet=apply)
    assert await stream.server.publish(fleet(1), 0.0) is False
    async with asyncio.timeout(5):
        while not await stream.server.publish(fleet(1), 0.2):
            pass
    await until(lambda: seen == [1, 1])


# --- Versions ------------------------------------------------------------------------------------


@run
async def test_a_router_with_a_newer_fleet_than_control_ever_made_raises_the_floor(stream):
    save_fleet(stream.tmp_path / "router-0.fleet.json", fleet(40, target()))
    await stream.server.publish(fleet(3), 0.0)
    await stream.connect()
    assert stream.server.version_floor() == 40
    assert not await stream.server.publish(fleet(3), 0.01)
    assert await stream.server.publish(fleet(41), 2.0)
    assert stream.applied["router-0"] == [fleet(41)]


@run
async def test_a_new_router_with_an_equal_version_must_apply_a_later_one(stream):
    save_fleet(stream.tmp_path / "router-0.fleet.json", fleet(3, target()))
    await stream.server.publish(fleet(3), 0.0)
    await stream.connect()
    assert stream.server.version_floor() == 3
    assert not await stream.server.publish(fleet(3), 0.01)
    assert await stream.server.publish(fleet(4), 2.0)


@run
async def test_a_router_with_an_older_fleet_is_simply_brought_up_to_date(stream):
    save_fleet(stream.tmp_path / "router-0.fleet.json", fleet(3))
    await stream.connect()
    # It may have come before control made its first fleet.
    floor = stream.server.version_floor()
    assert await stream.server.publish(fleet(max(4, floor + 1)), 2.0)


@run
async def test_a_router_that_reconnects_with_our_own_fleet_is_no_stranger(stream):
    client = await stream.connect()
    await stream.server.publish(fleet(5), 2.0)
    client._writer.transport.abort()
    await until(lambda: not client.connected)
    await until(lambda: client.connected and stream.server.routers())
    assert stream.server.version_floor() == 0
    assert await stream.server.publish(fleet(5), 2.0)
    assert stream.applied["router-0"] == [fleet(5)]


# --- Strangers on the socket ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 10,
        b"\x00\x00\x00\x00\x02",
        b"\xff\xff\xff\xff\x02",
        b"\x00\x00\x00\x02\x02\xff",
        b"\x00\x00\x00\x02\x63\x00",
        encode(Publish(fleet(1))),
        encode(Hello("half", 1, 1))[:-1],
    ],
)
def test_what_is_no_message_ends_the_connection_and_nothing_else(tmp_path, data):
    async def body():
        async with Stream(tmp_path) as stream:
            reader, writer = await asyncio.open_unix_connection(stream.path)
            writer.write(data)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
            await stream.connect()
            assert await stream.server.publish(fleet(1), 2.0)

    asyncio.run(body())


def test_the_socket_is_for_this_user_alone_and_replaces_one_left_over(tmp_path):
    async def body():
        async with Stream(tmp_path) as stream:
            assert stat.S_IMODE(Path(stream.path).stat().st_mode) == 0o600  # noqa: ASYNC240
            second = await stream.serve()
            await second.close()

    asyncio.run(body())


def test_a_frame_of_the_longest_length_is_read_and_one_byte_more_is_not():
    async def body(bytes_max):
        reader = asyncio.StreamReader()
        reader.feed_data(encode(Applied(version=1)))
        return await read(reader, bytes_max=bytes_max)

    size = len(encode(Applied(version=1))) - 4
    assert asyncio.run(body(size)) == Applied(version=1)
    with pytest.raises(FrameError, match=f"1 to {size - 1} are allowed"):
        asyncio.run(body(size - 1))


# --- The file ------------------------------------------------------------------------------------


def test_no_fleet_is_loaded_from_a_file_that_is_missing_or_damaged(tmp_path, caplog):
    assert load_fleet(tmp_path / "none") is None
    (tmp_path / "bad").write_bytes(b'{"version": "x"}')
    assert load_fleet(tmp_path / "bad") is None
    assert "cannot be read" in caplog.text


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        save_fleet(tmp_path / "missing" / "fleet.json", fleet(1))
    path = tmp_path / "fleet.json"
    path.mkdir()
    with pytest.raises(OSError):
        save_fleet(path, fleet(1))
    assert list(tmp_path.glob("*.new")) == []


@run
async def test_a_router_serves_on_when_its_file_cannot_be_written(stream):
    (stream.tmp_path / "router-0.fleet.json").mkdir()
    await stream.connect()
    assert await stream.server.publish(fleet(1), 2.0)
    await asyncio.sleep(0.05)
    assert await stream.server.publish(fleet(2), 2.0)


def test_a_server_that_never_started_can_be_closed():
    async def body():
        await FleetServer(tasks=Tasks(), on_news=lambda: None).close()

    asyncio.run(body())
