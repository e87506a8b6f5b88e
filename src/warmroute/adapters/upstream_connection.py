"""One connection to an instance: one request at a time, its answer parsed by llhttp, piece by piece."""

import asyncio
import select
from typing import Protocol, cast

import httptools

from warmroute.core import limits
from warmroute.core.events import FailureCause
from warmroute.dataplane.ports import Sink
from warmroute.wire.headers import HeaderList

_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"keep-alive", b"content-type"})
_HEAD_TOO_LARGE = f"the head of the instance's answer exceeds {limits.UPSTREAM_HEAD_BYTES_MAX} bytes"

_NO_PARSER = httptools.HttpResponseParser(object())


class Home(Protocol):
    """Where a connection belongs while it is not used: its target's pool.

    Attributes:
        idle_s: An idle connection is retired then, unless the instance announces less.
        look_again_s: Idle time from which a connection is asked whether it is still open.
    """

    idle_s: float
    look_again_s: float

    def put_back(self, connection: "UpstreamConnection") -> None:
        """Keep a connection for the next request."""
        ...

    def forget(self, connection: "UpstreamConnection") -> None:
        """Count a closed connection out."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """One connection to an instance. Implements llhttp's callbacks and, while it is used, `ports.Call`."""

    __slots__ = (
        "_chunked",
        "_event_stream",
        "_fields",
        "_head_bytes",
        "_head_done",
        "_keep_alive",
        "_length",
        "_parser",
        "_paused",
        "_poll",
        "_pool",
        "_sink",
        "_status",
        "_transport",
        "_unsent",
        "idle_since_s",
        "retire_after_s",
        "reused",
        "uses_left",
    )  # fmt: skip

    def __init__(self, pool: Home) -> None:
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._poll: select.poll | None = None
        self._sink: Sink | None = None
        self._paused = False
        self._unsent = False
        self._status = 0
        self._fields: HeaderList = []
        self._head_bytes = 0
        self._head_done = False
        self._length: int | None = None
        self._chunked = False
        self._keep_alive = False
        self._event_stream = False
        self.reused = False
        self.idle_since_s = 0.0
        self.retire_after_s = pool.idle_s
        self.uses_left: int | None = None

    # --- asyncio ----------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport and watch its descriptor."""
        self._transport = cast("asyncio.Transport", transport)
        # So that `pause_writing` and `resume_writing` tell whether the kernel has the whole request.
        # Not 0 and 0: transports of TLS would call both by turns.
        self._transport.set_write_buffer_limits(high=1, low=0)
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN | select.POLLRDHUP)

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        sink = self._sink
        if sink is None:
            self.close()  # an answer nobody asked for
            return
        if not self._head_done:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(FailureCause.MALFORMED, "the instance switched protocols")
        except httptools.HttpParserCallbackError as error:
            # A defect of ours, in the sink: it must be seen, and must not be blamed on the instance.
            self._sink = None
            self.close()
            raise error.__context__ or error from None
        except httptools.HttpParserError as error:
            self._fail(FailureCause.MALFORMED, f"the instance's answer is not HTTP: {error}")
        if not self._head_done and self._head_bytes > limits.UPSTREAM_HEAD_BYTES_MAX:
            self._fail(FailureCause.MALFORMED, _HEAD_TOO_LARGE)

    def pause_writing(self) -> None:
        """Part of the request waits to be handed to the kernel."""
        self._unsent = True

    def resume_writing(self) -> None:
        """All of it is handed over."""
        self._unsent = False

    def eof_received(self) -> bool:
        """Close with the instance; at once where it did not want to read the whole request."""
        if self._unsent and self._transport is not None:
            self._transport.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to whoever waits."""
        self._transport = None
        self._poll = None
        self._parser = _NO_PARSER  # it refers back to us: freed now, not at the next search for cycles
        self._pool.forget(self)
        sink = self._sink
        if sink is None:
            return
        self._sink = None
        if self._head_done and self._length is None and not self._chunked and exc is None:
            sink.ended()  # the body's end is the connection's end
            return
        detail = f"the instance closed the connection{f' ({exc})' if exc else ''}"
        if self._head_done:
            sink.failed(FailureCause.BROKEN, f"{detail} in the middle of its answer")
        elif self.reused and self._unsent:
            sink.failed(FailureCause.STALE_CONNECTION, detail)
        else:
            sink.failed(FailureCause.CLOSED, f"{detail} before it answered")

    # --- ports.Call -------------------------------------------------------------------------
    def cancel(self) -> None:
        """Close at once; the sink hears nothing more."""
        self._sink = None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Stop reading."""
        self._paused = True
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    # --- use --------------------------------------------------------------------------------
    def send(self, head: bytes, body: bytes, sink: Sink) -> None:
        """Send a request; its answer goes to the sink."""
        assert self._transport is not None, "a connection is sent on while it is open"
        self._sink = sink
        self._start_answer()
        if self.uses_left is not None:
            self.uses_left -= 1
        if len(body) < 8192:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def usable_after(self, idle_s: float) -> bool:
        """Return whether another request may be sent: open, not about to be closed, and nothing to read.

        Args:
            idle_s: How long the connection has been idle.
        """
        if self._transport is None or self._transport.is_closing():
            return False
        if self.uses_left is not None and self.uses_left <= 0:
            return False
        # What has arrived on an idle connection is a close, or an answer nobody asked for. The loop tells
        # of what came before its present round; only after a pause is it worth a system call to ask
        # about the round itself, and under load, where it would cost a tenth of a request, there is none.
        return idle_s < self._pool.look_again_s or (self._poll is not None and not self._poll.poll(0))

    def close(self) -> None:
        """Close an idle connection."""
        if self._transport is not None:
            self._transport.close()

    def _start_answer(self) -> None:
        self._status = 0
        self._fields = []
        self._head_bytes = 0
        self._head_done = False
        self._length = None
        self._chunked = False
        self._event_stream = False

    def _fail(self, cause: FailureCause, detail: str) -> None:
        sink = self._sink
        self._sink = None
        if self._transport is not None:
            self._transport.abort()
        if sink is not None:
            sink.failed(FailureCause.BROKEN if self._head_done else cause, detail)

    # --- llhttp -----------------------------------------------------------------------------
    def on_message_begin(self) -> None:
        """An answer starts."""
        if self._sink is None:
            self.close()  # nobody asked for it, though it came together with one that was asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field; trailers are dropped."""
        if self._head_done:
            return
        name = name.lower()
        self._fields.append((name, value))
        if name in _FRAMING:
            if name == b"content-length":
                self._length = int(value)
            elif name == b"transfer-encoding":
                self._chunked = True
            elif name == b"content-type":
                # llama.cpp closes after every stream, without saying so and a moment late: what is sent
                # on the connection meanwhile is lost, and may not be sent again.
                self._event_stream = value.lower().startswith(b"text/event-stream")
            else:
                self._read_keep_alive(value)

    def on_headers_complete(self) -> None:
        """Pass the head on, unless it is informational."""
        if self._head_bytes > limits.UPSTREAM_HEAD_BYTES_MAX:  # with what came of the body
            size = sum((len(name) + len(value) + 4 for name, value in self._fields), start=19)
            if size > limits.UPSTREAM_HEAD_BYTES_MAX:
                self._fail(FailureCause.MALFORMED, _HEAD_TOO_LARGE)
                return
        self._head_done = True
        status = self._parser.get_status_code()
        self._status = status
        if status < 200 or self._sink is None:
            return
        if status in (204, 304):
            self._length = 0
        self._keep_alive = bool(self._parser.should_keep_alive())
        self._sink.head(status, self._fields, self._length)

    def on_body(self, data: bytes) -> None:
        """Pass a piece of the body on."""
        if self._sink is not None:
            self._sink.body(data)

    def on_message_complete(self) -> None:
        """Pass the end on; the connection is free again where both sides allow it."""
        sink = self._sink
        if sink is None:
            return
        if self._status < 200:
            self._start_answer()  # the real one is still to come
            return
        self._sink = None
        sink.ended()
        if self._unsent:
            # The instance answered before it had read the whole request, and may never read the rest.
            self.cancel()
        elif self._keep_alive and not self._event_stream:
            if self._paused:
                self.resume()  # the caller's connection was full; its next request has another call
            self._pool.put_back(self)
        else:
            self.close()

    def _read_keep_alive(self, value: bytes) -> None:
        """Retire the connection before the limits that the instance announces."""
        for part in value.split(b","):
            name, _, number = part.strip().partition(b"=")
            if not number.isdigit():
                continue
            if name.lower() == b"timeout":
                self.retire_after_s = min(self._pool.idle_s, max(0.5, int(number) - 1.0))
            elif name.lower() == b"max" and self.uses_left is None:
                self.uses_left = max(0, int(number) - 2)
