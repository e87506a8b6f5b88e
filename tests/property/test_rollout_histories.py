"""Random histories of deployments: whatever fails and whenever, somebody serves and it comes to an end.

The planner alone, in virtual time: servers come up, exit and fall ill, alarms trip, routers are slow to
acknowledge, control restarts, and updates follow one another.
"""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies import percent
from tests.unit.resources.planned import EXITED, READY, SICK, Life
from warmroute.resources.deployments.rollout import begin, shown, wanted
from warmroute.resources.lifecycle import MOVES, EndpointStatus
from warmroute.resources.metrics.alarms import AlarmState
from warmroute.resources.records import Deployment, InstanceState, Launch, VariantRecord

S = EndpointStatus
BUSY = replace(READY, open_leases=1)
RESTING = (S.IN_SERVICE, S.UPDATE_ROLLBACK_FAILED, S.FAILED)
ALARMS = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "high"}]}}


def blue_green(kind, size, bake, termination):
    routing = {"Type": kind, "WaitIntervalInSeconds": bake}
    if kind != "ALL_AT_ONCE":
        routing["CanarySize" if kind == "CANARY" else "LinearStepSize"] = size
    policy = {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": termination}
    return {"BlueGreenUpdatePolicy": policy}


def rolling(size, bake, back):
    policy = {"MaximumBatchSize": size, "WaitIntervalInSeconds": bake}
    return {"RollingUpdatePolicy": policy | ({"RollbackMaximumBatchSize": back} if back else {})}


bakes = st.integers(0, 5)
sizes = st.integers(10, 50).map(percent)
policies = st.one_of(
    st.none(),
    st.builds(blue_green, st.sampled_from(["ALL_AT_ONCE", "CANARY", "LINEAR"]), sizes, bakes, bakes),
    st.builds(rolling, sizes, bakes, st.one_of(st.none(), sizes)),
).flatmap(lambda policy: st.sampled_from([policy, policy and policy | ALARMS]))
counts = st.integers(1, 6)
HAPPENINGS = ("wait", "wait", "next", "next", "next") + (
    "exit", "sicken", "alarm", "quiet", "deaf", "hear", "broken", "mend", "busy", "idle", "doom",
)  # fmt: skip
events = st.lists(
    st.tuples(
        st.sampled_from(HAPPENINGS),
        st.sampled_from(["old", "new"]),
        st.integers(0, 11),
    ),
    min_size=4,
    max_size=40,
)


class World_(Life):
    """An endpoint, its servers and everything that may happen to them."""

    def __init__(self, instances):
        super().__init__(self.variant(1, instances))
        self.broken = set()

    @staticmethod
    def variant(revision, instances):
        return VariantRecord("v", revision, Launch("local", f"m{revision}"), instances)

    def server_of(self, record):
        return EXITED if record.revision in self.broken else self.default

    def step(self, seconds=1.0):
        before = self.endpoint
        super().step(seconds=seconds)
        self.check(before)

    def check(self, before):
        after = self.endpoint
        path = {before.status} | MOVES[before.status]
        for status in tuple(path):  # one plan may make two moves
            path |= MOVES[status]
        assert after.status in path
        assert {r.instance_id for r in self.instances} >= set(self.servers), "no server is forgotten"
        assert (after.rollout is None) or (after.status in (S.UPDATING, S.ROLLING_BACK))
        if after.active is None:
            return
        found = shown(after, self.serving)
        assert abs(sum(one.share for one in found) - 1.0) < 1e-9
        assert all(0 <= one.share <= 1 for one in found)
        assert all(one.variant.group in wanted(after) for one in found if one.share > 0)

    @property
    def serving(self):
        return Counter(r.group for r in self.instances if r.state is InstanceState.IN_SERVICE)

    def update(self, revision, instances, policy):
        pending = Deployment(f"c{revision}", (self.variant(revision, instances),), self.now_s, policy=policy)
        endpoint = replace(
            self.endpoint, status=S.UPDATING, pending=pending, awaits=None, failure_reason=None
        )
        self.endpoint = replace(endpoint, rollout=begin(endpoint, pending, self.now_s))

    def happen(self, what, whose, number):
        deployment = self.endpoint.active if whose == "old" else self.endpoint.pending
        if deployment is None:
            deployment = self.endpoint.active or self.endpoint.pending
        revision = deployment.variants[0].revision
        ids = [r.instance_id for r in self.instances if r.revision == revision]
        up = [instance_id for instance_id in ids if instance_id in self.servers]
        match what:
            case "exit" | "sicken" if up:
                self.servers[up[number % len(up)]] = EXITED if what == "exit" else SICK
            case "alarm":
                self.alarms = {"high": AlarmState.ALARM}
            case "quiet":
                self.alarms = {}
            case "deaf" | "hear":
                self.acks = what == "hear"
            case "broken":
                self.broken.add(revision)
            case "mend":
                self.broken.discard(revision)
            case "busy" | "idle":
                self.default = BUSY if what == "busy" else READY
            case "next":
                self.to_the_next_step()
            case "doom" if self.endpoint.status is S.UPDATING:
                self.to_the_next_step()
                self.broken.add(self.endpoint.active.variants[0].revision)
                self.alarms = {"high": AlarmState.ALARM}
                for _ in range(12):
                    self.step()
        self.step(0.1 if what == "wait" and number < 4 else 1.0)

    def to_the_next_step(self):
        at = self.endpoint.rollout and self.endpoint.rollout.step
        for _ in range(12):
            if (self.endpoint.rollout and self.endpoint.rollout.step) != at:
                return
            self.step()

    def calm(self):
        """Let everything that is wrong come right."""
        self.acks, self.broken, self.alarms, self.default = True, set(), {}, READY
        self.servers = {key: READY if one.running else one for key, one in self.servers.items()}

    def settle(self):
        for _ in range(400):
            if self.endpoint.status in RESTING and not any(r.drain_version for r in self.instances):
                return
            self.step()
        raise AssertionError(f"never at rest: {self.endpoint}")


@settings(max_examples=150, deadline=None)
@given(first=counts, updates=st.lists(st.tuples(counts, policies, events), min_size=1, max_size=3))
def test_whatever_happens_a_deployment_ends_and_leaves_what_its_status_says(first, updates):
    world = World_(first)
    world.settle()
    for revision, (instances, policy, happenings) in enumerate(updates, start=2):
        if world.endpoint.status is S.FAILED:
            return
        old = world.endpoint.active
        world.update(revision, instances, policy)
        for happening in happenings:
            world.happen(*happening)
        world.calm()
        world.settle()
        for _ in range(12):  # the longest pause before a failing instance is started again is a minute
            world.step(10.0)
        status, active = world.endpoint.status, world.endpoint.active
        assert active.config_name in (old.config_name, f"c{revision}")
        assert world.endpoint.pending is None
        if status is S.IN_SERVICE:
            (variant,) = active.variants
            assert world.serving == {variant.group: variant.count}
            assert len(world.servers) == variant.count, "nothing is left behind"
        else:
            assert {variant.group: variant.count for variant in world.endpoint.mixed} == world.serving


@settings(max_examples=100, deadline=None)
@given(first=counts, instances=counts, policy=policies)
def test_while_nothing_fails_no_instance_gets_more_than_it_is_used_to(first, instances, policy):
    """Old instances never have a greater share each than before, new ones never a greater one than after."""
    world = World_(first)
    world.settle()
    world.update(2, instances, policy)
    while world.endpoint.status is S.UPDATING:
        world.step(0.5)
        for one in shown(world.endpoint, world.serving):
            there = world.serving[one.variant.group]
            assert one.share <= there / one.variant.count + 1e-9
    assert world.endpoint.active.config_name == "c2"
