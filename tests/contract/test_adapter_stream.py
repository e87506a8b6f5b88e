"""What routers tell control of adapters, over a real Unix socket."""

import asyncio
import contextlib

import pytest

from warmroute.adapters.fleet_client import FleetClient
from warmroute.adapters.fleet_stream import FleetServer
from warmroute.adapters.stream_frames import encode
from warmroute.adapters.tasks import Tasks
from warmroute.core import limits
from warmroute.core.fleet import Endpoint, Fleet, Routing, Target, Variant
from warmroute.core.stream import AdapterUse, AdapterUses, AdapterWanted, Hello


def use(in_flight, taken, *, adapter="a", target_id="i-1", generation=1):
    return AdapterUse(target_id, generation, adapter, in_flight, taken)


def fleet(version, *target_ids):
    targets = tuple(Target(each, each, 1, "127.0.0.1", 9000, component="base") for each in target_ids)
    return Fleet(version, "r", "0" * 12, (Endpoint("ep", True, (Variant("v", 1.0, Routing(), targets),)),))


class Stream:
    def __init__(self, directory, expected):
        self.directory = directory
        self.path = str(directory / "fleet.sock")
        self.tasks = Tasks()
        self.news = 0
        self.server = FleetServer(tasks=self.tasks, on_news=self.count, expected=expected)

    def count(self):
        self.news += 1

    def client(self, name="router-0", on_fleet=lambda fleet: None):
        client = FleetClient(
            path=self.path,
            router=name,
            fleet_path=str(self.directory / f"{name}.json"),
            on_fleet=on_fleet,
        )
        client.stop = self.tasks.spawn(client.run(), name=name)
        return client

    async def connected(self, name="router-0", **kwargs):
        client = self.client(name, **kwargs)
        await until(lambda: client.connected and self.told() is not None)
        return client

    def told(self, adapter="a", target_id="i-1", generation=1):
        return self.server.adapter_use(target_id, generation, adapter)[0]

    def taken(self):
        return self.server.adapter_use("i-1", 1, "a")[1]


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  (the condition is anything)
            await asyncio.sleep(0.001)


@pytest.fixture
def stream(tmp_path):
    def run(scenario, *, expected=0):
        async def body():
            made = Stream(tmp_path, expected)
            await made.server.start(made.path)
            try:
                await scenario(made)
            finally:
                await made.server.close()
                await made.tasks.cancel_all()

        asyncio.run(body())

    return run


def test_uses_are_summed_over_the_routers(stream):
    async def scenario(made):
        one, two = await made.connected("router-0"), await made.connected("router-1")
        one.adapter_uses([use(2, 5)])
        two.adapter_uses([use(1, 7)])
        await until(lambda: made.told() == 3)
        assert made.taken() == 12

    stream(scenario)


def test_targets_generations_and_adapters_are_kept_apart(stream):
    async def scenario(made):
        client = await made.connected()
        client.adapter_uses([use(2, 2), use(1, 1, adapter="b")])
        await until(lambda: made.told("b") == 1)
        assert (made.told(target_id="i-2"), made.told(generation=2)) == (0, 0)

    stream(scenario)


def test_a_use_that_is_not_told_any_more_has_ended(stream):
    async def scenario(made):
        client = await made.connected()
        client.adapter_uses([use(2, 2)])
        await until(lambda: made.told() == 2)
        news = made.news
        client.adapter_uses([])
        await until(lambda: made.told() == 0)
        assert made.news > news

    stream(scenario)


def test_what_has_not_changed_is_not_sent_again(stream):
    async def scenario(made):
        client = await made.connected()
        sent = []
        client._send = sent.append
        client.adapter_uses([use(1, 1), use(1, 1, adapter="b")])
        client.adapter_uses([use(1, 1), use(2, 2, adapter="b")])
        client.adapter_uses([use(1, 1), use(2, 2, adapter="b")])
        assert [len(message.uses) for message in sent] == [2, 1]

    stream(scenario)


def test_every_connection_begins_with_all_uses(stream):
    async def scenario(made):
        client = await made.connected()
        client.adapter_uses([use(2, 2)])
        await until(lambda: made.told() == 2)
        client._writer.transport.abort()
        await until(lambda: made.told() == 0)
        await until(lambda: made.told() == 2)

    stream(scenario)


def test_a_router_that_has_not_told_its_uses_leaves_them_unknown(stream):
    async def scenario(made):
        _, writer = await asyncio.open_unix_connection(made.path)
        writer.write(encode(Hello("router-0", 1, 0)))
        await until(made.server.routers)
        assert made.told() is None
        writer.write(encode(AdapterUses()))
        await until(lambda: made.told() == 0)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    stream(scenario)


def test_while_an_expected_router_is_missing_uses_are_unknown(stream):
    async def scenario(made):
        assert made.told() is None
        await made.connected()
        assert made.told() == 0

    stream(scenario, expected=1)


def test_a_router_that_is_missing_for_long_counts_no_more(stream, monkeypatch):
    monkeypatch.setattr(limits, "ROUTER_ACK_S_MAX", 0.0)

    async def scenario(made):
        assert made.told() == 0

    stream(scenario, expected=1)


def test_uses_reach_control_before_the_acknowledgement_of_the_fleet_they_follow(stream):
    async def scenario(made):
        client = await made.connected(on_fleet=lambda fleet: client.adapter_uses([use(4, 4)]))
        assert await made.server.publish(fleet(1, "i-1"), wait_s=5)
        assert made.told() == 4

    stream(scenario)


def test_uses_of_targets_that_left_are_forgotten(stream):
    async def scenario(made):
        client = await made.connected()
        client.adapter_uses([use(2, 2)])
        await until(lambda: made.told() == 2)
        await made.server.publish(fleet(1, "i-2"), wait_s=5)
        assert made.told() == 0

    stream(scenario)


def test_wants_are_taken_once_and_the_furthest_of_each_adapter(stream):
    async def scenario(made):
        client = await made.connected()
        news = made.news
        for adapter, places in (("a", 0), ("a", 2), ("a", 1), ("b", 0)):
            client.want_adapter(AdapterWanted("ep", "base", adapter, places))
        wants = []

        def both():
            wants.extend(made.server.take_adapter_wants())
            return any(want.adapter == "b" for want in wants)

        await until(both)
        furthest = {want.adapter: want.places for want in sorted(wants, key=lambda want: want.places)}
        assert furthest == {"a": 2, "b": 0}
        assert made.news > news
        assert made.server.take_adapter_wants() == ()

    stream(scenario)


def test_without_control_a_want_is_lost(tmp_path):
    client = FleetClient(path="/nowhere", router="r", fleet_path=str(tmp_path / "f"), on_fleet=print)
    client.want_adapter(AdapterWanted("ep", "base", "a", 0))
    assert not client.connected
