"""One call of Application Auto Scaling's API: read, validate, decide, write, and say so."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from warmroute.controlplane.changes import one_line
from warmroute.controlplane.ports import Clock, Store, StoreConflict, StoreUnavailable, Transaction
from warmroute.controlplane.service import UNAVAILABLE, Calls
from warmroute.controlplane.transactions import run
from warmroute.resources.arns import Place
from warmroute.resources.coverage.scaling_rows import SCALING_COVERAGE
from warmroute.resources.coverage.tables import check_coverage
from warmroute.resources.errors import ApiCode, ApiError
from warmroute.resources.metrics.alarms import Alarm
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.operations import SCALING_OPERATIONS
from warmroute.resources.scaling.requests import ScalingContext
from warmroute.resources.shapes import Schema
from warmroute.resources.validate import validate

_log = logging.getLogger(__name__)


class ScalingService:
    """Serves the operations over the store."""

    def __init__(
        self,
        *,
        store: Store,
        schema: Callable[[], Awaitable[Schema]],
        place: Place,
        clock: Clock,
        calls: Calls,
        new_id: Callable[[], str],
        declared: tuple[Alarm, ...] = (),
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Join the parts.

        Args:
            store: Where records are.
            schema: Returns the service model's shapes; loading them takes a moment at the first call.
            place: Region and account.
            clock: Time of the autoscaler.
            calls: Counts the calls.
            new_id: Returns an id never used before.
            declared: The alarms of the settings.
            on_change: Called after a call that has changed something.
        """
        self._store = store
        self._schema = schema
        self._place = place
        self._clock = clock
        self._calls = calls
        self._new_id = new_id
        self._declared = declared
        self._on_change = on_change

    async def call(
        self, operation: str, body: bytes, *, principal: str = "", request_id: str = ""
    ) -> JsonObject:
        """Serve a call.

        Args:
            operation: As in ``X-Amz-Target``, without the service's prefix.
            body: The request's body; empty counts as ``{}``.
            principal: Who calls, for the log.
            request_id: Which call it is, for the log.

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
                output = self._serve(operation, request)
            except StoreConflict:
                raise ApiError(
                    ApiCode.CONCURRENT, "Another change came between, each time it was tried. Try again."
                ) from None
            except StoreUnavailable as error:
                _log.error("%s%s by %s: %s", operation, _subject(request), caller, one_line(str(error)))
                raise ApiError(ApiCode.UNAVAILABLE, UNAVAILABLE) from None
        except ApiError as error:
            self._calls.count(operation, error.code)
            _log.info("%s%s by %s refused: %s", operation, _subject(request), caller, one_line(error.logged))
            raise
        self._calls.count(operation, "")
        if not operation.startswith(("Describe", "List")):
            _log.info("%s%s by %s", operation, _subject(request), caller)
        return output

    async def _read(self, operation: str, body: bytes) -> JsonObject:
        schema = await self._schema()
        if operation not in SCALING_OPERATIONS:
            raise _not_served(operation, schema)
        request: JsonObject = validate(schema.inputs[operation], _parse(body))
        check_coverage(SCALING_COVERAGE[operation], request)
        return request

    def _serve(self, operation: str, request: JsonObject) -> JsonObject:
        context = ScalingContext(self._place, self._clock.wall_s(), self._new_id, self._declared)

        def work(transaction: Transaction) -> tuple[JsonObject, bool]:
            outcome = SCALING_OPERATIONS[operation](request, transaction, context)
            for record in outcome.put:
                transaction.put_scaling(record)
            for record in outcome.remove:
                transaction.remove_scaling(record)
            return outcome.output, bool(outcome.put or outcome.remove)

        output, changed = run(self._store, work)
        if changed:
            self._on_change()
        return output


def _subject(request: JsonObject) -> str:
    """Return what a valid request is about, with a space before it; ``""`` for none."""
    name = request.get("PolicyName") or request.get("ScheduledActionName")
    resource = request.get("ResourceId") or request.get("ResourceARN")
    told = " of ".join(one_line(str(part)) for part in (name, resource) if part is not None)
    return f" {told}" if told else ""


def _parse(body: bytes) -> Any:
    if not body.strip():
        return {}
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiError(ApiCode.SERIALIZATION, f"The request body is not JSON: {error}.") from None


def _not_served(operation: str, schema: Schema) -> ApiError:
    served = ", ".join(sorted(SCALING_OPERATIONS))
    if operation in schema.known:
        text = f"Operation {operation} is not supported by warmroute. Supported are: {served}."
    else:
        text = (
            f"Operation {operation!r} is not one of Application Auto Scaling's. "
            f"Supported by warmroute are: {served}."
        )
    return ApiError(ApiCode.UNKNOWN_OPERATION, text)
