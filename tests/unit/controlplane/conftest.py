"""A control plane in pieces: store, provider and routers in memory, time that passes when told."""

import asyncio

import pytest

from warmroute.adapters.lora.memory import MemoryAdapterLoader, MemoryShelf
from warmroute.adapters.providers.memory import MemoryProvider
from warmroute.adapters.service_model import load_schema
from warmroute.adapters.store.memory import MemoryStore
from warmroute.adapters.tasks import Tasks
from warmroute.controlplane.lora.calls import AdapterCalls
from warmroute.controlplane.lora.loads import AdapterKeeper
from warmroute.controlplane.providers import ProviderByType
from warmroute.controlplane.publish import Identity
from warmroute.controlplane.reconcile import Reconciler
from warmroute.controlplane.service import ControlService
from warmroute.core.machines import Image, InstanceType, ProviderKind
from warmroute.resources.arns import Place
from warmroute.resources.planner import Rules

TYPES = {
    "ml.local": InstanceType("ml.local", ProviderKind.LOCAL, image="img"),
    "fixed": InstanceType("fixed", ProviderKind.STATIC, urls=("http://a", "http://b")),
    "ml.gpus": InstanceType("ml.gpus", ProviderKind.LOCAL, image="img", instances_max=3, accelerators=2),
}
IMAGES = {"img": Image("img", startup_s_max=100.0, health_path="/up")}
REGION, ACCOUNT = "eu-west-1", "123456789012"


class HandClock:
    def __init__(self):
        self.now_s = 1000.0

    def wall_s(self):
        return self.now_s


class Routers:
    """Acknowledges what it gets, unless told not to."""

    def __init__(self):
        self.fleets = []
        self.acks = True
        self.leases = 0
        self.floor = 0
        self.count = 1
        self.wants = []
        self.uses = {}

    def adapter_use(self, target_id, generation, adapter):
        return self.uses.get((target_id, adapter), (0, 0))

    def take_adapter_wants(self):
        wants, self.wants = tuple(self.wants), []
        return wants

    async def publish(self, fleet, wait_s):
        if not self.fleets or self.fleets[-1] != fleet:
            self.fleets.append(fleet)
        return self.acks

    def open_leases(self, target_id, generation):
        return self.leases

    def router_count(self):
        return self.count

    def version_floor(self):
        return self.floor

    @property
    def targets(self):
        """Of the newest fleet, by id."""
        variants = [v for endpoint in self.fleets[-1].endpoints for v in endpoint.variants]
        return {target.target_id: target for variant in variants for target in variant.targets}


class Plane:
    """One control plane; ``restart`` is another process over the same store and servers."""

    def __init__(self, schema):
        self.schema = schema
        self.store = MemoryStore()
        self.provider = MemoryProvider()
        self.routers = Routers()
        self.clock = HandClock()
        self.loader = MemoryAdapterLoader()
        self.shelf = MemoryShelf()
        self.restart()

    def restart(self, *, store=None, provider=None, routers=None):
        provider = provider or self.provider
        self.tasks = Tasks()
        rules = Rules(instance_types=TYPES, images=IMAGES)
        calls = AdapterCalls(
            loader=self.loader,
            shelf=self.shelf,
            tasks=self.tasks,
            clock=self.clock,
            on_news=lambda: None,  # steps are made by hand
        )
        self.adapters = AdapterKeeper(
            calls=calls, routers=routers or self.routers, clock=self.clock, rules=rules
        )
        self.reconciler = Reconciler(
            store=store or self.store,
            provider=ProviderByType(
                providers={ProviderKind.LOCAL: provider, ProviderKind.STATIC: provider}, instance_types=TYPES
            ),
            probe=provider,
            routers=routers or self.routers,
            tasks=self.tasks,
            clock=self.clock,
            rules=rules,
            identity=Identity(REGION, ACCOUNT),
            adapters=self.adapters,
        )

        async def get_schema():
            return self.schema

        self.service = ControlService(
            store=store or self.store,
            reconciler=self.reconciler,
            schema=get_schema,
            place=Place(REGION, ACCOUNT),
            instance_types=TYPES,
            clock=self.clock,
            describe_hold_s=0,
        )

    async def step(self, steps=1, seconds=1.1):
        """Reconcile, and let every task that started come to its end."""
        for _ in range(steps):
            await self.reconciler.step()
            while len(self.tasks):  # noqa: ASYNC110  (tasks that start tasks)
                await asyncio.sleep(0)
            self.clock.now_s += seconds

    async def settle(self, steps=60):
        """Reconcile until nothing is under way."""
        for _ in range(steps):
            if await self.reconciler.step():
                return
            while len(self.tasks):  # noqa: ASYNC110  (tasks that start tasks)
                await asyncio.sleep(0)
            self.clock.now_s += 1.1
        raise AssertionError("never settled")

    async def create(self, name="ep", count=2, **variant):
        await self.service.invoke("CreateModel", {"ModelName": "m", "PrimaryContainer": {"Image": "img"}})
        await self.config("c", count=count, **variant)
        await self.service.invoke("CreateEndpoint", {"EndpointName": name, "EndpointConfigName": "c"})

    async def config(self, name, count=2, **variant):
        production = {
            "VariantName": "v",
            "ModelName": "m",
            "InstanceType": "ml.local",
            "InitialInstanceCount": count,
        } | variant
        request = {"EndpointConfigName": name, "ProductionVariants": [production]}
        await self.service.invoke("CreateEndpointConfig", request)

    async def carry(self, name="ep", count=2, **variant):
        """Create an endpoint for inference components."""
        production = {"VariantName": "v", "InstanceType": "ml.gpus", "InitialInstanceCount": count} | variant
        request = {"EndpointConfigName": f"{name}-config", "ProductionVariants": [production]}
        await self.service.invoke("CreateEndpointConfig", request)
        await self.service.invoke(
            "CreateEndpoint", {"EndpointName": name, "EndpointConfigName": f"{name}-config"}
        )

    async def component(self, name="ic", copies=1, endpoint="ep", devices=1, **specification):
        needs = {"MinMemoryRequiredInMb": 128}
        if devices:
            needs["NumberOfAcceleratorDevicesRequired"] = devices
        whole = {"Container": {"Image": "img"}, "ComputeResourceRequirements": needs} | specification
        request = {"InferenceComponentName": name, "EndpointName": endpoint, "Specification": whole}
        if "BaseInferenceComponentName" not in specification:
            request["RuntimeConfig"] = {"CopyCount": copies}
        await self.service.invoke("CreateInferenceComponent", request)

    async def scale(self, name, copies):
        request = {"InferenceComponentName": name, "DesiredRuntimeConfig": {"CopyCount": copies}}
        await self.service.invoke("UpdateInferenceComponentRuntimeConfig", request)

    def read(self, name="ic"):
        with self.store.transaction() as tables:
            return tables.inference_component(name)

    def copies(self, name="ic", *states):
        return [r for r in self.instances() if r.component == name and (not states or r.state in states)]

    def hosts(self, *states):
        return [r for r in self.instances() if r.carries_copies and (not states or r.state in states)]

    def endpoint(self, name="ep"):
        with self.store.transaction() as tables:
            return tables.endpoint(name)

    def instances(self):
        with self.store.transaction() as tables:
            return tables.instances()


@pytest.fixture(scope="session")
def schema():
    return load_schema(TYPES)


@pytest.fixture
def plane(schema):
    """Return a function that runs a coroutine function with a fresh control plane."""

    def run(test):
        async def body():
            await test(Plane(schema))

        asyncio.run(body())

    return run
