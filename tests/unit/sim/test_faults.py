"""Faults as users type them, and schedules of instances."""

import pytest

from warmroute.core.errors import ConfigurationError
from warmroute.sim.faults import Fault, FaultKind, faults_of, scaled

S = 1_000_000_000


def typed(text, **how):
    defaults = {"at_ns": 30 * S, "instance": 1, "notice_ns": 5, "instances": 3}
    return faults_of(text, **{**defaults, **how})


def test_nothing_is_no_fault():
    assert typed("") == ()


def test_a_kind_alone_takes_its_time_and_instance_from_elsewhere():
    assert typed("drain") == (Fault(30 * S, FaultKind.DRAIN, 1, 5),)


def test_each_of_several_may_have_its_own():
    assert typed("kill@1.5:2, add@7,drain:0") == (
        Fault(1_500_000_000, FaultKind.KILL, 2, 5),
        Fault(7 * S, FaultKind.ADD, 1, 5),
        Fault(30 * S, FaultKind.DRAIN, 0, 5),
    )


def test_a_replacement_is_one_that_drains_and_one_that_comes():
    assert typed("replace@2:0") == (Fault(2 * S, FaultKind.DRAIN, 0, 5), Fault(2 * S, FaultKind.ADD, 0, 5))


@pytest.mark.parametrize(
    "text", ["fire", "drain@", "drain@soon", "drain@1.2.3", "drain:x", "drain add", "DRAIN"]
)
def test_anything_else_is_a_mistake(text):
    with pytest.raises(ConfigurationError, match=f"each with @SECONDS and :INSTANCE if need be, got {text}"):
        typed(text)


def test_a_fault_needs_an_instance_that_may_be_there():
    assert typed("add,drain:3")[1].instance == 3
    with pytest.raises(ConfigurationError, match=r"must be below their number \(3\), got 3"):
        typed("drain:3")
    assert typed("add", instance=99)[0].kind is FaultKind.ADD


def test_an_endpoint_follows_its_schedule_and_the_youngest_goes_first():
    wanted = [(10, 3), (20, 4), (30, 2), (40, 3)]
    assert list(scaled(wanted, instances=2, start_ns=5)) == [
        Fault(15, FaultKind.ADD),
        Fault(25, FaultKind.ADD),
        Fault(30, FaultKind.DRAIN, 3),
        Fault(30, FaultKind.DRAIN, 2),
        Fault(45, FaultKind.ADD),
    ]


def test_one_that_is_starting_is_not_stopped():
    assert list(scaled([(10, 2), (12, 1), (15, 1)], instances=1, start_ns=5)) == [
        Fault(15, FaultKind.ADD),
        Fault(15, FaultKind.DRAIN, 1),
    ]
