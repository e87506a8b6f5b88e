"""What ``warmroute serve --instances …`` asks control for: one endpoint over servers that run already."""

from dataclasses import dataclass, field

from warmroute.core.fleet import Routing
from warmroute.core.ids import EndpointName
from warmroute.core.machines import InstanceType


@dataclass(frozen=True, slots=True)
class EndpointDeclaration:
    """A model, a config and an endpoint to be there after start-up, as ordinary resources.

    Two equal declarations come from equal flags, so that control can tell whether the flags changed
    since the last start.

    Attributes:
        endpoint: Its name.
        instance_type: Static, ``static.<endpoint>``; one URL is one instance, so the variant's
            InitialInstanceCount is ``len(instance_type.urls)``. Control keeps it with the resources,
            for a later start without the flags.
        routing: RoutingConfig of the variant ``AllTraffic``.
    """

    endpoint: EndpointName
    instance_type: InstanceType
    routing: Routing = field(default_factory=Routing)


def routing_text(routing: Routing) -> str:
    """Return a routing as people read it: the strategy, and its parameters where it has some."""
    if routing.prefix_length is None:
        return routing.strategy.value
    return (
        f"{routing.strategy.value} (prefix length {routing.prefix_length}, "
        f"concurrency threshold {routing.concurrency_threshold})"
    )
