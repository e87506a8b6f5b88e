"""Hosts and copies of an endpoint, one plan at a time."""

from dataclasses import replace

import pytest

from tests.unit.resources.carrying import C, Life, S, State, carrier, component, specification
from tests.unit.resources.planned import EXITED, LOADING
from warmroute.resources.components.planner import stamp_component
from warmroute.resources.records import UNSTAMPED, ComponentRollout, Deployment, Launch, VariantRecord


def life(*components, **options):
    made = Life(*components, **options)
    made.settle()
    return made


def test_an_endpoint_without_components_is_planned_as_ever():
    plain = Life()
    plain.endpoint = replace(
        plain.endpoint, pending=Deployment("c", (VariantRecord("v", 1, Launch("gpus", "m", "img"), 1),), 0.0)
    )
    plain.settle()
    assert plain.endpoint.status is S.IN_SERVICE
    assert len(plain.started) == 1
    assert plain.instances[0].devices == (0, 1)


def test_copies_are_started_on_hosts_and_hosts_never_are():
    ep = life(component(count=3))
    assert ep["ic"].status is C.IN_SERVICE
    assert sorted(ep.started) == sorted(copy.instance_id for copy in ep.copies())
    assert len(ep.hosts(State.IN_SERVICE)) == 2


def test_nothing_is_placed_before_the_endpoint_serves():
    ep = Life(component())
    ep.acks = False
    ep.plan()
    assert ep.copies() == []
    assert ep["ic"].status is C.CREATING


def test_nothing_is_done_twice_when_a_plan_is_repeated():
    ep = life(component(count=2))
    before = (ep.endpoint, ep.instances, ep.components)
    for _ in range(3):
        ep.plan()
    assert (ep.endpoint, ep.instances, ep.components) == before


def test_a_copy_waits_for_its_failed_predecessor_to_be_gone():
    ep = life(component())
    (copy,) = ep.copies()
    ep.servers[copy.instance_id] = EXITED
    made = ep.plan()
    assert (made.start, made.stop) == ((), (copy.instance_id,))
    (successor,) = ep.copies(State.STARTING)
    del ep.servers[copy.instance_id]
    assert ep.plan().start == (successor,)


def test_busy_refused_and_early_copies_are_not_started():
    ep = Life(component())
    while not ep.copies():
        made = ep.plan()
    (copy,) = ep.copies()
    assert made.start == (copy,)
    ep.busy = frozenset({copy.instance_id})
    assert ep.plan().start == ()
    ep.busy = frozenset()
    ep.now_s = copy.not_before_s - 1.0
    assert ep.plan().start == ()
    ep.now_s += 1.0
    assert ep.plan().start == (copy,)


def test_a_drained_copy_comes_back_when_more_are_wanted_again():
    ep = life(component(count=2))
    ep.acks = False
    ep.change(count=1, status=C.UPDATING)
    ep.plan()
    (draining,) = ep.copies(State.DRAINING)
    ep.change(count=2)
    ep.plan()
    assert draining.instance_id in [copy.instance_id for copy in ep.copies(State.IN_SERVICE)]
    assert len(ep.copies()) == 2


def test_a_copy_that_an_operator_drains_is_replaced():
    ep = life(component())
    (copy,) = ep.copies()
    ep.instances = tuple(
        replace(one, state=State.DRAINING, draining_s=ep.now_s, drain_version=UNSTAMPED, drain_ordered=True)
        if one.instance_id == copy.instance_id
        else one
        for one in ep.instances
    )
    ep.settle()
    (successor,) = ep.copies()
    assert successor.instance_id != copy.instance_id


def test_a_deleted_component_goes_with_its_last_copy():
    ep = life(component(count=2), component("stays"))
    ep.change(status=C.DELETING)
    ep.plan()
    assert {copy.state for copy in ep.copies()} == {State.DRAINING}
    ep.settle()
    assert "ic" not in ep.components
    assert len(ep.copies(name="stays")) == 1


def test_an_adapter_is_not_touched():
    adapter = component("lora", base="ic", count=0)
    ep = life(component(), adapter)
    assert ep["lora"] == adapter


def test_copies_leave_with_their_endpoint_and_the_components_stay():
    ep = life(component(count=2), component("new", pending=specification(image="unknown")))
    ep.change("new", status=C.CREATING, active=None, pending=specification(), awaits=None)
    ep.endpoint = replace(ep.endpoint, status=S.DELETING)
    ep.step(20, seconds=1.0)
    assert ep.endpoint is None
    assert ep.servers == {}
    assert (ep["ic"].status, ep["new"].status) == (C.IN_SERVICE, C.FAILED)


def test_a_host_that_leaves_keeps_its_copies_until_they_serve_elsewhere():
    ep = life(component(count=2))
    (active,) = ep.endpoint.active.variants
    ep.endpoint = replace(
        ep.endpoint, active=replace(ep.endpoint.active, variants=(replace(active, count=1),))
    )
    ep.default = LOADING
    ep.step(3, seconds=1.0)
    (leaving,) = ep.hosts(State.DRAINING)
    assert len(ep.copies(State.IN_SERVICE)) == 2
    assert len(ep.copies(State.STARTING)) == 1
    ep.servers = dict.fromkeys(ep.servers, replace(LOADING, ready=True, failures=0, open_leases=0))
    ep.settle()
    assert leaving.instance_id not in [host.instance_id for host in ep.hosts()]
    assert {copy.host for copy in ep.copies()} == {ep.hosts()[0].instance_id}


def test_a_copy_that_starts_on_a_host_that_leaves_is_dropped_for_its_successor():
    ep = life(component(count=1))
    (copy,) = ep.copies()
    ep.default = LOADING
    ep.servers[copy.instance_id] = EXITED
    ep.step(2, seconds=0.1)
    ep.instances = tuple(
        replace(one, state=State.DRAINING, draining_s=ep.now_s, drain_ordered=True)
        if one.instance_id == copy.host
        else one
        for one in ep.instances
    )
    ep.plan()
    hosts = {one.host for one in ep.copies(State.STARTING)}
    assert copy.host not in hosts
    assert len(hosts) == 1


def test_copies_that_fit_nowhere_else_hold_their_host():
    ep = life(component(count=2, pending=specification(devices=2)))
    (active,) = ep.endpoint.active.variants
    ep.endpoint = replace(
        ep.endpoint, active=replace(ep.endpoint.active, variants=(replace(active, count=1),))
    )
    ep.step(100, seconds=10.0)
    assert len(ep.hosts(State.DRAINING)) == 1
    assert len(ep.copies(State.IN_SERVICE)) == 2
    assert ep["ic"].status is C.IN_SERVICE


def test_a_component_whose_variant_is_gone_runs_nothing():
    ep = life(component(), component("new", pending=specification(devices=2)))
    ep.change("new", status=C.UPDATING)
    other = replace(carrier(), name="w")
    ep.endpoint = replace(ep.endpoint, active=replace(ep.endpoint.active, variants=(other,)))
    ep.settle()
    assert [copy for copy in ep.instances if copy.component] == []
    assert ep["ic"].status is C.IN_SERVICE
    assert "Variant v of endpoint ep does not exist any more" in ep["new"].failure_reason


def test_an_update_without_room_exchanges_in_place_and_comes_back_in_place():
    ep = life(component(count=2, pending=specification(devices=2)))
    ep.default = EXITED
    ep.change(status=C.UPDATING, pending=specification(2, devices=2), rollout=ComponentRollout(1))
    ep.step(3, seconds=1.0)
    assert not ep["ic"].rollout.beside
    assert len(ep.copies(State.IN_SERVICE)) == 1
    ep.step(40, seconds=3.0)
    assert ep["ic"].rollout.back
    ep.default = replace(LOADING, ready=True, failures=0, open_leases=0)
    ep.settle()
    assert (ep["ic"].status, ep["ic"].pending) == (C.IN_SERVICE, None)
    assert [copy.revision for copy in ep.copies()] == [1, 1]
    assert "did not pass the ping health check" in ep["ic"].failure_reason


def test_new_copies_of_a_rollback_make_room_for_the_old_ones():
    ep = life(component(count=2, pending=specification(devices=2)))
    old, new = specification(1, devices=2), specification(2, devices=2)
    ep.change(status=C.UPDATING, pending=new, rollout=ComponentRollout(1))
    for _ in range(20):
        ep.step(seconds=1.0)
        if sum(copy.revision == 2 for copy in ep.copies(State.IN_SERVICE)) == 1:
            break
    rollout = replace(ep["ic"].rollout, back=True, beside=True, back_batch=2)
    ep.change(rollout=rollout)
    ep.settle()
    assert ep["ic"].active.revision == old.revision
    assert [copy.revision for copy in ep.copies()] == [1, 1]


def test_on_a_server_that_is_not_ours_a_copy_is_waited_for():
    ep = life(component(count=2), variant=carrier(types=("fixed",)))
    (first, _) = ep.copies()
    ep.servers[first.instance_id] = replace(LOADING, failures=3)
    ep.step(20, seconds=10.0)
    assert ep.copies()[0].state is State.STARTING
    ep.servers[first.instance_id] = replace(LOADING, ready=True, failures=0)
    ep.settle()
    assert len(ep.copies(State.IN_SERVICE)) == 2
    assert ep.copies()[0].returns == 1


def test_a_host_of_a_type_that_is_declared_no_more_takes_no_copies():
    ep = life(component())
    ep.rules = replace(ep.rules, instance_types={})
    ep.change(count=2, status=C.UPDATING)
    ep.settle()
    assert len(ep.copies()) == 1
    assert ep["ic"].failure_reason.startswith("There is not enough hardware")


@pytest.mark.parametrize(("awaits", "expected"), [(UNSTAMPED, 7), (3, 3), (None, None)])
def test_the_version_that_shows_a_component_is_written_once(awaits, expected):
    assert stamp_component(component(awaits=awaits), 7).awaits == expected
