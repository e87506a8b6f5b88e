"""The control process in this process: its sockets, pages and end, over a pretended provider."""

import asyncio
import http.client
import json
import logging
import signal
import socket
import subprocess
import sys

import pytest

from warmroute.adapters.fleet_client import FleetClient
from warmroute.adapters.providers.memory import MemoryProvider
from warmroute.app.control_options import ControlOptions
from warmroute.app.control_process import ControlProcess, _where, default_providers
from warmroute.app.options import EXIT_CONFIGURATION, encode
from warmroute.controlplane.ports import InstanceFact, InstancePhase
from warmroute.core.declaration import EndpointDeclaration
from warmroute.core.machines import InstanceType, ProviderKind
from warmroute.core.stream import Counters

LOCAL = InstanceType("ml.local", ProviderKind.LOCAL)
COUNTERS = Counters(
    values=(
        ("warmroute_retries_total", (("target", "i-1"), ("cause", "refused")), 3.0),
        ("warmroute_connections", (), 2.0),
    ),
    histograms=(
        (
            "warmroute_duration_seconds",
            (("endpoint", "ep"), ("variant", "v"), ("route", "native")),
            (1, *[0] * 21, 4),
            9.0,
        ),
    ),
)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def ask(connection, method, path, body=None, **headers):
    connection.request(method, path, body=body, headers=headers)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, data


class Control:
    """A control process that runs while the test does."""

    def __init__(self, tmp_path, **options):
        listener = socket.create_server(("127.0.0.1", 0))
        self.admin_port = listener.getsockname()[1]
        self.provider = MemoryProvider()
        self.options = ControlOptions(
            **{
                "admin_fd": listener.detach(),
                "stream_path": str(tmp_path / "fleet.sock"),
                "control_path": str(tmp_path / "control.sock"),
                "data_dir": str(tmp_path),
                "store_url": "",
                "region": "eu-west-1",
                "account": "123456789012",
                "instance_types": {"ml.local": LOCAL},
                "router_count": 0,
            }
            | options
        )

    async def __aenter__(self):
        both = {ProviderKind.LOCAL: self.provider, ProviderKind.STATIC: self.provider}
        self.process = ControlProcess(self.options, providers=lambda *_: both, probe=self.provider)
        self.stop = asyncio.Event()
        self.running = asyncio.ensure_future(self.process.run(self.stop))
        async with asyncio.timeout(10):
            while len(self.process._servers) < 2:  # noqa: ASYNC110  (it tells nobody)
                await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        self.stop.set()
        await self.running

    async def api(self, operation, **request):
        status, data = await asyncio.to_thread(
            ask,
            UnixConnection(self.options.control_path),
            "POST",
            "/",
            json.dumps(request),
            **{"X-Amz-Target": f"SageMaker.{operation}", "x-warmroute-principal": "ann"},
        )
        assert status == 200, data
        return json.loads(data)

    async def admin(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=10)
        status, data = await asyncio.to_thread(ask, connection, "GET", path)
        return status, data.decode()

    async def create(self):
        await self.api("CreateModel", ModelName="m", PrimaryContainer={})
        variant = {
            "VariantName": "v",
            "ModelName": "m",
            "InstanceType": "ml.local",
            "InitialInstanceCount": 2,
        }
        await self.api("CreateEndpointConfig", EndpointConfigName="c", ProductionVariants=[variant])
        await self.api("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
        assert (await self.api("DescribeEndpoint", EndpointName="ep"))["EndpointStatus"] == "InService"


async def logged(caplog, text):
    async with asyncio.timeout(10):
        while text not in caplog.text:  # noqa: ASYNC110  (a log tells nobody)
            await asyncio.sleep(0.01)


def test_the_api_and_the_pages_of_the_admin_port(tmp_path, caplog):
    caplog.set_level(logging.INFO)

    async def test():
        async with Control(tmp_path) as control:
            await control.create()
            fleet_path = str(tmp_path / "r.json")
            client = FleetClient(
                path=control.options.stream_path, router="r0", fleet_path=fleet_path, on_fleet=lambda _: None
            )
            connected = asyncio.ensure_future(client.run())
            async with asyncio.timeout(10):
                while "warmroute_retries_total" not in (await control.admin("/metrics"))[1]:
                    client.counters(COUNTERS)
            status, metrics = await control.admin("/metrics")
            assert status == 200
            for line in (
                'warmroute_retries_total{cause="refused",target="i-1"} 3.0',
                "warmroute_connections 2.0",
                'warmroute_duration_seconds_bucket{endpoint="ep",le="0.001",route="native",variant="v"} 1.0',
                'warmroute_duration_seconds_bucket{endpoint="ep",le="+Inf",route="native",variant="v"} 5.0',
                'warmroute_endpoints{status="InService"} 1.0',
                'warmroute_instances{endpoint="ep",state="in_service",variant="v"} 2.0',
                "warmroute_routers 1.0",
                'warmroute_api_calls_total{code="",operation="CreateEndpoint"} 1.0',
            ):
                assert line in metrics.splitlines()
            status, index = await control.admin("/")
            overview = json.loads(index)
            assert (status, overview["endpoints"]) == (200, {"ep": "InService"})
            assert [router["name"] for router in overview["routers"]] == ["r0"]
            listed = {fact.instance_id: fact for fact in await control.provider.list()}
            assert {one["id"]: one["url"] for one in overview["instances"]} == {
                key: f"http://{fact.host}:{fact.port}" for key, fact in listed.items()
            }
            assert await control.admin("/healthz") == (200, '{"status":"ok"}')
            assert (await control.admin("/nothing"))[0] == 404
            connected.cancel()
            await asyncio.gather(connected, return_exceptions=True)

    asyncio.run(test())
    assert "CreateEndpoint ep (config c) by ann" in caplog.text


def test_an_operator_sees_the_requests_in_flight_over_all_routers(tmp_path):
    async def test():
        async with Control(tmp_path) as control:
            await control.create()
            instance = next(iter(await control.provider.list())).instance_id
            labels = (("endpoint", "ep"), ("variant", "v"), ("target", instance))
            clients = [
                FleetClient(
                    path=control.options.stream_path,
                    router=name,
                    fleet_path=str(tmp_path / f"{name}.json"),
                    on_fleet=lambda _: None,
                )
                for name in ("r0", "r1")
            ]
            connected = [asyncio.ensure_future(client.run()) for client in clients]
            async with asyncio.timeout(10):
                while await in_flight(control, instance) != 5:
                    for client, count in zip(clients, (2.0, 3.0), strict=True):
                        client.counters(Counters(values=(("warmroute_in_flight", labels, count),)))
            for task in connected:
                task.cancel()
            await asyncio.gather(*connected, return_exceptions=True)

    asyncio.run(test())


async def in_flight(control, instance):
    """Return what the operator's API says of an instance's requests."""
    status, data = await asyncio.to_thread(
        ask,
        UnixConnection(control.options.control_path),
        "POST",
        "/",
        json.dumps({"EndpointName": "ep"}),
        **{"X-Amz-Target": "Warmroute.DescribeEndpoint"},
    )
    assert status == 200, data
    (found,) = [one for one in json.loads(data)["Instances"] if one["InstanceId"] == instance]
    return found.get("InFlight")


def test_healthz_fails_when_nothing_is_reconciled_any_more(tmp_path, monkeypatch):
    monkeypatch.setattr("warmroute.app.control_process.STUCK_S", -1.0)

    async def test():
        async with Control(tmp_path) as control:
            await control.api("ListModels")
            assert (await control.admin("/healthz"))[0] == 503

    asyncio.run(test())


@pytest.mark.parametrize(("keep", "left"), [(False, 0), (True, 2)])
def test_at_the_end_instances_are_stopped_unless_they_are_kept(tmp_path, keep, left):
    async def test():
        async with Control(tmp_path, keep_instances=keep) as control:
            await control.create()
        assert len(control.provider.instances) == left

    asyncio.run(test())


def test_an_instance_that_does_not_stop_is_not_waited_for_longer_than_allowed(tmp_path, caplog):
    async def test():
        async with Control(tmp_path, stop_s=0.05) as control:
            await control.create()

            async def stop(*_):
                await asyncio.sleep(60)

            control.provider.stop = stop

    asyncio.run(test())
    assert "Not every instance has stopped in time" in caplog.text


def test_the_flags_of_serve_are_carried_out_and_known_at_a_start_without_them(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    fixed = InstanceType("static.llm", ProviderKind.STATIC, urls=("http://a",))

    async def test():
        async with Control(tmp_path, declare=EndpointDeclaration("llm", fixed)) as control:
            await logged(caplog, "created as the flags say")
            described = await control.api("DescribeEndpoint", EndpointName="llm")
            assert described["EndpointStatus"] == "InService"
        async with Control(tmp_path) as control:
            assert "static.llm" in control.process._instance_types

    asyncio.run(test())


def test_flags_that_are_not_in_force_are_warned_about(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    flags = EndpointDeclaration("llm", InstanceType("static.llm", ProviderKind.STATIC, urls=("http://a",)))

    async def test():
        async with Control(tmp_path, declare=flags) as control:
            await logged(caplog, "created as the flags say")
            await control.api("DescribeEndpoint", EndpointName="llm")
            await control.api("DeleteEndpoint", EndpointName="llm")
            await logged(caplog, "endpoint llm is deleted")
        async with Control(tmp_path, declare=flags):
            await logged(caplog, "it stays so")

    asyncio.run(test())
    (warned,) = [record for record in caplog.records if "it stays so" in record.message]
    assert warned.levelno == logging.WARNING


def test_flags_that_cannot_be_carried_out_are_logged(tmp_path, caplog):
    bad = InstanceType("no such thing!", ProviderKind.STATIC, urls=("http://a",) * 2000)

    async def test():
        async with Control(tmp_path, declare=EndpointDeclaration("llm", bad)):
            await logged(caplog, "cannot be carried out")

    asyncio.run(test())


def test_the_providers_that_come_with_warmroute_split_the_types_between_them(tmp_path):
    fixed = InstanceType("fixed", ProviderKind.STATIC, urls=("http://a:1",))
    options = ControlOptions(0, "", "", str(tmp_path), "", "r", "1")
    made = default_providers(options, {"ml.local": LOCAL, "fixed": fixed})
    assert set(made) == set(ProviderKind)


@pytest.mark.process
def test_as_a_process_it_serves_until_sigterm_and_says_what_is_wrong(tmp_path):
    def start(**changes):
        listener = socket.create_server(("127.0.0.1", 0))
        listener.set_inheritable(True)
        values = {
            "admin_fd": listener.fileno(),
            "stream_path": str(tmp_path / "fleet.sock"),
            "control_path": str(tmp_path / "control.sock"),
            "data_dir": str(tmp_path),
            "store_url": "",
            "region": "r",
            "account": "1",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "warmroute.app.control_process"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(listener.fileno(),),
        )
        listener.close()
        process.stdin.write(encode(ControlOptions(**values | changes)))
        process.stdin.close()
        return process

    good = start()
    for line in good.stderr:
        if b"control serves" in line:
            break
    good.send_signal(signal.SIGTERM)
    assert good.wait(20) == 0
    good.stderr.close()
    bad = start(store_url="nonsense")
    assert bad.wait(20) == EXIT_CONFIGURATION
    assert bad.stderr.read().startswith(b"ERROR warmroute.control: The store nonsense cannot be opened")
    bad.stderr.close()


@pytest.mark.parametrize(
    ("fact", "where"),
    [
        (None, {}),
        ({"host": "10.0.0.1", "port": 8000}, {"url": "http://10.0.0.1:8000"}),
        ({"host": "::1", "port": 8000, "pid": 7}, {"url": "http://[::1]:8000", "pid": 7}),
        (
            {"host": "a", "port": 443, "tls": True, "path_prefix": "/llm", "api_key": "secret"},
            {"url": "https://a:443/llm"},
        ),
    ],
)
def test_the_overview_says_where_an_instance_is_and_nothing_secret(fact, where):
    known = {"instance_id": "i-1", "instance_type": "t", "phase": InstancePhase.RUNNING, "generation": 1}
    assert _where(None if fact is None else InstanceFact(**known, **fact)) == where
