"""Model servers as child processes of this machine, which outlive the process that started them.

What is known of an instance lies in ``<data_dir>/instances/<id>/``: ``instance.json``, written before
the server is started and again with its process id, and ``log``. A process that control did not live
to write down is found by the variable ``WARMROUTE_INSTANCE_DIRECTORY`` in its environment.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from warmroute.adapters.providers.files import read_json, write_json
from warmroute.adapters.providers.launch import (
    INSTANCE_DIRECTORY_VARIABLE,
    Place,
    command_line,
    server_environment,
)
from warmroute.adapters.providers.logs import cap_log, keep_ended_log, last_lines
from warmroute.adapters.providers.processes import (
    end_session,
    marked_processes,
    process_stat,
)
from warmroute.controlplane.ports import InstanceFact, InstanceOrder, InstancePhase, ProviderRefused
from warmroute.core.ids import InstanceId
from warmroute.core.machines import Image, InstanceType

_log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_PORT_TRIES = 64


@dataclass(slots=True)
class ServerFile:
    """What ``instance.json`` holds.

    Attributes:
        order: As given by control.
        generation: Grows when the server is started anew under the same id.
        host: Where it listens.
        port: TCP port.
        pid: None until the process exists and was written down.
        start_ticks: Its start, in clock ticks since boot.
        boot: The boot that the ticks count from.
        ended: How it ended by itself; None while it runs.
    """

    order: InstanceOrder
    generation: int
    host: str
    port: int
    pid: int | None = None
    start_ticks: int | None = None
    boot: str = ""
    ended: str | None = None


@dataclass(slots=True)
class _Entry:
    record: ServerFile
    launch: "asyncio.Future[None] | None" = None
    stopping: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def starting(self) -> bool:
        return self.launch is not None and not self.launch.done()


class LocalProvider:
    """Starts, adopts and stops model servers on this machine."""

    def __init__(
        self,
        *,
        instance_types: Mapping[str, InstanceType],
        images: Mapping[str, Image],
        data_dir: Path,
        default_image: str | None = None,
    ) -> None:
        """Adopt the instances of an earlier process.

        Args:
            instance_types: The local ones, by name.
            images: Every declared image, by name.
            data_dir: warmroute's own directory; ``instances`` is made in it.
            default_image: For models whose container names no image, where the type has none either.
        """
        self._types = dict(instance_types)
        self._images = dict(images)
        self._default_image = default_image
        self._data_dir = data_dir.resolve()
        self._root = self._data_dir / "instances"
        self._entries: dict[str, _Entry] = {}
        self._adopt()

    async def start(self, order: InstanceOrder) -> None:
        """Start a model server; one that was started under this id already is left as it is.

        Raises:
            ProviderRefused: The image is not declared or cannot be started, or ``instances_max`` run.
        """
        entry = self._entries.get(order.instance_id)
        if entry is None or (entry.record.pid is None and not entry.starting):
            image = self._image(order)
            self._check_room(order)
            if entry is None:
                record = ServerFile(order=order, generation=1, host=_HOST, port=0)
                entry = self._entries[order.instance_id] = _Entry(record)
            else:
                entry.record.generation += 1
                entry.record.ended = None
            entry.launch = asyncio.get_running_loop().run_in_executor(None, self._launch, entry, image)
        if entry.launch is not None:
            # Shielded: if the caller gives up, the process is still written down.
            await asyncio.shield(entry.launch)

    async def list(self) -> tuple[InstanceFact, ...]:
        """Return every instance, found again after a restart or started since."""
        return tuple(self._look(entry) for entry in tuple(self._entries.values()))

    async def stop(self, instance_id: InstanceId, grace_s: float) -> None:
        """End an instance and forget it. The log of one that ended by itself stays in ``ended-logs``."""
        entry = self._entries.get(instance_id)
        if entry is None:
            return
        async with entry.stopping:
            if entry.starting and entry.launch is not None:
                await asyncio.wait([entry.launch])
            if self._entries.get(instance_id) is not entry:
                return
            self._look(entry)
            record = entry.record
            if record.pid is not None and record.start_ticks is not None:
                mark = (INSTANCE_DIRECTORY_VARIABLE, str(self._root / instance_id))
                if not await end_session(record.pid, record.start_ticks, grace_s=grace_s, mark=mark):
                    _log.warning("Process %d does not end, not even by SIGKILL.", record.pid)
                    return  # It is still listed.
                with contextlib.suppress(ChildProcessError):
                    _reap(record.pid)
            if record.ended is not None:
                keep_ended_log(self._log_path(instance_id), self._data_dir / "ended-logs", instance_id)
            await asyncio.to_thread(shutil.rmtree, self._root / instance_id, ignore_errors=True)
            del self._entries[instance_id]

    # --- Looking -----------------------------------------------------------------------------

    def _look(self, entry: _Entry) -> InstanceFact:
        record = entry.record
        log = self._log_path(record.order.instance_id)
        if record.ended is None and not entry.starting:
            record.ended = _how_it_ended(record)
            if record.ended is None:
                cap_log(log)
            else:
                with contextlib.suppress(OSError):  # A full disk must not hide that it ended.
                    self._write(record)
        detail = f"log: {log}"
        if record.ended is not None:
            tail = last_lines(log)
            detail = (
                f"{record.ended} Its last lines:\n{tail}" if tail else f"{record.ended} It logged nothing."
            )
        return InstanceFact(
            instance_id=record.order.instance_id,
            instance_type=record.order.instance_type,
            phase=InstancePhase.RUNNING if record.ended is None else InstancePhase.EXITED,
            generation=record.generation,
            host=record.host,
            port=record.port,
            pid=record.pid,
            detail=detail,
        )

    def _adopt(self) -> None:
        boot = _boot()
        unknown: list[Path] = []
        for path in sorted(self._root.glob("*/instance.json")):
            try:
                record = read_json(path, ServerFile)
            except ValueError as error:
                _log.warning("%s Its server is ended.", error)
                record = None
            if record is None:
                unknown.append(path.parent)
                continue
            if record.boot != boot:
                # Whoever has the process id now is a stranger.
                record.pid = record.start_ticks = None
                record.ended = record.ended or "The machine was started anew since."
            self._entries[record.order.instance_id] = _Entry(record)
            if record.pid is None and record.ended is None:
                unknown.append(path.parent)
        if unknown:
            self._find(unknown)

    def _find(self, directories: Iterable[Path]) -> None:
        """Find the servers of directories that do not say which process is theirs."""
        marked = marked_processes(INSTANCE_DIRECTORY_VARIABLE)
        for directory in directories:
            found = marked.get(str(directory), [])
            entry = self._entries.get(directory.name)
            if entry is None:
                for stat in found:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(stat.pid, signal.SIGKILL)
                shutil.rmtree(directory, ignore_errors=True)
                continue
            leader = next((stat for stat in found if stat.pid == stat.session), None)
            if leader is not None:
                entry.record.pid, entry.record.start_ticks = leader.pid, leader.start_ticks
                self._write(entry.record)

    # --- Starting ----------------------------------------------------------------------------

    def _image(self, order: InstanceOrder) -> Image:
        declared = self._types[order.instance_type]
        name = order.image or declared.image or self._default_image
        if name is None:
            raise ProviderRefused(
                f'The model names no image, and instance type "{declared.name}" has none of its own.'
            )
        image = self._images.get(name)
        if image is None:
            known = ", ".join(sorted(self._images)) or "none"
            raise ProviderRefused(f'Image "{name}" is not declared here; declared: {known}.')
        # Find out now what can be found out before anything exists.
        command_line(image, order, self._place(order.instance_id, 1))
        return image

    def _check_room(self, order: InstanceOrder) -> None:
        bound = self._types[order.instance_type].instances_max
        if bound is None or order.component:  # control bounds the instances that carry copies
            return
        running = sum(
            entry.record.order.instance_type == order.instance_type
            and not entry.record.order.component
            and self._look(entry).phase is InstancePhase.RUNNING
            for instance_id, entry in self._entries.items()
            if instance_id != order.instance_id
        )
        if running >= bound:
            raise ProviderRefused(
                f'Instance type "{order.instance_type}" may run {bound} '
                f"{'instance' if bound == 1 else 'instances'} at once (instances_max), and {running} run."
            )

    def _launch(self, entry: _Entry, image: Image) -> None:
        record = entry.record
        instance_id = record.order.instance_id
        directory = self._root / instance_id
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            record.port = _free_port({one.record.port for one in tuple(self._entries.values())})
            record.boot = _boot()
            self._write(record)
            place = self._place(instance_id, record.port)
            record.pid = _spawn(
                command_line(image, record.order, place),
                server_environment(os.environ, image, record.order, place),
                directory,
            )
            stat = process_stat(record.pid)
            assert stat is not None, "a child that nobody has waited for is listed"
            record.start_ticks = stat.start_ticks
            self._write(record)
        except (OSError, ValueError) as error:
            if record.pid is not None:
                os.killpg(record.pid, signal.SIGKILL)
                os.waitpid(record.pid, 0)
            shutil.rmtree(directory, ignore_errors=True)
            self._entries.pop(instance_id, None)
            raise ProviderRefused(f'Image "{image.name}" could not be started: {error}.') from error

    def _place(self, instance_id: InstanceId, port: int) -> Place:
        return Place(
            host=_HOST,
            port=port,
            data_dir=self._data_dir,
            directory=self._root / instance_id,
            python=sys.executable,
        )

    def _log_path(self, instance_id: InstanceId) -> Path:
        return self._root / instance_id / "log"

    def _write(self, record: ServerFile) -> None:
        write_json(self._root / record.order.instance_id / "instance.json", record)


def _spawn(command: tuple[str, ...], environment: dict[str, str], directory: Path) -> int:
    """Start a process in a session of its own, with no descriptor of ours, and return its id."""
    descriptor = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(  # noqa: S603  (the operator's own command, no shell)
            command,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=environment,
            start_new_session=True,
            close_fds=True,
        )
    finally:
        os.close(descriptor)
    # The server is meant to outlive this process, and its exit status is fetched by _how_it_ended:
    # an object that believed it were running would warn of it and wait for it.
    process.returncode = 0
    return process.pid


def _how_it_ended(record: ServerFile) -> str | None:
    """Return how a server ended, as a sentence; None while it runs."""
    if record.pid is None or record.start_ticks is None:
        return "It was never started: its order was written down and the process that did so ended."
    stat = process_stat(record.pid)
    if stat is not None and stat.start_ticks == record.start_ticks:
        if stat.alive:
            return None
        with contextlib.suppress(ChildProcessError):
            code = _reap(record.pid)
            # None: its first thread has ended and others have not yet. It is told of when all have.
            return None if code is None else _sentence(code)
    return f"Process {record.pid} has ended; how is not known, for it was no child of this process."


def _reap(pid: int) -> int | None:
    """Return the exit code of a child, or its negative signal; None while it runs.

    Raises:
        ChildProcessError: It is no child of this process.
    """
    waited, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if waited == pid else None


def _sentence(code: int) -> str:
    if code >= 0:
        return f"It ended with exit status {code}."
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"It was ended by {name}."


def _free_port(taken: set[int]) -> int:
    """Return a TCP port that was free a moment ago and that no instance of ours was given.

    Somebody may take it before the server does: the server then ends, and control replaces it.
    """
    for _ in range(_PORT_TRIES):
        with socket.socket() as probe:
            probe.bind((_HOST, 0))
            port: int = probe.getsockname()[1]
        if port not in taken:
            return port
    raise OSError(f"no free TCP port on {_HOST} in {_PORT_TRIES} tries")


def _boot() -> str:
    """Return the name Linux gives to this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
