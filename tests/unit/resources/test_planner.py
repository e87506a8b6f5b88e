"""The planner against a world that does what it is told, one plan at a time."""

from dataclasses import replace
from itertools import count

import pytest

from tests.unit.resources import planned
from tests.unit.resources.planned import EXITED, LOADING, READY, RULES, world
from warmroute.core import limits
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.core.machines import Image, InstanceType, ProviderKind
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.planner import backoff_s, plan, stamp
from warmroute.resources.records import (
    Deployment,
    EndpointRecord,
    InstanceRecord,
    InstanceState,
    Launch,
    VariantRecord,
)

S, State = EndpointStatus, InstanceState


def variant(count=2, revision=1, name="v", type_="local", **changes):
    return VariantRecord(name=name, revision=revision, launch=Launch(type_, "m"), count=count, **changes)


def deployment(*variants, config="c", started_s=0.0):
    return Deployment(config, variants, started_s)


class Life(planned.Life):
    """An endpoint that is updated and deleted, with one variant unless it is given others."""

    def __init__(self, *variants, **options):
        super().__init__(*(variants or (variant(),)), **options)

    def update(self, *variants, config="c2"):
        self.endpoint = replace(
            self.endpoint,
            status=S.UPDATING,
            pending=deployment(*variants, config=config, started_s=self.now_s),
        )
        return self

    def delete(self):
        self.endpoint = replace(self.endpoint, status=S.DELETING)
        return self

    def in_state(self, state):
        return [record.instance_id for record in self.instances if record.state is state]

    @property
    def serving(self):
        return self.in_state(State.IN_SERVICE)


def up(*variants, **keywords):
    """An endpoint in service."""
    life = Life(*variants, **keywords).step(4)
    assert life.endpoint.status is S.IN_SERVICE
    return life


# --- Creation ------------------------------------------------------------------------------------


def test_instances_are_recorded_before_they_are_started():
    made = Life().plan()
    assert [record.instance_id for record in made.start] == ["i-1", "i-2"]
    assert {record.instance_id for record in made.instances} == {"i-1", "i-2"}
    assert made.endpoint.status is S.CREATING


def test_an_endpoint_is_in_service_when_all_are_ready_and_routers_know():
    life = Life()
    life.acks = False
    life.step(3)
    assert (life.endpoint.status, len(life.serving)) == (S.CREATING, 2)
    assert life.endpoint.active is not None
    life.acks = True
    life.step(2)
    assert life.endpoint.status is S.IN_SERVICE
    assert life.endpoint.awaits is None
    assert all(record.served for record in life.instances)


def test_one_that_loads_holds_up_the_creation():
    life = Life().step()
    life.servers["i-2"] = LOADING
    life.step(5)
    assert (life.endpoint.status, life.serving) == (S.CREATING, ["i-1"])
    life.servers["i-2"] = READY
    assert life.step(2).endpoint.status is S.IN_SERVICE


def test_a_refusal_fails_the_creation_and_ends_what_was_started():
    life = Life()
    life.plan()
    life.servers["i-1"] = READY
    life.refused = {"i-2": "There is 1 URL."}
    life.step(3)
    assert (life.endpoint.status, life.endpoint.failure_reason) == (S.FAILED, "There is 1 URL.")
    assert life.instances == ()
    assert life.servers == {}
    assert life.endpoint.pending is not None


def test_time_out_fails_the_creation():
    life = Life(default=LOADING).step(2)
    life.step(seconds=99.0)
    assert life.endpoint.status is S.CREATING
    life.step(seconds=1.0)
    assert life.endpoint.status is S.FAILED
    assert (
        "did not pass the ping health check. It was not ready after 100 s. 503"
        in life.endpoint.failure_reason
    )


def test_the_variants_own_timeout_comes_first():
    life = Life(variant(startup_s=60.0), default=LOADING).step(2).step(seconds=60.0)
    assert life.endpoint.status is S.FAILED


def test_servers_that_end_are_started_again_a_few_times():
    life = Life(variant(count=1), default=EXITED)
    for _ in range(20):
        life.step(seconds=1.0)
    assert len(life.started) == limits.INSTANCE_ATTEMPTS_MAX
    assert life.endpoint.status is S.FAILED
    assert life.endpoint.failure_reason.endswith("It ended.")


def test_failure_reasons_are_cut():
    life = Life()
    life.plan()
    life.refused = {"i-1": "x" * 2000}
    life.step()
    assert len(life.endpoint.failure_reason) == limits.FAILURE_REASON_CHARACTERS_MAX


# --- Healing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("observed", [EXITED, None, replace(LOADING, failures=limits.HEALTH_FAILURES_MAX)])
def test_an_instance_that_fails_leaves_at_once_and_is_replaced(observed):
    life = up()
    if observed is None:
        del life.servers["i-1"]
    else:
        life.servers["i-1"] = observed
    life.plan()
    assert life.serving == ["i-2"]
    life.step(4)
    assert life.serving == ["i-2", "i-3"]
    assert "i-1" not in life.servers
    assert life.endpoint.status is S.IN_SERVICE


def test_the_successor_waits_until_its_predecessor_is_gone():
    life = up(variant(count=1))
    life.servers["i-1"] = EXITED
    life.busy = frozenset({"i-1"})  # it is being stopped
    assert life.plan().start == ()
    life.busy = frozenset()
    del life.servers["i-1"]
    assert [record.instance_id for record in life.plan().start] == ["i-2"]


def test_back_off_grows_and_is_bounded():
    assert [backoff_s(failed) for failed in (0, 1, 2, 3, 4)] == [0.0, 0.0, 1.0, 2.0, 4.0]
    assert backoff_s(100) == limits.INSTANCE_BACKOFF_S_MAX


def test_an_instance_that_keeps_failing_is_started_ever_more_rarely():
    life = up(variant(count=1))
    life.default = EXITED
    life.servers["i-1"] = EXITED
    for _ in range(120):
        life.step(seconds=1.0)
    assert 6 <= len(life.started) <= 10
    assert life.endpoint.status is S.IN_SERVICE


def test_a_server_that_is_not_ours_comes_back_as_itself():
    life = up(variant(type_="fixed"))
    life.servers["i-1"] = replace(LOADING, failures=limits.HEALTH_FAILURES_MAX)
    life.step(3, seconds=1000.0)
    assert (life.serving, life.in_state(State.STARTING)) == (["i-2"], ["i-1"])
    life.servers["i-1"] = READY
    life.step()
    assert life.serving == ["i-1", "i-2"]
    assert life.instances[0].returns == 1
    assert life.started == ["i-1", "i-2"]


# --- Updates in place ----------------------------------------------------------------------------


def test_a_change_of_routing_keeps_every_instance_and_takes_two_plans():
    life = up()
    routing = Routing(RoutingStrategy.PREFIX_AWARE, 4096, 10)
    life.update(variant(routing=routing)).step(2)
    assert life.endpoint.status is S.IN_SERVICE
    assert life.endpoint.active.variants[0].routing == routing
    assert life.serving == ["i-1", "i-2"]
    assert life.endpoint.config_name == "c2"


def test_a_change_of_routing_does_not_wait_for_a_replacement():
    life = up()
    life.servers["i-1"] = EXITED
    life.default = LOADING
    life.step(2)
    life.update(variant(weight=3.0)).step(2)
    assert life.endpoint.status is S.IN_SERVICE


def test_more_instances_make_an_endpoint_update_until_they_serve():
    life = up()
    life.default = LOADING
    life.update(variant(count=3)).step(3)
    assert (life.endpoint.status, life.serving) == (S.UPDATING, ["i-1", "i-2"])
    life.servers["i-3"] = READY
    life.step(2)
    assert (life.endpoint.status, life.serving) == (S.IN_SERVICE, ["i-1", "i-2", "i-3"])


def test_fewer_instances_drain_and_the_oldest_stay():
    life = up(variant(count=3))
    life.servers["i-2"] = life.servers["i-3"] = replace(READY, open_leases=1)
    life.update(variant(count=1)).step(2)
    assert life.endpoint.status is S.IN_SERVICE
    assert life.in_state(State.DRAINING) == ["i-2", "i-3"]
    life.servers["i-2"] = READY
    life.step(2)
    assert life.in_state(State.DRAINING) == ["i-3"]
    life.step(2, seconds=RULES.drain_s)
    assert life.serving == [record.instance_id for record in life.instances] == ["i-1"]
    assert set(life.servers) == {"i-1"}


def test_a_draining_instance_is_taken_back_before_a_new_one_is_started():
    life = up()
    life.servers["i-2"] = replace(READY, open_leases=1)
    life.update(variant(count=1)).step(2)
    life.update(variant(count=2)).step(3)
    assert (life.serving, life.started) == (["i-1", "i-2"], ["i-1", "i-2"])
    assert life.endpoint.status is S.IN_SERVICE


def test_more_instances_that_fail_are_given_up():
    life = up()
    life.update(variant(count=3))
    life.plan()
    life.refused = {"i-3": "No room."}
    life.step(3)
    assert (life.endpoint.status, life.endpoint.config_name) == (S.IN_SERVICE, "c")
    assert life.endpoint.failure_reason == "No room."
    assert life.serving == ["i-1", "i-2"]


def test_added_instances_that_serve_already_drain_when_the_update_is_given_up():
    life = up()
    life.update(variant(count=4))
    life.plan()
    life.servers["i-3"] = replace(READY, open_leases=1)
    life.servers["i-4"] = LOADING
    life.step()
    assert life.serving == ["i-1", "i-2", "i-3"]
    life.step(seconds=100.0).step()
    assert life.endpoint.status is S.IN_SERVICE
    assert (life.serving, life.in_state(State.DRAINING)) == (["i-1", "i-2"], ["i-3"])


def test_an_update_does_not_wait_for_ever_for_a_server_that_is_not_ours():
    life = up(variant(type_="fixed"))
    life.servers["i-1"] = replace(LOADING, failures=limits.HEALTH_FAILURES_MAX)
    life.step()
    life.update(variant(count=3, type_="fixed")).step(3)
    assert life.endpoint.status is S.UPDATING
    life.step(2, seconds=480.0)
    assert life.endpoint.status is S.IN_SERVICE
    assert "stopped answering health checks" in life.endpoint.failure_reason


# --- Blue and green ------------------------------------------------------------------------------


def test_new_instances_come_beside_the_old_and_everything_switches_at_once():
    life = up()
    life.default = LOADING
    life.update(variant(revision=2)).step(3)
    assert life.serving == ["i-1", "i-2"]
    life.servers["i-3"] = READY
    life.step(2)
    assert life.endpoint.active.variants[0].revision == 1
    life.servers["i-1"] = replace(READY, open_leases=1)
    life.servers["i-4"] = READY
    life.step(2)
    assert life.endpoint.status is S.IN_SERVICE
    assert life.endpoint.active.variants[0].revision == 2
    assert life.in_state(State.DRAINING) == ["i-1"]
    life.servers["i-1"] = READY
    life.step(2)
    assert life.serving == [record.instance_id for record in life.instances] == ["i-3", "i-4"]


def test_old_instances_serve_throughout_an_update_that_fails():
    life = up()
    life.update(variant(revision=2))
    life.plan()
    life.servers["i-3"] = READY
    life.refused = {"i-4": "No room."}
    life.plan()
    assert (life.endpoint.status, life.serving) == (S.ROLLING_BACK, ["i-1", "i-2"])
    life.step(3)
    assert life.endpoint.status is S.IN_SERVICE
    assert set(life.servers) == {"i-1", "i-2"}
    assert (life.endpoint.config_name, life.endpoint.failure_reason) == ("c", "No room.")


def test_old_instances_that_fail_during_an_update_are_replaced():
    life = up()
    life.default = LOADING
    life.update(variant(revision=2)).step(2)
    life.servers["i-1"] = EXITED
    life.default = READY
    life.step(3)
    assert life.serving == ["i-2", "i-5"]
    assert life.endpoint.status is S.UPDATING


def test_a_variant_that_stays_the_same_keeps_its_instances_beside_one_that_changes():
    life = up(variant(count=1, name="a"), variant(count=1, name="b"))
    life.update(variant(count=1, name="a"), variant(count=1, name="b", revision=2)).step(5)
    assert life.endpoint.status is S.IN_SERVICE
    assert life.serving == ["i-1", "i-3"]


# --- Deletion ------------------------------------------------------------------------------------


def test_deletion_drains_stops_and_ends():
    life = up()
    life.servers["i-1"] = replace(READY, open_leases=1)
    life.delete().step(3)
    assert (life.endpoint.status, life.in_state(State.DRAINING)) == (S.DELETING, ["i-1"])
    life.servers["i-1"] = READY
    life.step(3)
    assert (life.endpoint, life.servers) == (None, {})


def test_a_failed_endpoint_without_instances_is_deleted_at_once():
    life = Life()
    life.plan()
    life.refused = {"i-1": "no"}
    life.step(3)
    life.delete().step()
    assert life.endpoint is None


def test_an_endpoint_scaled_to_nothing_is_in_service():
    life = up()
    life.update(variant(count=0)).step(4)
    assert (life.endpoint.status, life.instances) == (S.IN_SERVICE, ())


# --- Rules ---------------------------------------------------------------------------------------


def test_rules_find_images_and_times():
    assert RULES.image(Launch("local", "m")).name == "img"
    assert RULES.image(Launch("local", "m", image="img")).name == "img"
    assert RULES.image(Launch("local", "m", image="other")) is None
    assert RULES.image(Launch("unknown", "m")) is None
    assert RULES.startup_s(variant().launch, None) == 100.0
    assert RULES.startup_s(variant(type_="unknown").launch, None) == Image("").startup_s_max
    assert RULES.startup_s(variant().launch, 5.0) == 5.0
    assert (RULES.is_fixed("fixed"), RULES.is_fixed("local"), RULES.is_fixed("unknown")) == (
        True,
        False,
        False,
    )


def test_what_waits_for_a_version_gets_the_first_that_shows_it():
    life = Life().step(3)
    assert life.endpoint.awaits or life.endpoint.status is S.IN_SERVICE
    endpoint, instances = stamp(replace(life.endpoint, awaits=3), life.instances, 9)
    assert (endpoint.awaits, instances) == (3, life.instances)


def test_an_action_under_way_is_not_ordered_twice():
    life = Life()
    life.plan()
    life.busy = frozenset({"i-1", "i-2"})
    made = life.plan()
    assert (made.start, made.stop) == ((), ())
    life.busy = frozenset()
    assert len(life.plan().start) == 2


# --- An operator drains one ----------------------------------------------------------------------


def ordered(record):
    """Return an instance that an operator drains."""
    return replace(record, state=State.DRAINING, draining_s=0.0, drain_version=0, drain_ordered=True)


def test_an_instance_that_an_operator_drains_is_replaced_and_does_not_come_back():
    life = up()
    first, second = life.serving
    life.servers[first] = replace(READY, open_leases=1)
    life.instances = tuple(ordered(r) if r.instance_id == first else r for r in life.instances)
    life.step(4)
    assert life.in_state(State.DRAINING) == [first]
    assert len(life.serving) == 2
    life.servers[first] = READY
    life.step(3)
    assert first not in [record.instance_id for record in life.instances]
    assert second in life.serving
    assert len(life.serving) == 2
    assert life.endpoint.status is S.IN_SERVICE


def carrier(count_=1, types=("local",), **changes):
    return variant(count_, type_=types[0], carries_copies=True, **changes)


def test_hosts_are_in_service_without_a_server_and_leave_when_nothing_is_on_them():
    ep = Life(carrier(2))
    ep.step(3)
    assert ep.endpoint.status is S.IN_SERVICE
    assert (ep.started, [record.state for record in ep.instances]) == ([], [State.IN_SERVICE] * 2)
    ep.endpoint = replace(ep.endpoint, status=S.DELETING)
    ep.step(4)
    assert ep.endpoint is None


def test_a_host_that_carries_nothing_is_dropped_before_one_that_does():
    hosts = tuple(
        InstanceRecord(
            f"h-{n}",
            "ep",
            "v",
            1,
            Launch("local", "m"),
            60.0,
            float(n),
            0.0,
            State.IN_SERVICE,
            carries_copies=True,
        )
        for n in range(2)
    )
    one = deployment(carrier(1))
    endpoint = EndpointRecord("ep", "arn", S.IN_SERVICE, 0.0, 0.0, active=one)
    made = plan(endpoint, hosts, world(carried={"h-1": 1}), RULES)
    assert [record.instance_id for record in made.instances] == ["h-1"] or [
        record.state for record in made.instances
    ] == [State.STOPPING, State.IN_SERVICE]


def test_instances_of_pools_are_of_the_first_type_with_room_and_keep_their_devices():
    types = {
        "few": InstanceType("few", ProviderKind.LOCAL, image="img", instances_max=1, accelerators=1),
        "many": InstanceType("many", ProviderKind.LOCAL, image="img", accelerators=1),
    }
    rules = replace(RULES, instance_types=types)
    pools = (Launch("few", "m"), Launch("many", "m"))
    endpoint = EndpointRecord(
        "ep", "arn", S.CREATING, 0.0, 0.0,
        pending=deployment(replace(variant(2), launch=pools[0], pools=pools)),
    )  # fmt: skip
    ids = count(1)
    given = world(new_id=lambda: f"i-{next(ids)}")
    made = plan(endpoint, (), given, rules)
    assert [(one.launch.instance_type, one.devices) for one in made.instances] == [
        ("few", (0,)),
        ("many", (1,)),
    ]
    observed = {"i-1": EXITED, "i-2": READY}
    again = plan(made.endpoint, made.instances, replace(given, observed=observed), rules)
    (successor,) = [one for one in again.instances if one.replaces == "i-1"]
    assert (successor.launch.instance_type, successor.devices) == ("few", (0,))
