from warmroute.cli.apply.changes import MARK, Action, Present
from warmroute.cli.apply.documents import Difference
from warmroute.cli.apply.file import Wanted
from warmroute.cli.apply.scaling import plan_scaling

ID = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/e/variant/v",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
TARGET = ID | {"MinCapacity": 1, "MaxCapacity": 4}
TRACKING = {"TargetValue": 5.0, "PredefinedMetricSpecification": {"PredefinedMetricType": "M"}}
POLICY = ID | {
    "PolicyName": "p",
    "PolicyType": "TargetTrackingScaling",
    "TargetTrackingScalingPolicyConfiguration": TRACKING,
}
ACTION = ID | {"ScheduledActionName": "s", "Schedule": "rate(1 hour)"}
WANTED = Wanted("set", targets=(TARGET,), policies=(POLICY,), actions=(ACTION,))
THERE = Present(
    targets=(
        TARGET
        | {
            "RoleARN": "r",
            "CreationTime": 1.0,
            "ScalableTargetARN": "a",
            "SuspendedState": {"DynamicScalingInSuspended": False},
        },
    ),
    policies=(POLICY | {"PolicyARN": "a", "CreationTime": 1.0, "Alarms": [{"AlarmName": "x"}]},),
    actions=(ACTION | {"ScheduledActionARN": "a", "CreationTime": 1.0},),
)


def test_what_is_not_there_is_created_targets_first():
    changes = list(plan_scaling(WANTED, Present()))
    assert [(change.action, change.steps[0].operation) for change in changes] == [
        (Action.CREATE, "RegisterScalableTarget"),
        (Action.CREATE, "PutScalingPolicy"),
        (Action.CREATE, "PutScheduledAction"),
    ]
    assert [change.name for change in changes] == [
        "endpoint/e/variant/v",
        "endpoint/e/variant/v p",
        "endpoint/e/variant/v s",
    ]
    assert changes[1].steps[0].service == "AnyScaleFrontendService"
    assert changes[0].steps[0].members == TARGET | {"Tags": {MARK: "set"}}
    assert changes[1].steps[0].members == POLICY


def test_what_is_as_it_should_be_is_left_alone():
    assert {change.action for change in plan_scaling(WANTED, THERE)} == {Action.LEAVE}


def test_what_is_otherwise_is_put_again():
    tracking = TRACKING | {"TargetValue": 9.0, "DisableScaleIn": False}
    policy = POLICY | {"TargetTrackingScalingPolicyConfiguration": tracking}
    wanted = Wanted("set", targets=(TARGET | {"MaxCapacity": 8},), policies=(policy,))
    target, policy = plan_scaling(wanted, THERE)
    assert target.details == (Difference("MaxCapacity", "4", "8"),)
    assert [one.path for one in policy.details] == [
        "TargetTrackingScalingPolicyConfiguration.TargetValue",
        "TargetTrackingScalingPolicyConfiguration.DisableScaleIn",
    ]
    assert policy.steps[0].operation == "PutScalingPolicy"


def test_the_same_name_on_another_resource_is_another_policy():
    elsewhere = Wanted("set", policies=(POLICY | {"ResourceId": "inference-component/c"},))
    (change,) = plan_scaling(elsewhere, THERE)
    assert change.action is Action.CREATE
