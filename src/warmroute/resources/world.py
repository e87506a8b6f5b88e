"""What planning knows beside the records: what was declared, and what was observed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from warmroute.core import limits
from warmroute.core.ids import InstanceId
from warmroute.core.machines import Image, InstanceType, ProviderKind
from warmroute.resources.components.hosts import Slots
from warmroute.resources.instances import Observed
from warmroute.resources.metrics.alarms import AlarmState
from warmroute.resources.records import InstanceRecord, InstanceState, Launch


@dataclass(frozen=True, slots=True)
class Rules:
    """What stays the same between two plans.

    Attributes:
        instance_types: Declared ones, by name.
        images: Declared ones, by name.
        drain_s: A draining instance is stopped then at the latest.
    """

    instance_types: Mapping[str, InstanceType] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)
    drain_s: float = limits.INSTANCE_DRAIN_S

    def is_fixed(self, instance_type: str) -> bool:
        """Whether servers of a type are not ours: they cannot be started anew, only waited for."""
        declared = self.instance_types.get(instance_type)
        return declared is not None and declared.provider is ProviderKind.STATIC

    def image(self, launch: Launch) -> Image | None:
        """Return the image of a launch; None when it is not declared."""
        declared = self.instance_types.get(launch.instance_type)
        name = launch.image or (declared.image if declared is not None else None)
        return self.images.get(name) if name is not None else None

    def startup_s(self, launch: Launch, startup_s: float | None) -> float:
        """Return how long an instance or copy may take to become ready, in seconds.

        Args:
            launch: What it runs.
            startup_s: ContainerStartupHealthCheckTimeoutInSeconds of its variant or component.
        """
        if startup_s is not None:
            return startup_s
        return (self.image(launch) or Image(name="")).startup_s_max


@dataclass(frozen=True, slots=True)
class World:
    """What is known beside the records.

    Attributes:
        observed: Of every instance that its provider lists.
        refused: Why a provider refused to start an instance.
        busy: Instances with an action under way; no second one is ordered.
        now_s: Epoch seconds.
        acked_version: Every live router decides with this fleet or a later one.
        since_s: When this process made its first plan, epoch seconds: nothing it had no time for is late.
        new_id: Makes instance ids.
        alarms: How each declared alarm stands, by name.
        carried: How many component copies are on each host slot, those that stop included.
        slots: What instances there are over all endpoints, this one's included. A plan takes from it, so that
            no room is given out twice in a step. None for those of this endpoint alone.
    """

    observed: Mapping[InstanceId, Observed]
    refused: Mapping[InstanceId, str]
    busy: frozenset[InstanceId]
    now_s: float
    acked_version: int
    since_s: float
    new_id: Callable[[], InstanceId]
    alarms: Mapping[str, AlarmState] = field(default_factory=dict)
    carried: Mapping[InstanceId, int] = field(default_factory=dict)
    slots: Slots | None = None

    def is_gone(self, record: InstanceRecord) -> bool:
        """Whether nothing of an instance that was stopped is left but its record."""
        if record.state is not InstanceState.STOPPING or record.instance_id in self.carried:
            return False
        return record.instance_id not in self.observed and record.instance_id not in self.busy
