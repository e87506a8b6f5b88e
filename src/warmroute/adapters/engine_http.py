"""One short request to a model server, on a connection of its own: health checks, adapters, metrics."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

import httptools

from warmroute.controlplane.ports import InstanceFact

_READ_BYTES: Final = 16 * 1024


@dataclass(slots=True)
class Answer:
    """What a server answered.

    Attributes:
        status: HTTP status; 0 until it came.
        body: At most as long as was allowed.
        complete: All of it is there.
    """

    status: int = 0
    body: bytearray = field(default_factory=bytearray)
    complete: bool = False

    def text(self, characters: int) -> str:
        """Return the start of the body for people, at most so many characters."""
        return bytes(self.body[: 4 * characters]).decode("utf-8", "replace")[:characters].strip()


class _Reading:
    """Callbacks of httptools."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.parser: Any = None

    def on_headers_complete(self) -> None:
        self.answer.status = self.parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self.answer.body += data

    def on_message_complete(self) -> None:
        self.answer.complete = True


async def ask(
    fact: InstanceFact,
    target: str,
    *,
    context: ssl.SSLContext,
    bytes_max: int,
    method: str = "GET",
    body: bytes = b"",
    agent: str = "warmroute",
) -> Answer:
    """Send one request and read its answer. It has no time-out of its own.

    Args:
        fact: Where, and with which key.
        target: Path and query, put after the instance's own prefix.
        context: For HTTPS.
        bytes_max: Longest answer, head included.
        method: HTTP method.
        body: JSON, or empty for none.
        agent: User-Agent, for the server's own log.

    Raises:
        OSError: No connection, or it broke.
        ValueError: The answer is not HTTP, or longer than ``bytes_max``.
    """
    reader, writer = await asyncio.open_connection(
        fact.host, fact.port, ssl=context if fact.tls else None, limit=_READ_BYTES
    )
    try:
        host = f"[{fact.host}]" if ":" in fact.host else fact.host
        key = f"Authorization: Bearer {fact.api_key}\r\n" if fact.api_key is not None else ""
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        if method == "POST" and not body:
            length = "Content-Length: 0\r\n"
        head = (
            f"{method} {fact.path_prefix}{target} HTTP/1.1\r\nHost: {host}:{fact.port}\r\n{key}{length}"
            f"Accept: */*\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        return await _read_answer(reader, bytes_max)
    finally:
        # Not closed in order: over TLS that waits for the server, up to 30 s more than it has.
        writer.transport.abort()


async def _read_answer(reader: asyncio.StreamReader, bytes_max: int) -> Answer:
    reading = _Reading()
    reading.parser = httptools.HttpResponseParser(reading)
    size = 0
    while not reading.answer.complete:
        data = await reader.read(_READ_BYTES)
        if not data:
            break
        size += len(data)
        if size > bytes_max:
            raise ValueError(f"its answer is longer than {bytes_max} bytes")
        try:
            reading.parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ValueError(f"its answer is not HTTP ({error})") from None
    if reading.answer.status == 0:
        raise ValueError("it closed the connection without an answer")
    return reading.answer
