from dataclasses import FrozenInstanceError

import pytest

from warmroute.core.fleet import Fleet
from warmroute.core.ids import TargetId
from warmroute.core.stream import Applied, Counters, Hello, Publish, TargetReport

FLEET = Fleet(1, "us-east-1", "000000000000")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Publish(FLEET), "fleet"),
        (Hello("router-0", 1, 0), "pid"),
        (Applied(3), "version"),
        (TargetReport(TargetId("1"), 1, 0, False), "in_flight"),
        (Counters(), "values"),
    ],
)
def test_a_message_cannot_be_changed_once_said(message, field):
    with pytest.raises(FrozenInstanceError):
        setattr(message, field, None)


def test_counters_without_anything_counted_are_empty():
    assert (Counters().values, Counters().histograms) == ((), ())
