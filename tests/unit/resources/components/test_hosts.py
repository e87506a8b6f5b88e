from dataclasses import replace

import pytest

from warmroute.core.machines import InstanceType, ProviderKind
from warmroute.resources.components.hosts import Slots, carried, settle_host, slots_of
from warmroute.resources.instances import Failed
from warmroute.resources.records import InstanceRecord, InstanceState, Launch

TYPES = {
    "gpus": InstanceType("gpus", ProviderKind.LOCAL, accelerators=2, instances_max=2),
    "plain": InstanceType("plain", ProviderKind.LOCAL),
    "fixed": InstanceType("fixed", ProviderKind.STATIC, urls=("http://a",), accelerators=4),
}
State = InstanceState


def record(number=1, type_="gpus", **changes):
    made = InstanceRecord(
        f"i-{number}", "ep", "v", 1, Launch(type_, ""), 60.0, 0.0, 10.0, carries_copies=True
    )
    return replace(made, **changes)


def settle(one, *pools, copies=0, now_s=10.0, taken=()):
    slots = slots_of(TYPES, taken)
    return settle_host(
        one, [Launch(name, "") for name in pools or ("gpus",)], slots, copies=copies, now_s=now_s
    )


def test_a_host_is_in_service_as_soon_as_there_is_room():
    made = settle(record())
    assert (made.state, made.devices, made.in_service_s) == (State.IN_SERVICE, (0, 1), 10.0)


def test_it_waits_for_its_turn_after_a_failure():
    assert settle(record(), now_s=9.0) == record()


def test_the_first_pool_that_has_room_is_taken():
    full = [record(number, state=State.IN_SERVICE) for number in (2, 3)]
    assert settle(record(), "gpus", "plain", taken=full).launch.instance_type == "plain"
    assert settle(record(), "plain", "gpus").devices == ()


@pytest.mark.parametrize(
    ("pools", "text"),
    [
        (("gpus",), 'Instance type "gpus" may run 2 instances at once (instances_max), and all of them run.'),
        (("fixed",), 'Instance type "fixed" has 1 URLs, all in use.'),
        (
            ("other",),
            'No provider serves instance type "other". Declared in the settings: fixed, gpus, plain.',
        ),
        (("fixed", "gpus"), "all in use. Instance type"),
    ],
)
def test_without_room_it_fails_and_says_why(pools, text):
    full = [record(number, state=State.IN_SERVICE) for number in (2, 3)]
    full.append(record(4, "fixed", state=State.IN_SERVICE))
    failed = settle(record(), *pools, taken=full)
    assert isinstance(failed, Failed)
    assert failed.fatal
    assert text in failed.reason


def test_a_draining_host_goes_when_its_last_copy_has_gone():
    draining = record(state=State.DRAINING)
    assert settle(draining, copies=1) == draining
    assert settle(draining).state is State.STOPPING
    assert settle(draining).reason == "drained"


@pytest.mark.parametrize("state", [State.IN_SERVICE, State.STOPPING])
def test_other_hosts_stay_as_they_are(state):
    assert settle(record(state=state)) == record(state=state)


def test_copies_and_hosts_that_wait_take_no_room():
    records = [
        record(1),
        record(2, state=State.DRAINING, devices=(0, 1)),
        record(3, carries_copies=False, component="ic", devices=(0,)),
    ]
    slots = slots_of(TYPES, records)
    assert (slots.taken, slots.devices) == ({"gpus": 1}, {0, 1})
    assert slots.has_room("gpus")
    assert slots.take("gpus") == (2, 3)
    assert not slots.has_room("gpus")


def test_devices_are_numbered_over_the_machine_and_reused():
    slots = Slots(TYPES, devices={0, 2})
    assert slots.take("gpus") == (1, 3)
    assert slots.take("plain") == ()


def test_servers_that_run_already_have_devices_of_their_own():
    slots = Slots(TYPES)
    assert slots.take("fixed") == slots.take("unknown") == ()


def test_choosing_takes_nothing():
    slots = Slots(TYPES)
    gpus = Launch("gpus", "")
    assert slots.choose([Launch("unknown", ""), gpus]) is gpus
    assert slots.choose([]) is None
    assert slots.taken == {}


def test_copies_are_counted_on_their_hosts():
    copies = [record(number, component="ic", host=host) for number, host in enumerate(["a", "a", "b", None])]
    assert carried(copies) == {"a": 2, "b": 1}
