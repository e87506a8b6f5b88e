"""Server-sent events: the error event that ends a broken stream, and a look at a stream's first event.

Some engines answer an overloaded stream request with HTTP 200 and say 503 only inside the first event.
Holding the 200 until that event is known lets the caller get the real status.

Source: the event stream format of the WHATWG HTML standard (section 9.2); overload events as vLLM sends
them (``data: {"error": {..., "code": 503}}``).
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from warmroute.core.limits import ERROR_BODY_BYTES_MAX

HELD_BYTES_MAX: Final = ERROR_BODY_BYTES_MAX
"""Bytes of a stream looked at before it is taken for a good one: an error event is never longer than
what is quoted of an error body."""

_UNKNOWN_STATUS: Final = 500
_ANTHROPIC_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}


def error_event(body: bytes, event: str | None = None) -> bytes:
    r"""Spell the event that ends a stream which broke.

    Args:
        body: The error as JSON.
        event: Event type; None sends none, as OpenAI streams have it.

    Returns:
        A blank line, which ends whatever event was cut off, and one event. Line breaks inside
        ``body`` become further ``data:`` lines, which readers join with ``\n`` again.
    """
    head = b"\n\n" if event is None else b"\n\nevent: " + event.encode("ascii") + b"\n"
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return head + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"


class FirstKind(Enum):
    """What the first event of a stream is."""

    READY = "ready"
    """Anything but an error: send the 200 and what was held."""
    ERROR = "error"
    """An error: the stream carries no answer."""


@dataclass(frozen=True, slots=True)
class First:
    """The verdict on a stream.

    Attributes:
        kind: Good or not.
        status: HTTP status the error stands for, 400-599; 500 when it names none. 0 when ready.
        body: The error's data; empty when ready.
    """

    kind: FirstKind
    status: int = 0
    body: bytes = b""


_READY: Final = First(FirstKind.READY)


class FirstEvent:
    """Finds out, piece by piece, whether the first event of a stream is an error.

    The pieces stay the caller's to hold; this keeps only the current line and the data lines.
    """

    __slots__ = ("_after_cr", "_at_start", "_data", "_event", "_line", "_seen", "_verdict")

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._event = b""
        self._after_cr = False
        self._at_start = True
        self._seen = 0
        self._verdict: First | None = None

    def feed(self, chunk: bytes) -> First | None:
        """Take the next piece of the stream.

        Args:
            chunk: Any piece; it may end inside a line, a line end or a UTF-8 character.

        Returns:
            None while undecided, which lasts at most ``HELD_BYTES_MAX`` bytes; then the verdict,
            the same one for every further piece. Never raises, whatever the bytes.
        """
        if self._verdict is None:
            self._seen += len(chunk)
            self._verdict = self._read(chunk)
            if self._verdict is None and self._seen > HELD_BYTES_MAX:
                self._verdict = _READY
        return self._verdict

    def end(self) -> First:
        """Return the verdict on a stream that ended here; a stream without any event is ready."""
        if self._verdict is None:
            # An event that its blank line did not follow is dropped by readers; an error is better told.
            if self._line:
                self._field(bytes(self._line))
            self._verdict = self._dispatch() or _READY
        return self._verdict

    def _read(self, chunk: bytes) -> First | None:
        for piece in chunk.splitlines(keepends=True):  # bytes split at CR, LF and CRLF only
            if self._after_cr:
                self._after_cr = False
                if piece == b"\n":
                    continue
            if not piece.endswith((b"\r", b"\n")):
                self._line += piece
                continue
            self._after_cr = piece.endswith(b"\r")
            line = bytes(self._line) + piece.rstrip(b"\r\n")
            self._line.clear()
            if line:
                self._field(line)
            elif (verdict := self._dispatch()) is not None:
                return verdict
        return None

    def _field(self, line: bytes) -> None:
        if self._at_start:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._event = value.removeprefix(b" ")

    def _dispatch(self) -> First | None:
        if not self._data:
            self._event = b""
            return None
        data = b"\n".join(self._data)
        if self._event != b"error" and b'"error"' not in data:
            return _READY
        return _judge(data, named_error=self._event == b"error")


def _judge(data: bytes, *, named_error: bool) -> First:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        value = None
    if isinstance(value, dict):
        error = value.get("error")
        if error or value.get("object") == "error" or value.get("type") == "error":
            return First(FirstKind.ERROR, _status(error if isinstance(error, dict) else value), data)
    if named_error:
        return First(FirstKind.ERROR, _UNKNOWN_STATUS, data)
    return _READY


def _status(error: dict[str, object]) -> int:
    for member in ("code", "status", "status_code"):
        value = error.get(member)
        if isinstance(value, str) and value.isdecimal() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and 400 <= value <= 599:
            return value
    kind = error.get("type")
    return _ANTHROPIC_STATUS.get(kind, _UNKNOWN_STATUS) if isinstance(kind, str) else _UNKNOWN_STATUS
