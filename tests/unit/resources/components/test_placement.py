import pytest

from warmroute.core.machines import InstanceType, ProviderKind
from warmroute.resources.components.placement import host_of, place
from warmroute.resources.records import (
    ComponentSpecification,
    CopyNeeds,
    CopySpecification,
    InstanceRecord,
    Launch,
)

GPUS = InstanceType("gpus", ProviderKind.LOCAL, accelerators=4, cpus=8.0, memory_mb=1000)
PLAIN = InstanceType("plain", ProviderKind.LOCAL)
FIXED = InstanceType("fixed", ProviderKind.STATIC, urls=("http://a",))


def specification(*, binpack=False, instance_type="", **needs):
    copy = CopySpecification(
        Launch("", "m"), CopyNeeds(**{"memory_mb": 100} | needs), instance_type, binpack=binpack
    )
    return ComponentSpecification(1, {}, 0.0, (copy,))


def copy(number, *, component="ic", devices=(), replaces=None, **needs):
    return InstanceRecord(
        f"c-{number}", "ep", "v", 1, Launch("gpus", "m"), 60.0, 0.0, 0.0, component=component, host="h",
        devices=devices, needs=CopyNeeds(**{"memory_mb": 100} | needs), replaces=replaces,
    )  # fmt: skip


def host(name="h1", instance_type=GPUS, devices=(0, 1, 2, 3), copies=()):
    return host_of(name, instance_type, devices, copies)


def test_a_host_has_what_its_copies_leave():
    made = host(copies=[copy(1, devices=(1,), cpus=2.0), copy(2, component="x", devices=(3,), memory_mb=300)])
    assert (made.devices, made.memory_mb, made.cpus) == ([0, 2], 600, 6.0)
    assert made.components == ["ic", "x"]


def test_a_copy_that_waits_for_its_predecessor_takes_the_same_part_once():
    made = host(copies=[copy(1, devices=(0,)), copy(2, devices=(0,), replaces="c-1")])
    assert (made.devices, made.memory_mb, made.components) == ([1, 2, 3], 900, ["ic"])


def test_copies_without_needs_take_a_place_only():
    record = copy(1)
    from dataclasses import replace

    made = host(copies=[replace(record, needs=None)])
    assert (made.memory_mb, made.components) == (1000, ["ic"])


def test_spread_takes_the_host_with_the_fewest_copies_of_the_component_then_of_all():
    hosts = [host("h1", copies=[copy(1)]), host("h2", copies=[copy(2, component="x")]), host("h3")]
    placed = [place(specification(), "ic", hosts).host.instance_id for _ in range(4)]
    assert placed == ["h3", "h2", "h1", "h3"]


def test_binpack_fills_a_host_before_the_next():
    hosts = [host("h1"), host("h2", copies=[copy(1, component="x")])]
    packed = specification(binpack=True, accelerators=1)
    placed = [place(packed, "ic", hosts).host.instance_id for _ in range(6)]
    assert placed == ["h2"] * 4 + ["h1"] * 2


def test_devices_are_the_lowest_free_ones():
    hosts = [host(copies=[copy(1, devices=(0,))])]
    assert place(specification(accelerators=2), "ic", hosts).devices == (1, 2)
    assert place(specification(accelerators=2), "ic", hosts) is None
    assert place(specification(accelerators=1), "ic", hosts).devices == (3,)


@pytest.mark.parametrize(
    ("needs", "fits"),
    [
        ({"memory_mb": 1000}, True),
        ({"memory_mb": 1001}, False),
        ({"memory_mb_max": 1000}, True),
        ({"memory_mb_max": 1001}, False),
        ({"cpus": 8.0}, True),
        ({"cpus": 8.25}, False),
        ({"accelerators": 4}, True),
        ({"accelerators": 5}, False),
    ],
)
def test_what_a_host_is_declared_to_have_bounds_its_copies(needs, fits):
    assert (place(specification(**needs), "ic", [host()]) is not None) is fits


def test_memory_is_reserved_by_what_is_there_already():
    hosts = [host(copies=[copy(1, memory_mb=950)])]
    assert place(specification(memory_mb=51), "ic", hosts) is None
    assert place(specification(memory_mb=50), "ic", hosts) is not None


def test_what_is_not_declared_is_not_bounded_but_a_local_type_has_no_accelerators_then():
    assert place(specification(memory_mb=10**6, cpus=1e3), "ic", [host("h", PLAIN, ())]) is not None
    assert place(specification(accelerators=1), "ic", [host("h", PLAIN, ())]) is None


@pytest.mark.parametrize(("declared", "fits"), [(0, True), (8, True), (7, False)])
def test_a_static_host_has_the_accelerators_that_are_declared_and_no_numbers_of_them(declared, fits):
    fixed = InstanceType("fixed", ProviderKind.STATIC, urls=("http://a",), accelerators=declared)
    placed = place(specification(accelerators=8), "ic", [host("h1", fixed, devices=())])
    assert (placed is not None and placed.devices == ()) is fits


def test_a_static_host_is_one_server_with_one_copy():
    hosts = [host("h", FIXED, ())]
    assert place(specification(accelerators=8), "ic", hosts).devices == ()
    assert place(specification(), "other", hosts) is None


def test_only_hosts_of_the_specifications_types_count():
    assert place(specification(instance_type="plain"), "ic", [host()]) is None
    assert place(specification(instance_type="gpus"), "ic", [host()]).specification.instance_type == "gpus"


def test_equal_hosts_are_told_apart_by_their_ids():
    assert place(specification(), "ic", [host("b"), host("a")]).host.instance_id == "a"
