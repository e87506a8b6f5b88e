"""The public listener: HTTP/1.1 on asyncio protocols, parsed by llhttp.

One `ServerConnection` per client. It collects one request at a time, hands it to the gateway and
writes what comes back. While an answer is under way it keeps reading, so that it notices when the
client goes; what arrives of further requests waits its turn, up to a bound.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

import httptools

from warmroute.adapters.request_target import parser_told, split_target
from warmroute.core import limits
from warmroute.core.errors import Failure, Problem
from warmroute.dataplane.gateway import Gateway
from warmroute.dataplane.ports import Underway
from warmroute.wire import http1
from warmroute.wire.headers import HeaderList, Headers, collect
from warmroute.wire.http1 import Request

LINGER_BYTES_MAX = 64 * 1024 * 1024
"""How much of a refused body is read and dropped, so that the client gets to read the answer."""
LINGER_S_MAX = 5.0
"""For how long."""
SMALL_PIECE_BYTES = 1024
"""Smaller pieces of a body are gathered in one buffer: as objects they take far more than their bytes."""
CHUNK_FRAMING_BYTES = 24
"""What a chunk may take beside its data: size in hexadecimal digits and two line ends, with room to spare."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of the listener; reasons in ``core/limits.py``."""

    body_bytes: int = limits.BODY_BYTES_MAX
    buffered_bodies_bytes: int = limits.BUFFERED_BODIES_BYTES_MAX
    head_bytes: int = limits.HEAD_BYTES_MAX
    header_count: int = limits.HEADER_COUNT_MAX
    write_high_water_bytes: int = limits.WRITE_HIGH_WATER_BYTES
    head_read_s: float = limits.HEAD_READ_S_MAX
    body_idle_s: float = limits.BODY_IDLE_S_MAX
    keep_alive_idle_s: float = limits.KEEP_ALIVE_IDLE_S_MAX


class Listener:
    """What the connections of one router share.

    Attributes:
        connections: Open ones.
        buffered_bytes: Request bodies held by all of them.
        draining: No connection takes another request.
    """

    def __init__(self, gateway: Gateway, bounds: ServerLimits) -> None:
        self.gateway = gateway
        self.bounds = bounds
        self.connections: set[ServerConnection] = set()
        self.buffered_bytes = 0
        self.draining = False

    def connection(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return ServerConnection(self)

    def check(self, now_s: float) -> None:
        """Close connections that have been idle, or slow to send a request, for too long."""
        for connection in list(self.connections):
            connection.check(now_s)

    def drain(self) -> None:
        """Close idle connections and let the others end after their present request."""
        self.draining = True
        for connection in list(self.connections):
            connection.drain()


class Reading(Enum):
    """What a connection waits for from its client."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    DROP = auto()
    """The request was refused; the rest of it is read and dropped."""


_IDLE, _HEAD, _BODY, _DROP = Reading
_NO_PARSER = httptools.HttpRequestParser(object())
_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")}


class ServerConnection(asyncio.Protocol):
    """One client's connection. Implements `ports.Downstream` and llhttp's callbacks."""

    __slots__ = (
        "_body", "_body_bytes", "_closing", "_current_bytes", "_dropped", "_fields", "_head_bytes",
        "_head_without_upgrade", "_headers_done", "_held", "_listener", "_loop", "_parser",
        "_paused_reading", "_pieces", "_queue", "_queued_bytes", "_raw_bytes", "_reading", "_request",
        "_since_s", "_transport", "_underway", "_url", "_writing_paused",
    )  # fmt: skip

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._underway: Underway | None = None
        self._queue: deque[Request] = deque()
        self._queued_bytes = 0
        self._reading = _IDLE
        self._since_s = self._loop.time()
        self._paused_reading = False
        self._writing_paused = False
        self._closing = False
        self._dropped = 0
        self._head_bytes = 0
        self._head_without_upgrade = b""
        self._headers_done = False
        self._held: Callable[[], None] | None = None  # what to say when the requests before are answered
        self._url = b""
        self._fields: HeaderList = []
        self._body: list[bytes | bytearray] = []
        self._body_bytes = 0
        self._current_bytes = 0
        self._raw_bytes = 0
        self._pieces = 0
        self._request: Request | None = None

    # --- asyncio ----------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._listener.bounds.write_high_water_bytes)
        self._listener.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; refuse what it cannot read."""
        if self._dropping:
            self._drop(data)
            return
        if self._reading is not _BODY:
            self._head_bytes += len(data)
        else:
            self._since_s = self._loop.time()
            self._raw_bytes += len(data)
        if self._underway is not None or self._writing_paused:
            self._queued_bytes += len(data)
            if self._queued_bytes > limits.PIPELINED_BYTES_MAX:
                self._pause_reading()
        self._feed(data)
        if self._reading is _HEAD and self._head_bytes > self._listener.bounds.head_bytes:
            self._refuse(self._head_too_large())
        elif self._reading is _BODY and self._raw_bytes > self._body_bytes:
            self._check_framing()
        self._next()

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # llhttp stops here, but we stay with HTTP/1.1: the request is read again without its offer.
                data = self._head_without_upgrade + data[upgrade.args[0] :]
                if not self._head_without_upgrade:  # CONNECT, which ends the connection
                    self._no_more_requests()
                    return
                self._head_without_upgrade = b""
                self._parser = httptools.HttpRequestParser(self)
            except httptools.HttpParserError as error:
                if not self._dropping:
                    text = f"This is not HTTP as we read it: {parser_told(error)}."
                    self._refuse(Failure(Problem.LENGTH_UNREADABLE, text))
                return
            else:
                return

    def eof_received(self) -> bool:
        """Take a client that stops sending as one that is gone, as most proxies do."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop whatever was done for this client."""
        del exc
        self._listener.connections.discard(self)
        self._closing = True
        self._release_bodies()
        underway = self._underway
        self._underway = None
        if underway is not None:
            underway.client_gone()
        self._transport = None
        self._parser = _NO_PARSER  # it refers back to us: freed now, not at the next search for cycles

    def pause_writing(self) -> None:
        """The client reads too slowly: stop reading from the instance, and begin nothing new."""
        self._writing_paused = True
        if self._underway is not None:
            self._underway.pause()

    def resume_writing(self) -> None:
        """It caught up."""
        self._writing_paused = False
        if self._underway is not None:
            self._underway.resume()
        else:
            self._loop.call_soon(self._next)

    # --- llhttp -----------------------------------------------------------------------------
    def on_message_begin(self) -> None:
        """A request starts."""
        if self._reading is _DROP:
            return
        self._reading = _HEAD
        self._since_s = self._loop.time()
        self._headers_done = False
        self._url = b""
        self._fields = []

    def on_url(self, url: bytes) -> None:
        """Take (a piece of) the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field; trailers are dropped."""
        if not self._headers_done:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is there: check it, and say that the body may come."""
        if self._reading is _DROP:
            return
        self._headers_done = True
        bounds = self._listener.bounds
        parser = self._parser
        fields = self._fields
        headers: Headers = dict(fields)
        if len(headers) != len(fields):
            headers = collect(fields)
        path, query = split_target(self._url)
        method = parser.get_method()
        version = parser.get_http_version()
        if b"upgrade" in headers and method != b"CONNECT" and parser.should_upgrade():
            kept = b"".join(b"%b: %b\r\n" % field for field in fields if field[0] != b"upgrade")
            line = b"%b %b HTTP/%b\r\n" % (method, self._url, version.encode())
            self._head_without_upgrade = line + kept + b"\r\n"
            return
        request = Request(_METHODS.get(method) or method.decode("ascii"), path, query, headers, fields)
        self._request = request
        request.keep_alive = parser.should_keep_alive() and not self._listener.draining
        if version != "1.1":
            request.keep_alive = request.chunks_allowed = False
        problem = http1.framing_problem(version, headers)
        if problem is not None:
            self._refuse(Failure(Problem.LENGTH_UNREADABLE, problem))
            return
        if self._head_bytes > bounds.head_bytes or len(fields) > bounds.header_count:
            size = len(self._url) + sum(len(name) + len(value) + 4 for name, value in fields)
            if size > bounds.head_bytes or len(fields) > bounds.header_count:
                self._refuse(self._head_too_large())
                return
        length = headers.get(b"content-length")
        if length is not None and int(length) > bounds.body_bytes:
            self._refuse(self._body_too_large(int(length)))
            return
        self._reading = _BODY
        self._raw_bytes = 0
        self._pieces = 0
        if b"expect" in headers and headers[b"expect"].lower() == b"100-continue" and version == "1.1":
            self._held = self._say_continue

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        if self._reading is _DROP:
            return
        listener = self._listener
        self._held = None  # the client does not wait for a word
        self._body_bytes += len(data)
        listener.buffered_bytes += len(data)
        self._pieces += 1
        body = self._body
        if len(data) >= SMALL_PIECE_BYTES or not body:
            body.append(data)
        elif isinstance(body[-1], bytearray):  # thousands of tiny chunks: one buffer, not an object each
            body[-1] += data
        else:
            body.append(bytearray(data))
        if self._body_bytes > listener.bounds.body_bytes:
            self._refuse(self._body_too_large(self._body_bytes))
        elif listener.buffered_bytes > listener.bounds.buffered_bodies_bytes:
            self._refuse(
                Failure(
                    Problem.OVERLOADED,
                    f"Request bodies of {listener.bounds.buffered_bodies_bytes} bytes in all are being held "
                    "at this moment; try again shortly.",
                )
            )

    def on_message_complete(self) -> None:
        """The request is whole: it waits its turn, which is mostly now."""
        if self._reading is _DROP or self._head_without_upgrade:
            return
        request = self._request
        assert request is not None, "a complete message has a head"
        self._request = None
        body = self._body
        request.body = b"".join(body)  # of one piece: that piece
        self._body = []
        self._body_bytes = 0
        self._reading = _IDLE
        self._head_bytes = 0
        self._queue.append(request)

    # --- ports.Downstream -------------------------------------------------------------------
    def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        if self._transport is not None:
            self._transport.write(data)

    def release_body(self) -> None:
        """Take the present request's body off the books: nobody holds it any more."""
        self._listener.buffered_bytes -= self._current_bytes
        self._current_bytes = 0

    def finish(self, *, close: bool) -> None:
        """End the present answer; turn to the next request in the next round of the loop."""
        self._underway = None
        self.release_body()
        self._since_s = self._loop.time()
        if close or self._listener.draining:
            self._close()
        elif self._queue or self._paused_reading or self._held is not None:
            self._loop.call_soon(self._next)
        elif self._reading is _DROP:
            self._close()

    @property
    def _dropping(self) -> bool:
        # A property, since the callbacks of the parser change it where no type checker looks.
        return self._reading is _DROP

    # --- the turn of requests ---------------------------------------------------------------
    def _next(self) -> None:
        if self._underway is not None or self._closing or self._writing_paused:
            return
        request = self._queue.popleft() if self._queue else None
        if not self._queue:
            self._queued_bytes = 0
            if self._paused_reading and self._transport is not None:
                self._paused_reading = False
                self._transport.resume_reading()
        if request is None:
            held = self._held
            self._held = None
            if held is not None:
                held()
            return
        self._current_bytes = len(request.body)
        underway = self._listener.gateway.receive(request, self)
        if underway is not None and not self._closing:
            self._underway = underway

    def _no_more_requests(self) -> None:
        if self._queue:
            self._queue[-1].keep_alive = False
        self._reading = _DROP

    def _say_continue(self) -> None:
        self.write(http1.CONTINUE)

    def _release_bodies(self) -> None:
        self.release_body()
        self._release_unfinished()
        self._listener.buffered_bytes -= sum(len(request.body) for request in self._queue)
        self._queue.clear()

    def _release_unfinished(self) -> None:
        self._listener.buffered_bytes -= self._body_bytes
        self._body_bytes = 0
        self._body = []

    # --- refusing ---------------------------------------------------------------------------
    def _refuse(self, failure: Failure) -> None:
        """Answer with an error in its turn, reading and dropping what the client still sends; then close."""
        self._release_unfinished()
        self._reading = _DROP
        self._dropped = 0
        path = self._url.decode("latin-1").partition("?")[0]

        def tell() -> None:
            self._since_s = self._loop.time()
            self._listener.gateway.reject(path, failure, _Refusal(self))

        self._held = tell

    def _drop(self, data: bytes) -> None:
        self._dropped += len(data)
        if self._dropped > LINGER_BYTES_MAX:
            self._close()

    def _check_framing(self) -> None:
        """Refuse a body that hides more in its framing (chunk extensions, trailers) than a head may hold."""
        bounds = self._listener.bounds
        framing = self._raw_bytes - self._body_bytes
        if framing > bounds.head_bytes + self._pieces * CHUNK_FRAMING_BYTES:
            text = f"The chunk extensions and trailers of the body exceed {bounds.head_bytes} bytes."
            self._refuse(Failure(Problem.HEAD_TOO_LARGE, text))

    def _head_too_large(self) -> Failure:
        bounds = self._listener.bounds
        return Failure(
            Problem.HEAD_TOO_LARGE,
            f"The request line and headers exceed {bounds.head_bytes} bytes or {bounds.header_count} fields.",
        )

    def _body_too_large(self, got: int) -> Failure:
        return Failure(
            Problem.BODY_TOO_LARGE,
            f"The request body has {got} bytes or more; "
            f"at most {self._listener.bounds.body_bytes} are allowed.",
        )

    # --- time and endings -------------------------------------------------------------------
    def check(self, now_s: float) -> None:
        """Act on a client that is idle or slow."""
        patience_s = self._patience_s()
        if self._underway is not None or now_s - self._since_s <= patience_s:
            return
        if self._closing:
            if self._transport is not None:
                self._transport.abort()  # the client does not read the end of its answer
        elif self._reading is _HEAD:
            self._too_slow(f"The headers took longer than {patience_s:g} s.")
        elif self._reading is _BODY:
            self._too_slow(f"Nothing of the request body came for {patience_s:g} s.")
        else:
            self._close()

    def _patience_s(self) -> float:
        bounds = self._listener.bounds
        if self._closing:
            return bounds.body_idle_s
        match self._reading:
            case Reading.IDLE:
                return bounds.keep_alive_idle_s
            case Reading.HEAD:
                return bounds.head_read_s
            case Reading.BODY:
                return bounds.body_idle_s
            case Reading.DROP:
                return LINGER_S_MAX

    def _too_slow(self, text: str) -> None:
        self._refuse(Failure(Problem.REQUEST_TIMEOUT, text))
        self._next()

    def drain(self) -> None:
        """Close when idle; else after the present request."""
        if self._underway is None and self._reading is _IDLE and not self._queue:
            self._close()

    def end_writing(self) -> None:
        """Half-close: a client that reads to the end has its answer, one that still sends is not cut off."""
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def _pause_reading(self) -> None:
        if not self._paused_reading and self._transport is not None:
            self._paused_reading = True
            self._transport.pause_reading()

    def _close(self) -> None:
        self._closing = True
        self._since_s = self._loop.time()
        if self._transport is not None:
            self._transport.close()


class _Refusal:
    """Downstream of an error answer to a request that is not whole: it does not close at once."""

    __slots__ = ("_connection",)

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def write(self, data: bytes) -> None:
        self._connection.write(data)

    def finish(self, *, close: bool) -> None:
        """Say that nothing more comes; `ServerConnection.check` closes what lingers."""
        del close
        self._connection.end_writing()

    def release_body(self) -> None:
        pass
