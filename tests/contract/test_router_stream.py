"""Control's half and a router's half of the fleet stream, over a real Unix socket."""

import asyncio

from warmroute.adapters.fleet_client import FleetClient
from warmroute.adapters.fleet_stream import FleetServer
from warmroute.adapters.tasks import Tasks
from warmroute.core.fleet import Fleet

FLEET = Fleet(version=1, region="us-east-1", account="000000000000")


def test_nothing_is_acknowledged_while_an_expected_router_is_missing(tmp_path):
    applied = []

    async def scenario():
        tasks = Tasks()
        server = FleetServer(tasks=tasks, on_news=lambda: None, expected=1)
        path = str(tmp_path / "fleet.sock")
        await server.start(path)
        alone = await server.publish(FLEET, wait_s=0.05)
        client = FleetClient(
            path=path, router="router-0", fleet_path=str(tmp_path / "fleet.json"), on_fleet=applied.append
        )
        tasks.spawn(client.run(), name="client")
        together = await server.publish(FLEET, wait_s=10.0)
        await server.close()
        await tasks.cancel_all()
        return alone, together

    assert asyncio.run(scenario()) == (False, True)
    assert applied == [FLEET]


def test_without_expected_routers_nobody_is_waited_for(tmp_path):
    async def scenario():
        tasks = Tasks()
        server = FleetServer(tasks=tasks, on_news=lambda: None)
        await server.start(str(tmp_path / "fleet.sock"))
        alone = await server.publish(FLEET, wait_s=0.05)
        await server.close()
        await tasks.cancel_all()
        return alone

    assert asyncio.run(scenario()) is True


def test_routers_that_the_supervisor_keeps_running_count_while_they_are_away():
    def server(expected):
        return FleetServer(tasks=Tasks(), on_news=lambda: None, expected=expected)

    assert [server(expected).router_count() for expected in (0, 1, 4)] == [1, 1, 4]
