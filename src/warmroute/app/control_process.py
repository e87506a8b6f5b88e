"""The control process: SageMaker API, store, reconciler, health checks, fleet stream and admin port.

Started by the supervisor as ``python -m warmroute.app.control_process`` with `ControlOptions` as JSON
on standard input and the admin listener inherited. It writes log lines to standard error and nothing
else. SIGTERM stops it: no new calls, then local instances, unless ``keep_instances`` says otherwise.
SIGKILL loses nothing: model servers run on, and the next control process adopts them.

Its start-up is ordered for speed: routers get their fleet before the API opens, and botocore's model
is read in a thread meanwhile, for the first call.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette

from warmroute.adapters.clock import SystemClock
from warmroute.adapters.control_http import Api, admin_app, api_app
from warmroute.adapters.control_metrics import ControlCollector, Sources, render
from warmroute.adapters.fleet_stream import FleetServer
from warmroute.adapters.health_probe import HttpHealthProbe
from warmroute.adapters.lora.artifacts import DirectoryShelf
from warmroute.adapters.lora.loader import HttpAdapterLoader
from warmroute.adapters.providers.local import LocalProvider
from warmroute.adapters.providers.logs import LocalLogs
from warmroute.adapters.providers.static import StaticProvider
from warmroute.adapters.store.sql import open_store
from warmroute.adapters.tasks import Tasks
from warmroute.adapters.unix_sockets import bind_unix
from warmroute.app.autoscaling import SCALING_PREFIX, Autoscaling
from warmroute.app.control_options import ControlOptions
from warmroute.app.options import EXIT_CONFIGURATION, AdapterTimes, receive
from warmroute.controlplane.changes import base_url, one_line
from warmroute.controlplane.declare import declare, remember_instance_type, remembered_instance_types
from warmroute.controlplane.lora.calls import AdapterCalls
from warmroute.controlplane.lora.loads import AdapterKeeper
from warmroute.controlplane.operator import PREFIX as OPERATOR_PREFIX
from warmroute.controlplane.operator import OperatorService
from warmroute.controlplane.ports import HealthProbe, InstanceFact, Provider, Store, StoreUnavailable
from warmroute.controlplane.providers import ProviderByType
from warmroute.controlplane.publish import Identity
from warmroute.controlplane.reconcile import Reconciler
from warmroute.controlplane.service import ControlService
from warmroute.controlplane.session_key import session_key
from warmroute.core.errors import ConfigurationError
from warmroute.core.machines import InstanceType, ProviderKind
from warmroute.observe import catalogue
from warmroute.resources.arns import Place
from warmroute.resources.errors import ApiError
from warmroute.resources.lora.sets import Tuning
from warmroute.resources.planner import Rules
from warmroute.resources.shapes import Schema

_log = logging.getLogger("warmroute.control")

STUCK_S: Final = 30.0
"""Without a reconcile step for that long, /healthz says so."""
HTTP_END_S: Final = 2.0
"""For calls under way to be answered at the end; uvicorn cuts them off after half of it."""
GRACE_SHARE: Final = 0.8
"""Of the time to stop, what instances get between being asked and being made to."""

_IN_FLIGHT: Final = frozenset({catalogue.IN_FLIGHT.name})

Providers = Callable[[ControlOptions, Mapping[str, InstanceType]], Mapping[ProviderKind, Provider]]


def default_providers(
    options: ControlOptions, instance_types: Mapping[str, InstanceType]
) -> Mapping[ProviderKind, Provider]:
    """Return the providers that come with warmroute.

    Raises:
        ConfigurationError: A declaration does not fit.
    """
    data_dir = Path(options.data_dir)

    def of(kind: ProviderKind) -> dict[str, InstanceType]:
        return {name: one for name, one in instance_types.items() if one.provider is kind}

    return {
        ProviderKind.STATIC: StaticProvider(instance_types=of(ProviderKind.STATIC), data_dir=data_dir),
        ProviderKind.LOCAL: LocalProvider(
            instance_types=of(ProviderKind.LOCAL), images=options.images, data_dir=data_dir
        ),
    }


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


class ControlProcess:
    """The parts of the control process, joined."""

    def __init__(
        self,
        options: ControlOptions,
        *,
        providers: Providers = default_providers,
        probe: HealthProbe | None = None,
    ) -> None:
        """Open the store and join the parts; nothing runs yet.

        Args:
            options: From the supervisor.
            providers: Makes the providers.
            probe: Asks instances how they are; None for HTTP.

        Raises:
            ConfigurationError: The store or a declaration cannot be used.
        """
        self._options = options
        self._tasks = Tasks()
        self._clock = SystemClock()
        self._store: Store = open_store(options.store_url, Path(options.data_dir))
        if options.declare is not None:
            remember_instance_type(self._store, options.declare.instance_type)
        instance_types = remembered_instance_types(self._store) | options.instance_types
        self._fleet_server = FleetServer(
            tasks=self._tasks, on_news=self._on_router_news, expected=options.router_count
        )
        place = Place(region=options.region, account=options.account)
        self._autoscaling = Autoscaling(
            store=self._store, place=place, declared=options.alarms, speed=options.autoscaling_speed
        )
        rules = Rules(instance_types=instance_types, images=options.images)
        calls = AdapterCalls(
            loader=HttpAdapterLoader(),
            shelf=DirectoryShelf(Path(options.data_dir) / "adapters"),
            tasks=self._tasks,
            clock=self._clock,
            on_news=self._on_router_news,
        )
        self._reconciler = Reconciler(
            store=self._store,
            provider=ProviderByType(
                providers=providers(options, instance_types), instance_types=instance_types
            ),
            probe=probe if probe is not None else HttpHealthProbe(),
            routers=self._fleet_server,
            tasks=self._tasks,
            clock=self._clock,
            rules=rules,
            identity=Identity(
                region=options.region,
                account=options.account,
                access_keys=options.access_keys,
                api_keys=options.api_keys,
                session_key=session_key(self._store),
            ),
            alarms=self._autoscaling.states,
            adapters=AdapterKeeper(
                calls=calls,
                routers=self._fleet_server,
                clock=self._clock,
                rules=rules,
                tuning=_tuning(options.adapters),
            ),
        )
        self._schema: asyncio.Future[Schema] | None = None
        self._instance_types = instance_types
        self.service = ControlService(
            store=self._store,
            reconciler=self._reconciler,
            schema=self._get_schema,
            place=place,
            instance_types=instance_types,
            clock=self._clock,
            describe_hold_s=options.describe_hold_s,
            alarms=self._autoscaling.names,
        )
        self._collector = ControlCollector(
            Sources(
                self._store,
                self._reconciler,
                self.service,
                self._fleet_server,
                self._autoscaling.states,
            )
        )
        self._operator = OperatorService(
            store=self._store,
            reconciler=self._reconciler,
            service=self.service,
            logs=LocalLogs(Path(options.data_dir)),
            in_flight=self._in_flight,
            instance_types=instance_types,
            clock=self._clock,
        )
        self._servers: list[_Server] = []
        self._http_ended = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then stop what has to be stopped.

        Raises:
            ConfigurationError: A socket cannot be made.
        """
        await self._fleet_server.start(self._options.stream_path)
        self._tasks.spawn(self._load_schema(), name="service model")
        end_reconciling = self._tasks.spawn(self._reconciler.run(), name="reconcile")
        end_scaling = self._tasks.spawn(
            self._autoscaling.run(
                totals=self._fleet_server.totals,
                invoke=self.service.invoke,
                fleet=lambda: self._reconciler.fleet,
            ),
            name="autoscaling",
        )
        others: dict[str, Api] = {
            OPERATOR_PREFIX: self._operator,
            SCALING_PREFIX: self._autoscaling.service(self.service.calls),
        }
        self._listen(api_app(self.service, others), bind_unix(self._options.control_path))
        admin = admin_app(
            metrics=lambda: render(self._collector), overview=self._overview, healthy=self._is_healthy
        )
        self._listen(admin, socket.socket(fileno=self._options.admin_fd))
        if self._options.declare is not None:
            self._tasks.spawn(self._declare(), name="flags of serve")
        _log.info("control serves, pid %d", os.getpid())
        await stop.wait()
        end_scaling()
        end_reconciling()
        await self._end()

    def _listen(self, app: Starlette, listener: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            timeout_graceful_shutdown=1,
        )
        server = _Server(config)
        self._servers.append(server)
        self._tasks.spawn(self._serve_http(server, listener), name="http")

    async def _serve_http(self, server: _Server, listener: socket.socket) -> None:
        try:
            await server.serve(sockets=[listener])
        finally:
            listener.close()
            self._servers.remove(server)
            if not self._servers:
                self._http_ended.set()

    async def _end(self) -> None:
        self.service.close()
        for server in self._servers:
            server.should_exit = True
        if not self._options.keep_instances:
            grace_s = self._options.stop_s * GRACE_SHARE
            try:
                async with asyncio.timeout(self._options.stop_s):
                    await self._reconciler.stop_instances(grace_s)
            except TimeoutError:
                _log.warning("Not every instance has stopped in time.")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HTTP_END_S):
                await self._http_ended.wait()
        await self._fleet_server.close()
        await self._tasks.cancel_all()
        self._store.close()

    async def _load_schema(self) -> None:
        await self._get_schema()

    def _get_schema(self) -> Awaitable[Schema]:
        if self._schema is None:
            # Imported there: botocore takes as long to import as everything else together.
            loading = asyncio.get_running_loop().run_in_executor(None, _load, tuple(self._instance_types))
            self._schema = loading
        return asyncio.shield(self._schema)

    async def _declare(self) -> None:
        declaration = self._options.declare
        assert declaration is not None, "only called with one"
        try:
            declared = await declare(self.service, self._store, declaration)
        except (ApiError, StoreUnavailable) as error:
            _log.error("The flags of serve cannot be carried out: %s", error)
        else:
            _log.log(logging.WARNING if declared.differs else logging.INFO, "%s", declared.text)

    def _on_router_news(self) -> None:
        self._reconciler.kick()

    def _in_flight(self) -> Mapping[str, int]:
        """Return the leases open on every target, as the routers last reported."""
        counts: dict[str, int] = {}
        for (name, labels), value in self._fleet_server.totals.values(_IN_FLIGHT).items():
            if name in _IN_FLIGHT:
                target = dict(labels)["target"]
                counts[target] = counts.get(target, 0) + int(value)
        return counts

    def _is_healthy(self) -> bool:
        return self._reconciler.idle_s(self._clock.wall_s()) < STUCK_S

    def _kept(self) -> dict[str, Any]:
        listed = self._reconciler.listed
        with self._store.transaction() as transaction:
            endpoints = {record.name: str(record.status) for record in transaction.endpoints()}
            instances = [
                {
                    "id": record.instance_id,
                    "endpoint": record.endpoint,
                    "variant": record.variant,
                    "state": str(record.state),
                    **({"component": record.component, "host": record.host} if record.component else {}),
                    **_where(listed.get(record.instance_id)),
                }
                for record in transaction.instances()
            ]
            components = {one.name: str(one.status) for one in transaction.inference_components()}
        return {"endpoints": endpoints, "components": components, "instances": instances, "store": "ok"}

    def _overview(self) -> dict[str, Any]:
        try:
            kept = self._kept()
        except StoreUnavailable as error:
            kept = {"store": f"out of reach: {one_line(str(error))}"}
        return {
            **kept,
            "routers": [
                {"name": name, "pid": pid, "fleet_version": version}
                for name, pid, version in self._fleet_server.routers()
            ],
            "fleet_version": self._reconciler.fleet_version,
            "pages": ["/healthz", "/metrics"],
        }


def _where(fact: InstanceFact | None) -> dict[str, Any]:
    """Return what an operator finds a model server by; nothing while its provider does not know it."""
    if fact is None:
        return {}
    url = base_url(fact)
    return {"url": url} if fact.pid is None else {"url": url, "pid": fact.pid}


def _tuning(times: AdapterTimes) -> Tuning:
    return Tuning(
        residence_s=times.residence_s,
        patience_s=times.patience_s,
        cold_s=times.cold_s,
        surplus_s=times.surplus_s,
    )


def _load(instance_types: tuple[str, ...]) -> Schema:
    from warmroute.adapters.service_model import load_schema  # noqa: PLC0415  (see _get_schema)

    return load_schema(instance_types)


async def _run(options: ControlOptions) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is the supervisor's to hear
    await ControlProcess(options).run(stop)


def main() -> None:
    """Run control until it is told to stop."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    for chatty in ("alembic", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    options = receive(ControlOptions)
    try:
        asyncio.run(_run(options))
    except ConfigurationError as error:
        _log.error("%s", error)
        sys.exit(EXIT_CONFIGURATION)


if __name__ == "__main__":
    main()
