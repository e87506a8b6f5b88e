"""What calls of AWS's APIs have in common: they are read, counted, logged, and refused in AWS's words."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from warmroute.controlplane.changes import one_line
from warmroute.controlplane.ports import StoreUnavailable
from warmroute.resources.coverage.tables import Structure, check_coverage
from warmroute.resources.errors import ApiCode, ApiError
from warmroute.resources.operations import OPERATIONS
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.operations import SCALING_OPERATIONS
from warmroute.resources.shapes import Schema
from warmroute.resources.validate import validate

UNAVAILABLE: Final = "The store of resources cannot be used at the moment; endpoints serve on. Try again."
"""What callers are told while the database does not answer."""


@dataclass(slots=True)
class Calls:
    """What the services count for /metrics: calls by operation and code, ``""`` for success."""

    by_result: dict[tuple[str, str], int]

    def count(self, operation: str, code: str) -> None:
        """Count one call."""
        known = operation in OPERATIONS or operation in SCALING_OPERATIONS
        key = (operation if known else "other", code)
        self.by_result[key] = self.by_result.get(key, 0) + 1


@dataclass(frozen=True, slots=True)
class Api:
    """An API of AWS's.

    Attributes:
        owner: Whose operations they are, in the genitive.
        operations: Those that are served.
        coverage: What becomes of each member of their requests.
        schema: Returns the service model's shapes; loading them takes a moment at the first call.
        subject: Returns what a valid request is about, with a space before it; ``""`` for none.
        calls: Counts the calls.
        log: Where a line of each goes.
    """

    owner: str
    operations: Collection[str]
    coverage: Mapping[str, Structure]
    schema: Callable[[], Awaitable[Schema]]
    subject: Callable[[JsonObject], str]
    calls: Calls
    log: logging.Logger

    async def call(
        self,
        operation: str,
        body: bytes,
        serve: Callable[[str, JsonObject], Awaitable[JsonObject]],
        *,
        principal: str,
        request_id: str,
    ) -> JsonObject:
        """Serve a call.

        Args:
            operation: As in ``X-Amz-Target``, without the service's prefix.
            body: The request's body; empty counts as ``{}``.
            serve: Carries out a request that is valid.
            principal: Who calls, for the log; may be empty.
            request_id: Which call it is, for the log; likewise.

        Returns:
            The answer's members.

        Raises:
            ApiError: The call is refused.
        """
        caller = principal or "anybody"
        if request_id:
            caller += f" (request {request_id})"
        request: JsonObject = {}
        try:
            request = await self._read(operation, body)
            try:
                output = await serve(operation, request)
            except StoreUnavailable as error:
                # Where the database is, and what it said, is for the operator's eyes.
                told = one_line(str(error))
                self.log.log(logging.ERROR, "%s%s by %s: %s", operation, self.subject(request), caller, told)
                raise ApiError(ApiCode.UNAVAILABLE, UNAVAILABLE) from None
        except ApiError as error:
            self.calls.count(operation, error.code)
            told = one_line(error.logged)
            self.log.info("%s%s by %s refused: %s", operation, self.subject(request), caller, told)
            raise
        self.calls.count(operation, "")
        if not operation.startswith(("Describe", "List")):
            self.log.info("%s%s by %s", operation, self.subject(request), caller)
        return output

    async def _read(self, operation: str, body: bytes) -> JsonObject:
        schema = await self.schema()
        if operation not in self.operations:
            raise self._not_served(operation, schema)
        request: JsonObject = validate(schema.inputs[operation], _parse(body))
        check_coverage(self.coverage[operation], request)
        return request

    def _not_served(self, operation: str, schema: Schema) -> ApiError:
        served = ", ".join(sorted(self.operations))
        if operation in schema.known:
            text = f"Operation {operation} is not supported by warmroute. Supported are: {served}."
        else:
            text = (
                f"Operation {operation!r} is not one of {self.owner}. Supported by warmroute are: {served}."
            )
        return ApiError(ApiCode.UNKNOWN_OPERATION, text)


def _parse(body: bytes) -> Any:
    if not body.strip():
        return {}
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiError(ApiCode.SERIALIZATION, f"The request body is not JSON: {error}.") from None
