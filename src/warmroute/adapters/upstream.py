"""The connections to the instances: one free list per target.

Idle connections are retired before the instance closes them, and each is looked at once more before
it is used again, so that a request is hardly ever sent into a connection that is closed already.
"""

import asyncio
import ssl
import time
from collections.abc import Callable

from warmroute.adapters.tasks import Tasks
from warmroute.adapters.upstream_connection import UpstreamConnection
from warmroute.core import limits
from warmroute.core.events import FailureCause
from warmroute.core.fleet import Target
from warmroute.dataplane.ports import Call, Sink


class Connecting:
    """A call whose connection is being opened. Implements `ports.Call`."""

    __slots__ = ("_call", "_paused", "cancelled", "stop_connecting")

    def __init__(self) -> None:
        self.stop_connecting: Callable[[], None] | None = None
        self._call: Call | None = None
        self._paused = False
        self.cancelled = False

    def connected(self, call: Call) -> None:
        """Hand over to the connection."""
        self._call = call
        if self._paused:
            call.pause()

    def cancel(self) -> None:
        """Stop connecting, or close the connection."""
        self.cancelled = True
        if self._call is not None:
            self._call.cancel()
        elif self.stop_connecting is not None:
            self.stop_connecting()

    def pause(self) -> None:
        """Stop reading, at the latest when connected."""
        self._paused = True
        if self._call is not None:
            self._call.pause()

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        if self._call is not None:
            self._call.resume()


class Pool:
    """The connections to one target (of one generation)."""

    __slots__ = ("_all", "_idle", "closed", "idle_s", "look_again_s", "pools", "target")

    def __init__(self, pools: "Pools", target: Target | None) -> None:
        self.pools = pools
        self.idle_s = pools.idle_s
        self.look_again_s = pools.look_again_s
        self.target = target
        self._idle: list[UpstreamConnection] = []
        self._all: set[UpstreamConnection] = set()
        self.closed = False

    def take(self) -> UpstreamConnection | None:
        """Return an idle connection that is still good, the most recently used first."""
        now_s = time.monotonic()
        while self._idle:
            connection = self._idle.pop()
            idle_s = now_s - connection.idle_since_s
            if idle_s < connection.retire_after_s and connection.usable_after(idle_s):
                connection.reused = True
                return connection
            connection.close()
        return None

    def put_back(self, connection: UpstreamConnection) -> None:
        """Keep a connection for the next request, or close it where there are enough."""
        if self.closed or len(self._idle) >= self.pools.idle_connections:
            connection.close()
            return
        connection.idle_since_s = time.monotonic()
        self._idle.append(connection)

    def opened(self, connection: UpstreamConnection) -> None:
        """Count a connection in."""
        self._all.add(connection)

    def forget(self, connection: UpstreamConnection) -> None:
        """Count a closed connection out."""
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def retire(self, now_s: float) -> None:
        """Close what has been idle for too long."""
        keep = []
        for connection in self._idle:
            if now_s - connection.idle_since_s < connection.retire_after_s:
                keep.append(connection)
            else:
                connection.close()
        self._idle = keep

    def close(self) -> None:
        """Close idle connections; busy ones close when their answers end."""
        self.closed = True
        for connection in self._idle:
            connection.close()
        self._idle = []

    def __len__(self) -> int:
        return len(self._all)


class Pools:
    """Implements `ports.Upstreams`.

    Args:
        tasks: Where connection attempts run.
        control_path: Unix socket of the control process.
        connect_s: How long opening a connection may take.
        idle_s: An idle connection is retired then, unless the instance announces less.
        idle_connections: Kept per target.
        look_again_s: Idle time from which a connection is asked whether it is still open before it is
            used again; 0 asks always.
    """

    def __init__(
        self, *, tasks: Tasks, control_path: str, connect_s: float = limits.CONNECT_S,
        idle_s: float = limits.UPSTREAM_IDLE_S_MAX,
        idle_connections: int = limits.UPSTREAM_IDLE_CONNECTIONS_MAX,
        look_again_s: float = limits.UPSTREAM_LOOK_AGAIN_S,
    ) -> None:  # fmt: skip
        self.idle_s = idle_s
        self.idle_connections = idle_connections
        self.look_again_s = look_again_s
        self._tasks = tasks
        self._control_path = control_path
        self._connect_s = connect_s
        self._pools: dict[str, Pool] = {}
        self._control = Pool(self, None)
        self._ssl: ssl.SSLContext | None = None

    def call(self, target: Target, head: bytes, body: bytes, sink: Sink) -> Call:
        """Send a request to a target."""
        pool = self._pools.get(target.target_id)
        if pool is None or pool.target is not target:
            pool = self._renew(pool, target)
        connection = pool.take()
        if connection is not None:
            connection.send(head, body, sink)
            return connection
        return self._open(pool, head, body, sink)

    def call_control(self, head: bytes, body: bytes, sink: Sink) -> Call:
        """Send a request to the control process."""
        connection = self._control.take()
        if connection is not None:
            connection.send(head, body, sink)
            return connection
        return self._open(self._control, head, body, sink)

    def _renew(self, pool: Pool | None, target: Target) -> Pool:
        """Return a pool for the target as it is now; connections to an older generation are not reused."""
        if pool is not None and pool.target is not None:
            known = pool.target
            if (known.generation, known.host, known.port, known.tls) == (
                target.generation, target.host, target.port, target.tls,
            ):  # fmt: skip
                pool.target = target
                return pool
            pool.close()
        pool = self._pools[target.target_id] = Pool(self, target)
        return pool

    def _open(self, pool: Pool, head: bytes, body: bytes, sink: Sink) -> Call:
        connecting = Connecting()
        connect = self._connect(pool, connecting, head, body, sink)
        connecting.stop_connecting = self._tasks.spawn(connect, name="connect upstream")
        return connecting

    async def _connect(
        self, pool: Pool, connecting: Connecting, head: bytes, body: bytes, sink: Sink
    ) -> None:
        loop = asyncio.get_running_loop()
        target = pool.target
        try:
            async with asyncio.timeout(self._connect_s):
                if target is None:
                    _, connection = await loop.create_unix_connection(
                        lambda: UpstreamConnection(pool), self._control_path
                    )
                else:
                    _, connection = await loop.create_connection(
                        lambda: UpstreamConnection(pool), target.host, target.port,
                        ssl=self._tls() if target.tls else None,
                    )  # fmt: skip
        except (OSError, UnicodeError) as error:  # the latter for a host that can be no name
            if not connecting.cancelled:
                sink.failed(FailureCause.CONNECT_FAILED, self._unreachable(target, error))
            return
        pool.opened(connection)
        if connecting.cancelled:
            connection.cancel()
            return
        connecting.connected(connection)
        connection.send(head, body, sink)

    def _unreachable(self, target: Target | None, error: Exception) -> str:
        where = "the control process" if target is None else target.target_id
        if isinstance(error, TimeoutError) and not str(error):
            return f"connecting to {where} took longer than {self._connect_s:g} s"
        return f"connecting to {where} failed ({error})"

    def _tls(self) -> ssl.SSLContext:
        if self._ssl is None:
            self._ssl = ssl.create_default_context()
        return self._ssl

    def retire(self, now_s: float) -> None:
        """Close connections that have been idle for too long."""
        for pool in self._pools.values():
            pool.retire(now_s)
        self._control.retire(now_s)

    def forget_targets_but(self, target_ids: set[str]) -> None:
        """Close the idle connections to targets that are gone."""
        for target_id in [known for known in self._pools if known not in target_ids]:
            self._pools.pop(target_id).close()

    def close(self) -> None:
        """Close every idle connection."""
        self.forget_targets_but(set())
        self._control.close()

    def __len__(self) -> int:
        return sum(len(pool) for pool in self._pools.values()) + len(self._control)
