"""Scaling activities."""

from dataclasses import replace

import pytest

from warmroute.core import limits
from warmroute.resources.scaling.activities import begun, ended, failed, happened, not_scaled, surplus
from warmroute.resources.scaling.capacity import Capacity
from warmroute.resources.scaling.records import ActivityStatus, ScalableTargetRecord
from warmroute.resources.scaling.scalable import COMPONENT_DIMENSION, VARIANT_DIMENSION

TARGET = ScalableTargetRecord("endpoint/llm/variant/a", VARIANT_DIMENSION, 1.0, "t", 1, 4)
BEGUN = begun(TARGET, activity_id="i", capacity=3, cause="why", now_s=10.0)


@pytest.mark.parametrize(
    ("dimension", "noun"), [(VARIANT_DIMENSION, "instance"), (COMPONENT_DIMENSION, "copy")]
)
def test_a_change_says_what_it_sets(dimension, noun):
    made = begun(replace(TARGET, dimension=dimension), activity_id="i", capacity=3, cause="why", now_s=10.0)
    assert made.description == f"Setting desired {noun} count to 3."
    assert (made.status, made.cause, made.created_s) == (ActivityStatus.IN_PROGRESS, "why", 10.0)


def test_a_change_is_open_while_the_resource_changes():
    assert ended(BEGUN, Capacity(3, settled=False), now_s=20.0) is None


def test_a_change_that_was_made_is_successful():
    over = ended(BEGUN, Capacity(3, settled=True), now_s=20.0)
    assert (over.status, over.end_s) == (ActivityStatus.SUCCESSFUL, 20.0)
    assert over.message.endswith("Change successfully fulfilled by sagemaker.")


def test_a_change_that_was_undone_has_failed_and_says_why():
    over = ended(BEGUN, Capacity(1, settled=True), now_s=20.0, reason="No such weights.")
    assert over.status is ActivityStatus.FAILED
    assert over.message == "The change was not made, or undone: the capacity is 1. No such weights."


def test_a_change_of_what_is_gone_has_failed():
    assert ended(BEGUN, None, now_s=20.0).message == "The resource is gone."
    assert failed(BEGUN, "x", now_s=20.0).end_s == 20.0


def test_a_change_of_bounds_is_made_at_once():
    made = happened(TARGET, activity_id="i", description="d", cause="c", now_s=5.0)
    assert (made.status, made.created_s, made.end_s) == (ActivityStatus.SUCCESSFUL, 5.0, 5.0)


def test_what_was_not_done_says_between_which_bounds():
    made = not_scaled(TARGET, activity_id="i", capacity=4, cause="c", code="AlreadyAtMaxCapacity", now_s=5.0)
    assert made.not_scaled == (
        {"Code": "AlreadyAtMaxCapacity", "MaxCapacity": 4, "MinCapacity": 1, "CurrentCapacity": 4},
    )


def test_the_oldest_are_too_many():
    most = limits.SCALING_ACTIVITIES_MAX
    kept = [replace(BEGUN, name=f"{at}", created_s=float(at)) for at in range(most)]
    assert surplus(kept) == ()
    old = replace(BEGUN, name="old", created_s=-1.0)
    assert surplus([old, *kept]) == (old,)
