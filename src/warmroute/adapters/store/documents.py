"""Records as JSON and back."""

from typing import TypeVar

import msgspec

from warmroute.resources.records import (
    EndpointConfigRecord,
    EndpointRecord,
    InferenceComponentRecord,
    InstanceRecord,
    ModelRecord,
    Resource,
)

Record = TypeVar(
    "Record", ModelRecord, EndpointConfigRecord, EndpointRecord, InferenceComponentRecord, InstanceRecord
)


def encode(record: Resource | InstanceRecord) -> str:
    """Return a record as JSON."""
    return msgspec.json.encode(record).decode()


def decode(document: str, kind: type[Record]) -> Record:
    """Return the record that ``encode`` wrote.

    Raises:
        msgspec.ValidationError: It is of another kind, or of a version that a migration should have changed.
    """
    return msgspec.json.decode(document, type=kind)
