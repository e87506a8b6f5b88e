"""Scalable targets and their tags."""

from dataclasses import replace

import pytest

from tests.unit.resources.scaling_api import COMPONENT, VARIANT, ScalingApi, component, endpoint
from warmroute.core import limits
from warmroute.resources.errors import ApiCode
from warmroute.resources.records import HostScaling
from warmroute.resources.scaling.records import ScalableTargetRecord
from warmroute.resources.scaling.targets import TAGS_MAX


@pytest.fixture
def api():
    return ScalingApi()


def test_a_new_target_is_between_its_bounds_and_has_a_role(api):
    arn = api.register()["ScalableTargetARN"]
    target = api.target()
    assert (target.min_capacity, target.max_capacity, target.into_range) == (1, 4, True)
    assert target.role_arn.endswith("AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint")
    assert arn.endswith(f"scalable-target/{target.target_id}")


def test_what_a_second_call_leaves_out_stays(api):
    api.register(RoleARN="arn:mine", Tags={"a": "1"}, SuspendedState={"ScheduledScalingSuspended": True})
    with api.store.transaction() as tables:
        before = tables.scaling_record(ScalableTargetRecord, VARIANT["ResourceId"])
    api.call("RegisterScalableTarget", **VARIANT)
    assert api.target() == before
    api.call("RegisterScalableTarget", **VARIANT, MaxCapacity=9, Tags={"b": "2"})
    after = api.target()
    assert (after.min_capacity, after.max_capacity, after.role_arn) == (1, 9, "arn:mine")
    assert after.tags == {"a": "1", "b": "2"}
    assert after.schedule_suspended
    assert after.target_id == before.target_id


@pytest.mark.parametrize(
    ("member", "attribute"),
    [
        ("DynamicScalingInSuspended", "in_suspended"),
        ("DynamicScalingOutSuspended", "out_suspended"),
        ("ScheduledScalingSuspended", "schedule_suspended"),
    ],
)
def test_each_kind_of_scaling_can_be_suspended(api, member, attribute):
    api.register(SuspendedState={member: True})
    assert getattr(api.target(), attribute) is True
    (told,) = api.call("DescribeScalableTargets", ServiceNamespace="sagemaker")["ScalableTargets"]
    assert told["SuspendedState"][member] is True
    assert sum(told["SuspendedState"].values()) == 1


@pytest.mark.parametrize(
    ("request_", "part"),
    [
        (VARIANT | {"MinCapacity": 1}, "MaxCapacity must be given"),
        (VARIANT, "MinCapacity and MaxCapacity must be given"),
        (VARIANT | {"MinCapacity": 2, "MaxCapacity": 1}, "cannot be less than minimum"),
        (VARIANT | {"MinCapacity": -1, "MaxCapacity": 1}, "From 0 to"),
        (
            VARIANT | {"MinCapacity": 1, "MaxCapacity": limits.INSTANCES_PER_VARIANT_MAX + 1},
            "From 0 to",
        ),
        (VARIANT | {"ResourceId": "endpoint/no/variant/a"}, "does not exist"),
    ],
)
def test_a_registration_that_means_nothing_is_refused(api, request_, part):
    error = api.refused("RegisterScalableTarget", **request_)
    assert error.code is ApiCode.VALIDATION
    assert part in error.message


def test_the_greatest_bounds_are_allowed(api):
    api.register(least=0, most=limits.INSTANCES_PER_VARIANT_MAX)
    api.register(least=limits.INSTANCES_PER_VARIANT_MAX, most=limits.INSTANCES_PER_VARIANT_MAX)


def test_an_adapter_is_refused(api):
    api.put(component(base="other"))
    assert "is an adapter" in api.refused("RegisterScalableTarget", **COMPONENT).message


def test_a_variant_whose_instances_follow_its_copies_is_refused(api):
    made = endpoint(2)
    (variant,) = made.active.variants
    managed = replace(variant, carries_copies=True, scaling=HostScaling(0, 4))
    api.put(replace(made, active=replace(made.active, variants=(managed,))))
    error = api.refused("RegisterScalableTarget", **VARIANT, MinCapacity=0, MaxCapacity=1)
    assert error.code is ApiCode.VALIDATION
    assert "has ManagedInstanceScaling" in error.message


def test_there_is_a_greatest_number_of_targets(api, monkeypatch):
    monkeypatch.setattr(limits, "SCALABLE_TARGETS_MAX", 1)
    api.register()
    api.register()
    error = api.refused("RegisterScalableTarget", **COMPONENT, MinCapacity=0, MaxCapacity=1)
    assert error.code is ApiCode.TOO_MANY


def test_deregistering_forgets_all_that_is_of_the_target_and_nothing_else(api):
    api.register()
    api.register(COMPONENT, least=0)
    api.step("p")
    api.step("p", COMPONENT)
    action = {"Schedule": "rate(1 day)", "ScalableTargetAction": {"MinCapacity": 1}}
    api.call("PutScheduledAction", **VARIANT, ScheduledActionName="s", **action)

    api.call("DeregisterScalableTarget", **VARIANT)

    assert api.target() is None
    assert api.target(COMPONENT) is not None
    assert [one.resource_id for one in api.policies()] == [COMPONENT["ResourceId"]]
    assert api.actions() == ()
    assert api.refused("DeregisterScalableTarget", **VARIANT).code is ApiCode.OBJECT_NOT_FOUND


def test_tags(api):
    arn = api.register()["ScalableTargetARN"]
    api.call("TagResource", ResourceARN=arn, Tags={f"k{at}": "v" for at in range(TAGS_MAX)})
    assert "reserved for AWS" in api.refused("TagResource", ResourceARN=arn, Tags={"aws:x": ""}).message
    error = api.refused("TagResource", ResourceARN=arn, Tags={"one": "more"})
    assert error.code is ApiCode.TOO_MANY_TAGS
    api.call("UntagResource", ResourceARN=arn, TagKeys=[f"k{at}" for at in range(1, TAGS_MAX)] + ["none"])
    assert api.call("ListTagsForResource", ResourceARN=arn) == {"Tags": {"k0": "v"}}
    for operation, more in (("TagResource", {"Tags": {}}), ("UntagResource", {"TagKeys": []})):
        assert api.refused(operation, ResourceARN=f"{arn}x", **more).code is ApiCode.RESOURCE_NOT_FOUND
