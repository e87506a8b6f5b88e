"""A store in memory, for tests. Documents are encoded, so that what SQL could not keep fails here too."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from warmroute.adapters.store.documents import Record, decode, encode
from warmroute.adapters.store.reads import ResourceReads
from warmroute.adapters.store.scaling import MemoryScaling, ScalingDocuments
from warmroute.core.ids import EndpointName, InstanceId
from warmroute.resources.arns import Kind
from warmroute.resources.records import (
    KIND_OF,
    EndpointRecord,
    InstanceRecord,
    Resource,
)


@dataclass(slots=True)
class _Content:
    resources: dict[tuple[Kind, str], str] = field(default_factory=dict)
    instances: dict[InstanceId, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    scaling: ScalingDocuments = field(default_factory=dict)

    def copy(self) -> "_Content":
        return _Content(dict(self.resources), dict(self.instances), dict(self.notes), dict(self.scaling))


class MemoryTransaction(ResourceReads, MemoryScaling):
    """Works on a copy."""

    def __init__(self, content: _Content) -> None:
        self._content = content
        self._scaling = content.scaling

    def _get(self, kind: Kind, name: str, record_type: type[Record]) -> Record | None:
        document = self._content.resources.get((kind, name))
        return None if document is None else decode(document, record_type)

    def _all(self, kind: Kind, record_type: type[Record]) -> tuple[Record, ...]:
        found = sorted(key for key in self._content.resources if key[0] is kind)
        return tuple(decode(self._content.resources[key], record_type) for key in found)

    def endpoint_like(self, name: str) -> EndpointRecord | None:
        """Return the endpoint whose name differs in nothing but case."""
        folded = name.lower()
        return next((record for record in self.endpoints() if record.name.lower() == folded), None)

    def instances(self, endpoint: EndpointName | None = None) -> tuple[InstanceRecord, ...]:
        """Return the instances of an endpoint, or all, oldest first."""
        records = (decode(document, InstanceRecord) for document in self._content.instances.values())
        found = (record for record in records if endpoint is None or record.endpoint == endpoint)
        return tuple(sorted(found, key=lambda record: (record.created_s, record.instance_id)))

    def put(self, record: Resource) -> None:
        """Write a resource."""
        self._content.resources[KIND_OF[type(record)], record.name] = encode(record)

    def remove(self, record: Resource) -> None:
        """Delete a resource."""
        self._content.resources.pop((KIND_OF[type(record)], record.name), None)

    def put_instance(self, record: InstanceRecord) -> None:
        """Write an instance."""
        self._content.instances[record.instance_id] = encode(record)

    def remove_instance(self, instance_id: InstanceId) -> None:
        """Delete an instance."""
        self._content.instances.pop(instance_id, None)

    def note(self, name: str) -> str | None:
        """Return a note."""
        return self._content.notes.get(name)

    def set_note(self, name: str, text: str) -> None:
        """Write a note."""
        self._content.notes[name] = text


class MemoryStore:
    """Implements ``controlplane.ports.Store``."""

    def __init__(self) -> None:
        self._content = _Content()
        self._lock = threading.Lock()

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        """Begin; commit at the end of the block, or undo everything when it raises."""
        with self._lock:
            copy = self._content.copy()
            yield MemoryTransaction(copy)
            self._content = copy

    def close(self) -> None:
        """Nothing to let go of."""
