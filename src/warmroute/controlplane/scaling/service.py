"""One call of Application Auto Scaling's API: read, validate, decide, write, and say so."""

import logging
from collections.abc import Awaitable, Callable

from warmroute.controlplane.calls import Api, Calls
from warmroute.controlplane.changes import one_line
from warmroute.controlplane.ports import Clock, Store, StoreConflict, Transaction
from warmroute.controlplane.transactions import run
from warmroute.resources.arns import Place
from warmroute.resources.coverage.scaling_rows import SCALING_COVERAGE
from warmroute.resources.errors import ApiCode, ApiError
from warmroute.resources.metrics.alarms import Alarm
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.operations import SCALING_OPERATIONS
from warmroute.resources.scaling.requests import ScalingContext
from warmroute.resources.shapes import Schema

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
        self._place = place
        self._clock = clock
        self._api = Api(
            owner="Application Auto Scaling's",
            operations=SCALING_OPERATIONS,
            coverage=SCALING_COVERAGE,
            schema=schema,
            subject=_subject,
            calls=calls,
            log=_log,
        )
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
        return await self._api.call(operation, body, self._serve, principal=principal, request_id=request_id)

    async def _serve(self, operation: str, request: JsonObject) -> JsonObject:
        context = ScalingContext(self._place, self._clock.wall_s(), self._new_id, self._declared)

        def work(transaction: Transaction) -> tuple[JsonObject, bool]:
            outcome = SCALING_OPERATIONS[operation](request, transaction, context)
            for record in outcome.put:
                transaction.put_scaling(record)
            for record in outcome.remove:
                transaction.remove_scaling(record)
            return outcome.output, bool(outcome.put or outcome.remove)

        try:
            output, changed = run(self._store, work)
        except StoreConflict:
            raise ApiError(
                ApiCode.CONCURRENT, "Another change came between, each time it was tried. Try again."
            ) from None
        if changed:
            self._on_change()
        return output


def _subject(request: JsonObject) -> str:
    """Return what a valid request is about, with a space before it; ``""`` for none."""
    name = request.get("PolicyName") or request.get("ScheduledActionName")
    resource = request.get("ResourceId") or request.get("ResourceARN")
    told = " of ".join(one_line(str(part)) for part in (name, resource) if part is not None)
    return f" {told}" if told else ""
