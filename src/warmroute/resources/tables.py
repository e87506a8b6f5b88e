"""What an operation reads, and what it answers: changes and an output, never a write of its own."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from warmroute.core.ids import EndpointName
from warmroute.core.machines import InstanceType, ProviderKind
from warmroute.resources.arns import Place
from warmroute.resources.records import (
    EndpointConfigRecord,
    EndpointRecord,
    InferenceComponentRecord,
    InstanceRecord,
    JsonObject,
    Launch,
    ModelRecord,
    Resource,
)


class Tables(Protocol):
    """Reads of one transaction. Names match exactly unless said otherwise; lists are in order of name."""

    def model(self, name: str) -> ModelRecord | None:
        """Return a model."""
        ...

    def models(self) -> tuple[ModelRecord, ...]:
        """Return all models."""
        ...

    def endpoint_config(self, name: str) -> EndpointConfigRecord | None:
        """Return an endpoint configuration."""
        ...

    def endpoint_configs(self) -> tuple[EndpointConfigRecord, ...]:
        """Return all endpoint configurations."""
        ...

    def endpoint(self, name: str) -> EndpointRecord | None:
        """Return an endpoint."""
        ...

    def endpoint_like(self, name: str) -> EndpointRecord | None:
        """Return the endpoint whose name differs in nothing but case."""
        ...

    def endpoints(self) -> tuple[EndpointRecord, ...]:
        """Return all endpoints."""
        ...

    def inference_component(self, name: str) -> InferenceComponentRecord | None:
        """Return an inference component or adapter."""
        ...

    def inference_components(self) -> tuple[InferenceComponentRecord, ...]:
        """Return all inference components, adapters included."""
        ...

    def instances(self, endpoint: EndpointName | None = None) -> tuple[InstanceRecord, ...]:
        """Return the instances of an endpoint, or all, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What operations know beside the tables.

    Attributes:
        place: Region and account.
        now_s: Epoch seconds.
        instance_types: Declared ones, by name.
        alarms: Names of the alarms there are, for AutoRollbackConfiguration.
    """

    place: Place
    now_s: float
    instance_types: Mapping[str, InstanceType] = field(default_factory=dict)
    alarms: Collection[str] = ()

    def same_instances(self, old: Launch, new: Launch) -> bool:
        """Whether instances of one launch can go on serving the other.

        Servers behind a static type are not ours and run what they run, whatever a model says.
        """
        declared = self.instance_types.get(new.instance_type)
        if declared is not None and declared.provider is ProviderKind.STATIC:
            return old.instance_type == new.instance_type
        return old == new


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operation wants done, all or nothing.

    Attributes:
        output: The answer's members.
        put: Records to write, new or in place of their predecessors.
        remove: Records to delete.
    """

    output: JsonObject = field(default_factory=dict)
    put: tuple[Resource, ...] = ()
    remove: tuple[Resource, ...] = ()
