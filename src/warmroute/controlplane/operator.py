"""What people ask of a fleet that SageMaker's API has no words for: one screen, one drain, one log.

A service of its own beside SageMaker's, on the same route and with the same signatures:
``X-Amz-Target: Warmroute.<Operation>``. It takes and gives JSON with members in SageMaker's manner;
``docs/reference/operator-api.md`` lists them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import msgspec

from warmroute.controlplane.changes import one_line
from warmroute.controlplane.operator_views import (
    instance_document,
    rollout_document,
    variant_documents,
)
from warmroute.controlplane.ports import Clock, InstanceLogs, Store, Transaction
from warmroute.controlplane.reconcile import Reconciler
from warmroute.controlplane.service import ControlService
from warmroute.controlplane.transactions import run
from warmroute.core import limits
from warmroute.core.ids import EndpointName
from warmroute.core.machines import InstanceType, ProviderKind
from warmroute.resources.draining import Drained, drain
from warmroute.resources.errors import ApiCode, ApiError, invalid
from warmroute.resources.records import InstanceRecord, JsonObject

_log = logging.getLogger(__name__)

PREFIX: Final = "Warmroute."
"""Of its operations in ``X-Amz-Target``."""


class _DescribeEndpoint(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    endpoint_name: str


class _DrainInstance(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    instance_id: str
    replace: bool | None = None


class _ReadLog(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    instance_id: str
    begin: int | None = None


Request = TypeVar("Request", _DescribeEndpoint, _DrainInstance, _ReadLog)


class OperatorService:
    """Serves the operations of the ``Warmroute.`` prefix."""

    def __init__(
        self,
        *,
        store: Store,
        reconciler: Reconciler,
        service: ControlService,
        logs: InstanceLogs,
        in_flight: Callable[[], Mapping[str, int]],
        instance_types: Mapping[str, InstanceType],
        clock: Clock,
    ) -> None:
        """Join the parts.

        Args:
            store: Where records are.
            reconciler: Knows what runs, and carries orders out.
            service: Answers what SageMaker's API says of an endpoint.
            logs: Of model servers.
            in_flight: Returns the leases open on each target over all routers, as they last reported.
            instance_types: Declared ones.
            clock: Time.
        """
        self._store = store
        self._reconciler = reconciler
        self._service = service
        self._logs = logs
        self._in_flight = in_flight
        self._instance_types = instance_types
        self._clock = clock
        self._operations: dict[str, Callable[[bytes], Awaitable[JsonObject]]] = {
            "DescribeEndpoint": self._describe_endpoint,
            "DrainInstance": self._drain_instance,
            "ReadLog": self._read_log,
        }

    async def call(
        self, operation: str, body: bytes, *, principal: str = "", request_id: str = ""
    ) -> JsonObject:
        """Serve a call.

        Args:
            operation: As in ``X-Amz-Target``, without the prefix.
            body: JSON; empty counts as ``{}``.
            principal: Who calls, for the log.
            request_id: Which call it is, for the log.

        Raises:
            ApiError: The call is refused.
        """
        serve = self._operations.get(operation)
        if serve is None:
            served = ", ".join(self._operations)
            raise ApiError(
                ApiCode.UNKNOWN_OPERATION,
                f"{PREFIX}{one_line(operation)} is no operation. There are: {served}.",
            )
        output = await serve(body)
        if operation == "DrainInstance":
            caller = principal or "anybody"
            _log.info("%s %s by %s (request %s)", operation, output["InstanceId"], caller, request_id)
        return output

    async def _describe_endpoint(self, body: bytes) -> JsonObject:
        name = _read(body, _DescribeEndpoint).endpoint_name
        document = self._service.describe_now(name)
        endpoint, records = run(
            self._store,
            lambda transaction: (transaction.endpoint(name), transaction.instances(EndpointName(name))),
        )
        assert endpoint is not None, "it has just been described, and nothing came between"
        in_flight = self._in_flight()
        rollout = rollout_document(endpoint)
        return {
            "Endpoint": document,
            **({"Rollout": rollout} if rollout is not None else {}),
            "Variants": variant_documents(endpoint, self._reconciler.fleet),
            "Instances": [self._instance(record, in_flight) for record in records],
        }

    def _instance(self, record: InstanceRecord, in_flight: Mapping[str, int]) -> JsonObject:
        return instance_document(
            record,
            fact=self._reconciler.listed.get(record.instance_id),
            observed=self._reconciler.look(record),
            in_flight=in_flight.get(record.instance_id),
            fleet=self._reconciler.fleet,
        )

    async def _drain_instance(self, body: bytes) -> JsonObject:
        request = _read(body, _DrainInstance)

        def work(transaction: Transaction) -> Drained:
            found = [r for r in transaction.instances() if r.instance_id == request.instance_id]
            if not found:
                raise invalid(f'Could not find instance "{one_line(request.instance_id)}".')
            endpoint = transaction.endpoint(found[0].endpoint)
            if endpoint is None:
                raise invalid(f"Instance {found[0].instance_id} ends already: its endpoint is gone.")
            drained = drain(
                found[0],
                endpoint,
                replaced=request.replace,
                fixed=self._is_fixed(found[0].launch.instance_type),
                now_s=self._clock.wall_s(),
            )
            transaction.put_instance(drained.instance)
            transaction.put(drained.endpoint)
            return drained

        drained = run(self._store, work)
        self._reconciler.kick()
        return {
            "InstanceId": drained.instance.instance_id,
            "EndpointName": drained.endpoint.name,
            "State": str(drained.instance.state),
            "Replaced": drained.replaced,
        }

    def _is_fixed(self, instance_type: str) -> bool:
        declared = self._instance_types.get(instance_type)
        return declared is not None and declared.provider is ProviderKind.STATIC

    async def _read_log(self, body: bytes) -> JsonObject:
        request = _read(body, _ReadLog)
        if request.begin is not None and request.begin < 0:
            raise invalid(f"Begin is {request.begin}. It must be 0 or more, in bytes.")
        piece = await asyncio.to_thread(
            self._logs.read, request.instance_id, begin=request.begin, bytes_max=limits.LOG_PIECE_BYTES_MAX
        )
        if piece is None:
            raise invalid(
                f'There is no log of instance "{one_line(request.instance_id)}" here. Logs are kept of '
                "servers that warmroute starts itself, while they run and after they ended by themselves."
            )
        return {
            "InstanceId": request.instance_id,
            "Text": piece.text,
            "Begin": piece.begin,
            "End": piece.end,
            "Size": piece.size,
            "Ended": piece.ended,
        }


def _read(body: bytes, kind: type[Request]) -> Request:
    try:
        return msgspec.json.decode(body.strip() or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise invalid(f"{error}.") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiError(ApiCode.SERIALIZATION, f"The request body is not JSON: {error}.") from None
