"""What the store keeps: models, endpoint configs, endpoints, inference components and instances."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from warmroute.core.fleet import Routing
from warmroute.core.ids import ComponentName, EndpointName, InstanceId, VariantName
from warmroute.resources.arns import Kind
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.lora.places import AdapterPlace

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
class HostScaling:
    """ManagedInstanceScaling of a variant that carries component copies, when it is ENABLED.

    Attributes:
        count_min: Instances that stay even when none carries a copy.
        count_max: Instances that there may be at most.
        consolidate: Whether copies are moved together to free instances (CONSOLIDATION); idle ones are
            released in either case.
        step_max: Instances released at a time.
        cooldown_s: From the endpoint's last change to a release, in seconds; None when the config has no
            ScaleInPolicy.
    """

    count_min: int = 0
    count_max: int = 1
    consolidate: bool = False
    step_max: int = 1
    cooldown_s: float | None = None


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
        carries_copies: Its instances are host slots for copies of inference components and run no server of
            their own; its launch names no model.
        scaling: ManagedInstanceScaling; None unless it is ENABLED.
        pools: What an instance of each of the InstancePools runs, the preferred one first; empty for a
            variant of one InstanceType. ``launch`` is the first.
    """

    name: VariantName
    revision: int
    launch: Launch
    count: int
    weight: float = 1.0
    routing: Routing | None = None
    startup_s: float | None = None
    echo: JsonObject = field(default_factory=dict)
    carries_copies: bool = False
    scaling: HostScaling | None = None
    pools: tuple[Launch, ...] = ()

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
        shadow: The shadow variant; None for none. Its weight over that of the only production variant is
            the part of the invocations that it gets copies of.
    """

    config_name: str
    variants: tuple[VariantRecord, ...]
    started_s: float
    echo: JsonObject = field(default_factory=dict)
    policy: JsonObject | None = None
    shadow: VariantRecord | None = None

    @property
    def all_variants(self) -> tuple[VariantRecord, ...]:
        """Production variants, then the shadow: all that have instances."""
        return self.variants if self.shadow is None else (*self.variants, self.shadow)

    def variant(self, name: str) -> VariantRecord | None:
        """Return a variant, production or shadow, by name."""
        return next((variant for variant in self.all_variants if variant.name == name), None)


class RolloutPhase(StrEnum):
    """What a step of a rollout is at."""

    PROVISIONING = "provisioning"
    """Its new instances come into service."""
    SHIFTING = "shifting"
    """They have been given their share of the traffic; not every router knows yet."""
    BAKING = "baking"
    """Alarms and health checks have their time to tell."""
    TERMINATING = "terminating"
    """All traffic is on new instances; the old ones wait for their end."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """Where a deployment in steps stands; the steps themselves follow from the deployment.

    Attributes:
        step: The one under way, from 0.
        phase: What it is at.
        since_s: Since when, epoch seconds.
        back: Old instances wanted while a rolling update is rolled back; None while it goes forward.
        kept: New instances that stay meanwhile; set with ``back``.
    """

    step: int = 0
    phase: RolloutPhase = RolloutPhase.PROVISIONING
    since_s: float = 0.0
    back: int | None = None
    kept: int = 0


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
        rollout: Where the pending deployment stands, if it goes in steps; None if it switches at once.
        mixed: After a rollback that failed: what serves, old and new, each with the instances it had then;
            empty otherwise.
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
    rollout: Rollout | None = None
    mixed: tuple[VariantRecord, ...] = ()

    @property
    def config_name(self) -> str:
        """EndpointConfigName: the active one, else the one being deployed."""
        deployment = self.active or self.pending
        assert deployment is not None, f"endpoint {self.name} has no deployment"
        return deployment.config_name


@dataclass(frozen=True, slots=True)
class CopyNeeds:
    """ComputeResourceRequirements of one copy.

    Attributes:
        memory_mb: MinMemoryRequiredInMb: what it reserves.
        memory_mb_max: MaxMemoryRequiredInMb; None for no bound.
        cpus: NumberOfCpuCoresRequired.
        accelerators: NumberOfAcceleratorDevicesRequired.
    """

    memory_mb: int
    memory_mb_max: int | None = None
    cpus: float = 0.0
    accelerators: int = 0


@dataclass(frozen=True, slots=True)
class CopySpecification:
    """What one copy of a component is, on instances of one type or of any.

    Attributes:
        launch: What it runs; its instance type is ``""`` until a host is found.
        needs: What it reserves on its host.
        instance_type: The only type it is for; ``""`` for every type.
        startup_s: ContainerStartupHealthCheckTimeoutInSeconds; None for the image's own.
        binpack: Placed on the fullest host it fits on, not on the one with the fewest copies.
    """

    launch: Launch
    needs: CopyNeeds
    instance_type: str = ""
    startup_s: float | None = None
    binpack: bool = False


@dataclass(frozen=True, slots=True)
class ComponentSpecification:
    """Specification or Specifications of a component, with what follows from it.

    It carries what its copies need, so that models may be deleted.

    Attributes:
        revision: Grows when the component's copies, or its adapter's artifact, have to be new ones.
        document: ``{"Specification": …}`` or ``{"Specifications": […]}`` as it was given.
        started_s: When the call that asked for it came, epoch seconds.
        copies: What a copy is, by instance type; empty for an adapter.
        artifact_url: ArtifactUrl of an adapter; None for a component with copies.
    """

    revision: int
    document: JsonObject
    started_s: float
    copies: tuple[CopySpecification, ...] = ()
    artifact_url: str | None = None

    def for_type(self, instance_type: str) -> CopySpecification | None:
        """Return what a copy is on instances of a type; None when it is not for that type."""
        for copy in self.copies:
            if copy.instance_type in ("", instance_type):
                return copy
        return None


@dataclass(frozen=True, slots=True)
class ComponentRollout:
    """Where a rolling update of a component stands.

    Attributes:
        batch: Copies exchanged at a time, at least 1.
        back_batch: Copies brought back at a time in a rollback, at least 1.
        old_max: Copies there were before the update; no more of the old ones are started for it. None for
            no bound.
        moved: Copies of the new specification that may exist, those of finished batches included.
        wait_s: WaitIntervalInSeconds: from a batch in service to the next.
        baked_s: When the current batch was found in service, epoch seconds; None before.
        timeout_s: MaximumExecutionTimeoutInSeconds; None for none.
        alarms: Names of AutoRollbackConfiguration.
        beside: New copies start beside the old ones; where there is no room for that, a batch of old ones
            leaves first.
        back: It is being rolled back; what is ``pending`` goes, what is ``active`` comes again.
    """

    batch: int
    back_batch: int = 1
    old_max: int | None = None
    moved: int = 0
    wait_s: float = 0.0
    baked_s: float | None = None
    timeout_s: float | None = None
    alarms: tuple[str, ...] = ()
    beside: bool = True
    back: bool = False


@dataclass(frozen=True, slots=True)
class InferenceComponentRecord:
    """An inference component: with copies of its own, or an adapter on those of its base.

    Attributes:
        name: InferenceComponentName.
        arn: InferenceComponentArn.
        endpoint: EndpointName; the endpoint may be gone.
        variant: VariantName; an adapter's is its base's.
        status: InferenceComponentStatus.
        created_s: Epoch seconds.
        modified_s: Of the last change, epoch seconds.
        active: What serves; None until the creation has succeeded.
        pending: What is being created or rolled out; stays on a component whose creation failed.
        count: Copies wanted (DesiredCopyCount); 0 for an adapter.
        base: BaseInferenceComponentName of an adapter; ``""`` for a component with copies.
        rollout: Where a rolling update stands; None while none is under way.
        awaits: Version of the fleet that every router must have acknowledged before the component is
            InService; ``UNSTAMPED`` until the fleet is built; None when nothing is awaited.
        failure_reason: FailureReason, at most 1024 characters.
        last_policy: LastDeploymentConfig; None before the first update.
        tags: By key.
    """

    name: ComponentName
    arn: str
    endpoint: EndpointName
    variant: VariantName
    status: ComponentStatus
    created_s: float
    modified_s: float
    active: ComponentSpecification | None = None
    pending: ComponentSpecification | None = None
    count: int = 0
    base: str = ""
    rollout: ComponentRollout | None = None
    awaits: int | None = None
    failure_reason: str | None = None
    last_policy: JsonObject | None = None
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def specification(self) -> ComponentSpecification:
        """What serves, else what is being created."""
        specification = self.active or self.pending
        assert specification is not None, f"inference component {self.name} has no specification"
        return specification


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

    Also a copy of an inference component, which is started, asked and stopped like an instance, and a host
    slot that carries copies, which runs no server of its own and is in service as soon as it exists.

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
        drain_ordered: An operator drains it: it does not come back into service, whatever is missing.
        model_name: The server's own model name, when it tells one.
        reason: Why it is stopped.
        component: The inference component that it is a copy of; ``""`` for an instance. ``revision`` is then
            that of the component's specification.
        host: The instance that carries the copy; None for an instance.
        devices: Accelerators of the machine that it may use, by number.
        carries_copies: It is a host slot.
        needs: What a copy reserves on its host; None for an instance.
        first_s: When the first of a row of copies that failed one after the other was made, epoch
            seconds; None when this is the first.
        idle_s: Since when a host slot carries no copy, epoch seconds; None while it does.
        adapters: On a copy, the LoRA adapters that are loaded or to be loaded, or on their way out.
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
    drain_ordered: bool = False
    component: str = ""
    host: InstanceId | None = None
    devices: tuple[int, ...] = ()
    carries_copies: bool = False
    needs: CopyNeeds | None = None
    first_s: float | None = None
    idle_s: float | None = None
    adapters: tuple[AdapterPlace, ...] = ()

    @property
    def group(self) -> tuple[VariantName, int]:
        """The variant, or for a copy the component, and the revision that it belongs to.

        A component's name is put behind a slash, so that it cannot be taken for a variant's.
        """
        return (VariantName(f"/{self.component}") if self.component else self.variant, self.revision)


Resource = ModelRecord | EndpointConfigRecord | EndpointRecord | InferenceComponentRecord

KIND_OF: dict[type[Resource], Kind] = {
    ModelRecord: Kind.MODEL,
    EndpointConfigRecord: Kind.ENDPOINT_CONFIG,
    EndpointRecord: Kind.ENDPOINT,
    InferenceComponentRecord: Kind.INFERENCE_COMPONENT,
}
