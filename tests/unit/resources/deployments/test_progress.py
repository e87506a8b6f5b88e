"""Deployments in steps with their instances, one plan at a time. Their steps alone: test_rollout.py."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.policies import blue_green, instances, percent, rolling
from tests.unit.resources import planned
from tests.unit.resources.planned import EXITED, READY, SICK
from warmroute.resources.deployments.rollout import begin, shown
from warmroute.resources.instances import Observed
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.metrics.alarms import AlarmState
from warmroute.resources.records import Deployment, InstanceState, Launch, RolloutPhase, VariantRecord

S, State, P = EndpointStatus, InstanceState, RolloutPhase
BUSY = replace(READY, open_leases=3)


def variant(instances=4, revision=1, name="v", type_="local", **changes):
    return VariantRecord(name, revision, Launch(type_, f"m{revision}"), instances, **changes)


CANARY = blue_green("CANARY", bake=10, CanarySize=percent(10), termination=20)
LINEAR = blue_green("LINEAR", bake=10, LinearStepSize=percent(50))
ROLLING = rolling(instances(1), bake=10)
POLICIES = {"all at once": blue_green(bake=10), "canary": CANARY, "linear": LINEAR, "rolling": ROLLING}
ALARM = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "high"}]}}


class Life(planned.Life):
    """An endpoint in service with one variant, its instances and their servers."""

    def __init__(self, *variants):
        super().__init__(*(variants or (variant(),)))
        self.next_server = lambda _record: READY
        self.least = 99
        self.step(4)
        assert self.endpoint.status is S.IN_SERVICE

    def server_of(self, record):
        return self.next_server(record)

    def step(self, steps=1, seconds=0.0):
        for _ in range(steps):
            super().step(seconds=seconds)
            if self.endpoint is not None:
                self.least = min(self.least, sum(self.serving.values()))
        return self

    def update(self, policy, *variants):
        pending = Deployment("c2", variants or (variant(revision=2),), self.now_s, policy=policy)
        endpoint = replace(self.endpoint, status=S.UPDATING, pending=pending)
        self.endpoint = replace(endpoint, rollout=begin(endpoint, pending, self.now_s))
        self.least = 99
        return self

    def until(self, condition, *, seconds=1.0, steps=300):
        for _ in range(steps):
            if condition():
                return self
            self.step(seconds=seconds)
        raise AssertionError(f"never: {self.endpoint}")

    def until_phase(self, step, phase):
        return self.until(
            lambda: (
                self.endpoint.rollout is not None
                and (self.endpoint.rollout.step, self.endpoint.rollout.phase) == (step, phase)
            )
        )

    def until_status(self, status):
        return self.until(lambda: self.endpoint is not None and self.endpoint.status is status)

    @property
    def serving(self):
        return Counter(r.group for r in self.instances if r.state is State.IN_SERVICE)

    @property
    def shares(self):
        found = shown(self.endpoint, self.serving)
        return {one.variant.revision: pytest.approx(one.share) for one in found}

    def of(self, revision, state=State.IN_SERVICE):
        return [r.instance_id for r in self.instances if r.revision == revision and r.state is state]

    def fail(self, revision, how=EXITED, number=1):
        for instance_id in self.of(revision)[:number]:
            self.servers[instance_id] = how
        return self


# --- forward ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_kind_ends_with_the_new_instances_alone(policy):
    life = Life().update(policy).until_status(S.IN_SERVICE)
    assert (life.endpoint.active.config_name, life.endpoint.pending, life.endpoint.rollout) == (
        "c2",
        None,
        None,
    )
    life.step(4)
    assert life.serving == {("v", 2): 4}
    assert life.shares == {2: 1.0}
    assert len(life.servers) == 4


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_there_are_never_fewer_instances_than_before(policy):
    assert Life().update(policy).until_status(S.IN_SERVICE).least >= 4


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_an_update_takes_as_long_as_its_bakes(policy):
    bakes = {"all at once": 10, "canary": 20 + 20, "linear": 20, "rolling": 40}
    expected = bakes[next(name for name, each in POLICIES.items() if each is policy)]
    life = Life()
    began_s = life.now_s
    life.update(policy).until(lambda: life.endpoint.status is S.IN_SERVICE, seconds=0.1, steps=900)
    assert expected <= life.now_s - began_s <= expected + 5


def test_a_rolling_update_goes_batch_by_batch():
    life = Life().update(ROLLING)
    for step in range(4):
        life.until_phase(step, P.BAKING)
        assert life.shares == {1: 0.75 - step / 4, 2: (step + 1) / 4}
        assert life.serving == Counter({("v", 1): 4 - step, ("v", 2): step + 1})


def test_a_restart_between_any_two_steps_goes_on_where_it_was():
    """Nothing is kept but the records: a new process makes the same plans."""
    life = Life().update(CANARY).until_phase(0, P.BAKING)
    baked_since_s = life.endpoint.rollout.since_s
    life.version += 100
    life.acked = 0
    life.acks = False
    life.step(3, seconds=20.0)
    assert life.endpoint.rollout.step == 1
    assert life.endpoint.rollout.since_s > baked_since_s
    life.acks = True
    life.until_status(S.IN_SERVICE)


def test_a_share_is_not_baked_before_routers_know_it():
    life = Life().update(CANARY)
    life.acks = False
    life.step(100, seconds=1.0)
    assert life.endpoint.rollout.phase is P.SHIFTING


def test_old_instances_stay_out_of_traffic_until_the_termination_wait_is_over():
    life = Life().update(CANARY).until_phase(1, P.TERMINATING)
    assert life.endpoint.status is S.UPDATING
    assert life.serving == {("v", 1): 4, ("v", 2): 4}
    assert life.shares == {1: 0.0, 2: 1.0}


def test_new_instances_are_drained_when_they_served():
    life = Life().update(CANARY | ALARM).until_phase(0, P.BAKING)
    assert all(record.served for record in life.instances)
    life.servers = dict.fromkeys(life.servers, BUSY)
    life.alarms = {"high": AlarmState.ALARM}
    life.step()
    assert len(life.of(2, State.DRAINING)) == 4
    life.until_status(S.IN_SERVICE)
    assert len(life.of(2, State.DRAINING)) == 4


# --- back ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_instances_that_never_start_leave_the_old_ones_as_they_are(policy):
    life = Life()
    life.next_server = lambda record: EXITED if record.revision == 2 else READY
    life.update(policy).until_status(S.ROLLING_BACK).until_status(S.IN_SERVICE)
    assert life.endpoint.active.config_name == "c"
    assert "did not pass the ping health check. It ended." in life.endpoint.failure_reason
    assert life.shares == {1: 1.0}
    assert (life.serving, life.least) == ({("v", 1): 4}, 4)


@pytest.mark.parametrize("how", [EXITED, SICK])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_new_instance_that_fails_with_traffic_on_it_turns_the_deployment_back(policy, how):
    life = Life().update(policy).until_phase(0, P.BAKING).fail(2, how).step()
    assert life.endpoint.status is S.ROLLING_BACK
    assert life.shares == {1: 1.0}
    life.until_status(S.IN_SERVICE)
    assert life.endpoint.active.config_name == "c"
    assert life.least >= 4


def test_a_new_server_of_others_that_stops_answering_turns_it_back():
    life = Life(variant(type_="fixed")).update(CANARY, variant(revision=2, type_="fixed"))
    life.until_phase(0, P.BAKING).fail(2, SICK).step()
    assert life.endpoint.status is S.ROLLING_BACK
    assert "has stopped answering health checks" in life.endpoint.failure_reason


def test_a_failed_old_instance_turns_nothing_back():
    life = Life().update(CANARY).until_phase(0, P.BAKING).fail(1).until_status(S.IN_SERVICE)
    assert life.endpoint.active.config_name == "c2"


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("state", AlarmState)
def test_an_alarm_in_a_bake_turns_the_deployment_back(policy, state):
    life = Life().update(policy | ALARM).until_phase(0, P.BAKING)
    life.alarms = {"high": state, "other": AlarmState.ALARM}
    life.step()
    turned = life.endpoint.status is S.ROLLING_BACK
    assert turned is (state is AlarmState.ALARM)
    if turned:
        assert life.endpoint.failure_reason == "Alarm high of AutoRollbackConfiguration is in state ALARM."
        assert life.shares == {1: 1.0}
        life.until_status(S.IN_SERVICE).step(3)
        assert life.serving == {("v", 1): 4}


def test_an_alarm_before_the_first_share_or_after_the_last_bake_turns_nothing_back():
    life = Life().update(CANARY | ALARM)
    life.alarms = {"high": AlarmState.ALARM}
    life.next_server = lambda _record: Observed(running=True, probes=1, failures=1)
    life.step(3)
    assert life.endpoint.status is S.UPDATING
    life.alarms, life.next_server = {}, lambda _record: READY
    life.servers = dict.fromkeys(life.servers, READY)
    life.until_phase(1, P.TERMINATING)
    life.alarms = {"high": AlarmState.ALARM}
    life.until_status(S.IN_SERVICE)
    assert life.endpoint.active.config_name == "c2"


def test_a_deployment_that_takes_too_long_is_turned_back():
    policy = {
        "BlueGreenUpdatePolicy": CANARY["BlueGreenUpdatePolicy"] | {"MaximumExecutionTimeoutInSeconds": 600}
    }
    life = Life()
    life.next_server = lambda record: READY if record.revision == 1 else Observed(running=True)
    life.update(policy)
    life.step(599, seconds=1.0)
    assert life.endpoint.status is S.UPDATING
    life.step(seconds=1.0)
    assert life.endpoint.status is S.ROLLING_BACK
    assert "longer than MaximumExecutionTimeoutInSeconds, 600 s" in life.endpoint.failure_reason


def test_a_turned_back_deployment_is_in_service_only_when_routers_know_it():
    life = Life().update(CANARY).until_phase(1, P.BAKING)
    life.acks = False
    life.fail(2).step(20, seconds=10.0)
    assert life.endpoint.status is S.ROLLING_BACK
    life.acks = True
    life.until_status(S.IN_SERVICE)


def test_a_rolling_update_that_is_turned_back_late_gets_its_old_instances_again():
    life = Life().update(ROLLING).until_phase(3, P.BAKING).step(3)
    assert life.serving == {("v", 1): 1, ("v", 2): 4}
    life.fail(2).step()
    assert life.endpoint.status is S.ROLLING_BACK
    assert life.shares[1] == 0.5  # of one instance's usual traffic, twice
    life.until_status(S.IN_SERVICE).step(3)
    assert life.serving == {("v", 1): 4}
    assert life.shares == {1: 1.0}


def test_draining_old_instances_are_taken_back_by_a_rollback():
    life = Life().update(ROLLING).until_phase(1, P.BAKING)
    life.servers = dict.fromkeys(life.servers, BUSY)
    life.until_phase(2, P.BAKING)
    draining = life.of(1, State.DRAINING)
    assert draining
    life.fail(2).step()
    assert set(draining) <= set(life.of(1))


def test_new_instances_make_room_for_old_ones_where_there_is_none_for_both():
    life = Life().update(ROLLING).until_phase(3, P.BAKING).step(3)
    room, refuse = 5, life.plan

    def plan():
        """Refuse what does not fit, as a provider with so many places does."""
        made = refuse()
        for record in made.start:
            if len(life.servers) >= room:
                life.refused[record.instance_id] = "There is no room."
        return replace(made, start=tuple(r for r in made.start if r.instance_id not in life.refused))

    life.plan = plan
    life.fail(2, SICK).until_status(S.IN_SERVICE).step(5, seconds=30.0)
    assert life.serving == {("v", 1): 4}
    assert life.endpoint.active.config_name == "c"


def test_an_old_server_of_others_that_stays_away_ends_the_rollback():
    life = Life(variant(type_="fixed")).update(ROLLING, variant(revision=2, type_="fixed"))
    life.until_phase(3, P.BAKING).step(3)
    life.fail(1, SICK).fail(2, SICK).step(2)
    assert life.endpoint.status is S.ROLLING_BACK
    life.until(lambda: life.endpoint.status is S.UPDATE_ROLLBACK_FAILED, seconds=5.0)
    assert "The rollback failed: An instance of production variant v" in life.endpoint.failure_reason


def broken_rollback():
    life = Life().update(ROLLING).until_phase(3, P.BAKING).step(3)
    life.next_server = lambda record: EXITED if record.revision == 1 else READY
    life.fail(2)
    return life.until_status(S.UPDATE_ROLLBACK_FAILED)


def test_a_rollback_whose_old_instances_do_not_start_fails_and_serves_with_what_it_has():
    life = broken_rollback().step(30, seconds=5.0)
    assert life.endpoint.status is S.UPDATE_ROLLBACK_FAILED
    assert life.serving[("v", 1)] == 1
    assert life.serving[("v", 2)] >= 3
    assert sum(share.expected for share in life.shares.values()) == pytest.approx(1.0)
    assert "It ended. The rollback failed: The primary container" in life.endpoint.failure_reason


@pytest.mark.parametrize("revision", [1, 2, 3])
@pytest.mark.parametrize("policy", [None, CANARY, ROLLING], ids=["none", "canary", "rolling"])
def test_another_update_repairs_it(revision, policy):
    life = broken_rollback()
    life.next_server = lambda _record: READY
    life.update(policy, variant(revision=revision)).until_status(S.IN_SERVICE).step(4)
    assert life.serving == {("v", revision): 4}
    assert (life.endpoint.mixed, life.shares) == ((), {revision: 1.0})


def test_a_repair_that_fails_leaves_it_as_it_was():
    life = broken_rollback()
    before = life.endpoint.mixed
    life.next_server = lambda record: EXITED if record.revision == 3 else READY
    life.update(CANARY, variant(revision=3)).until_status(S.UPDATE_ROLLBACK_FAILED)
    assert life.endpoint.mixed == before


def test_it_can_be_deleted():
    life = broken_rollback()
    life.endpoint = replace(life.endpoint, status=S.DELETING, mixed=(), rollout=None)
    life.step(4)
    assert life.endpoint is None
    assert life.servers == {}


def test_more_instances_that_cannot_be_had_are_given_up_and_the_others_stay():
    life = Life()
    life.next_server = lambda _record: EXITED
    life.update(None, variant(6)).until_status(S.ROLLING_BACK).until_status(S.IN_SERVICE)
    assert life.serving == {("v", 1): 4}
    assert life.endpoint.active.variants[0].count == 4


# --- shadows ---------------------------------------------------------------------------------------
def test_a_shadow_is_exchanged_with_the_end_of_the_deployment():
    life = Life()
    shadow = variant(1, name="s")
    pending = Deployment("c1", (variant(),), 0.0, shadow=shadow)
    life.endpoint = replace(life.endpoint, status=S.UPDATING, pending=pending)
    life.until_status(S.IN_SERVICE)
    assert life.serving == {("v", 1): 4, ("s", 1): 1}
    assert all(record.served for record in life.instances)
    other = replace(life.endpoint.active, policy=CANARY, variants=(variant(revision=2),),
                    shadow=replace(shadow, revision=2))  # fmt: skip
    life.endpoint = replace(life.endpoint, status=S.UPDATING, pending=other)
    life.endpoint = replace(life.endpoint, rollout=begin(life.endpoint, other, life.now_s))
    life.until_phase(0, P.BAKING)
    assert life.serving == {("v", 1): 4, ("s", 1): 1, ("v", 2): 4, ("s", 2): 1}
    life.until_status(S.IN_SERVICE).step(3)
    assert life.serving == {("v", 2): 4, ("s", 2): 1}
