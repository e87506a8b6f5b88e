"""A provider that only pretends, for tests: instances exist because it says so."""

from dataclasses import dataclass, replace

from warmroute.controlplane.ports import Health, InstanceFact, InstanceOrder, InstancePhase, ProviderRefused
from warmroute.core.ids import InstanceId


@dataclass(slots=True)
class MemoryInstance:
    """An instance that is not there.

    Attributes:
        order: As given.
        fact: As listed.
        ready: What its health check says.
    """

    order: InstanceOrder
    fact: InstanceFact
    ready: bool = True


class MemoryProvider:
    """Implements ``Provider`` and ``HealthProbe`` of ``controlplane.ports``. It outlives reconcilers."""

    def __init__(self, *, instances_max: int | None = None) -> None:
        self.instances: dict[InstanceId, MemoryInstance] = {}
        self.instances_max = instances_max
        self.ready_at_once = True
        self.refuse_with: str | None = None
        self.started: list[InstanceId] = []
        self.stopped: list[InstanceId] = []
        self.model_name: str | None = None
        self._pid = 1000

    async def start(self, order: InstanceOrder) -> None:
        """Pretend to start an instance.

        Raises:
            ProviderRefused: A test wants it to, or there are ``instances_max`` already.
        """
        if order.instance_id in self.instances:
            return
        if self.refuse_with is not None:
            raise ProviderRefused(self.refuse_with)
        if self.instances_max is not None and len(self.instances) >= self.instances_max:
            raise ProviderRefused(f"There are {self.instances_max} instances, the most allowed.")
        self._pid += 1
        self.started.append(order.instance_id)
        self.instances[order.instance_id] = MemoryInstance(
            order=order,
            fact=InstanceFact(
                instance_id=order.instance_id,
                instance_type=order.instance_type,
                phase=InstancePhase.RUNNING,
                generation=1,
                host="127.0.0.1",
                port=self._pid,
                pid=self._pid,
            ),
            ready=self.ready_at_once,
        )

    async def list(self) -> tuple[InstanceFact, ...]:
        """Return every pretended instance."""
        return tuple(instance.fact for instance in self.instances.values())

    async def stop(self, instance_id: InstanceId, grace_s: float) -> None:
        """Forget an instance."""
        del grace_s
        if self.instances.pop(instance_id, None) is not None:
            self.stopped.append(instance_id)

    async def probe(self, fact: InstanceFact, health_path: str | None) -> Health:
        """Say what the test has set."""
        del health_path
        instance = self.instances.get(fact.instance_id)
        if instance is None or not instance.ready:
            return Health(ready=False, detail="It says that it is not ready.")
        return Health(ready=True, model_name=self.model_name, detail="GET /ping: 200")

    def exit(self, instance_id: InstanceId, detail: str = "It ended with exit status 1.") -> None:
        """Pretend that an instance ended by itself."""
        instance = self.instances[instance_id]
        instance.fact = replace(instance.fact, phase=InstancePhase.EXITED, detail=detail)

    def set_ready(self, ready: bool, *instance_ids: InstanceId) -> None:  # noqa: FBT001  (reads well)
        """Set what health checks say, of some instances or of all, those started later included."""
        if not instance_ids:
            self.ready_at_once = ready
        for instance_id in instance_ids or tuple(self.instances):
            self.instances[instance_id].ready = ready
