"""What the store keeps: models, endpoint configs, endpoints and instances."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from warmroute.core.fleet import Routing
from warmroute.core.ids import EndpointName, InstanceId, VariantName
from warmroute.resources.arns import Kind
from warmroute.resources.lifecycle import EndpointStatus

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A model.

    Attributes:
        name: ModelName.
        arn: ModelArn.
        created_s: Epoch seconds.
        document: The validated CreateModel request without its tags.
        tags: By key.
    """

    name: str
    arn: str
    created_s: float
    document: JsonObject
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndpointConfigRecord:
    """An endpoint configuration; never changed once it exists.

    Attributes:
        name: EndpointConfigName.
        arn: EndpointConfigArn.
        created_s: Epoch seconds.
        document: The validated CreateEndpointConfig request without its tags.
        tags: By key.
    """

    name: str
    arn: str
    created_s: float
    document: JsonObject
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Launch:
    """What decides which server an instance runs. Two variants with equal launches can share instances.

    Attributes:
        instance_type: As declared in the settings.
        model_name: ModelName of the variant.
        image: The container's Image; None for the instance type's or provider's default.
        environment: The container's Environment.
        model_data_url: ModelDataUrl, or S3Uri of the ModelDataSource.
    """

    instance_type: str
    model_name: str
    image: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    model_data_url: str | None = None


@dataclass(frozen=True, slots=True)
class VariantRecord:
    """A production variant of a deployment.

    It carries what its instances need, so that model and config may be deleted.

    Attributes:
        name: VariantName.
        revision: Grows when the variant's instances have to be new ones; part of what an instance belongs to.
        launch: What its instances run.
        count: Instances wanted.
        weight: Relative share of the traffic.
        routing: RoutingConfig; None when the config named none, which means RANDOM.
        startup_s: ContainerStartupHealthCheckTimeoutInSeconds; None for the image's own.
        echo: Members that DescribeEndpoint repeats as they were given.
    """

    name: VariantName
    revision: int
    launch: Launch
    count: int
    weight: float = 1.0
    routing: Routing | None = None
    startup_s: float | None = None
    echo: JsonObject = field(default_factory=dict)

    @property
    def group(self) -> tuple[VariantName, int]:
        """What its instances belong to."""
        return (self.name, self.revision)


@dataclass(frozen=True, slots=True)
class Deployment:
    """Variants as one config describes them, with the counts and weights in force.

    Attributes:
        config_name: EndpointConfigName.
        variants: In the config's order.
        started_s: When the call that asked for it came, epoch seconds.
        echo: Members of the config that DescribeEndpoint repeats.
        policy: DeploymentConfig of the call; None for none.
    """

    config_name: str
    variants: tuple[VariantRecord, ...]
    started_s: float
    echo: JsonObject = field(default_factory=dict)
    policy: JsonObject | None = None

    def variant(self, name: str) -> VariantRecord | None:
        """Return a variant by name."""
        return next((variant for variant in self.variants if variant.name == name), None)


UNSTAMPED = 0
"""Of ``awaits`` and ``drain_version``: the fleet that shows the change has no version yet."""


@dataclass(frozen=True, slots=True)
class EndpointRecord:
    """An endpoint.

    Attributes:
        name: EndpointName, case kept.
        arn: EndpointArn.
        status: EndpointStatus.
        created_s: Epoch seconds.
        modified_s: Of the last change, epoch seconds.
        active: What serves; None while the endpoint is created and after that failed.
        pending: What is being deployed; stays on an endpoint whose creation failed.
        awaits: Version of the fleet that every router must have acknowledged before the endpoint is
            InService; ``UNSTAMPED`` until the fleet is built; None when nothing is awaited.
        failure_reason: FailureReason, at most 1024 characters.
        last_policy: LastDeploymentConfig.
        tags: By key.
    """

    name: EndpointName
    arn: str
    status: EndpointStatus
    created_s: float
    modified_s: float
    active: Deployment | None = None
    pending: Deployment | None = None
    awaits: int | None = None
    failure_reason: str | None = None
    last_policy: JsonObject | None = None
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def config_name(self) -> str:
        """EndpointConfigName: the active one, else the one being deployed."""
        deployment = self.active or self.pending
        assert deployment is not None, f"endpoint {self.name} has no deployment"
        return deployment.config_name


class InstanceState(StrEnum):
    """Where an instance stands in its life."""

    STARTING = "starting"
    IN_SERVICE = "in_service"
    DRAINING = "draining"
    """Takes no new lease; what runs on it finishes."""
    STOPPING = "stopping"
    """Out of the fleet; the record goes when the provider no longer lists it."""


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """An instance, written before it is started and removed after it is gone, so that none is ever lost.

    Attributes:
        instance_id: Never used again.
        endpoint: Whose.
        variant: Of which variant.
        revision: And of which of its revisions.
        launch: What it runs.
        startup_s: Seconds from ``not_before_s`` to its first good answer.
        created_s: Epoch seconds.
        not_before_s: It is not started earlier: back-off after failed predecessors.
        state: See ``InstanceState``.
        attempt: 1, plus one for each predecessor that failed soon.
        replaces: Not started before this one is gone, whose memory or port it needs.
        in_service_s: When it first became ready; None if it never has.
        served: It has been in a published fleet, so routers may hold leases on it.
        returns: How often it came back into service without a restart known to its provider.
        draining_s: Since when it drains.
        drain_version: Version of the fleet that says so; ``UNSTAMPED`` until that is built.
        model_name: The server's own model name, when it tells one.
        reason: Why it is stopped.
    """

    instance_id: InstanceId
    endpoint: EndpointName
    variant: VariantName
    revision: int
    launch: Launch
    startup_s: float
    created_s: float
    not_before_s: float
    state: InstanceState = InstanceState.STARTING
    attempt: int = 1
    replaces: InstanceId | None = None
    in_service_s: float | None = None
    served: bool = False
    returns: int = 0
    draining_s: float | None = None
    drain_version: int | None = None
    model_name: str | None = None
    reason: str = ""

    @property
    def group(self) -> tuple[VariantName, int]:
        """The variant and revision it belongs to."""
        return (self.variant, self.revision)


Resource = ModelRecord | EndpointConfigRecord | EndpointRecord

KIND_OF: dict[type[Resource], Kind] = {
    ModelRecord: Kind.MODEL,
    EndpointConfigRecord: Kind.ENDPOINT_CONFIG,
    EndpointRecord: Kind.ENDPOINT,
}
