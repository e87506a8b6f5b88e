"""An endpoint that carries components, planned again and again in a world that does what it is told."""

from dataclasses import replace

from tests.unit.resources import planned
from warmroute.core.machines import Image, InstanceType, ProviderKind
from warmroute.resources.components.hosts import slots_of
from warmroute.resources.components.planner import plan_endpoint, stamp_component
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.records import (
    ComponentSpecification,
    CopyNeeds,
    CopySpecification,
    HostScaling,
    InferenceComponentRecord,
    InstanceState,
    Launch,
    VariantRecord,
)
from warmroute.resources.world import Rules

RULES = Rules(
    instance_types={
        "gpus": InstanceType("gpus", ProviderKind.LOCAL, image="img", accelerators=2, instances_max=4),
        "big": InstanceType("big", ProviderKind.LOCAL, image="img", accelerators=8, instances_max=1),
        "fixed": InstanceType("fixed", ProviderKind.STATIC, urls=("http://a", "http://b")),
    },
    images={"img": Image("img", startup_s_max=100.0)},
)
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


class Life(planned.Life):
    """The endpoint, its components, its hosts and copies, and the servers behind the copies."""

    def __init__(self, *components, variant=None, default=planned.READY, rules=RULES):
        super().__init__(variant or carrier(), default=default, rules=rules)
        self.components = {one.name: one for one in components}
        self.others = ()

    def new_id(self):
        return f"i-{next(self.ids):02}"

    def make_plan(self):
        slots = slots_of(self.rules.instance_types, (*self.others, *self.instances))
        made = plan_endpoint(
            self.endpoint,
            self.instances,
            tuple(self.components.values()),
            self.world(slots=slots),
            self.rules,
        )
        self.components = {one.name: stamp_component(one, self.version + 1) for one in made.components}
        return made

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
