import pytest

from tests.policies import instances, percent
from warmroute.resources.deployments.policy import (
    alarm_names,
    bake_s,
    check_deployment,
    check_policy,
    execution_s_max,
    instances_of,
    rolling,
    routing_type,
    share_of,
    termination_wait_s,
)
from warmroute.resources.errors import ApiError
from warmroute.resources.records import Deployment, Launch, VariantRecord


def blue_green(kind, **more):
    return {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {"Type": kind, "WaitIntervalInSeconds": 0} | more,
        }
    }


def roll(size=None, **more):
    return {
        "RollingUpdatePolicy": {"MaximumBatchSize": size or percent(50), "WaitIntervalInSeconds": 5} | more
    }


def alarms(*names):
    return {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": name} for name in names]}}


def deployment(policy, *variants):
    return Deployment("c", variants or (variant(),), 0.0, policy=policy)


def variant(instances=4, name="v"):
    return VariantRecord(name, 1, Launch("t", "m"), instances)


CANARY = blue_green("CANARY", CanarySize=percent(10))
LINEAR = blue_green("LINEAR", LinearStepSize=percent(10))


@pytest.mark.parametrize(
    "policy",
    [None, {}, blue_green("ALL_AT_ONCE"), {"AutoRollbackConfiguration": {}}, CANARY, LINEAR, roll(),
     blue_green("ALL_AT_ONCE") | alarms("high")],
)  # fmt: skip
def test_a_policy_whose_members_fit_together_is_accepted(policy):
    check_policy(policy, {"high"})


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (blue_green("CANARY"), "type CANARY requires CanarySize"),
        (blue_green("LINEAR"), "type LINEAR requires LinearStepSize"),
        (
            blue_green("CANARY", CanarySize=instances(1), LinearStepSize=instances(1)),
            "LinearStepSize is not allowed",
        ),
        (
            blue_green("LINEAR", CanarySize=instances(1), LinearStepSize=instances(1)),
            "CanarySize is not allowed",
        ),
        (blue_green("ALL_AT_ONCE") | roll(), "Only one is allowed"),
        (blue_green("ALL_AT_ONCE", CanarySize=instances(1)), "CanarySize is not allowed with .* ALL_AT_ONCE"),
        (alarms("high", "low"), 'do not exist: "low". There are: "high"'),
    ],
)
def test_a_policy_whose_members_do_not_fit_together_is_refused(policy, text):
    with pytest.raises(ApiError, match=text):
        check_policy(policy, ["high"])


def test_an_unknown_alarm_is_told_with_those_there_are():
    with pytest.raises(ApiError, match=r'exist: "a", "b"\. There are none\. Alarms are declared'):
        check_policy(alarms("a", "b", "a"))
    with pytest.raises(ApiError, match=r'There are: "n00", .*"n19", …'):
        check_policy(alarms("x"), [f"n{number:02}" for number in range(30)])


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (blue_green("CANARY", CanarySize=percent(50)), True),
        (blue_green("CANARY", CanarySize=percent(51)), False),
        (blue_green("CANARY", CanarySize=instances(2)), True),
        (blue_green("CANARY", CanarySize=instances(3)), False),
        (blue_green("LINEAR", LinearStepSize=percent(10)), True),
        (blue_green("LINEAR", LinearStepSize=percent(9)), False),
        (blue_green("LINEAR", LinearStepSize=percent(50)), True),
        (blue_green("LINEAR", LinearStepSize=percent(51)), False),
        (blue_green("LINEAR", LinearStepSize=instances(1)), True),
        (blue_green("LINEAR", LinearStepSize=instances(3)), False),
        (roll(percent(5)), True),
        (roll(percent(4)), False),
        (roll(percent(50)), True),
        (roll(percent(51)), False),
        (roll(instances(2)), True),
        (roll(instances(3)), False),
        (roll(RollbackMaximumBatchSize=percent(100)), True),
        (roll(RollbackMaximumBatchSize=percent(101)), False),
        (roll(RollbackMaximumBatchSize=instances(4)), True),
        (roll(RollbackMaximumBatchSize=instances(5)), False),
    ],
)
def test_sizes_have_bounds(policy, allowed):
    asked = deployment(policy)
    if allowed:
        check_deployment(asked, deployment(None))
        return
    with pytest.raises(ApiError, match=r"(CanarySize|LinearStepSize|BatchSize) is .* It must be .* %"):
        check_deployment(asked, deployment(None))


def test_a_batch_below_five_percent_of_many_instances_is_refused():
    with pytest.raises(ApiError, match="1 of the 21 instances"):
        check_deployment(deployment(roll(instances(1)), variant(21)), None)
    check_deployment(deployment(roll(instances(1)), variant(20)), None)


def test_one_instance_can_be_rolled_by_percent_and_not_by_count():
    check_deployment(deployment(roll(percent(50)), variant(1)), None)
    with pytest.raises(ApiError, match="CAPACITY_PERCENT serves"):
        check_deployment(deployment(roll(instances(1)), variant(1)), None)


def test_only_one_variant_can_be_rolled():
    asked = deployment(roll(), variant(), variant(name="w"))
    with pytest.raises(ApiError, match="one production variant, and .* has 2"):
        check_deployment(asked, None)


@pytest.mark.parametrize(
    "policy", [CANARY, LINEAR, roll(), blue_green("ALL_AT_ONCE", WaitIntervalInSeconds=1)]
)
def test_a_deployment_in_steps_keeps_the_names_of_the_variants(policy):
    with pytest.raises(ApiError, match='must keep the names .* "c" has w; in service are v'):
        check_deployment(deployment(policy, variant(name="w")), deployment(None))


@pytest.mark.parametrize("policy", [None, {}, blue_green("ALL_AT_ONCE")])
def test_all_at_once_may_have_other_variants(policy):
    check_deployment(deployment(policy, variant(name="w"), variant(name="x")), deployment(None))


@pytest.mark.parametrize(
    ("size", "instances", "share", "rounded"),
    [
        (percent(10), 4, 0.1, 1),
        (percent(50), 5, 0.5, 2),
        (percent(100), 5, 1.0, 5),
        (instances(1), 4, 0.25, 1),
        (instances(3), 4, 0.75, 3),
        (instances(9), 4, 1.0, 4),
        (instances(1), 0, 1.0, 1),
        (percent(30), 10, 0.3, 3),
    ],
)
def test_a_size_is_a_share_of_the_traffic_and_a_number_of_instances(size, instances, share, rounded):
    assert share_of(size, instances) == pytest.approx(share)
    assert instances_of(size, instances) == rounded


def test_waits_and_bounds_are_read_from_either_policy():
    policy = roll(MaximumExecutionTimeoutInSeconds=600) | alarms("a")
    assert (bake_s(policy), termination_wait_s(policy), execution_s_max(policy)) == (5.0, 0.0, 600.0)
    assert alarm_names(policy) == ("a",)
    assert rolling(policy) is policy["RollingUpdatePolicy"]
    blue = blue_green("LINEAR", WaitIntervalInSeconds=7, LinearStepSize=percent(10))
    blue["BlueGreenUpdatePolicy"] |= {"TerminationWaitInSeconds": 9, "MaximumExecutionTimeoutInSeconds": 700}
    assert (bake_s(blue), termination_wait_s(blue), execution_s_max(blue)) == (7.0, 9.0, 700.0)
    assert (routing_type(blue), routing_type({}), rolling(blue)) == ("LINEAR", "ALL_AT_ONCE", None)
    assert (bake_s({}), execution_s_max(None), alarm_names(None), rolling(None)) == (0.0, None, (), None)
