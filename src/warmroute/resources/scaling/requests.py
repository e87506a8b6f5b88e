"""What the operations of Application Auto Scaling share: what they read and answer, and common refusals."""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from warmroute.resources.arns import Place
from warmroute.resources.errors import ApiCode, ApiError, invalid, unsupported
from warmroute.resources.metrics.alarms import Alarm
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.records import ScalableTargetRecord, ScalingRecord, ScalingTables
from warmroute.resources.scaling.scalable import NAMESPACE, Scalable, dimension, parse
from warmroute.resources.tables import Tables

PAGE_MAX: Final = 50
"""Records on a page, also when MaxResults is not given."""


class AllTables(Tables, ScalingTables, Protocol):
    """Reads of one transaction: SageMaker's resources, and those of autoscaling."""


@dataclass(frozen=True, slots=True)
class ScalingContext:
    """What operations know beside the tables.

    Attributes:
        place: Region and account.
        now_s: Epoch seconds.
        new_id: Returns an id that was never used before, of letters, digits and hyphens.
        declared: The alarms of the settings.
    """

    place: Place
    now_s: float
    new_id: Callable[[], str]
    declared: tuple[Alarm, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalingOutcome:
    """What an operation wants done, all or nothing.

    Attributes:
        output: The answer's members.
        put: Records to write.
        remove: Records to delete.
    """

    output: JsonObject = field(default_factory=dict)
    put: tuple[ScalingRecord, ...] = ()
    remove: tuple[ScalingRecord, ...] = ()


def scalable_of(request: JsonObject) -> Scalable:
    """Return what a request names.

    Raises:
        ApiError: It is not something that can be scaled here.
    """
    namespace = request["ServiceNamespace"]
    if namespace != NAMESPACE:
        raise unsupported(f"ServiceNamespace {namespace}", f"Only {NAMESPACE} is.")
    found = parse(request["ResourceId"])
    if found is None or request["ScalableDimension"] != dimension(found):
        raise invalid(
            "Unsupported service namespace, resource type or scalable dimension: got ResourceId "
            f'"{request["ResourceId"]}" with ScalableDimension {request["ScalableDimension"]}. warmroute '
            "scales endpoint/NAME/variant/VARIANT by sagemaker:variant:DesiredInstanceCount and "
            "inference-component/NAME by sagemaker:inference-component:DesiredCopyCount."
        )
    return found


def told(request: JsonObject) -> str:
    """Return what a request is about, as the service's messages say it."""
    return (
        f"service namespace: {request['ServiceNamespace']}, resource ID: {request['ResourceId']}, "
        f"scalable dimension: {request['ScalableDimension']}"
    )


def object_not_found(what: str, request: JsonObject) -> ApiError:
    """Return the service's answer for a target, policy or action that does not exist."""
    return ApiError(ApiCode.OBJECT_NOT_FOUND, f"No {what} for {told(request)}")


def target_of(request: JsonObject, tables: AllTables) -> ScalableTargetRecord:
    """Return the target that a request names.

    Raises:
        ApiError: It is not registered.
    """
    scalable_of(request)
    target = tables.scaling_record(ScalableTargetRecord, request["ResourceId"])
    if target is None:
        raise object_not_found("scalable target registered", request)
    return target


Listed = TypeVar("Listed", bound=ScalingRecord)


def page(
    operation: str, request: JsonObject, records: Iterable[Listed], *, newest_first: bool = False
) -> tuple[tuple[Listed, ...], JsonObject]:
    """Return one page of what a Describe operation found.

    Args:
        operation: Its name; a token of one operation is refused by another.
        request: The validated request.
        records: All that pass its filters.
        newest_first: Order by time instead of by resource and name.

    Returns:
        The page's records and ``{"NextToken": …}``, or ``{}`` on the last page.

    Raises:
        ApiError: MaxResults is out of range, or the token is not one of this operation and filters.
    """
    size = request.get("MaxResults", PAGE_MAX)
    if not 1 <= size <= PAGE_MAX:
        raise invalid(f"MaxResults is {size}. From 1 to {PAGE_MAX} are allowed.")

    def key(record: Listed) -> list[Any]:
        place = [record.resource_id, record.name]
        return [-record.created_s, *place] if newest_first else place

    found = sorted(records, key=key)
    filters = {name: value for name, value in request.items() if name not in ("NextToken", "MaxResults")}
    fingerprint = hashlib.sha256(json.dumps([operation, filters], sort_keys=True).encode()).hexdigest()[:16]
    if request.get("NextToken"):
        after = _read_token(request["NextToken"], fingerprint, parts=3 if newest_first else 2)
        found = [record for record in found if key(record) > after]
    shown = tuple(found[:size])
    if len(found) <= size:
        return shown, {}
    token = base64.urlsafe_b64encode(json.dumps([fingerprint, *key(shown[-1])]).encode()).decode()
    return shown, {"NextToken": token}


def _read_token(token: str, fingerprint: str, *, parts: int) -> list[Any]:
    try:
        read = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (ValueError, binascii.Error, RecursionError):
        raise _bad_token() from None
    if not isinstance(read, list) or len(read) != parts + 1 or read[0] != fingerprint:
        raise _bad_token()
    kinds: list[type] = [str] * parts if parts == 2 else [float, str, str]
    if any(not isinstance(part, kind) for part, kind in zip(read[1:], kinds, strict=True)):
        raise _bad_token()
    return read[1:]


def _bad_token() -> ApiError:
    return ApiError(
        ApiCode.BAD_PAGE,
        "NextToken is not one that this operation returned for the same filters. "
        "Repeat the first call without NextToken.",
    )


def chosen(request: JsonObject, records: Iterable[Listed], *, names: str | None = None) -> tuple[Listed, ...]:
    """Return the records that pass the filters of a Describe operation.

    Args:
        request: The validated request.
        records: All of the kind.
        names: Member that holds names; None for none.

    Raises:
        ApiError: ScalableDimension is given without a resource.
    """
    if "ScalableDimension" in request and not (request.get("ResourceId") or request.get("ResourceIds")):
        raise invalid("ScalableDimension is given without a resource. Give ResourceId or ResourceIds too.")
    if request["ServiceNamespace"] != NAMESPACE:
        return ()
    wanted_ids = request.get("ResourceIds") or ([request["ResourceId"]] if "ResourceId" in request else None)
    wanted_names = request.get(names) if names is not None else None
    return tuple(
        record
        for record in records
        if (wanted_ids is None or record.resource_id in wanted_ids)
        and (not wanted_names or record.name in wanted_names)
        and request.get("ScalableDimension", record.dimension) == record.dimension
    )
