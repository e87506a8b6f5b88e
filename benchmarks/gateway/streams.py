"""Streams: what a chunk costs the proxy in CPU time, and what an open stream costs it in memory.

The upstreams (`upstream`) send one chunk per stream at a steady rate, spread over time; the clients, in this
process on the generator's CPU, only drain and count.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from dataclasses import dataclass

import measure
from peers import Row, Server
from requests_made import DISTINCT, request_head, stream_body

BODY_BYTES = 32 * 1024
OPEN_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class StreamLoad:
    """What one run found.

    Attributes:
        streams: Open at once.
        due: Chunks that the upstreams should have sent in the time.
        delivered: Chunks that reached the clients in the time.
        seconds: Wall time.
        cpu_s: CPU time of the proxy.
        broken: Streams that ended before they should.
        others_s: Time the proxy's CPU was busy with anything else.
    """

    streams: int
    due: int
    delivered: int
    seconds: float
    cpu_s: float
    broken: int
    others_s: float

    @property
    def us_per_chunk(self) -> float:
        """CPU microseconds of the proxy per chunk delivered."""
        return self.cpu_s * 1e6 / self.delivered if self.delivered else float("inf")


class StreamsFailed(Exception):  # noqa: N818  (an outcome for the table)
    """The streams could not be opened; the text says why."""


@dataclass(slots=True)
class Counts:
    """Of all clients together."""

    chunks: int = 0
    started: int = 0
    broken: int = 0
    refused: bytes = b""


class StreamClient(asyncio.Protocol):
    """One client: sends a request, then counts the chunks that come."""

    transport: asyncio.Transport

    def __init__(self, request: bytes, counts: Counts) -> None:
        """Take what to send and where to count."""
        self.request = request
        self.counts = counts
        self.begun = False
        self.stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self.transport = transport  # type: ignore[assignment]  # uvloop's is no subclass of asyncio's
        self.transport.write(self.request)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (the protocol's signature)
        """Count an end that we did not ask for."""
        if not self.stopped:
            self.counts.broken += 1

    def data_received(self, data: bytes) -> None:
        """Count chunks by the blank line that ends each event, within event-stream frames too."""
        if not self.begun:
            self.begun = True
            if data.startswith(b"HTTP/1.1 200"):
                self.counts.started += 1
            else:
                self.counts.refused = data[:200]
        self.counts.chunks += data.count(b"}\n\n")


@contextlib.asynccontextmanager
async def _open_streams(
    row: Row, server: Server, *, count: int, counts: Counts
) -> AsyncIterator[list[StreamClient]]:
    """Open streams through a proxy and wait until each has begun.

    Raises:
        StreamsFailed: Some did not.
    """
    loop = asyncio.get_running_loop()
    clients: list[StreamClient] = []
    try:
        for number in range(count):
            body = stream_body(BODY_BYTES, number=number % DISTINCT)
            user = number if row.with_user else None
            request = request_head(row.stream_path, row.credential, server.port, body, user=user) + body
            make = functools.partial(StreamClient, request, counts)
            _, client = await loop.create_connection(make, "127.0.0.1", server.port)
            clients.append(client)
        deadline = loop.time() + OPEN_S_MAX
        while counts.started < count:
            if counts.refused or counts.broken or loop.time() > deadline:
                said = counts.refused.decode(errors="replace") or f"{counts.broken} were closed"
                raise StreamsFailed(f"{counts.started} of {count} streams began; {said}")
            await asyncio.sleep(0.02)
        yield clients
    finally:
        for client in clients:
            client.stopped = True
            client.transport.abort()


async def measure_chunks(
    row: Row,
    server: Server,
    *,
    count: int,
    chunks_per_second: float,
    seconds: float,
    placement: measure.Placement,
) -> StreamLoad:
    """Measure the CPU time per chunk with some streams open, after half a second of rest.

    Raises:
        StreamsFailed: They could not be opened.
    """
    counts = Counts()
    loop = asyncio.get_running_loop()
    async with _open_streams(row, server, count=count, counts=counts):
        await asyncio.sleep(0.5)
        cpu, core = measure.CpuMark.of(server.pids), measure.CoreMark.of(placement.proxy)
        delivered, began = counts.chunks, loop.time()
        await asyncio.sleep(seconds)
        spent, elapsed = cpu.seconds_since(), loop.time() - began
        busy, stolen = core.since()
        result = StreamLoad(
            streams=count,
            due=round(count * chunks_per_second * elapsed),
            delivered=counts.chunks - delivered,
            seconds=elapsed,
            cpu_s=spent,
            broken=counts.broken,
            others_s=max(0.0, busy - spent) + stolen,
        )
    await asyncio.sleep(0.3)  # let the proxy notice that the clients are gone
    return result


async def measure_open(
    row: Row, server: Server, *, counts_of_streams: list[int], settle_seconds: float
) -> dict[int, int]:
    """Measure the proxy's resident memory with some numbers of streams open, the smallest first.

    Returns:
        KiB by number of streams.

    Raises:
        StreamsFailed: They could not be opened.
    """
    found: dict[int, int] = {}
    for count in counts_of_streams:
        async with _open_streams(row, server, count=count, counts=Counts()):
            await asyncio.sleep(settle_seconds)
            found[count] = measure.rss_kib(server.pids)
        await asyncio.sleep(0.5)
    return found
