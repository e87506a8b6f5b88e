"""The fleet: everything the routers need to know, as one immutable, versioned snapshot.

Control builds it, the stream carries it, a router applies it atomically between two decisions.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from warmroute.core.ids import ComponentName, EndpointName, InstanceId, TargetId, VariantName


class RoutingStrategy(StrEnum):
    """SageMaker's RoutingStrategy enum."""

    RANDOM = "RANDOM"
    LEAST_OUTSTANDING_REQUESTS = "LEAST_OUTSTANDING_REQUESTS"
    PREFIX_AWARE = "PREFIX_AWARE"
    KV_AWARE = "KV_AWARE"


class TargetState(StrEnum):
    """Where a target stands in its life, as control knows it. Ejection is the router's own finding."""

    STARTING = "starting"
    IN_SERVICE = "in_service"
    DRAINING = "draining"


class NativeMapping(StrEnum):
    """How a native invocation reaches a model server."""

    INVOCATIONS = "invocations"
    """The server has SageMaker's ``/invocations`` route."""
    OPENAI = "openai"
    """It has not: the body's shape picks ``/v1/chat/completions`` or ``/v1/completions``."""
    AUTO = "auto"
    """Ask ``/invocations``; where that route does not exist (404), use the OpenAI routes from then on."""


@dataclass(frozen=True, slots=True)
class Routing:
    """A variant's RoutingConfig.

    Attributes:
        strategy: How a target is picked.
        prefix_length: Bytes (native) or characters (OpenAI) in the routing key; PREFIX_AWARE only.
        concurrency_threshold: In-flight count at which a target is passed over; PREFIX_AWARE only.
    """

    strategy: RoutingStrategy = RoutingStrategy.RANDOM
    prefix_length: int | None = None
    concurrency_threshold: int | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """One place that takes leases: an instance, or one copy on it.

    Attributes:
        target_id: Stable name; the input of the rendezvous order.
        instance_id: The instance that carries it; equal to ``target_id`` when the target is that instance.
        generation: Grows when the server at this place is started anew; leases and records of an
            older generation are void.
        host: Name or address of the model server.
        port: Its TCP port, 1-65535.
        state: As control sees it.
        tls: Whether the server speaks HTTPS.
        path_prefix: Put before every upstream path, ``""`` or ``"/something"``.
        model_name: The server's own model name, for requests whose ``model`` names an endpoint;
            None when it is not known.
        native: How native invocations reach it.
        hold_first_event: Hold a stream's 200 until its first SSE event, for engines that report
            overload inside the stream.
        api_key: The server's own key, sent as a bearer token; never the caller's.
        component: The inference component that this is a copy of, a base component where there are
            adapters; ``""`` for an instance of an endpoint without components.
        adapters: LoRA adapters that it has loaded, by the names that requests ask for them with.
        adapter_prefix: Put before such a name in ``model``, for engines that want ``MODEL:NAME`` there.
    """

    target_id: TargetId
    instance_id: InstanceId
    generation: int
    host: str
    port: int
    state: TargetState = TargetState.IN_SERVICE
    tls: bool = False
    path_prefix: str = ""
    model_name: str | None = None
    native: NativeMapping = NativeMapping.AUTO
    hold_first_event: bool = False
    api_key: str | None = field(default=None, repr=False)
    component: str = ""
    adapters: tuple[str, ...] = ()
    adapter_prefix: str = ""


@dataclass(frozen=True, slots=True)
class Component:
    """An inference component as the routers see it; its copies are targets.

    Attributes:
        name: As callers name it.
        base: The component on whose copies it is loaded, for an adapter; ``""`` otherwise.
        failure: Why an adapter that is loaded nowhere cannot be loaded; ``""`` as long as it may.
    """

    name: ComponentName
    base: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Variant:
    """A production variant, or the part of one that runs one revision of it.

    While a deployment replaces a variant's instances, and until the old ones have drained, the variant is
    there once for each revision; each has targets and books of its own.

    Attributes:
        name: As callers know it.
        weight: The variant's share of the endpoint's traffic is this over the sum over all names.
        routing: Its strategy.
        targets: Its instances, or the copies on them.
        components: What may be invoked on it, components without a copy and adapters included; empty for a
            variant of one model.
        revision: Which of its revisions this is; the name and the revision together are unique.
        share: Part of the variant's traffic that this revision gets, 0 to 1.
    """

    name: VariantName
    weight: float
    routing: Routing
    targets: tuple[Target, ...]
    components: tuple[Component, ...] = ()
    revision: int = 0
    share: float = 1.0

    @property
    def draw_weight(self) -> float:
        """What it is drawn with among all variants of the endpoint."""
        return self.weight * self.share


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint as the routers see it; one that is being created or has failed has no variants yet.

    Attributes:
        name: EndpointName.
        in_service: Whether it may be invoked.
        variants: Its production variants; name and revision together are unique.
        shadow: The shadow variant: it gets copies of invocations, whose answers nobody sees. Its ``share``
            is the part of the invocations that is copied.
        carries_components: Invocations name an inference component, and there may be none yet. An endpoint
            whose variants have components is one in any case.
    """

    name: EndpointName
    in_service: bool
    variants: tuple[Variant, ...]
    shadow: Variant | None = None
    carries_components: bool = False

    @property
    def all_variants(self) -> tuple[Variant, ...]:
        """Production variants, then the shadow: all that have targets."""
        return self.variants if self.shadow is None else (*self.variants, self.shadow)


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A credential for SigV4 and for the bearer tokens minted from it."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    principal: str = "root"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A plain bearer key for the ``/v1`` routes."""

    principal: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Fleet:
    """One snapshot.

    Attributes:
        version: Grows by one with every change; a router ignores an older one.
        region: The Region that signatures and ARNs must name.
        account: Twelve digits.
        endpoints: In order of name.
        access_keys: Empty means no authentication (the listener is then on loopback).
        api_keys: Keys of the plain OpenAI route.
        routers: How many router processes serve it, each with counts and records of its own.
        session_key: Secret that all routers sign the ids of sessions with; ``""`` for no secret.
    """

    version: int
    region: str
    account: str
    endpoints: tuple[Endpoint, ...] = ()
    access_keys: tuple[AccessKey, ...] = ()
    api_keys: tuple[ApiKey, ...] = ()
    routers: int = 1
    session_key: str = field(default="", repr=False)
