"""Filters, order and pages of the List operations.

A page ends with the sort key of its last record, so that records that come or go between two pages
move no others over the border.

Choice: NameContains regards case, as everything that finds a name does; MaxResults is 10 on every list when
it is not given, and may differ from page to page.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from warmroute.resources.errors import ApiError, invalid
from warmroute.resources.records import (
    EndpointConfigRecord,
    EndpointRecord,
    InferenceComponentRecord,
    JsonObject,
    ModelRecord,
    Resource,
)

PAGE_DEFAULT: Final = 10
"""Records on a page when MaxResults is not given, from the service model's text."""

Record = TypeVar("Record", ModelRecord, EndpointConfigRecord, EndpointRecord, InferenceComponentRecord)


@dataclass(frozen=True, slots=True)
class Listing:
    """What can be listed.

    Attributes:
        operation: Its name; a token of one operation is refused by another.
        sort_keys: For each SortBy, the value sorted by; names break ties.
    """

    operation: str
    sort_keys: Mapping[str, Callable[[Any], float | str]]


def page(
    listing: Listing, request: JsonObject, records: Iterable[Record]
) -> tuple[tuple[Record, ...], JsonObject]:
    """Return one page.

    Args:
        listing: What is listed.
        request: The validated request.
        records: All of them.

    Returns:
        The page's records and ``{"NextToken": …}``, or ``{}`` on the last page.

    Raises:
        ApiError: The token was not made by this operation with these filters.
    """
    sort_by = request.get("SortBy", "CreationTime")
    descending = request.get("SortOrder", "Descending") == "Descending"
    value_of = listing.sort_keys[sort_by]

    def key(record: Record) -> tuple[float | str, str]:
        return (value_of(record), record.name)

    found = sorted((record for record in records if _passes(record, request)), key=key, reverse=descending)
    print_of_query = _fingerprint(listing.operation, request, sort_by, descending=descending)
    if request.get("NextToken"):
        after = _read_token(request["NextToken"], print_of_query, type(value_of(found[0])) if found else None)
        found = [r for r in found if (key(r) < after if descending else key(r) > after)]
    size = request.get("MaxResults", PAGE_DEFAULT)
    shown = tuple(found[:size])
    if len(found) <= size:
        return shown, {}
    return shown, {"NextToken": _write_token(print_of_query, key(shown[-1]))}


def summaries(member: str, request: JsonObject, records: Iterable[Record]) -> JsonObject:
    """Return the output of a List operation whose summaries are name, ARN and creation time.

    Args:
        member: What one is called: ``Model`` or ``EndpointConfig``.
        request: The validated request.
        records: All of them.

    Raises:
        ApiError: As ``page`` does.
    """
    listing = Listing(
        operation=f"List{member}s",
        sort_keys={"Name": lambda record: record.name, "CreationTime": lambda record: record.created_s},
    )
    shown, token = page(listing, request, records)
    found = [
        {f"{member}Name": record.name, f"{member}Arn": record.arn, "CreationTime": record.created_s}
        for record in shown
    ]
    return {f"{member}s": found} | token


def _passes(record: Resource, request: JsonObject) -> bool:
    """Whether a record passes the filters: After includes its instant, Before does not."""
    if request.get("NameContains", "") not in record.name:
        return False
    times = [("CreationTime", record.created_s)]
    if isinstance(record, InferenceComponentRecord):
        places = {"EndpointNameEquals": record.endpoint, "VariantNameEquals": record.variant}
        if any(request.get(name, place) != place for name, place in places.items()):
            return False
    if isinstance(record, EndpointRecord | InferenceComponentRecord):
        times.append(("LastModifiedTime", record.modified_s))
        if request.get("StatusEquals", record.status) != record.status:
            return False
    return all(
        request.get(f"{name}After", time) <= time and not request.get(f"{name}Before", time + 1) <= time
        for name, time in times
    )


def _fingerprint(operation: str, request: JsonObject, sort_by: str, *, descending: bool) -> str:
    filters = {name: value for name, value in request.items() if name not in ("NextToken", "MaxResults")}
    text = json.dumps([operation, filters | {"SortBy": sort_by, "SortOrder": descending}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write_token(fingerprint: str, last: tuple[float | str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps([fingerprint, *last]).encode()).decode()


def _read_token(token: str, fingerprint: str, value_type: type | None) -> tuple[Any, str]:
    try:
        parts = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (ValueError, binascii.Error, RecursionError):
        raise _bad_token() from None
    if not isinstance(parts, list) or len(parts) != 3 or parts[0] != fingerprint:
        raise _bad_token()
    _, value, name = parts
    if not isinstance(name, str) or not isinstance(value, str | float | int):
        raise _bad_token()
    if value_type is not None and isinstance(value, str) != issubclass(value_type, str):
        raise _bad_token()
    return value, name


def _bad_token() -> ApiError:
    return invalid(
        "NextToken is not one that this operation returned for the same filters and order. "
        "Repeat the first call without NextToken."
    )
