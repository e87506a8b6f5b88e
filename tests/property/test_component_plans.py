"""Random lives of endpoints with inference components: what holds after every plan, and where they end."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.resources.carrying import RULES, C, Life, S, State, carrier, component, specification
from tests.unit.resources.planned import EXITED, LOADING, READY
from warmroute.resources.components.placement import host_of, place
from warmroute.resources.components.rollout import rollout_of
from warmroute.resources.lifecycle import COMPONENT_CHANGING
from warmroute.resources.records import HostScaling

NAMES = ("a", "b", "c")
TYPES = ("gpus", "big", "fixed")
SCALINGS = (
    None,
    HostScaling(0, 3),
    HostScaling(1, 4, cooldown_s=300.0, step_max=2),
    HostScaling(0, 4, consolidate=True, cooldown_s=300.0, step_max=2),
)

names = st.sampled_from(NAMES)
counts = st.integers(0, 4)
operations = st.one_of(
    st.tuples(st.just("create"), names, counts, st.integers(0, 3), st.booleans()),
    st.tuples(st.just("scale"), names, counts),
    st.tuples(st.just("update"), names, st.integers(0, 3), st.sampled_from(["img", "bad"])),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("exit"), st.integers(0, 9)),
    st.tuples(st.just("sick"), st.integers(0, 9)),
    st.tuples(st.just("hosts"), st.integers(0, 4)),
    st.tuples(st.just("acks"), st.booleans()),
    st.tuples(st.just("time"), st.sampled_from([0.5, 5.0, 70.0, 400.0])),
)


class Story(Life):
    """A life whose callers do what the operations allow, and whose servers are good, bad or sick."""

    heals = False
    """Sick servers get well."""

    def act(self, operation):
        verb, *rest = operation
        getattr(self, f"_{verb}")(*rest)

    def _create(self, name, count, devices, binpack):
        if name not in self.components:
            wanted = specification(1, devices=devices, binpack=binpack, started_s=self.now_s)
            self.put(component(name, count, wanted, created_s=self.now_s, modified_s=self.now_s))

    def _settled(self, name):
        found = self.components.get(name)
        return found if found is not None and found.status not in COMPONENT_CHANGING else None

    def _scale(self, name, count):
        if self._settled(name) is not None:
            self.change(name, count=count, status=C.UPDATING, failure_reason=None, rollout=None, awaits=None)

    def _update(self, name, devices, image):
        found = self._settled(name)
        if found is None:
            return
        used = [copy.revision for copy in self.copies(name=name)]
        used += [one.revision for one in (found.active, found.pending) if one is not None]
        wanted = specification(max(used) + 1, devices=devices, started_s=self.now_s, image=image)
        rollout = rollout_of(None, found.count) if found.active is not None else None
        self.change(
            name, status=C.UPDATING, pending=wanted, rollout=rollout, failure_reason=None, awaits=None
        )

    def _delete(self, name):
        if self._settled(name) is not None:
            self.change(name, status=C.DELETING, awaits=None, rollout=None)

    def _exit(self, index):
        self._make(index, EXITED)

    def _sick(self, index):
        self._make(index, replace(LOADING, failures=5))

    def _make(self, index, observed):
        if self.servers:
            chosen = sorted(self.servers)[index % len(self.servers)]
            self.servers[chosen] = observed

    def _hosts(self, count):
        endpoint = self.endpoint
        if endpoint.status is S.IN_SERVICE:
            (variant,) = endpoint.active.variants
            wanted = replace(endpoint.active, variants=(replace(variant, count=count),), started_s=self.now_s)
            self.endpoint = replace(endpoint, status=S.UPDATING, pending=wanted, modified_s=self.now_s)

    def _acks(self, acks):
        self.acks = acks

    def _time(self, seconds):
        self.now_s += seconds

    def serve(self):
        """Let every server be what its image makes of it."""
        by_id = {record.instance_id: record for record in self.instances}
        for instance_id, observed in self.servers.items():
            record = by_id.get(instance_id)
            sick = observed.running and observed.failures > 1
            if record is not None and (observed in (READY, LOADING) or (sick and self.heals)):
                self.servers[instance_id] = EXITED if record.launch.image == "bad" else READY

    def has_room(self, record):
        """Whether one more copy of a component fits on a host that may take it."""
        hosts = [
            host_of(
                host.instance_id,
                RULES.instance_types[host.launch.instance_type],
                host.devices,
                [copy for copy in self.instances if copy.host == host.instance_id],
            )
            for host in self.hosts(State.IN_SERVICE)
        ]
        return place(record.specification, record.name, hosts) is not None

    def check(self):
        hosts = {host.instance_id: host for host in self.hosts()}
        replaced = {record.replaces for record in self.instances}
        holding = [r for r in self.instances if r.component and r.instance_id not in replaced]
        used = Counter(device for copy in holding for device in copy.devices)
        assert not [device for device, times in used.items() if times > 1], "a device was given out twice"
        for copy in holding:
            assert copy.host in hosts, "a copy is on no host"
            assert set(copy.devices) <= set(hosts[copy.host].devices)
        on_static = Counter(c.host for c in holding if hosts[c.host].launch.instance_type == "fixed")
        assert all(times == 1 for times in on_static.values()), "a static slot carries two copies"
        by_type = Counter(h.launch.instance_type for h in hosts.values() if h.state is not State.STARTING)
        assert by_type["gpus"] <= 4
        assert by_type["big"] <= 1
        assert by_type["fixed"] <= 2
        known = {record.instance_id for record in self.instances}
        assert set(self.servers) <= known, "a server runs that no record knows of"


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(TYPES),
    st.integers(0, 2),
    st.sampled_from(SCALINGS),
    st.lists(operations, max_size=30),
)
def test_every_life_keeps_its_invariants_and_ends_settled(type_, count, scaling, acts):
    story = Story(variant=carrier(count, types=(type_,), scaling=scaling), default=LOADING, rules=RULES)
    for operation in [*acts, ("acks", True)]:
        story.act(operation)
        for _ in range(2):
            story.step(seconds=0.5)
            story.serve()
            story.check()
    story.heals = True
    for _ in range(150):
        story.step(seconds=5.0)
        story.serve()
        story.check()
    assert story.endpoint.status is not S.CREATING
    for record in story.components.values():
        assert record.status in (C.IN_SERVICE, C.FAILED), record
        if record.status is C.FAILED:
            assert story.copies(name=record.name) == []
            assert record.failure_reason
        elif story.endpoint.status is S.IN_SERVICE and record.specification.copies[0].launch.image != "bad":
            serving = story.copies(State.IN_SERVICE, name=record.name)
            assert len(serving) <= record.count
            assert len(serving) == record.count or not story.has_room(record), "room, and a copy is missing"
    assert set(story.servers) <= {record.instance_id for record in story.instances if record.component}
