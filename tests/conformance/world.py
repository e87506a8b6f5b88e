"""A control plane in this process: the real service and reconciler over a store and a provider in memory."""

import asyncio
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import msgspec

from warmroute.adapters.providers.memory import MemoryProvider
from warmroute.adapters.service_model import load_scaling_schema, load_schema
from warmroute.adapters.store.memory import MemoryStore
from warmroute.adapters.tasks import Tasks
from warmroute.controlplane.providers import ProviderByType
from warmroute.controlplane.publish import Identity
from warmroute.controlplane.reconcile import Reconciler
from warmroute.controlplane.scaling.service import ScalingService
from warmroute.controlplane.service import ControlService
from warmroute.core.machines import Image, InstanceType, ProviderKind
from warmroute.resources.arns import Place
from warmroute.resources.errors import ApiError
from warmroute.resources.planner import Rules
from warmroute.resources.scaling.operations import SCALING_OPERATIONS

REGION, ACCOUNT = "eu-west-1", "123456789012"
TYPE = "ml.g5.xlarge"
OTHER_TYPE = "ml.g5.2xlarge"
TYPES = {
    name: InstanceType(name, ProviderKind.LOCAL, image="img", accelerators=8, cpus=64.0, memory_mb=65536)
    for name in (TYPE, OTHER_TYPE)
}
STEPS_MAX = 80


def load_schemas():
    """Return the schemas of the services that are served, by botocore's names."""
    return {"sagemaker": load_schema(TYPES), "application-autoscaling": load_scaling_schema()}


class HandClock:
    """Time that passes when told."""

    now_s = 1_800_000_000.0

    def wall_s(self):
        return self.now_s


class Routers:
    """One router that acknowledges whatever it gets and holds no lease."""

    def __init__(self):
        self.fleets = []

    async def publish(self, fleet, wait_s):
        if not self.fleets or self.fleets[-1] != fleet:
            self.fleets.append(fleet)
        return True

    def open_leases(self, target_id, generation):
        return 0

    def router_count(self):
        return 1

    def version_floor(self):
        return 0


class Still:
    """Stands for a reconciler that has not come to it yet."""

    def kick(self):
        """Nothing comes of it."""

    async def changed(self):
        raise TimeoutError


@dataclass(frozen=True)
class Answer:
    """What a call gave: an output, or an error's code, HTTP status and message."""

    output: dict[str, Any] | None = None
    code: str = ""
    status: int = 200
    message: str = ""


class World:
    """One control plane.

    With ``content`` it starts from what another one holds. One that is not ``alive`` stands still: a call
    is decided and written, and nobody acts on it. So thousands of calls can each have the same world.
    """

    def __init__(self, schema, content=None, *, alive=None, instances=()):
        """Make a world.

        Args:
            schema: Of the service models: ``load_schemas()``.
            content: What the store holds at first; None for nothing.
            alive: Whether there is a reconciler; when there is no content, unless told.
            instances: Of a provider, by id: those that run already.
        """
        self.store = MemoryStore()
        self.provider = MemoryProvider()
        self.routers = Routers()
        self.clock = HandClock()
        self.tasks = Tasks()
        self.numbers = count(1000 * (1 + len(instances)))
        self.provider.instances = {name: replace(one) for name, one in dict(instances).items()}
        reconciler = Still()
        if content is not None:
            self.store._content = content.copy()
        if alive if alive is not None else content is None:
            reconciler = self.reconciler = Reconciler(
                store=self.store,
                provider=ProviderByType(providers={ProviderKind.LOCAL: self.provider}, instance_types=TYPES),
                probe=self.provider,
                routers=self.routers,
                tasks=self.tasks,
                clock=self.clock,
                rules=Rules(instance_types=TYPES, images={"img": Image("img"), "other": Image("other")}),
                identity=Identity(REGION, ACCOUNT),
                new_id=lambda: f"i-{next(self.numbers):08}",
            )

        async def get_schema():
            return schema["sagemaker"]

        async def get_scaling_schema():
            return schema["application-autoscaling"]

        self.service = ControlService(
            store=self.store,
            reconciler=reconciler,
            schema=get_schema,
            place=Place(REGION, ACCOUNT),
            instance_types=TYPES,
            clock=self.clock,
            describe_hold_s=0,
            alarms=("a",),
        )
        ids = count(1 + 1000 * len(instances))
        self.scaling = ScalingService(
            store=self.store,
            schema=get_scaling_schema,
            place=Place(REGION, ACCOUNT),
            clock=self.clock,
            calls=self.service.calls,
            new_id=lambda: f"id-{next(ids)}",
        )

    @property
    def content(self):
        """What the store holds."""
        return self.store._content

    async def call(self, operation, document):
        """Make a call as HTTP would; operations of both services have names of their own."""
        return await self.send(operation, msgspec.json.encode(document))

    async def send(self, operation, body):
        """Make a call with these bytes."""
        service = self.scaling if operation in SCALING_OPERATIONS else self.service
        try:
            output = await service.call(operation, body)
        except ApiError as error:
            return Answer(code=str(error.code), status=error.status, message=error.message)
        return Answer(output=msgspec.json.decode(msgspec.json.encode(output)))

    async def do(self, operation, **request):
        """Make a call that has to succeed."""
        answer = await self.call(operation, request)
        assert answer.output is not None, f"{operation}: {answer.message}"
        return answer.output

    async def step(self):
        """Reconcile once; return whether nothing is under way."""
        quiet = await self.reconciler.step()
        while len(self.tasks):  # noqa: ASYNC110  (tasks that start tasks)
            await asyncio.sleep(0)
        self.clock.now_s += 1.1
        return quiet

    async def settle(self):
        """Reconcile until nothing is under way."""
        for _ in range(STEPS_MAX):
            if await self.step():
                return
        raise AssertionError("it never came to rest")
