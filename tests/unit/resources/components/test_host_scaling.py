"""Hosts that come and go by themselves."""

from dataclasses import replace

import pytest

from tests.unit.resources.carrying import RULES, C, Life, S, State, carrier, component, specification
from tests.unit.resources.planned import LOADING, world
from warmroute.core import limits
from warmroute.resources.components.host_scaling import scale_hosts
from warmroute.resources.records import HostScaling, InstanceRecord, Launch


def life(*components, count=1, scaling=HostScaling(0, 3), **options):
    made = Life(*components, variant=carrier(count, scaling=scaling, **options))
    made.settle()
    return made


def whole(**changes):
    """Return a component whose copies fill a host each."""
    return component(pending=specification(devices=2), **changes)


def test_as_many_hosts_come_as_the_copies_need():
    ep = life(whole(count=3))
    assert (ep.count, len(ep.hosts()), ep["ic"].status) == (3, 3, C.IN_SERVICE)


def test_small_copies_share_a_new_host():
    ep = life(component(count=6))
    assert (ep.count, ep["ic"].status) == (3, C.IN_SERVICE)


def test_no_more_than_the_largest_number_and_then_it_is_hopeless():
    ep = life(whole(count=4))
    assert ep["ic"].status is C.FAILED
    assert ep["ic"].failure_reason.startswith("There is not enough hardware")


def test_from_zero_and_back():
    ep = life(count=0)
    assert ep.hosts() == []
    ep.put(whole(count=1))
    ep.settle()
    assert (ep.count, ep["ic"].status) == (1, C.IN_SERVICE)
    ep.change(count=0, status=C.UPDATING)
    ep.step(8, seconds=1.0)
    assert ep.count == 1
    ep.step(3, seconds=limits.HOST_IDLE_S)
    assert (ep.count, ep.hosts()) == (0, [])


def test_the_smallest_number_stays():
    ep = life(count=2, scaling=HostScaling(1, 3))
    ep.put(component(count=0))
    ep.step(5, seconds=limits.HOST_IDLE_S)
    assert (ep.count, len(ep.hosts())) == (1, 1)


def test_a_copy_that_fits_on_no_host_of_the_type_brings_none():
    ep = life(component(pending=specification(devices=3)))
    assert (ep.count, ep["ic"].status) == (1, C.FAILED)


def test_the_next_pool_is_taken_where_the_first_has_no_room():
    others = tuple(
        InstanceRecord(f"o-{n}", "other", "v", 1, Launch("gpus", "m"), 60.0, 0.0, 0.0, state=State.IN_SERVICE)
        for n in range(3)
    )
    ep = Life(whole(count=2), variant=carrier(1, types=("gpus", "big"), scaling=HostScaling(0, 3)))
    ep.others = others
    ep.settle()
    assert [host.launch.instance_type for host in ep.hosts()] == ["gpus", "big"]
    assert ep["ic"].status is C.IN_SERVICE


def test_without_room_for_another_host_it_is_hopeless():
    ep = Life(whole(count=2), variant=carrier(1, types=("big",), scaling=HostScaling(0, 3)))
    ep.put(component("other", pending=specification(devices=8)))
    ep.settle()
    assert {ep["ic"].status, ep["other"].status} == {C.IN_SERVICE, C.FAILED}
    assert ep.count == 1


def test_a_host_that_others_took_the_room_of_is_given_up():
    ep = life(whole(count=1))
    ep.change(count=2, status=C.UPDATING)
    ep.plan()
    assert ep.count == 2
    ep.others = tuple(
        InstanceRecord(f"o-{n}", "other", "v", 1, Launch("gpus", "m"), 60.0, 0.0, 0.0, state=State.IN_SERVICE)
        for n in range(3)
    )
    ep.step(40, seconds=5.0)
    assert (ep.count, len(ep.hosts())) == (1, 1)
    assert ep["ic"].failure_reason.startswith("There is not enough hardware")


def test_hosts_are_waited_for_while_the_endpoint_is_updated():
    ep = life(whole(count=1))
    ep.change(count=2, status=C.UPDATING)
    ep.acks = False
    ep.endpoint = replace(ep.endpoint, status=S.UPDATING, pending=ep.endpoint.active)
    ep.plan()
    assert (ep.count, ep["ic"].status) == (1, C.UPDATING)


def test_without_a_policy_an_idle_host_goes_after_a_while_and_a_busy_one_is_idle_no_more():
    ep = life(component(count=0), count=2)
    assert all(host.idle_s is not None for host in ep.hosts())
    ep.change(count=1, status=C.UPDATING)
    ep.settle()
    (busy,) = [host for host in ep.hosts() if host.idle_s is None]
    assert [copy.host for copy in ep.copies()] == [busy.instance_id]
    ep.step(3, seconds=limits.HOST_IDLE_S)
    assert [host.instance_id for host in ep.hosts()] == [busy.instance_id]


POLICY = HostScaling(0, 4, cooldown_s=300.0, step_max=1)


def test_with_a_policy_idle_hosts_go_step_by_step_a_cooldown_apart():
    ep = life(component(count=0), count=3, scaling=POLICY)
    counts = []
    for _ in range(12):
        ep.step(seconds=100.0)
        counts.append(ep.count)
    assert counts == sorted(counts, reverse=True)
    assert [counts.count(number) for number in (2, 1)] == [3, 3] or counts[-1] == 0
    assert {before - after for before, after in zip(counts, counts[1:], strict=False)} <= {0, 1}


def test_a_change_begins_the_cooldown_anew():
    ep = life(component(count=0), count=1, scaling=POLICY)
    ep.step(seconds=250.0)
    ep.change(modified_s=ep.now_s)
    ep.step(seconds=100.0)
    assert ep.count == 1
    ep.step(seconds=200.0)
    assert ep.count == 0


CONSOLIDATION = replace(POLICY, consolidate=True, step_max=2)


def consolidated(ep, seconds=301.0):
    ep.step(seconds=seconds)
    ep.settle()
    return ep.count


def test_consolidation_moves_copies_to_fewer_hosts_and_none_is_missing_meanwhile():
    ep = life(component("a", 2), component("b", 2), count=4, scaling=CONSOLIDATION)
    assert len({copy.host for copy in ep.instances if copy.component}) == 4
    for _ in range(100):
        ep.step(seconds=10.0)
        for name in ("a", "b"):
            assert len(ep.copies(State.IN_SERVICE, name=name)) >= 2
    assert ep.count == 2
    assert len({copy.host for copy in ep.instances if copy.component}) == 2


def test_releasing_only_idle_hosts_moves_nothing():
    ep = life(component("a"), component("b"), count=2, scaling=replace(CONSOLIDATION, consolidate=False))
    assert consolidated(ep) == 2


def test_copies_that_fit_nowhere_else_stay_where_they_are():
    ep = life(whole(count=2), count=2, scaling=CONSOLIDATION)
    assert consolidated(ep) == 2


def test_nothing_is_moved_while_a_component_changes_or_a_copy_starts():
    ep = life(component("a"), component("b"), count=2, scaling=CONSOLIDATION)
    ep.change("a", status=C.UPDATING, awaits=99)
    ep.acks = False
    ep.step(seconds=301.0)
    assert ep.count == 2
    ep.change("a", status=C.IN_SERVICE, awaits=None)
    first = ep.copies(name="a")[0].instance_id
    ep.servers[first] = replace(LOADING, running=False)
    ep.default = LOADING
    ep.step(4, seconds=301.0)
    assert ep.count == 2


def test_a_host_of_an_unknown_type_is_no_place_to_move_to():
    ep = life(component("a"), component("b"), count=2, scaling=CONSOLIDATION)
    ep.rules = replace(ep.rules, instance_types={})
    assert consolidated(ep) == 2


def test_an_endpoint_that_never_served_is_left_alone():
    ep = Life()
    made = scale_hosts(
        ep.endpoint, hosts=[], copies=[], components=[], missing=[], world=world(), rules=RULES
    )
    assert (made.endpoint, made.hosts, made.hopeless) == (ep.endpoint, {}, frozenset())


@pytest.mark.parametrize("count", [1, 2])
def test_without_managed_scaling_the_number_of_hosts_is_the_callers(count):
    ep = life(component(count=0), count=count, scaling=None)
    ep.step(5, seconds=1000.0)
    assert ep.count == count
    assert all(host.idle_s is None for host in ep.hosts())
