"""What can be scaled, and its names."""

import pytest

from tests.unit.resources.scaling_api import PLACE
from warmroute.resources.scaling.records import (
    ScalableTargetRecord,
    ScalingPolicyRecord,
    ScheduledActionRecord,
)
from warmroute.resources.scaling.scalable import (
    ScalableComponent,
    ScalableVariant,
    action_arn,
    alarm_arn,
    dimension,
    parse,
    policy_arn,
    target_arn,
)


@pytest.mark.parametrize(
    ("scalable", "expected"),
    [
        (ScalableVariant("llm", "a"), "sagemaker:variant:DesiredInstanceCount"),
        (ScalableComponent("chat"), "sagemaker:inference-component:DesiredCopyCount"),
    ],
)
def test_a_resource_id_is_read_back_and_has_its_dimension(scalable, expected):
    assert parse(scalable.resource_id) == scalable
    assert dimension(scalable) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "endpoint/llm",
        "endpoint/llm/variant/",
        "endpoint//variant/a",
        "endpoint/llm/variant/a/b",
        "inference-component/",
        "inference-component/a/b",
        "service/a/b",
    ],
)
def test_other_resource_ids_name_nothing_here(text):
    assert parse(text) is None


def test_arns_have_the_forms_of_aws():
    start = "arn:aws:autoscaling:eu-west-1:123456789012"
    target = ScalableTargetRecord("inference-component/chat", "d", 1.0, "t-1", 0, 1)
    assert target_arn(PLACE, target) == (
        "arn:aws:application-autoscaling:eu-west-1:123456789012:scalable-target/t-1"
    )
    policy = ScalingPolicyRecord("inference-component/chat", "d", 1.0, "p", "p-1")
    assert policy_arn(PLACE, policy) == (
        f"{start}:scalingPolicy:p-1:resource/sagemaker/inference-component/chat:policyName/p"
    )
    action = ScheduledActionRecord("inference-component/chat", "d", 1.0, "s", "s-1", "rate(1 day)")
    assert action_arn(PLACE, action) == (
        f"{start}:scheduledAction:s-1:resource/sagemaker/inference-component/chat:scheduledActionName/s"
    )
    assert alarm_arn(PLACE, "slow") == "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:slow"
