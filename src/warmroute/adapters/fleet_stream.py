"""Control's end of the stream to the routers: publishes fleets, hears what routers find out."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from warmroute.adapters.stream_frames import FrameError, encode, read
from warmroute.adapters.tasks import Tasks
from warmroute.adapters.totals import Totals
from warmroute.adapters.unix_sockets import bind_unix
from warmroute.core import limits
from warmroute.core.fleet import Fleet
from warmroute.core.ids import ComponentName, TargetId
from warmroute.core.stream import (
    AdapterUse,
    AdapterUses,
    AdapterWanted,
    Applied,
    Counters,
    FromRouter,
    Hello,
    Publish,
    TargetReport,
)

_log = logging.getLogger(__name__)


_AdapterAt = tuple[TargetId, int, ComponentName]


@dataclass(slots=True, eq=False)
class _Link:
    """One connected router.

    Attributes:
        writer: To it.
        hello: What it said first; None until then.
        acked: Version it decides with, as far as it is one of ours.
        floor: Acknowledgements of older ones do not count.
        owes_since_s: Since when it has not acknowledged the newest fleet; None when it has.
        next_frame: The newest fleet, not sent yet; an older one that was not sent is skipped.
        wake: Set when there is one.
        reports: The last one per target.
        uses: What it last told of each adapter on a target; None until it has told them all.
    """

    writer: asyncio.StreamWriter
    hello: Hello | None = None
    acked: int = -1
    floor: int = 0
    owes_since_s: float | None = None
    next_frame: bytes | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    reports: dict[TargetId, TargetReport] = field(default_factory=dict)
    uses: dict[_AdapterAt, AdapterUse] | None = None

    @property
    def name(self) -> str:
        return "a router" if self.hello is None else self.hello.router


class FleetServer:
    """Implements ``controlplane.ports.RouterStream`` over a Unix socket."""

    def __init__(self, *, tasks: Tasks, on_news: Callable[[], None], expected: int = 0) -> None:
        """Prepare; ``start`` listens.

        Args:
            tasks: Starts one per connection.
            on_news: Called when a router came, went, acknowledged or reported.
            expected: Routers that the supervisor keeps running. While one is missing, because it or
                control has just started, nothing counts as acknowledged; after ``ROUTER_ACK_S_MAX``
                those that are there decide.
        """
        self._tasks = tasks
        self._on_news = on_news
        self._expected = expected
        self._short_since_s: float | None = None
        self._links: set[_Link] = set()
        self._fleet: Fleet | None = None
        self._frame = b""
        self._news = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._known: set[tuple[str, int]] = set()
        self._wants: dict[tuple[ComponentName, ComponentName], AdapterWanted] = {}
        self._version_floor = 0
        self.totals = Totals()

    async def start(self, path: str) -> None:
        """Listen on a Unix socket, in place of one that an earlier process left.

        Raises:
            ConfigurationError: There can be no socket at this path.
        """
        self._count_routers()
        self._server = await asyncio.start_unix_server(self._serve, sock=bind_unix(path))

    async def close(self) -> None:
        """Let all routers go; they serve on from the last fleet."""
        if self._server is None:
            return
        self._server.close()
        for link in tuple(self._links):
            link.writer.transport.abort()
        await self._server.wait_closed()

    # --- controlplane.ports.RouterStream ------------------------------------------------------

    async def publish(self, fleet: Fleet, wait_s: float) -> bool:
        """Send a fleet to every router.

        Returns:
            True when all acknowledged it within ``wait_s``, or none is connected.
        """
        if self._fleet is None or fleet.version != self._fleet.version:
            self._fleet = fleet
            self._frame = encode(Publish(fleet=fleet))
            assert len(self._frame) <= limits.FLEET_MESSAGE_BYTES_MAX, "ENDPOINTS_MAX and the like bound it"
            for link in self._links:
                self._offer(link)
        self._drop_silent()
        deadline_s = asyncio.get_running_loop().time() + wait_s
        try:
            async with asyncio.timeout_at(deadline_s):
                while not self._all_acked(fleet.version):
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def open_leases(self, target_id: TargetId, generation: int) -> int | None:
        """Return leases and sessions on a target over all routers; None when a router has not said yet."""
        total = 0
        for link in self._links:
            report = link.reports.get(target_id)
            if report is None or report.generation != generation:
                return None
            total += report.in_flight + report.sessions
        return total

    def adapter_use(
        self, target_id: TargetId, generation: int, adapter: ComponentName
    ) -> tuple[int | None, int]:
        """Return an adapter's open leases on a target, and those ever taken, over all routers.

        The first is None while a router has not said; while one is missing that decides, as well.
        """
        at = (target_id, generation, adapter)
        found = [None if link.uses is None else link.uses.get(at) for link in self._links]
        told = all(link.uses is not None for link in self._links) and not self._is_short()
        in_flight = sum(use.in_flight for use in found if use is not None)
        return (in_flight if told else None), sum(use.taken for use in found if use is not None)

    def take_adapter_wants(self) -> tuple[AdapterWanted, ...]:
        """Return what routers asked for since the last call."""
        wants, self._wants = self._wants, {}
        return tuple(wants.values())

    def router_count(self) -> int:
        """Return how many routers decide: those that are here, or those that the supervisor keeps running.

        One in the place of one that ended, and one that is away for a moment, change nothing.
        """
        names = {link.hello.router for link in self._links if link.hello is not None}
        return max(1, self._expected, len(names))

    def version_floor(self) -> int:
        """Return the newest fleet that a router had from elsewhere; a fleet must be newer to be applied."""
        return self._version_floor

    # --- For people ---------------------------------------------------------------------------

    def routers(self) -> list[tuple[str, int, int]]:
        """Return name, process id and acknowledged version of every connected router."""
        return sorted((link.hello.router, link.hello.pid, link.acked) for link in self._links if link.hello)

    # --- Connections --------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(writer)
        self._links.add(link)
        self._offer(link)
        stop_sending = self._tasks.spawn(self._send(link), name="fleet stream")
        try:
            while True:
                message = await read(reader, bytes_max=limits.ROUTER_MESSAGE_BYTES_MAX)
                if isinstance(message, Publish):
                    raise FrameError("a router does not publish")  # noqa: TRY301  (as other misuse)
                self._hear(link, message)
        except (OSError, asyncio.IncompleteReadError):
            _log.info("%s has gone.", link.name)
        except FrameError as error:
            _log.warning("%s is disconnected: %s", link.name, error)
        finally:
            self._links.discard(link)
            self._count_routers()
            stop_sending()
            if link.hello is not None:
                self.totals.gone((link.hello.router, link.hello.pid))
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._tell()

    def _hear(self, link: _Link, message: FromRouter) -> None:
        match message:
            case Hello():
                self._greet(link, message)
            case Applied() if message.version >= link.floor:
                link.acked = message.version
                if self._fleet is not None and message.version >= self._fleet.version:
                    link.owes_since_s = None
                self._tell()
            case Applied():
                pass
            case TargetReport():
                link.reports[message.target_id] = message
                self._tell()
            case AdapterWanted() | AdapterUses():
                self._hear_of_adapters(link, message)
            case Counters():
                if link.hello is not None:
                    self.totals.take((link.hello.router, link.hello.pid), message)

    def _hear_of_adapters(self, link: _Link, message: AdapterWanted | AdapterUses) -> None:
        if isinstance(message, AdapterWanted):
            at = (message.component, message.adapter)
            if message.places >= self._wants.get(at, message).places:
                self._wants[at] = message
            self._tell()
            return
        first = link.uses is None
        uses = {} if link.uses is None else link.uses
        uses.update({(use.target_id, use.generation, use.adapter): use for use in message.uses})
        link.uses = uses
        if first or any(use.in_flight == 0 for use in message.uses):
            self._tell()

    def _greet(self, link: _Link, hello: Hello) -> None:
        link.hello = hello
        self._count_routers()
        link.acked = hello.fleet_version
        who = (hello.router, hello.pid)
        ours = self._fleet.version if self._fleet is not None else 0
        if who not in self._known and hello.fleet_version >= max(ours, 1):
            # It may hold another fleet under a version of ours: one of a store that is lost, say.
            self._version_floor = max(self._version_floor, hello.fleet_version)
            link.acked, link.floor = -1, hello.fleet_version + 1
        self._known.add(who)
        self.totals.came(who)
        _log.info("%s (pid %d) is here, with fleet %d.", hello.router, hello.pid, hello.fleet_version)
        self._tell()

    def _offer(self, link: _Link) -> None:
        """Give a link the newest fleet to send, in place of any it has not sent yet."""
        if self._fleet is None:
            return
        present = {
            target.target_id
            for endpoint in self._fleet.endpoints
            for variant in endpoint.all_variants
            for target in variant.targets
        }
        link.reports = {key: report for key, report in link.reports.items() if key in present}
        if link.uses:
            link.uses = {key: use for key, use in link.uses.items() if key[0] in present}
        link.next_frame = self._frame
        if link.owes_since_s is None:
            link.owes_since_s = asyncio.get_running_loop().time()
        link.wake.set()

    async def _send(self, link: _Link) -> None:
        with contextlib.suppress(OSError):
            while True:
                await link.wake.wait()
                link.wake.clear()
                frame, link.next_frame = link.next_frame, None
                if frame is not None:
                    link.writer.write(frame)
                    await link.writer.drain()

    def _all_acked(self, version: int) -> bool:
        return not self._is_short() and all(link.acked >= version for link in self._links)

    def _is_short(self) -> bool:
        """Whether a router is missing that the supervisor keeps running, and not for too long yet."""
        if self._short_since_s is None:
            return False
        return asyncio.get_running_loop().time() - self._short_since_s < limits.ROUTER_ACK_S_MAX

    def _count_routers(self) -> None:
        """Note since when fewer routers are here than the supervisor keeps running."""
        if sum(link.hello is not None for link in self._links) >= self._expected:
            self._short_since_s = None
        elif self._short_since_s is None:
            self._short_since_s = asyncio.get_running_loop().time()

    def _drop_silent(self) -> None:
        """Disconnect routers that owe an acknowledgement for too long; they come back if they live."""
        now_s = asyncio.get_running_loop().time()
        for link in tuple(self._links):
            if link.owes_since_s is not None and now_s - link.owes_since_s > limits.ROUTER_ACK_S_MAX:
                _log.warning("%s has not acknowledged a fleet for too long; disconnecting it.", link.name)
                self._links.discard(link)
                link.writer.transport.abort()

    def _tell(self) -> None:
        before, self._news = self._news, asyncio.Event()
        before.set()
        self._on_news()
