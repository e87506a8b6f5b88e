"""What the health checks have said so far, per instance."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from warmroute.controlplane.ports import Health
from warmroute.core import limits
from warmroute.core.ids import InstanceId
from warmroute.resources.records import InstanceRecord, InstanceState

_NOT_ASKED = Health(ready=False, detail="It has not been asked yet.")


@dataclass(slots=True)
class Checkup:
    """The health checks of one generation of an instance.

    Attributes:
        generation: As its provider counts them; a new one starts from nothing.
        probes: Checks made.
        failures: The last ones that failed, in a row.
        last: The last answer.
        due_s: When the next one is due, epoch seconds.
        running: One is under way.
    """

    generation: int
    probes: int = 0
    failures: int = 0
    last: Health = _NOT_ASKED
    due_s: float = 0.0
    running: bool = False

    def record(self, health: Health) -> bool:
        """Take an answer.

        Returns:
            Whether it is different from the last one, other than in its wording.
        """
        before = (self.last.ready, self.last.model_name, self.failures)
        self.probes += 1
        self.failures = 0 if health.ready else self.failures + 1
        self.last = health
        return before != (health.ready, health.model_name, self.failures)


class HealthBook:
    """Checkups by instance. In memory: after a restart everything is asked again within a second."""

    def __init__(self) -> None:
        self._checkups: dict[InstanceId, Checkup] = {}

    def checkup(self, instance_id: InstanceId, generation: int) -> Checkup:
        """Return the checkup of an instance, a fresh one for a generation not seen before."""
        found = self._checkups.get(instance_id)
        if found is None or found.generation != generation:
            found = self._checkups[instance_id] = Checkup(generation)
        return found

    def keep_only(self, instance_ids: AbstractSet[InstanceId]) -> None:
        """Forget all others."""
        self._checkups = {key: value for key, value in self._checkups.items() if key in instance_ids}


def period_s(record: InstanceRecord, now_s: float) -> float:
    """Return the time between two checks of an instance, in seconds.

    Tiny models are asked often, for they are ready in a quarter of a second; one that takes minutes to
    load is asked once a second.
    """
    if record.state is InstanceState.IN_SERVICE:
        return limits.HEALTH_PERIOD_S
    age_s = max(now_s - record.not_before_s, 0.0)
    return min(max(age_s / 20.0, limits.HEALTH_STARTING_PERIOD_S), 1.0)
