import pytest

from warmroute.core.decision import Assigned, Lease, Reason, Refusal, Refused
from warmroute.core.fleet import RoutingStrategy, Target
from warmroute.core.ids import InstanceId, TargetId, VariantName

TARGET = Target(TargetId("1"), InstanceId("1"), 1, "host", 80)


def assigned():
    return Assigned(
        lease=Lease(TARGET, 1, object()), variant=VariantName("v"), strategy=RoutingStrategy.RANDOM,
        reason=Reason.RANDOM, rank=-1, in_flight=0, candidates=2,
    )  # fmt: skip


def test_an_assignment_names_the_target_of_its_lease():
    assert assigned().target is TARGET


def test_a_decision_cannot_be_changed():
    with pytest.raises(AttributeError):
        assigned().rank = 0
    with pytest.raises(AttributeError):
        Refused(Refusal.NO_TARGET).refusal = Refusal.ALL_TRIED


def test_a_lease_is_taken_unreleased():
    assert Lease(TARGET, 1, object()).released is False


def test_reasons_are_the_labels_that_the_metrics_promise():
    assert {reason.value for reason in Reason} == {
        "random", "least_outstanding", "affinity", "overflow", "saturated", "no_key", "only_candidate",
        "only_instance", "adapter_not_loaded", "session", "cached", "home", "load",
    }  # fmt: skip


def test_refusals_are_the_labels_that_the_metrics_promise():
    assert {refusal.value for refusal in Refusal} == {
        "no_target", "no_copy", "all_ejected", "all_tried", "session_unknown", "session_gone",
        "session_unavailable", "sessions_full",
    }  # fmt: skip
