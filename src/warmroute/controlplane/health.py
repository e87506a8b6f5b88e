"""Health checks: when an instance is asked, and what it has said so far."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from warmroute.controlplane.ports import Clock, Health, HealthProbe, InstanceFact, InstancePhase, Spawner
from warmroute.core import limits
from warmroute.core.ids import InstanceId
from warmroute.resources.planner import Rules
from warmroute.resources.records import InstanceRecord, InstanceState

_ASKED = (InstanceState.STARTING, InstanceState.IN_SERVICE)

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


class HealthChecks:
    """Asks instances, and keeps their checkups.

    In memory: after a restart everything is asked again within a second.
    """

    def __init__(
        self,
        *,
        probe: HealthProbe,
        tasks: Spawner,
        clock: Clock,
        rules: Rules,
        on_news: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            probe: Asks one instance.
            tasks: Starts a task per question.
            clock: Time.
            rules: Knows each image's health route.
            on_news: Called when an answer differs from the last one, or others wait for their turn.
        """
        self._probe = probe
        self._tasks = tasks
        self._clock = clock
        self._rules = rules
        self._on_news = on_news
        self._checkups: dict[InstanceId, Checkup] = {}
        self._running = 0
        self._waiting = False

    def checkup(self, instance_id: InstanceId, generation: int) -> Checkup:
        """Return the checkup of an instance, a fresh one for a generation not seen before."""
        found = self._checkups.get(instance_id)
        if found is None or found.generation != generation:
            found = self._checkups[instance_id] = Checkup(generation)
        return found

    def keep_only(self, instance_ids: AbstractSet[InstanceId]) -> None:
        """Forget all others."""
        self._checkups = {key: value for key, value in self._checkups.items() if key in instance_ids}

    def check(
        self, facts: Mapping[InstanceId, InstanceFact], instances: Mapping[InstanceId, InstanceRecord]
    ) -> None:
        """Ask those whose turn it is, the longest overdue first."""
        now_s = self._clock.wall_s()
        due: list[tuple[float, InstanceId]] = []
        for instance_id, record in instances.items():
            fact = facts.get(instance_id)
            if fact is None or fact.phase is not InstancePhase.RUNNING or record.state not in _ASKED:
                continue
            checkup = self.checkup(instance_id, fact.generation)
            if not checkup.running and checkup.due_s <= now_s:
                due.append((checkup.due_s, instance_id))
        due.sort()
        free = limits.HEALTH_PROBES_AT_ONCE_MAX - self._running
        self._waiting = len(due) > free
        for _, instance_id in due[:free]:
            record, fact = instances[instance_id], facts[instance_id]
            self.checkup(instance_id, fact.generation).running = True
            self._running += 1
            self._tasks.spawn(self._ask(record, fact), name=f"health {instance_id}")

    async def _ask(self, record: InstanceRecord, fact: InstanceFact) -> None:
        checkup = self.checkup(record.instance_id, fact.generation)
        image = self._rules.image(record.launch)
        health = Health(ready=False, detail="The health check itself failed.")
        try:
            health = await self._probe.probe(fact, image.health_path if image is not None else None)
        finally:
            self._running -= 1
            checkup.running = False
            now_s = self._clock.wall_s()
            checkup.due_s = now_s + period_s(record, now_s)
            if checkup.record(health) or self._waiting:
                self._on_news()


def period_s(record: InstanceRecord, now_s: float) -> float:
    """Return the time between two checks of an instance, in seconds.

    Tiny models are asked often, for they are ready in a quarter of a second; one that takes minutes to
    load is asked once a second.
    """
    if record.state is InstanceState.IN_SERVICE:
        return limits.HEALTH_PERIOD_S
    age_s = max(now_s - record.not_before_s, 0.0)
    return min(max(age_s / 20.0, limits.HEALTH_STARTING_PERIOD_S), 1.0)
