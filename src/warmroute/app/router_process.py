"""A router process: the public listener, the relay and the routing core on one event loop.

Started by the supervisor as ``python -m warmroute.app.router_process`` with `RouterOptions` as JSON on
standard input and the listening socket inherited. It imports no botocore, SQLAlchemy, Starlette,
pydantic or uvicorn (tested): it starts in a fraction of a second and stays small.
"""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Coroutine
from dataclasses import replace
from random import Random, SystemRandom
from typing import Any

import uvloop

from warmroute import __version__
from warmroute.adapters.clock import SystemClock
from warmroute.adapters.decision_log import DecisionLog
from warmroute.adapters.fleet_client import FleetClient, load_fleet
from warmroute.adapters.http_server import Listener, ServerLimits
from warmroute.adapters.lora.reports import AdapterReports
from warmroute.adapters.tasks import Tasks
from warmroute.adapters.telemetry import AccessLog, Telemetry
from warmroute.adapters.upstream import Pools
from warmroute.app.options import EXIT_CONFIGURATION, RouterOptions, receive
from warmroute.auth.principals import Authenticator
from warmroute.core.errors import ConfigurationError
from warmroute.core.fleet import Fleet, Target, TargetState
from warmroute.core.stream import TargetReport
from warmroute.dataplane.desk import Desk, RelayTimeouts
from warmroute.dataplane.gateway import Gateway
from warmroute.dataplane.ports import Underway
from warmroute.observe import catalogue
from warmroute.observe.catalogue import Metric
from warmroute.observe.projection import Projection
from warmroute.routing.health import HealthChange
from warmroute.routing.key import KEY_VERSION
from warmroute.routing.log import FORMAT, Began
from warmroute.routing.recorder import RecordedRouter
from warmroute.routing.router import Router

WATCH_S = 0.1
"""Between two looks at deadlines: how late a timeout may fire."""
COUNTERS_S = 1.0
"""Between two reports of totals to control, and two writes of the access log."""
LAST_WORDS_S = 0.5
"""For the bytes that end streams at a shutdown to leave."""

_log = logging.getLogger("warmroute.router")


class RouterProcess:
    """The parts of a router, joined.

    Args:
        options: From the supervisor.
    """

    def __init__(self, options: RouterOptions) -> None:
        self._options = options
        self._clock = SystemClock()
        self._tasks = Tasks()
        self._decision_log = _decision_log(options)
        self._router = _router(options, self._decision_log)
        self._projection = Projection()
        self._access_log = AccessLog(options.access_log)
        timeouts = options.timeouts
        self._pools = Pools(
            tasks=self._tasks,
            control_path=options.control_path,
            connect_s=timeouts.connect_s,
            idle_s=timeouts.upstream_idle_s,
            idle_connections=options.limits.upstream_idle_connections,
        )
        self._telemetry = Telemetry(
            projection=self._projection,
            log=self._access_log,
            clock=self._clock,
            on_health=self._health_changed,
        )
        self._fleet_client = FleetClient(
            path=options.stream_path,
            router=options.name,
            fleet_path=options.fleet_path,
            on_fleet=self._apply_fleet,
        )
        self._adapters = AdapterReports(router=self._router, control=self._fleet_client, clock=self._clock)
        self._desk = Desk(
            router=self._router,
            upstreams=self._pools,
            observer=self._telemetry,
            clock=self._clock,
            timeouts=RelayTimeouts(
                first_byte_native_s=timeouts.first_byte_native_s,
                first_byte_openai_s=timeouts.first_byte_openai_s,
                chunk_idle_s=timeouts.chunk_idle_s,
                native_stream_total_s=timeouts.native_stream_total_s,
            ),
            adapters=self._adapters,
        )
        self._gateway = Gateway(
            self._desk, Authenticator(options.access_keys, options.api_keys, options.region)
        )
        bounds = options.limits
        self._listener = Listener(
            self._gateway,
            ServerLimits(
                body_bytes=bounds.body_bytes,
                buffered_bodies_bytes=bounds.buffered_bodies_bytes,
                head_bytes=bounds.head_bytes,
                header_count=bounds.header_count,
                write_high_water_bytes=bounds.write_high_water_bytes,
                head_read_s=timeouts.head_read_s,
                body_idle_s=timeouts.body_idle_s,
                keep_alive_idle_s=timeouts.keep_alive_idle_s,
            ),
        )
        self._reported: dict[str, TargetReport] = {}
        self._broken = False

    async def run(self) -> bool:
        """Serve until SIGTERM, then drain.

        Returns:
            Whether that was the reason to end; False after a defect.
        """
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is the supervisor's to hear
        remembered = load_fleet(self._options.fleet_path)
        if remembered is not None:
            # Credentials may have changed since: those of this start count at once, as without a fleet.
            options = self._options
            self._apply_fleet(replace(remembered, access_keys=options.access_keys, api_keys=options.api_keys))
        for name, work in (
            ("fleet stream", self._fleet_client.run()),
            ("watch", self._watch()),
            ("report", self._report()),
        ):
            self._tasks.spawn(self._for_good(work, name, stop), name=name)
        listening = socket.socket(fileno=self._options.listen_fd)
        server = await loop.create_server(self._listener.connection, sock=listening)
        # What start-up made lives as long as the process: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        _log.info("%s serves, pid %d", self._options.name, os.getpid())
        await stop.wait()
        await self._drain(server)
        return not self._broken

    async def _drain(self, server: asyncio.Server) -> None:
        """Take nothing new, wait for what runs, end what does not end by itself."""
        server.close()
        self._listener.drain()
        self._gateway.shadows.shut_down()
        open_now = len(self._desk.open)
        if open_now:
            _log.info("draining: %d invocations under way", open_now)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._options.drain_s
        while self._desk.open and loop.time() < deadline_s:  # noqa: ASYNC110  (once, at the end)
            await asyncio.sleep(0.02)
        for underway in list(self._desk.open):
            underway.shut_down()
        last_s = loop.time() + LAST_WORDS_S
        while self._listener.connections and loop.time() < last_s:  # noqa: ASYNC110  (likewise)
            await asyncio.sleep(0.02)
        self._report_totals()
        await self._tasks.cancel_all()
        self._pools.close()
        self._access_log.close()
        if self._decision_log is not None:
            self._decision_log.close()

    # --- the fleet --------------------------------------------------------------------------
    def _apply_fleet(self, fleet: Fleet) -> None:
        if self._gateway.apply_fleet(fleet):
            self._pools.forget_targets_but(set(self._router.targets()))
            self._report_targets()
            self._adapters.fleet_applied(fleet)

    def _health_changed(self, change: HealthChange) -> None:
        what = "ejected" if change.ejected else "back"
        _log.warning("target %s is %s: %s", change.target_id, what, change.reason)
        self._report_targets()

    def _report_targets(self) -> None:
        """Tell control of targets that drain or are ejected, when something about them changed."""
        known: dict[str, TargetReport] = {}
        telling: set[str] = set()
        for target, in_flight, ejected in self._router.targets().values():
            if target.state is TargetState.DRAINING or ejected:
                telling.add(target.target_id)
            if target.state is TargetState.DRAINING or ejected or target.target_id in self._reported:
                sessions = self._router.sessions.pinned_to(target.target_id, target.generation)
                known[target.target_id] = _report_of(target, in_flight, ejected=ejected, sessions=sessions)
        for target_id, report in known.items():
            if self._reported.get(target_id) != report:
                self._fleet_client.report(report)
        self._reported = {target_id: known[target_id] for target_id in telling}

    # --- time -------------------------------------------------------------------------------
    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATCH_S)
            now_ns = self._clock.now_ns()
            for underway in list(self._desk.open):
                self._expire(underway, now_ns)
            self._gateway.shadows.expire(now_ns)
            for change in self._router.on_deadline(now_ns):
                self._health_changed(change)
            self._listener.check(loop.time())
            self._pools.retire(loop.time())
            if self._reported:
                self._report_targets()
            self._adapters.look(self._gateway.waits.adapters())

    def _expire(self, underway: Underway, now_ns: int) -> None:
        """End what has waited too long; a defect in one of them must not keep the others waiting."""
        try:
            underway.expire(now_ns)
        except Exception:  # noqa: BLE001  (whatever it is, it is logged)
            _log.exception("%r could not be ended; it is given up", underway)
            self._desk.open.pop(underway, None)

    async def _for_good(self, work: Coroutine[Any, Any, None], name: str, stop: asyncio.Event) -> None:
        """Run what has to run as long as the process does: without it, end, and be started anew."""
        try:
            await work
        except Exception:  # noqa: BLE001  (likewise)
            _log.exception("%s ended by a defect; this router drains and is started anew", name)
        self._broken = True
        stop.set()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(COUNTERS_S)
            self._report_totals()

    def _report_totals(self) -> None:
        self._adapters.report()
        self._telemetry.fold()
        self._access_log.flush()
        if self._decision_log is not None:
            self._decision_log.flush()
        copies = len(self._gateway.shadows.under_way)
        gauges: dict[tuple[Metric, tuple[str, ...]], float] = {
            (catalogue.OPEN_EXCHANGES, ()): self._desk.open_exchanges,
            (catalogue.OPEN_LEASES, ()): self._router.open_leases() - copies,
            (catalogue.SHADOW_UNDER_WAY, ()): copies,
            (catalogue.CONNECTIONS, ()): len(self._listener.connections),
            (catalogue.BUFFERED_BYTES, ()): self._listener.buffered_bytes,
            (catalogue.FLEET_VERSION, ()): self._router.fleet_version,
            (catalogue.LOST_LOG_LINES, ()): self._access_log.lost,
            (catalogue.OPEN_SESSIONS, ()): len(self._router.sessions),
            (catalogue.ADAPTER_WAITS, ()): len(self._gateway.waits),
        }
        if self._decision_log is not None and self._decision_log.stopped:
            gauges[catalogue.DECISION_LOG_STOPPED, (self._decision_log.stopped,)] = 1.0
        for endpoint in self._router.endpoints.values():
            for book in endpoint.books():
                for component in dict.fromkeys(book.components.values()) or ("",):
                    gauges.setdefault(
                        (catalogue.CONCURRENT_REQUESTS, (endpoint.name, book.name, component)), 0
                    )
                for row in book.rows.values():
                    labels = (endpoint.name, book.name, row.target.target_id)
                    gauges[catalogue.IN_FLIGHT, labels] = row.in_flight
                    served = (endpoint.name, book.name, row.target.component)
                    concurrent = catalogue.CONCURRENT_REQUESTS, served
                    gauges[concurrent] = gauges.get(concurrent, 0) + row.in_flight
                    gauges[catalogue.EJECTED, labels] = float(row.health.ejected)
                    if (shelf := row.shelf) is not None:
                        gauges[catalogue.PENDING_CHARACTERS, labels] = shelf.pending
                        gauges[catalogue.CACHE_BLOCKS, labels] = len(shelf.blocks)
                        gauges[catalogue.CACHE_TRUST, (*labels, shelf.trust.value, shelf.why)] = 1.0
        self._fleet_client.counters(self._projection.snapshot(gauges))


def _decision_log(options: RouterOptions) -> DecisionLog | None:
    if not options.decision_log:
        return None
    try:
        return DecisionLog(options.decision_log, bytes_max=options.decision_log_bytes_max)
    except ConfigurationError as error:  # checked when all began: what changed since must not stop serving
        _log.warning("%s Serving goes on without it.", error)
        return None


def _router(options: RouterOptions, log: DecisionLog | None) -> Router:
    """Return the router; with a log, one that tells what it does, its seed first."""
    seed = SystemRandom().getrandbits(64)
    rng = Random(seed)  # noqa: S311  (ties and draws)
    if log is None:
        return Router(rng)
    clock = SystemClock()
    times = (clock.wall_s(), clock.now_ns())
    log.add(Began(FORMAT, __version__, KEY_VERSION, f"{seed:016x}", options.name, *times))
    return RecordedRouter(rng, log.add)


def _report_of(target: Target, in_flight: int, *, ejected: bool, sessions: int) -> TargetReport:
    return TargetReport(
        target_id=target.target_id, generation=target.generation, in_flight=in_flight, ejected=ejected,
        sessions=sessions,
    )  # fmt: skip


def main() -> None:
    """Run a router until it is told to stop."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    options = receive(RouterOptions)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            as_told = runner.run(RouterProcess(options).run())
        except ConfigurationError as error:
            _log.error("%s", error)
            sys.exit(EXIT_CONFIGURATION)
    sys.exit(0 if as_told else 1)


if __name__ == "__main__":
    main()
