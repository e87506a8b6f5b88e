"""A router's end of the stream to control.

A router imports this, so it imports little itself.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from warmroute.adapters.stream_frames import FrameError, decode_fleet, encode, encode_fleet, read
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

RECONNECT_S_MIN: Final = 0.05
RECONNECT_S_MAX: Final = 0.25
"""Between two tries to reach control. It restarts within a second or two, and a try costs next to nothing."""
STARTING_S: Final = 3.0
"""How long after its own start a router finds it normal that control does not answer yet."""


def load_fleet(path: str | Path) -> Fleet | None:
    """Return the fleet in a router's file; None when there is none that can be read."""
    try:
        return decode_fleet(Path(path).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        _log.warning("The last fleet in %s cannot be read (%s); waiting for control.", path, error)
        return None


def save_fleet(path: str | Path, fleet: Fleet) -> None:
    """Write a router's file, mode 0600, in one step: readers see the old or the new one.

    Raises:
        OSError: It cannot be written.
    """
    target = Path(path)
    fresh = target.with_name(f"{target.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(encode_fleet(fleet))
        fresh.replace(target)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


class FleetClient:
    """Keeps a router connected to control, for as long as it runs."""

    def __init__(
        self,
        *,
        path: str,
        router: str,
        fleet_path: str,
        on_fleet: Callable[[Fleet], None],
    ) -> None:
        """Prepare; ``run`` connects.

        Args:
            path: Unix socket of control.
            router: This router's name.
            fleet_path: File for the last fleet.
            on_fleet: Applies a fleet. It is acknowledged when this returns: from then on every
                decision must be made with it. Versions only grow, beginning above the one in the file.
        """
        self._path = path
        self._router = router
        self._fleet_path = fleet_path
        self._on_fleet = on_fleet
        self._version = 0
        self._writer: asyncio.StreamWriter | None = None
        self._reports: dict[TargetId, TargetReport] = {}
        self._uses: dict[tuple[TargetId, int, ComponentName], AdapterUse] = {}
        self._unsaved: Fleet | None = None
        self._save_wanted = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether control is there."""
        return self._writer is not None

    def report(self, report: TargetReport) -> None:
        """Tell control about a target; repeated on every new connection while the fleet has the target."""
        self._reports[report.target_id] = report
        self._send(report)

    def adapter_uses(self, uses: Sequence[AdapterUse]) -> None:
        """Tell control of all uses of adapters there are now; only what changed is sent."""
        now = {(use.target_id, use.generation, use.adapter): use for use in uses}
        changed = [use for at, use in now.items() if self._uses.get(at) != use]
        # One that is not told any more has ended.
        changed += [replace(use, in_flight=0) for at, use in self._uses.items() if at not in now]
        self._uses = now
        if changed:
            self._send(AdapterUses(tuple(changed)))

    def want_adapter(self, wanted: AdapterWanted) -> None:
        """Ask control for a place of an adapter; lost when it is not there, so ask again."""
        self._send(wanted)

    def counters(self, counters: Counters) -> None:
        """Tell control the totals; lost when it is not there or does not keep up, the next ones tell all."""
        writer = self._writer
        if writer is not None and writer.transport.get_write_buffer_size() <= limits.WRITE_HIGH_WATER_BYTES:
            self._send(counters)

    async def run(self) -> None:
        """Stay connected, for ever. The fleet in the file counts as applied."""
        remembered = load_fleet(self._fleet_path)
        self._version = remembered.version if remembered is not None else 0
        async with asyncio.TaskGroup() as group:
            group.create_task(self._save())
            group.create_task(self._connect())

    async def _connect(self) -> None:
        pause_s = RECONNECT_S_MIN
        said = False
        patience_ends_s = asyncio.get_running_loop().time() + STARTING_S
        while True:
            try:
                async with asyncio.timeout(limits.CONNECT_S):
                    reader, writer = await asyncio.open_unix_connection(self._path)
            except (OSError, TimeoutError) as error:
                # At a start both processes begin at once, and control takes longer.
                if not said and asyncio.get_running_loop().time() >= patience_ends_s:
                    _log.warning("Control cannot be reached (%s); serving from the last fleet.", error)
                    said = True
            else:
                said = False
                if await self._converse(reader, writer):
                    pause_s = RECONNECT_S_MIN
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RECONNECT_S_MAX)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Talk until the connection ends; return whether control had anything to say."""
        heard = False
        self._writer = writer
        try:
            self._send(Hello(router=self._router, pid=os.getpid(), fleet_version=self._version))
            for report in self._reports.values():
                self._send(report)
            self._send(AdapterUses(tuple(self._uses.values())))
            while True:
                message = await read(reader, bytes_max=limits.FLEET_MESSAGE_BYTES_MAX)
                if isinstance(message, Publish):
                    self._take(message.fleet)
                    heard = True
        except (OSError, asyncio.IncompleteReadError, FrameError) as error:
            _log.warning("The connection to control ended (%s); serving from the last fleet.", error)
        except Exception:  # noqa: BLE001  (a router serves on, whatever control sent)
            _log.exception("A fleet could not be applied; serving from the last one, and asking again.")
            heard = False
        finally:
            self._writer = None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return heard

    def _take(self, fleet: Fleet) -> None:
        if fleet.version > self._version:
            self._on_fleet(fleet)
            self._version = fleet.version
            present = {
                target.target_id
                for endpoint in fleet.endpoints
                for variant in endpoint.all_variants
                for target in variant.targets
            }
            self._reports = {key: report for key, report in self._reports.items() if key in present}
            self._unsaved = fleet
            self._save_wanted.set()
        if fleet.version == self._version:  # an older one is not acknowledged: control will number it anew
            self._send(Applied(version=self._version))

    def _send(self, message: FromRouter) -> None:
        if self._writer is not None:
            self._writer.write(encode(message))

    async def _save(self) -> None:
        """Keep the file up to date, outside of the loop's thread; a fleet that is overtaken is skipped."""
        while True:
            await self._save_wanted.wait()
            self._save_wanted.clear()
            fleet = self._unsaved
            assert fleet is not None, "set before the event"
            try:
                await asyncio.to_thread(save_fleet, self._fleet_path, fleet)
            except OSError as error:
                _log.error("The fleet cannot be kept in %s: %s", self._fleet_path, error)
