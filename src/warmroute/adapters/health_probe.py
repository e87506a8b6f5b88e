"""Asks model servers how they are, over HTTP/1.1."""

import asyncio
import os
import re
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

import httptools
import msgspec

from warmroute.controlplane.ports import Health, InstanceFact
from warmroute.core import limits
from warmroute.core.ids import InstanceId

ROUTES: Final = ("/ping", "/health")
"""Tried in this order where an image names none: SageMaker's own, then the one most engines have."""
NO_ROUTE: Final = frozenset({404, 405, 501})
"""Answers of servers that do not have a route."""
DETAIL_CHARACTERS_MAX: Final = 200
MEMORY_MAX: Final = 10_000


@dataclass(slots=True)
class Answer:
    """What a server answered.

    Attributes:
        status: HTTP status; 0 until it came.
        body: At most ``HEALTH_BODY_BYTES_MAX``.
        complete: All of it is there.
    """

    status: int = 0
    body: bytearray = field(default_factory=bytearray)
    complete: bool = False


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


@dataclass(slots=True)
class _Memory:
    """What is known of one generation of an instance, so that it is not asked again every time."""

    generation: int
    route: str | None = None
    model_name: str | None = None
    asked_for_models: bool = False


class _ModelEntry(msgspec.Struct):
    id: str


class _ModelList(msgspec.Struct):
    data: list[_ModelEntry]


async def get(fact: InstanceFact, path: str, context: ssl.SSLContext) -> Answer:
    """Send one GET on a connection of its own.

    Args:
        fact: Where, and with which key.
        path: Put after the instance's own prefix.
        context: For HTTPS.

    Raises:
        OSError: No connection, or it broke.
        ValueError: The answer is not HTTP, or longer than ``HEALTH_BODY_BYTES_MAX``.
    """
    reader, writer = await asyncio.open_connection(
        fact.host, fact.port, ssl=context if fact.tls else None, limit=limits.HEALTH_BODY_BYTES_MAX
    )
    try:
        host = f"[{fact.host}]" if ":" in fact.host else fact.host
        key = f"Authorization: Bearer {fact.api_key}\r\n" if fact.api_key is not None else ""
        writer.write(
            f"GET {fact.path_prefix}{path} HTTP/1.1\r\nHost: {host}:{fact.port}\r\n{key}"
            "Accept: */*\r\nUser-Agent: warmroute-health\r\nConnection: close\r\n\r\n".encode()
        )
        return await _read_answer(reader)
    finally:
        # Not closed in order: over TLS that waits for the server, up to 30 s more than it has.
        writer.transport.abort()


async def _read_answer(reader: asyncio.StreamReader) -> Answer:
    reading = _Reading()
    reading.parser = httptools.HttpResponseParser(reading)
    size = 0
    while not reading.answer.complete:
        data = await reader.read(16 * 1024)
        if not data:
            break
        size += len(data)
        if size > limits.HEALTH_BODY_BYTES_MAX:
            raise ValueError(f"its answer is longer than {limits.HEALTH_BODY_BYTES_MAX} bytes")
        try:
            reading.parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ValueError(f"its answer is not HTTP ({error})") from None
    if reading.answer.status == 0:
        raise ValueError("it closed the connection without an answer")
    return reading.answer


class HttpHealthProbe:
    """Implements ``controlplane.ports.HealthProbe``."""

    def __init__(self) -> None:
        self._memory: dict[InstanceId, _Memory] = {}
        self._context = ssl.create_default_context()

    async def probe(self, fact: InstanceFact, health_path: str | None) -> Health:
        """Ask once, within ``HEALTH_PROBE_S``; failures are an answer, not an error."""
        try:
            async with asyncio.timeout(limits.HEALTH_PROBE_S):
                return await self._ask(fact, health_path)
        except TimeoutError:
            detail = f"It did not answer within {limits.HEALTH_PROBE_S:g} s."
        except OSError as error:
            detail = f"It cannot be reached: {_reason(error)}."
        except ValueError as error:
            detail = f"Its health check failed: {error}."
        # It may come back as another program.
        self._memory.pop(fact.instance_id, None)
        return Health(ready=False, detail=detail)

    async def _ask(self, fact: InstanceFact, health_path: str | None) -> Health:
        memory = self._remember(fact)
        route = health_path or memory.route
        if route is not None:
            answer = await get(fact, route, self._context)
        else:
            for route in ROUTES:
                answer = await get(fact, route, self._context)
                if answer.status not in NO_ROUTE:
                    memory.route = route
                    break
        # A server that is not ours and has neither route is taken at its word that it answers at all.
        if answer.status != 200 and not (
            answer.status in NO_ROUTE and health_path is None and fact.pid is None
        ):
            said = bytes(answer.body[:DETAIL_CHARACTERS_MAX]).decode("utf-8", "replace").strip()
            return Health(ready=False, detail=f"GET {route} answered {answer.status}: {said or 'no text'}")
        if not memory.asked_for_models:
            memory.model_name = await self._model_name(fact)
            memory.asked_for_models = True
        return Health(ready=True, model_name=memory.model_name, detail=f"GET {route}: {answer.status}")

    async def _model_name(self, fact: InstanceFact) -> str | None:
        """Return the first model of ``/v1/models``; None when there is no such route."""
        try:
            answer = await get(fact, "/v1/models", self._context)
            if answer.status != 200:
                return None
            models = msgspec.json.decode(bytes(answer.body), type=_ModelList)
        except (OSError, ValueError):  # msgspec's errors are ValueErrors
            return None
        return models.data[0].id if models.data else None

    def _remember(self, fact: InstanceFact) -> _Memory:
        memory = self._memory.get(fact.instance_id)
        if memory is None or memory.generation != fact.generation:
            if len(self._memory) >= MEMORY_MAX:
                self._memory.clear()
            memory = self._memory[fact.instance_id] = _Memory(fact.generation)
        return memory


def _reason(error: OSError) -> str:
    """Return why a connection failed, in the system's words.

    asyncio's own say "Connect call failed" with an address, and lists one for each address of a name.
    """
    numbers = {int(number): None for number in re.findall(r"\[Errno (\d+)\]", str(error))}
    return ", ".join(map(os.strerror, numbers)) or error.strerror or str(error)
