"""One call of the SageMaker API: read, validate, decide, write, and say so."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

import msgspec

from warmroute.controlplane.calls import Api, Calls
from warmroute.controlplane.changes import one_line
from warmroute.controlplane.ports import Clock, Store, Transaction
from warmroute.controlplane.reconcile import Reconciler
from warmroute.controlplane.transactions import run
from warmroute.core import limits
from warmroute.core.machines import InstanceType
from warmroute.resources.arns import Place
from warmroute.resources.coverage.rows import COVERAGE
from warmroute.resources.lifecycle import CHANGING, EndpointStatus
from warmroute.resources.operations import OPERATIONS
from warmroute.resources.records import JsonObject
from warmroute.resources.shapes import Schema
from warmroute.resources.tables import Context, Outcome

_log = logging.getLogger(__name__)

_UPDATES: Final = frozenset({"UpdateEndpoint", "UpdateEndpointWeightsAndCapacities"})


class ControlService:
    """Serves the operations over the store, and lets the reconciler know."""

    def __init__(
        self,
        *,
        store: Store,
        reconciler: Reconciler,
        schema: Callable[[], Awaitable[Schema]],
        place: Place,
        instance_types: Mapping[str, InstanceType],
        clock: Clock,
        describe_hold_s: float = limits.DESCRIBE_HOLD_S,
        alarms: Collection[str] = (),
    ) -> None:
        """Join the parts.

        Args:
            store: Where records are.
            reconciler: Makes them real.
            schema: Returns the service model's shapes; loading them takes a moment at the first call.
            place: Region and account.
            instance_types: Declared ones.
            clock: Time.
            describe_hold_s: How long DescribeEndpoint waits for an endpoint that is changing, in
                seconds; 0 answers at once. Stock waiters ask once, sleep 30 s and ask again: an answer
                that comes with the change spares them the sleep.
            alarms: Names of the alarms there are.
        """
        self._alarms = alarms
        self._store = store
        self._reconciler = reconciler
        self._place = place
        self.instance_types = instance_types
        self._clock = clock
        self._describe_hold_s = describe_hold_s
        self._held = 0
        self._closing = False
        self.calls = Calls({})
        self._api = Api(
            owner="SageMaker's",
            operations=OPERATIONS,
            coverage=COVERAGE,
            schema=schema,
            subject=_subject,
            calls=self.calls,
            log=_log,
        )

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

    async def invoke(self, operation: str, document: JsonObject) -> JsonObject:
        """Serve a call whose body is a JSON document already. See ``call``."""
        return await self.call(operation, msgspec.json.encode(document), principal="warmroute itself")

    def describe_now(self, endpoint: str) -> JsonObject:
        """Return DescribeEndpoint's answer at once, also while the endpoint is changing.

        Raises:
            ApiError: There is no such endpoint.
        """
        return self._apply("DescribeEndpoint", {"EndpointName": endpoint}).output

    async def settled(self, endpoint: str, wait_s: float) -> bool:
        """Wait until an endpoint is not changing, or gone.

        Returns:
            Whether it is so within ``wait_s``.
        """
        try:
            async with asyncio.timeout(wait_s):
                # Nothing comes between the look and the wait: neither gives way to other tasks.
                while self._status(endpoint) in CHANGING and not self._closing:
                    await self._reconciler.changed()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Answer the calls that wait: the process is about to end."""
        self._closing = True
        self._reconciler.wake()

    async def _serve(self, operation: str, request: JsonObject) -> JsonObject:
        if operation == "DescribeEndpoint":
            return await self._describe(request)
        outcome = self._apply(operation, request)
        if outcome.put or outcome.remove:
            self._reconciler.kick()
        if operation in _UPDATES:
            # A change of strategy or weights is in force within milliseconds: InService before the
            # call returns, so that a waiter's first question is its last.
            await self.settled(request["EndpointName"], limits.APPLY_S)
        return outcome.output

    async def _describe(self, request: JsonObject) -> JsonObject:
        hold = self._describe_hold_s > 0 and self._held < limits.DESCRIBE_HOLDS_MAX
        # A deployment in steps takes minutes, and whoever asks wants to see where it is.
        if hold and not self._goes_in_steps(request["EndpointName"]):
            self._held += 1
            try:
                await self.settled(request["EndpointName"], self._describe_hold_s)
            finally:
                self._held -= 1
        return self._apply("DescribeEndpoint", request).output

    def _apply(self, operation: str, request: JsonObject) -> Outcome:
        context = Context(self._place, self._clock.wall_s(), self.instance_types, self._alarms)

        def work(transaction: Transaction) -> Outcome:
            outcome = OPERATIONS[operation](request, transaction, context)
            for record in outcome.put:
                transaction.put(record)
            for record in outcome.remove:
                transaction.remove(record)
            return outcome

        return run(self._store, work)

    def _goes_in_steps(self, endpoint: str) -> bool:
        record = run(self._store, lambda transaction: transaction.endpoint(endpoint))
        return record is not None and record.rollout is not None

    def _status(self, endpoint: str) -> EndpointStatus | None:
        record = run(self._store, lambda transaction: transaction.endpoint(endpoint))
        return record.status if record is not None else None


def _subject(request: JsonObject) -> str:
    """Return what a valid request is about, with a space before it; ``""`` for none."""
    config = request.get("EndpointConfigName")
    component, endpoint = request.get("InferenceComponentName"), request.get("EndpointName")
    if component is not None:
        return f" {component} on {endpoint}" if endpoint is not None else f" {component}"
    if endpoint is not None:
        return f" {endpoint} (config {config})" if config is not None else f" {endpoint}"
    name = config or request.get("ModelName") or request.get("ResourceArn")
    return f" {one_line(str(name))}" if name is not None else ""
