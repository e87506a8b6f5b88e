"""The model servers of the benchmark: they answer as fast as they can and do no work.

Two kinds. For requests per second, HAProxy itself answers on seven ports: it takes the whole body before it
answers, as a model server does (nginx's ``return`` answers first, which makes some proxies drop the
connection). Where HAProxy is not installed, the Python server below does it, which costs about twice as much.
For streams, always the Python server, because it has to send chunks at a steady rate.

Run as a program: ``upstream.py RATE PORT…`` serves until it is ended; a rate over 0 answers every POST with
an endless stream of so many chunks per second.
"""

import asyncio
import contextlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from processes import Processes, wait_for_port

MODELS = b'{"object":"list","data":[{"id":"llm","object":"model","owned_by":"benchmark"}]}'
ANSWER = (
    "The report names three causes: the intake filter had not been changed since spring, the second pump ran "
    "against a closed valve for eleven minutes, and nobody had read the alarm of the night before. It asks "
    "for a checklist at every change of shift."
)
COMPLETION = (
    b'{"id":"chatcmpl-5d1f0c2ab1d64c4e","object":"chat.completion","created":1764547200,"model":"llm",'
    b'"choices":[{"index":0,"message":{"role":"assistant","content":"%b"},"logprobs":null,'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":8211,"completion_tokens":52,"total_tokens":8263,'
    b'"prompt_tokens_details":{"cached_tokens":8000}}}'
) % ANSWER.encode()
CHUNK = (
    b'data: {"id":"chatcmpl-5d1f0c2ab1d64c4e","object":"chat.completion.chunk","created":1764547200,'
    b'"model":"llm","choices":[{"index":0,"delta":{"content":" valve"},"logprobs":null,'
    b'"finish_reason":null}]}\n\n'
)
HTTP_CHUNK = b"%x\r\n%b\r\n" % (len(CHUNK), CHUNK)
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
GROUPS = 20
"""Streams are sent to in turn, a group at a time, so that chunks arrive spread out and not in one burst."""

HAPROXY = """global
  nbthread 1
  maxconn 4000
  tune.bufsize 524288
  tune.maxrewrite 1024
defaults
  mode http
  timeout client 1h
  timeout server 1h
  timeout connect 5s
  timeout http-keep-alive 1h
  timeout http-request 1h
frontend upstream
{binds}
  http-request wait-for-body time 30s if METH_POST
  http-request return status 200 content-type application/json file {models} if METH_GET
  http-request return status 200 content-type application/json file {completion}
"""


def _reply(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


GET_REPLY, POST_REPLY = _reply(MODELS), _reply(COMPLETION)
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


@dataclass(slots=True)
class Streams:
    """The streams open now.

    Attributes:
        groups: Open connections, spread evenly.
        opened: Streams begun so far.
    """

    groups: list[set["UpstreamConnection"]] = field(default_factory=lambda: [set() for _ in range(GROUPS)])
    opened: int = 0

    def add(self, connection: "UpstreamConnection") -> None:
        """Begin a stream on a connection: headers and one chunk now, the rest as the clock says."""
        self.groups[self.opened % GROUPS].add(connection)
        self.opened += 1
        connection.transport.write(STREAM_HEAD + HTTP_CHUNK)

    def discard(self, connection: "UpstreamConnection") -> None:
        """Forget a connection that is closed."""
        for group in self.groups:
            group.discard(connection)

    async def run(self, chunks_per_second: float) -> None:
        """Send to every stream at the given rate until cancelled; a late turn is sent late, never dropped."""
        loop = asyncio.get_running_loop()
        step = 1 / chunks_per_second / GROUPS
        due, turn = loop.time(), 0
        while True:
            due += step
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            for connection in self.groups[turn % GROUPS]:
                if not connection.paused:
                    connection.transport.write(HTTP_CHUNK)
            turn += 1


class UpstreamConnection(asyncio.Protocol):
    """One connection of a proxy: reads requests, one at a time, and answers when a body is complete.

    Not a general HTTP server: it relies on the proxies sending well-formed requests and not pipelining.
    """

    transport: asyncio.Transport

    def __init__(self, streams: Streams | None) -> None:
        """Answer POST with a stream when there is a set of streams to join, else with one whole answer."""
        self.streams = streams
        self.paused = False
        self._head = b""
        self._missing = 0
        self._tail: bytes | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (uvloop's is no subclass of asyncio's)."""
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (the protocol's signature)
        """Leave the streams."""
        if self.streams is not None:
            self.streams.discard(self)

    def pause_writing(self) -> None:
        """Stop sending: the proxy does not read."""
        self.paused = True

    def resume_writing(self) -> None:
        """Send again."""
        self.paused = False

    def data_received(self, data: bytes) -> None:
        """Take bytes of a head or of a body."""
        if self._tail is not None:
            # A chunked body ends with its last chunk; 16 bytes are enough to see it across a split.
            self._tail = (self._tail + data)[-16:]
            if self._tail.endswith(b"\r\n0\r\n\r\n"):
                self._tail = None
                self._answer()
        elif self._missing:
            self._missing -= len(data)
            if self._missing <= 0:
                self._answer()
        else:
            self._take_head(self._head + data)

    def _take_head(self, data: bytes) -> None:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._head = data
            return
        self._head = b""
        if data.startswith((b"GET", b"HEAD")):
            self.transport.write(GET_REPLY)
            return
        body_received = len(data) - end - 4
        if CHUNKED.search(data, 0, end):
            self._tail = b""
            if body_received:
                self.data_received(b"\r\n" + data[end + 4 :])
            return
        length = LENGTH.search(data, 0, end)
        self._missing = (int(length[1]) if length else 0) - body_received
        if self._missing <= 0:
            self._answer()

    def _answer(self) -> None:
        self._missing = 0
        if self.streams is None:
            self.transport.write(POST_REPLY)
        else:
            self.streams.add(self)


@contextlib.contextmanager
def running(
    processes: Processes, folder: Path, ports: list[int], *, cpu: int, chunks_per_second: float = 0
) -> Iterator[str]:
    """Run upstreams in a process of their own; yields what they are, in words.

    Args:
        processes: Where to start it.
        folder: For its files.
        ports: Of loopback, one for each instance.
        cpu: Where it runs.
        chunks_per_second: Of every stream; 0 for upstreams that answer in one piece.
    """
    haproxy = None if chunks_per_second else processes.find("haproxy")
    if haproxy is None:
        command = [sys.executable, str(Path(__file__).resolve()), str(chunks_per_second), *map(str, ports)]
        what = "Python (uvloop): install haproxy for one that costs half as much"
    else:
        (folder / "models.json").write_bytes(MODELS)
        (folder / "completion.json").write_bytes(COMPLETION)
        binds = "\n".join(f"  bind 127.0.0.1:{port}" for port in ports)
        config = folder / "upstream.cfg"
        config.write_text(
            HAPROXY.format(binds=binds, models=folder / "models.json", completion=folder / "completion.json")
        )
        command, what = [haproxy, "-db", "-f", str(config)], "HAProxy"
    process = processes.start("upstreams", command, cpu=cpu, log=folder / "upstreams.log")
    try:
        wait_for_port(process, ports[-1], seconds=10)
        yield what
    finally:
        processes.stop(process)


async def _serve(chunks_per_second: float, ports: list[int]) -> None:
    streams = Streams() if chunks_per_second else None
    loop = asyncio.get_running_loop()
    for port in ports:
        await loop.create_server(lambda: UpstreamConnection(streams), "127.0.0.1", port, backlog=4096)
    if streams is None:
        await asyncio.Event().wait()
    else:
        await streams.run(chunks_per_second)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_serve(float(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
