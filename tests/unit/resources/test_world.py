import pytest

from tests.unit.resources.planned import RULES, world
from warmroute.core.machines import Image
from warmroute.resources.instances import Observed
from warmroute.resources.records import InstanceRecord, InstanceState, Launch


def test_only_servers_of_a_static_type_are_not_ours():
    assert [RULES.is_fixed(name) for name in ("fixed", "local", "gone")] == [True, False, False]


@pytest.mark.parametrize(
    ("launch", "image"),
    [(Launch("local", "m"), "img"), (Launch("fixed", "m"), None), (Launch("gone", "m", "img"), "img"),
     (Launch("local", "m", "other"), None)],
)  # fmt: skip
def test_a_launch_has_the_image_it_names_or_that_of_its_type(launch, image):
    found = RULES.image(launch)
    assert (found.name if found else None) == image


@pytest.mark.parametrize(
    ("startup_s", "type_", "expected"),
    [(7.0, "local", 7.0), (None, "local", 100.0), (None, "fixed", Image("").startup_s_max)],
)
def test_an_instance_may_take_as_long_as_its_variant_or_its_image_says(startup_s, type_, expected):
    assert RULES.startup_s(Launch(type_, "m"), startup_s) == expected


@pytest.mark.parametrize(
    ("state", "listed", "busy", "gone"),
    [(InstanceState.STOPPING, False, False, True), (InstanceState.STOPPING, True, False, False),
     (InstanceState.STOPPING, False, True, False), (InstanceState.DRAINING, False, False, False)],
)  # fmt: skip
def test_an_instance_is_gone_when_it_was_stopped_and_nothing_of_it_is_left(state, listed, busy, gone):
    record = InstanceRecord("i-1", "ep", "v", 1, Launch("local", "m"), 1.0, 0.0, 0.0, state)
    given = world(
        observed={"i-1": Observed(running=True)} if listed else {},
        busy=frozenset({"i-1"} if busy else ()),
    )
    assert given.is_gone(record) is gone
