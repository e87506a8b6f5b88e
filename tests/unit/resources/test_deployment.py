import pytest

from warmroute.resources.deployment import check_policy
from warmroute.resources.errors import ApiError


def blue_green(kind, **more):
    return {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {"Type": kind, "WaitIntervalInSeconds": 0} | more,
        }
    }


@pytest.mark.parametrize("policy", [None, {}, blue_green("ALL_AT_ONCE"), {"AutoRollbackConfiguration": {}}])
def test_all_at_once_is_accepted(policy):
    check_policy(policy)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (blue_green("CANARY"), "type CANARY is not supported"),
        (blue_green("LINEAR"), "type LINEAR is not supported"),
        ({"RollingUpdatePolicy": {}}, "RollingUpdatePolicy is not supported"),
        (blue_green("ALL_AT_ONCE") | {"RollingUpdatePolicy": {}}, "Only one is allowed"),
        (blue_green("ALL_AT_ONCE", CanarySize={}), "CanarySize is not allowed"),
        ({"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "a"}]}}, "AutoRollbackConfiguration"),
    ],
)
def test_what_cannot_be_honoured_is_refused(policy, text):
    with pytest.raises(ApiError, match=text):
        check_policy(policy)
