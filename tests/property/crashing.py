"""A control plane that can die at any point: its store and its servers survive, all else is made anew.

Every call of the store and of the provider has points before and after it. One that was armed raises
``Crash``, and from then on nothing of that process reaches store or provider any more, as after SIGKILL.
What is committed is watched: each change of a status must be in the life-cycle tables, and each fleet
that is published must be newer than all before it and keep serving what served.
"""

import asyncio
from contextlib import contextmanager, suppress

import msgspec

from warmroute.adapters.lora.memory import MemoryAdapterLoader, MemoryShelf
from warmroute.adapters.providers.memory import MemoryProvider
from warmroute.adapters.store.memory import MemoryStore
from warmroute.adapters.tasks import Tasks
from warmroute.controlplane.lora.calls import AdapterCalls
from warmroute.controlplane.lora.loads import AdapterKeeper
from warmroute.controlplane.ports import (
    AdapterAnswer,
    AdapterOutcome,
    ProviderRefused,
    StoreConflict,
    StoreUnavailable,
)
from warmroute.controlplane.providers import ProviderByType
from warmroute.controlplane.publish import Identity
from warmroute.controlplane.reconcile import Reconciler
from warmroute.controlplane.scaling.autoscaler import Autoscaler
from warmroute.controlplane.scaling.service import ScalingService
from warmroute.controlplane.service import ControlService
from warmroute.core.fleet import TargetState
from warmroute.core.machines import Image, InstanceType, ProviderKind
from warmroute.core.stream import AdapterWanted
from warmroute.resources.arns import Kind, Place
from warmroute.resources.lifecycle import (
    CHANGING,
    COMPONENT_CHANGING,
    COMPONENT_MOVES,
    MOVES,
    ComponentStatus,
    EndpointStatus,
)
from warmroute.resources.metrics.alarms import AlarmBook, AlarmState
from warmroute.resources.planner import Rules

URLS = {
    "fixed": ("http://a", "http://b", "http://c"),
    # Of hosts alone: a host has its place before a copy takes a URL, and instances of models take URLs.
    "fixed.hosts": ("http://d", "http://e", "http://f"),
}
TYPES = {
    "ml.local": InstanceType("ml.local", ProviderKind.LOCAL, image="img"),
    "gpu": InstanceType("gpu", ProviderKind.LOCAL, image="img", accelerators=2, memory_mb=4096),
    **{name: InstanceType(name, ProviderKind.STATIC, urls=urls) for name, urls in URLS.items()},
}
IMAGES = {
    "img": Image("img", startup_s_max=60.0),
    "never": Image("never", startup_s_max=10.0),
    "exits": Image("exits", startup_s_max=10.0),
}
REGION, ACCOUNT = "eu-west-1", "123456789012"
E = EndpointStatus


class Crash(BaseException):
    """The process is killed here: no ``except Exception`` of it runs any more."""


class Faults:
    """Where the next crash is, and whether the process is dead already."""

    def __init__(self, choice, trace):
        self.choice = choice
        self.trace = trace
        self.countdown = None
        self.dead = False
        self.troubles = 0.0
        """How likely a call fails without a crash."""

    def point(self, name):
        if self.dead:
            raise Crash(name)
        if self.countdown is not None:
            self.countdown -= 1
            if self.countdown < 0:
                self.countdown, self.dead = None, True
                self.trace.append(f"CRASH at {name}")
                raise Crash(name)

    def trouble(self, *errors):
        if self.troubles and self.choice.random() < self.troubles:
            raise self.choice.choice(errors)


class Status(msgspec.Struct):
    name: str
    status: str
    endpoint: str = ""
    last_policy: dict | None = None


class Instance(msgspec.Struct):
    endpoint: str
    state: str
    component: str = ""
    attempt: int = 1


def keeps_failing(record):
    """Return whether it is a copy without which its component stays in service.

    A model that nothing has tried out yet can be bad: on a server that is not ours, or on no copy at all.
    """
    return bool(record.component) and record.attempt > 3 and record.state in ("starting", "stopping")


class CrashingStore(MemoryStore):
    """Survives; what it commits is shown to the watch."""

    def __init__(self, faults, watch):
        super().__init__()
        self.faults = faults
        self.watch = watch

    @contextmanager
    def transaction(self):
        self.faults.point("the begin of a transaction")
        self.faults.trouble(StoreUnavailable("trouble"), StoreConflict("trouble"))
        with super().transaction() as transaction:
            yield transaction
            self.faults.point("a transaction, before its commit")
        self.watch.committed(self._content.resources, self._content.instances)
        self.faults.point("a transaction, after its commit")

    def content(self):
        """Return all that is kept, but for copies that fail and are tried again and again."""
        instances = {
            instance_id: document
            for instance_id, document in self._content.instances.items()
            if not keeps_failing(msgspec.json.decode(document, type=Instance))
        }
        return self._content.resources, instances

    def settled(self):
        """Return whether nothing changes by its status."""
        with self.look() as tables:
            endpoints = {endpoint.status for endpoint in tables.endpoints()}
            components = {component.status for component in tables.inference_components()}
        return not (endpoints & CHANGING or components & COMPONENT_CHANGING)

    @contextmanager
    def look(self):
        """Read as the test, which no fault reaches."""
        with super().transaction() as transaction:
            yield transaction


class Servers(MemoryProvider):
    """Survive; a static type has as many as it has URLs, and some models never come up."""

    def __init__(self, faults):
        super().__init__()
        self.faults = faults
        self.places = {}
        self.late = set()
        self.failing = False
        """Whatever is started ends at once."""
        self.under_way = []
        """Starts that go on although who ordered them is dead: they end some time later."""

    async def start(self, order):
        self.faults.point(f"the start of {order.instance_id}, before it")
        self.faults.trouble(OSError("trouble"), ProviderRefused("trouble"))
        await asyncio.sleep(0)
        try:
            self.faults.point(f"the start of {order.instance_id}, in it")
        except Crash:
            if self.faults.choice.random() < 0.5:
                self.under_way.append(order)
            raise
        await self._start(order)
        await asyncio.sleep(0)
        self.faults.point(f"the start of {order.instance_id}, after it")

    async def _start(self, order):
        if order.instance_id in self.instances:
            return
        urls = URLS.get(order.instance_type)
        if urls is not None:
            free = [url for url in urls if url not in self.places.values()]
            if not free:
                raise ProviderRefused("All URLs are in use.")
            self.places[order.instance_id] = free[0]
        await super().start(order)
        if order.image == "exits" or self.failing:
            self.exit(order.instance_id)
        if order.image == "never" or self.faults.choice.random() < 0.3:
            self.set_ready(False, order.instance_id)
            self.late.add(order.instance_id)

    async def list(self):
        self.faults.point("the list of instances")
        self.faults.trouble(OSError("trouble"))
        while self.under_way and self.faults.choice.random() < 0.3:
            with suppress(ProviderRefused):
                await self._start(self.under_way.pop())
        return await super().list()

    async def stop(self, instance_id, grace_s):
        self.faults.point(f"the stop of {instance_id}, before it")
        self.faults.trouble(OSError("trouble"))
        await asyncio.sleep(0)
        self.places.pop(instance_id, None)
        await super().stop(instance_id, grace_s)
        self.faults.point(f"the stop of {instance_id}, after it")

    def come_up(self):
        """Let those that took their time be ready, except what never will."""
        for instance_id in self.late & self.instances.keys():
            if self.instances[instance_id].order.image != "never":
                self.set_ready(True, instance_id)
        self.late.clear()


class Engines(MemoryAdapterLoader):
    """Survive; what they have loaded stays while who told them dies."""

    def __init__(self, faults):
        super().__init__()
        self.faults = faults

    async def load(self, fact, routes, *, name, path):
        return await self._tell(super().load(fact, routes, name=name, path=path), f"the load of {name}")

    async def unload(self, fact, routes, *, name):
        return await self._tell(super().unload(fact, routes, name=name), f"the unload of {name}")

    async def _tell(self, call, what):
        try:
            self.faults.point(f"{what}, before it")
            if self.faults.troubles and self.faults.choice.random() < self.faults.troubles:
                return AdapterAnswer(AdapterOutcome.UNCLEAR, "trouble")
            answer = await call
        finally:
            call.close()
        await asyncio.sleep(0)
        self.faults.point(f"{what}, after it")
        return answer


class Metrics:
    """Say that every metric has the same value, which the test sets."""

    def __init__(self):
        self.value = 0.0

    def points(self, query, *, period_s, count):
        return (self.value,) * count


class Routers:
    """Survive; acknowledge what they get when they are in the mood, and always in the end."""

    def __init__(self, faults, watch):
        self.faults = faults
        self.watch = watch
        self.moody = True
        self.newest = None

    async def publish(self, fleet, wait_s):
        self.faults.point("the publication of a fleet")
        if self.newest is None or fleet.version != self.newest.version:
            self.watch.published(fleet, self.newest)
            self.newest = fleet
        else:
            assert fleet == self.newest, "one version, two fleets"
        return not self.moody or self.faults.choice.random() < 0.8

    def open_leases(self, target_id, generation):
        return int(self.moody and self.faults.choice.random() < 0.3)

    def adapter_use(self, target_id, generation, adapter):
        return int(self.moody and self.faults.choice.random() < 0.3), 0

    def take_adapter_wants(self):
        """Want an adapter in one more place, now and then."""
        if not self.moody or self.newest is None or self.faults.choice.random() < 0.7:
            return ()
        return tuple(
            AdapterWanted(endpoint.name, component.base, component.name, 0)
            for endpoint in self.newest.endpoints
            for variant in endpoint.variants
            for component in variant.components
            if component.base
        )

    def router_count(self):
        return 1

    def version_floor(self):
        return 0


class Watch:
    """Holds everything that is committed or published to the rules."""

    def __init__(self, trace):
        self.trace = trace
        self.statuses = {}
        self.serving = {}
        """Endpoints that have been in service, and in how many published fleets."""
        self.disturbed = set()
        """Endpoints that lost a server by itself: for them a fleet may be empty for a while."""
        self.moves = set()
        self.before_update = {}
        self.kept = 0
        """Instances that served before an update that failed, and after."""

    def committed(self, resources, instances):
        now = {}
        for (kind, name), document in resources.items():
            if kind in (Kind.ENDPOINT, Kind.INFERENCE_COMPONENT):
                now[kind, name] = document
        for key in self.statuses.keys() | now.keys():
            before = self.statuses.get(key)
            if before is not None and before[0] is now.get(key):
                continue
            after = msgspec.json.decode(now[key], type=Status) if key in now else None
            self._moved(key, before[1] if before is not None else None, after, now)
            if key[0] is Kind.ENDPOINT and after is not None:
                self._rolled_back(before[1].status if before is not None else None, after, instances)
            if after is None:
                del self.statuses[key]
            else:
                self.statuses[key] = (now[key], after)

    def _moved(self, key, before, after, now):
        kind, name = key
        old = before.status if before is not None else None
        new = after.status if after is not None else None
        if old == new:
            return
        self.trace.append(f"{name}: {old} -> {new}")
        self.moves.add((str(kind), old, new))
        if kind is Kind.ENDPOINT:
            if old is None:
                assert new == E.CREATING, f"{name} begins as {new}"
            elif new is None:
                assert old == E.DELETING, f"{name} is removed while {old}"
                self.serving.pop(name, None)
                self.disturbed.discard(name)
            else:
                assert E(new) in MOVES[E(old)], f"endpoint {name}: {old} -> {new}"
        elif old is None:
            assert new == ComponentStatus.CREATING, f"{name} begins as {new}"
        elif new is None:
            endpoint_is_gone = (Kind.ENDPOINT, before.endpoint) not in now
            assert old == ComponentStatus.DELETING or endpoint_is_gone, f"{name} is removed while {old}"
        else:
            moves = COMPONENT_MOVES[ComponentStatus(old)]
            assert ComponentStatus(new) in moves, f"component {name}: {old} -> {new}"

    def _rolled_back(self, old, endpoint, instances):
        """What served before an update that failed serves after it, the very same instances."""
        name, new = endpoint.name, endpoint.status
        if new == E.UPDATING and old != E.UPDATING:
            rolling = (endpoint.last_policy or {}).get("RollingUpdatePolicy")
            self.before_update[name] = set() if rolling else serving_of(name, instances)
        elif (old, new) == (E.ROLLING_BACK, E.IN_SERVICE) and name not in self.disturbed:
            lost = self.before_update[name] - serving_of(name, instances)
            assert not lost, f"{name} is rolled back and has lost {lost}"
            self.kept += len(self.before_update[name])

    def published(self, fleet, last):
        assert last is None or fleet.version > last.version, (fleet.version, last.version)
        for endpoint in fleet.endpoints:
            status = self.statuses[Kind.ENDPOINT, endpoint.name][1].status
            if status in (E.IN_SERVICE, E.UPDATE_ROLLBACK_FAILED):
                self.serving[endpoint.name] = self.serving.get(endpoint.name, 0) + 1
            if endpoint.name not in self.serving or status == E.DELETING:
                continue
            assert endpoint.in_service, f"{endpoint.name} is {status} and does not serve"
            if endpoint.name in self.disturbed or endpoint.carries_components:
                continue
            for name in {variant.name for variant in endpoint.variants if variant.weight > 0}:
                revisions = [one for one in endpoint.variants if one.name == name and one.weight > 0]
                states = [target.state for one in revisions for target in one.targets]
                assert TargetState.IN_SERVICE in states, (
                    f"{endpoint.name} is {status}, and nothing serves {name} in fleet {fleet.version}: "
                    f"{revisions}"
                )


def serving_of(endpoint, instances):
    """Return the instances of an endpoint in service, copies left out, by id."""
    found = set()
    for instance_id, document in instances.items():
        record = msgspec.json.decode(document, type=Instance)
        if record.endpoint == endpoint and record.state == "in_service" and not record.component:
            found.add(instance_id)
    return found


class HandClock:
    def __init__(self):
        self.now_s = 1_790_000_000.0

    def wall_s(self):
        return self.now_s


class Plane:
    """What survives, and one control process at a time over it."""

    def __init__(self, schema, scaling_schema, choice):
        self.schema = schema
        self.scaling_schema = scaling_schema
        self.choice = choice
        self.trace = []
        self.faults = Faults(choice, self.trace)
        self.watch = Watch(self.trace)
        self.store = CrashingStore(self.faults, self.watch)
        self.provider = Servers(self.faults)
        self.routers = Routers(self.faults, self.watch)
        self.engines = Engines(self.faults)
        self.metrics = Metrics()
        self.alarm = AlarmState.OK
        self.clock = HandClock()
        self.ids = 0
        self.crashes = 0
        self.carried_out = set()
        self.tasks = Tasks()
        self.start()

    def new_id(self):
        self.ids += 1
        return f"i-{self.ids}"

    def start(self):
        """Make a control process over what survived."""
        self.tasks = Tasks()
        rules = Rules(instance_types=TYPES, images=IMAGES)
        place = Place(REGION, ACCOUNT)
        providers = {ProviderKind.LOCAL: self.provider, ProviderKind.STATIC: self.provider}
        self.reconciler = Reconciler(
            store=self.store,
            provider=ProviderByType(providers=providers, instance_types=TYPES),
            probe=self.provider,
            routers=self.routers,
            tasks=self.tasks,
            clock=self.clock,
            rules=rules,
            identity=Identity(REGION, ACCOUNT),
            new_id=self.new_id,
            alarms=lambda: {"alarm": self.alarm},
            adapters=AdapterKeeper(
                calls=AdapterCalls(
                    loader=self.engines,
                    shelf=MemoryShelf(),
                    tasks=self.tasks,
                    clock=self.clock,
                    on_news=lambda: None,
                ),
                routers=self.routers,
                clock=self.clock,
                rules=rules,
            ),
        )

        async def get_schema():
            return self.schema

        async def get_scaling_schema():
            return self.scaling_schema

        self.service = ControlService(
            store=self.store,
            reconciler=self.reconciler,
            schema=get_schema,
            place=place,
            instance_types=TYPES,
            clock=self.clock,
            describe_hold_s=0,
            alarms=("alarm",),
        )
        self.scaling = ScalingService(
            store=self.store,
            schema=get_scaling_schema,
            place=place,
            clock=self.clock,
            calls=self.service.calls,
            new_id=self.new_id,
        )
        self.autoscaler = Autoscaler(
            store=self.store,
            invoke=self.service.invoke,
            source=self.metrics,
            book=AlarmBook(),
            clock=self.clock,
            place=place,
            new_id=self.new_id,
        )

    async def kill(self):
        """End the process as SIGKILL does: what it was about to do is not done."""
        self.faults.dead = True
        await asyncio.sleep(0)  # what was just spawned begins, and ends at its first point
        await self.tasks.cancel_all()
        self.crashes += 1
        self.faults.dead, self.faults.countdown = False, None

    async def alive(self, work):
        """Await ``work``; when the process dies in it, start another one and return None."""
        result = None
        try:
            result = await work
            await self.rest()
        except Crash:
            assert self.faults.dead
        if self.faults.dead:
            await self.kill()
            self.start()
        return result

    async def rest(self):
        """Let every task that started come to its end."""
        while len(self.tasks) and not self.faults.dead:  # noqa: ASYNC110  (tasks that start tasks)
            await asyncio.sleep(0)

    async def step(self, seconds):
        """Reconcile once, and let time pass."""
        self.clock.now_s += seconds
        try:
            return await self.reconciler.step()
        except (StoreUnavailable, OSError):
            return False  # as ``run`` takes it

    async def scale(self):
        """Let the autoscaler look once."""
        with suppress(StoreUnavailable):
            await self.autoscaler.step()

    def quieten(self):
        """End all trouble."""
        self.alarm = AlarmState.OK
        self.provider.failing = False
        self.faults.troubles = 0.0
        self.faults.countdown = None
        self.routers.moody = False
        self.provider.come_up()

    def change_luck(self):
        """Let starts fail from now on, or succeed again."""
        self.provider.failing = not self.provider.failing
        self.trace.append(f"starts {'fail' if self.provider.failing else 'succeed'} now")

    def disturb(self):
        """Let a server end by itself, or be sick for a while."""
        running = sorted(self.provider.instances)
        if not running:
            return
        instance_id = self.choice.choice(running)
        instance = self.provider.instances[instance_id]
        self.watch.disturbed.add(instance.order.endpoint)
        if self.choice.random() < 0.5 and instance.order.instance_type not in URLS:
            self.trace.append(f"{instance_id} exits")
            self.provider.exit(instance_id)
        else:
            self.trace.append(f"{instance_id} is sick")
            self.provider.set_ready(False, instance_id)
            self.provider.late.add(instance_id)
