"""Asks model servers how they are, over HTTP/1.1."""

import asyncio
import os
import re
import ssl
from dataclasses import dataclass
from typing import Final

import msgspec

from warmroute.adapters.engine_http import Answer, ask
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


async def _get(fact: InstanceFact, path: str, context: ssl.SSLContext) -> Answer:
    return await ask(
        fact, path, context=context, bytes_max=limits.HEALTH_BODY_BYTES_MAX, agent="warmroute-health"
    )


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
            answer = await _get(fact, route, self._context)
        else:
            for route in ROUTES:
                answer = await _get(fact, route, self._context)
                if answer.status not in NO_ROUTE:
                    memory.route = route
                    break
        # A server that is not ours and has neither route is taken at its word that it answers at all.
        if answer.status != 200 and not (
            answer.status in NO_ROUTE and health_path is None and fact.pid is None
        ):
            said = answer.text(DETAIL_CHARACTERS_MAX)
            return Health(ready=False, detail=f"GET {route} answered {answer.status}: {said or 'no text'}")
        if not memory.asked_for_models:
            memory.model_name = await self._model_name(fact)
            memory.asked_for_models = True
        return Health(ready=True, model_name=memory.model_name, detail=f"GET {route}: {answer.status}")

    async def _model_name(self, fact: InstanceFact) -> str | None:
        """Return the first model of ``/v1/models``; None when there is no such route."""
        try:
            answer = await _get(fact, "/v1/models", self._context)
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
