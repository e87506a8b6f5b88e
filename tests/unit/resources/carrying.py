"""An endpoint that carries components, planned again and again in a world that does what it is told."""

from dataclasses import replace
from itertools import count

from warmroute.core.machines import Image, InstanceType, ProviderKind
from warmroute.resources.components.hosts import slots_of
from warmroute.resources.components.planner import plan_endpoint, stamp_component
from warmroute.resources.instances import Observed
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.planner import Rules, World, stamp
from warmroute.resources.records import (
    ComponentSpecification,
    CopyNeeds,
    CopySpecification,
    Deployment,
    EndpointRecord,
    HostScaling,
    InferenceComponentRecord,
    InstanceState,
    Launch,
    VariantRecord,
)

RULES = Rules(
    instance_types={
        "gpus": InstanceType("gpus", ProviderKind.LOCAL, image="img", accelerators=2, instances_max=4),
        "big": InstanceType("big", ProviderKind.LOCAL, image="img", accelerators=8, instances_max=1),
        "fixed": InstanceType("fixed", ProviderKind.STATIC, urls=("http://a", "http://b")),
    },
    images={"img": Image("img", startup_s_max=100.0)},
)
READY = Observed(running=True, probes=1, ready=True, open_leases=0)
LOADING = Observed(running=True, probes=1, failures=1, detail="503")
EXITED = Observed(running=False, detail="It ended.")
C, S, State = ComponentStatus, EndpointStatus, InstanceState


def specification(revision=1, devices=1, binpack=False, instance_type="", started_s=0.0, image="img"):
    copy = CopySpecification(
        Launch("", "m", image), CopyNeeds(128, accelerators=devices), instance_type, binpack=binpack
    )
    return ComponentSpecification(revision, {"Specification": {}}, started_s, (copy,))


def component(name="ic", count=1, pending=None, **changes):
    values = {"endpoint": "ep", "variant": "v", "status": C.CREATING, "created_s": 0.0, "modified_s": 0.0}
    values |= {"pending": pending or specification(), "count": count}
    return InferenceComponentRecord(name=name, arn=f"arn:{name}", **values | changes)


def carrier(count=2, types=("gpus",), revision=1, scaling=None, **changes):
    pools = tuple(Launch(name, "") for name in types)
    return VariantRecord(
        name="v", revision=revision, launch=pools[0], count=count, carries_copies=True, scaling=scaling,
        pools=pools if len(pools) > 1 else (), **changes,
    )  # fmt: skip


class Life:
    """The endpoint, its components, its hosts and copies, and the servers behind the copies."""

    def __init__(self, *components, variant=None, default=READY, rules=RULES):
        self.rules = rules
        deployment = Deployment("c", (variant or carrier(),), 0.0)
        self.endpoint = EndpointRecord("ep", "arn", S.CREATING, 0.0, 0.0, pending=deployment)
        self.components = {one.name: one for one in components}
        self.instances = ()
        self.servers = {}
        self.default = default
        self.refused = {}
        self.alarms = {}
        self.others = ()
        self.busy = frozenset()
        self.now_s = 0.0
        self.version = self.acked = 0
        self.acks = True
        self.ids = count(1)
        self.started = []

    def plan(self):
        world = World(
            observed=dict(self.servers),
            refused=self.refused,
            busy=self.busy,
            now_s=self.now_s,
            acked_version=self.acked,
            since_s=0.0,
            new_id=lambda: f"i-{next(self.ids):02}",
            alarms=self.alarms,
            slots=slots_of(self.rules.instance_types, (*self.others, *self.instances)),
        )
        made = plan_endpoint(
            self.endpoint, self.instances, tuple(self.components.values()), world, self.rules
        )
        self.version += 1
        self.components = {one.name: stamp_component(one, self.version) for one in made.components}
        if made.endpoint is None:
            self.endpoint, self.instances = None, ()
            return made
        self.endpoint, self.instances = stamp(made.endpoint, made.instances, self.version)
        if self.acks:
            self.acked = self.version
        return made

    def step(self, steps=1, seconds=0.0):
        """Plan, and do what was planned."""
        for _ in range(steps):
            self.now_s += seconds
            if self.endpoint is None:
                return
            made = self.plan()
            for record in made.start:
                self.started.append(record.instance_id)
                self.servers[record.instance_id] = self.default
            for instance_id in made.stop:
                self.servers.pop(instance_id, None)

    def settle(self):
        self.step(12, seconds=1.0)

    def put(self, *components):
        self.components |= {one.name: one for one in components}

    def change(self, name="ic", **changes):
        self.components[name] = replace(self.components[name], **changes)

    def __getitem__(self, name):
        return self.components[name]

    def copies(self, *states, name="ic"):
        return [r for r in self.instances if r.component == name and (not states or r.state in states)]

    def hosts(self, *states):
        return [r for r in self.instances if r.carries_copies and (not states or r.state in states)]

    @property
    def count(self):
        """Of hosts wanted."""
        return self.endpoint.active.variants[0].count

    def rescale(self, **changes):
        (variant,) = self.endpoint.active.variants
        changed = replace(variant, scaling=HostScaling(**changes))
        self.endpoint = replace(self.endpoint, active=replace(self.endpoint.active, variants=(changed,)))
