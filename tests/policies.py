"""Deployment policies, as UpdateEndpoint takes them."""


def percent(value):
    return {"Type": "CAPACITY_PERCENT", "Value": value}


def instances(value):
    return {"Type": "INSTANCE_COUNT", "Value": value}


def blue_green(kind="ALL_AT_ONCE", *, bake=0, termination=0, timeout=None, **more):
    policy = {
        "TrafficRoutingConfiguration": {"Type": kind, "WaitIntervalInSeconds": bake} | more,
        "TerminationWaitInSeconds": termination,
    }
    if timeout is not None:
        policy["MaximumExecutionTimeoutInSeconds"] = timeout
    return {"BlueGreenUpdatePolicy": policy}


def rolling(size, *, bake=0, **more):
    return {"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": bake} | more}
