"""What an operator's order to drain one instance changes."""

from dataclasses import replace

import pytest

from warmroute.resources.draining import drain
from warmroute.resources.errors import ApiError
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.records import (
    UNSTAMPED,
    Deployment,
    EndpointRecord,
    InstanceRecord,
    InstanceState,
    Launch,
    VariantRecord,
)

LAUNCH = Launch("local", "m")
VARIANTS = (VariantRecord("v", 1, LAUNCH, 2), VariantRecord("w", 1, LAUNCH, 5))
ENDPOINT = EndpointRecord(
    "ep", "arn", EndpointStatus.IN_SERVICE, 0.0, 0.0, active=Deployment("c", VARIANTS, 0.0)
)
SERVING = InstanceRecord(
    "i-1", "ep", "v", 1, LAUNCH, 60.0, 0.0, 0.0, state=InstanceState.IN_SERVICE, served=True, in_service_s=1.0
)


def order(instance=SERVING, endpoint=ENDPOINT, *, replaced=None, fixed=False):
    return drain(instance, endpoint, replaced=replaced, fixed=fixed, now_s=9.0)


def counts(endpoint):
    return [variant.count for variant in endpoint.active.variants]


def test_an_instance_in_service_drains_and_is_replaced():
    drained = order()
    assert drained.replaced
    assert drained.endpoint is ENDPOINT
    assert drained.instance == replace(
        SERVING,
        state=InstanceState.DRAINING,
        draining_s=9.0,
        drain_version=UNSTAMPED,
        drain_ordered=True,
        reason="drained by an operator",
    )


def test_without_replacement_the_variant_wants_one_less_and_the_others_stay():
    drained = order(replaced=False)
    assert not drained.replaced
    assert counts(drained.endpoint) == [1, 5]
    assert drained.endpoint.modified_s == 9.0
    assert drained.endpoint.status is EndpointStatus.IN_SERVICE


def test_a_shadow_may_have_one_less_too():
    shadow = replace(VARIANTS[0], name="s", count=3)
    shadowed = replace(ENDPOINT, active=replace(ENDPOINT.active, shadow=shadow))
    drained = order(replace(SERVING, variant="s"), shadowed, replaced=False)
    assert counts(drained.endpoint) == [2, 5]
    assert drained.endpoint.active.shadow.count == 2


def test_a_server_that_is_not_ours_is_not_replaced_unless_asked_and_then_it_is_refused():
    assert counts(order(fixed=True).endpoint) == [1, 5]
    with pytest.raises(ApiError, match="i-1 is a server that runs already .instance type local"):
        order(fixed=True, replaced=True)


@pytest.mark.parametrize("changes", [{"state": InstanceState.STARTING}, {"served": False}])
def test_one_that_never_served_stops_at_once(changes):
    drained = order(replace(SERVING, **changes))
    assert drained.instance.state is InstanceState.STOPPING
    assert drained.instance.drain_ordered


def test_a_host_slot_drains_until_its_copies_have_left():
    host = replace(SERVING, served=False, carries_copies=True)
    assert order(host).instance.state is InstanceState.DRAINING


@pytest.mark.parametrize("changes", [{"state": InstanceState.STOPPING}, {"drain_ordered": True}])
def test_a_second_order_changes_nothing(changes):
    leaving = replace(SERVING, **changes)
    drained = order(leaving, replaced=False)
    assert (drained.instance, drained.endpoint, drained.replaced) == (leaving, ENDPOINT, False)


@pytest.mark.parametrize("changes", [{"state": InstanceState.DRAINING, "draining_s": 3.0}, {"revision": 7}])
def test_one_that_is_on_its_way_out_does_not_count_twice(changes):
    drained = order(replace(SERVING, **changes), replaced=False)
    assert drained.endpoint is ENDPOINT
    assert drained.instance.drain_ordered
    assert drained.instance.state is InstanceState.DRAINING


def test_capacity_does_not_shrink_below_nothing():
    none = replace(ENDPOINT, active=Deployment("c", (replace(VARIANTS[0], count=0),), 0.0))
    assert counts(order(endpoint=none, replaced=False).endpoint) == [0]


@pytest.mark.parametrize("status", [EndpointStatus.UPDATING, EndpointStatus.DELETING])
def test_capacity_does_not_shrink_while_the_endpoint_changes(status):
    changing = replace(ENDPOINT, status=status)
    with pytest.raises(ApiError, match="Cannot update in-progress endpoint"):
        order(endpoint=changing, replaced=False)
    assert order(endpoint=changing).instance.drain_ordered


def test_a_copy_is_always_replaced():
    copy = replace(SERVING, component="c1")
    with pytest.raises(ApiError, match="is a copy of inference component c1"):
        order(copy, replaced=False)
    assert order(copy).replaced


def test_an_endpoint_that_never_served_has_nothing_to_shrink():
    failed = replace(ENDPOINT, status=EndpointStatus.FAILED, active=None)
    assert order(endpoint=failed, replaced=False).endpoint is failed
