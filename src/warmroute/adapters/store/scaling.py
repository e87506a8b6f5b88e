"""Records of autoscaling in either store; their names are longer than those of other resources."""

from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from warmroute.adapters.store.tables import SCALING
from warmroute.resources.scaling.records import SCALING_KIND_OF, Scaling, ScalingRecord

ScalingDocuments = dict[tuple[str, str, str], str]
"""Documents by kind, resource id and name."""


class SqlScaling:
    """The part of a SQL transaction that reads and writes them."""

    _connection: Connection

    def scaling_record(self, kind: type[Scaling], resource_id: str, name: str = "") -> Scaling | None:
        """Return one record."""
        if "\0" in resource_id or "\0" in name:
            return None  # PostgreSQL knows no such text; nothing has such a name.
        document = self._connection.scalar(
            select(SCALING.c.document).where(*_is(str(SCALING_KIND_OF[kind]), resource_id, name))
        )
        return None if document is None else msgspec.json.decode(document, type=kind)

    def scaling_records(self, kind: type[Scaling], resource_id: str | None = None) -> tuple[Scaling, ...]:
        """Return the records of a kind, of one resource or of all."""
        if resource_id is not None and "\0" in resource_id:
            return ()
        columns = SCALING.c
        statement = select(columns.document).where(columns.kind == str(SCALING_KIND_OF[kind]))
        if resource_id is not None:
            statement = statement.where(columns.resource_id == resource_id)
        ordered = statement.order_by(columns.resource_id, columns.name)
        return tuple(
            msgspec.json.decode(document, type=kind) for document in self._connection.scalars(ordered)
        )

    def put_scaling(self, record: ScalingRecord) -> None:
        """Write a record."""
        kind = str(SCALING_KIND_OF[type(record)])
        document = msgspec.json.encode(record).decode()
        there = update(SCALING).where(*_is(kind, record.resource_id, record.name))
        if self._connection.execute(there.values(document=document)).rowcount == 0:
            key = {"kind": kind, "resource_id": record.resource_id, "name": record.name}
            self._connection.execute(insert(SCALING).values(**key, document=document))

    def remove_scaling(self, record: ScalingRecord) -> None:
        """Delete a record."""
        kind = str(SCALING_KIND_OF[type(record)])
        self._connection.execute(delete(SCALING).where(*_is(kind, record.resource_id, record.name)))


class MemoryScaling:
    """The part of a transaction in memory that reads and writes them."""

    _scaling: ScalingDocuments

    def scaling_record(self, kind: type[Scaling], resource_id: str, name: str = "") -> Scaling | None:
        """Return one record."""
        document = self._scaling.get((str(SCALING_KIND_OF[kind]), resource_id, name))
        return None if document is None else msgspec.json.decode(document, type=kind)

    def scaling_records(self, kind: type[Scaling], resource_id: str | None = None) -> tuple[Scaling, ...]:
        """Return the records of a kind, of one resource or of all."""
        wanted = str(SCALING_KIND_OF[kind])
        keys = (key for key in sorted(self._scaling) if key[0] == wanted and resource_id in (None, key[1]))
        return tuple(msgspec.json.decode(self._scaling[key], type=kind) for key in keys)

    def put_scaling(self, record: ScalingRecord) -> None:
        """Write a record."""
        self._scaling[_key(record)] = msgspec.json.encode(record).decode()

    def remove_scaling(self, record: ScalingRecord) -> None:
        """Delete a record."""
        self._scaling.pop(_key(record), None)


def _key(record: ScalingRecord) -> tuple[str, str, str]:
    return str(SCALING_KIND_OF[type(record)]), record.resource_id, record.name


def _is(kind: str, resource_id: str, name: str) -> tuple[Any, ...]:
    columns = SCALING.c
    return columns.kind == kind, columns.resource_id == resource_id, columns.name == name
