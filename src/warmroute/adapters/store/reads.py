"""The reads of resources that every transaction offers, over the two that each store does its own way."""

from abc import ABC, abstractmethod

from warmroute.adapters.store.documents import Record
from warmroute.resources.arns import Kind
from warmroute.resources.records import (
    EndpointConfigRecord,
    EndpointRecord,
    InferenceComponentRecord,
    ModelRecord,
)


class ResourceReads(ABC):
    """Reads resources by kind and name."""

    @abstractmethod
    def _get(self, kind: Kind, name: str, record_type: type[Record]) -> Record | None:
        """Return one resource; None when there is none of that name."""

    @abstractmethod
    def _all(self, kind: Kind, record_type: type[Record]) -> tuple[Record, ...]:
        """Return all resources of a kind, in order of their names."""

    def model(self, name: str) -> ModelRecord | None:
        """Return a model."""
        return self._get(Kind.MODEL, name, ModelRecord)

    def models(self) -> tuple[ModelRecord, ...]:
        """Return all models."""
        return self._all(Kind.MODEL, ModelRecord)

    def endpoint_config(self, name: str) -> EndpointConfigRecord | None:
        """Return an endpoint configuration."""
        return self._get(Kind.ENDPOINT_CONFIG, name, EndpointConfigRecord)

    def endpoint_configs(self) -> tuple[EndpointConfigRecord, ...]:
        """Return all endpoint configurations."""
        return self._all(Kind.ENDPOINT_CONFIG, EndpointConfigRecord)

    def endpoint(self, name: str) -> EndpointRecord | None:
        """Return an endpoint."""
        return self._get(Kind.ENDPOINT, name, EndpointRecord)

    def endpoints(self) -> tuple[EndpointRecord, ...]:
        """Return all endpoints."""
        return self._all(Kind.ENDPOINT, EndpointRecord)

    def inference_component(self, name: str) -> InferenceComponentRecord | None:
        """Return an inference component or adapter."""
        return self._get(Kind.INFERENCE_COMPONENT, name, InferenceComponentRecord)

    def inference_components(self) -> tuple[InferenceComponentRecord, ...]:
        """Return all inference components, adapters included."""
        return self._all(Kind.INFERENCE_COMPONENT, InferenceComponentRecord)
